//! Positions as scores: latitude and longitude as fractions of their ranges, 26 bits each, interleaved.

/// Bits of each coordinate in a score.
pub(super) const STEP_MAX: u32 = 26;
/// Bits of a score.
const SCORE_BITS: u32 = 52;

/// Longitudes that can be indexed, in degrees.
pub(super) const LONGITUDES: Range = Range { min: -180.0, max: 180.0 };
/// Latitudes that can be indexed, in degrees: those of the web's square map.
pub(super) const LATITUDES: Range = Range { min: -85.051_128_78, max: 85.051_128_78 };

const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
const RADIANS_PER_DEGREE: f64 = std::f64::consts::PI / 180.0;

const EVEN_BITS: u64 = 0x5555_5555_5555_5555;
const ODD_BITS: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// A range of coordinates, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Range {
    /// False for a number that is none, too.
    pub(super) fn contains(self, degrees: f64) -> bool {
        degrees >= self.min && degrees <= self.max
    }

    /// The index of the coordinate's cell among `2^step`. The upper end is a cell of its own.
    fn cell_of(self, degrees: f64, step: u32) -> u32 {
        let share = (degrees - self.min) / (self.max - self.min);
        (share * (1_u64 << step) as f64) as u32
    }

    fn cell(self, cell: u32, step: u32) -> Self {
        let (cells, scale) = ((1_u64 << step) as f64, self.max - self.min);
        let edge = |cell: u32| self.min + (f64::from(cell) / cells) * scale;
        Self { min: edge(cell), max: edge(cell.wrapping_add(1)) }
    }

    fn middle(self, within: Self) -> f64 {
        f64::midpoint(self.min, self.max).clamp(within.min, within.max)
    }
}

/// A point on the map.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Position {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// A cell of the map, with `2 * step` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) bits: u64,
    pub(super) step: u32,
}

/// What a cell covers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub(super) longitudes: Range,
    pub(super) latitudes: Range,
}

impl Position {
    /// The cell that a member's score represents.
    pub(super) fn of_score(score: f64) -> Self {
        let area = Cell { bits: as_u64(score), step: STEP_MAX }.area();
        Self {
            longitude: area.longitudes.middle(LONGITUDES),
            latitude: area.latitudes.middle(LATITUDES),
        }
    }

    /// The score of a member at this position.
    pub(super) fn score(self) -> f64 {
        Cell::of(self, STEP_MAX).first_score()
    }

    /// The distance along a great circle, in metres.
    pub(super) fn distance_m(self, other: Self) -> f64 {
        let radians = |degrees: f64| degrees * RADIANS_PER_DEGREE;
        let v = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if v == 0.0 {
            return self.latitude_distance_m(other);
        }
        let (here, there) = (radians(self.latitude), radians(other.latitude));
        let u = ((there - here) / 2.0).sin();
        let a = u * u + here.cos() * there.cos() * v * v;
        2.0 * EARTH_RADIUS_M * a.sqrt().asin()
    }

    /// The distance between the parallels of the two, in metres.
    pub(super) fn latitude_distance_m(self, other: Self) -> f64 {
        let (here, there) =
            (self.latitude * RADIANS_PER_DEGREE, other.latitude * RADIANS_PER_DEGREE);
        EARTH_RADIUS_M * (there - here).abs()
    }

    /// The text of 11 letters that others know as a geohash. It counts latitudes from pole to pole.
    pub(super) fn text(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let whole = Range { min: -90.0, max: 90.0 };
        let bits = interleave(
            whole.cell_of(self.latitude, STEP_MAX),
            LONGITUDES.cell_of(self.longitude, STEP_MAX),
        );
        let mut text = [b'0'; 11];
        // Fifty-two bits are ten letters and a bit of an eleventh, which Redis calls 0.
        for (index, letter) in text[..10].iter_mut().enumerate() {
            let shift = SCORE_BITS as usize - (index + 1) * 5;
            *letter = LETTERS[(bits >> shift & 31) as usize];
        }
        text
    }
}

/// Degrees on the sphere that an arc of this many metres covers.
pub(super) fn degrees_of_m(metres: f64) -> f64 {
    metres / EARTH_RADIUS_M / RADIANS_PER_DEGREE
}

/// Degrees of longitude that an arc of this many metres covers at a latitude.
pub(super) fn longitudes_of_m(metres: f64, latitude: f64) -> f64 {
    metres / EARTH_RADIUS_M / (latitude * RADIANS_PER_DEGREE).cos() / RADIANS_PER_DEGREE
}

impl Cell {
    /// The cell that contains the position.
    pub(super) fn of(position: Position, step: u32) -> Self {
        let latitude = LATITUDES.cell_of(position.latitude, step);
        let longitude = LONGITUDES.cell_of(position.longitude, step);
        Self { bits: interleave(latitude, longitude), step }
    }

    /// What it covers.
    pub(super) fn area(self) -> Area {
        let (latitude, longitude) = (gather(self.bits), gather(self.bits >> 1));
        Area {
            longitudes: LONGITUDES.cell(longitude, self.step),
            latitudes: LATITUDES.cell(latitude, self.step),
        }
    }

    /// The lowest score of a member within; the first score of the next cell is the first one past it.
    pub(super) fn first_score(self) -> f64 {
        (self.bits << (SCORE_BITS - 2 * self.step)) as f64
    }

    /// The next cell in the order of scores.
    pub(super) fn next(self) -> Self {
        Self { bits: self.bits.wrapping_add(1), step: self.step }
    }

    /// The cell `east` and `north` cells away, each -1, 0 or 1. Both directions wrap around.
    pub(super) fn neighbour(self, east: i32, north: i32) -> Self {
        let longitude = shifted(self.bits, ODD_BITS, EVEN_BITS, self.step, east);
        let latitude = shifted(self.bits, EVEN_BITS, ODD_BITS, self.step, north);
        Self { bits: longitude | latitude, step: self.step }
    }
}

/// The bits of `own`, one further up or down; those of `others` carry over.
fn shifted(bits: u64, own: u64, others: u64, step: u32, by: i32) -> u64 {
    let within = 64 - 2 * step;
    let (bits, fill) = (bits & own, others >> within);
    match by {
        0 => bits,
        1.. => bits.wrapping_add(fill + 1) & (own >> within),
        _ => (bits | fill).wrapping_sub(fill + 1) & (own >> within),
    }
}

/// The bits of `even` and `odd` in turn, beginning with the lowest of `even`.
fn interleave(even: u32, odd: u32) -> u64 {
    spread(even) | spread(odd) << 1
}

fn spread(number: u32) -> u64 {
    let mut bits = u64::from(number);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, EVEN_BITS),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The even bits.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & EVEN_BITS;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

/// A score as an unsigned number, converted as in C on x86-64; also for scores that are no positions.
fn as_u64(score: f64) -> u64 {
    const HALF: f64 = (1_u64 << 63) as f64;
    let truncated = |number: f64| {
        if (-HALF..HALF).contains(&number) { number as i64 as u64 } else { 1 << 63 }
    };
    if score < HALF { truncated(score) } else { truncated(score - HALF) ^ 1 << 63 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_found_again_within_a_metre() {
        for (longitude, latitude) in [(13.361_389, 38.115_556), (-180.0, -85.0), (179.999_9, 85.0)]
        {
            let position = Position { longitude, latitude };
            let again = Position::of_score(position.score());
            assert!(position.distance_m(again) < 1.0, "{position:?} {again:?}");
            assert_eq!(again.score(), position.score());
        }
        let palermo = Position { longitude: 13.361_389, latitude: 38.115_556 };
        assert_eq!(palermo.score(), 3_479_099_956_230_698.0);
        assert_eq!(&Position::of_score(palermo.score()).text(), b"sqc8b49rny0");
    }

    #[test]
    fn neighbours_go_round_the_map() {
        for step in [1, 2, 13, 26] {
            let cell = Cell::of(Position { longitude: 180.0 - 1e-9, latitude: 10.0 }, step);
            let east = cell.neighbour(1, 0);
            assert_eq!(east.area().longitudes.min, -180.0);
            assert_eq!(east.neighbour(-1, 0), cell);
            assert_eq!(cell.neighbour(1, 1).neighbour(-1, -1), cell);
            assert_eq!(cell.neighbour(0, -1).neighbour(0, 1), cell);
        }
    }

    #[test]
    fn scores_that_are_no_positions_have_bits_too() {
        for (score, bits) in [
            (5.9, 5),
            (-1.0, u64::MAX),
            (f64::INFINITY, 0),
            (f64::NEG_INFINITY, 1 << 63),
            (1e19, 10_u64.pow(19)),
        ] {
            assert_eq!(as_u64(score), bits, "{score}");
        }
    }
}
