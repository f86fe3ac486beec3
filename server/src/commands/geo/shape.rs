//! The shape to search: a circle or a box around a position, and the map cells that it touches.

use super::hash::{Cell, Position, STEP_MAX, degrees_of_m, longitudes_of_m};
use crate::dispatch::{Args, CommandError};
use crate::interop::c_numbers::parse_double;
use std::ops::Range;

/// Half of the equator on the web's map, in metres.
const MERCATOR_MAX_M: f64 = 20_037_726.37;

/// The extent of a search, in its unit.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extent {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

/// What is searched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) centre: Position,
    pub(super) extent: Extent,
    pub(super) unit_m: f64,
}

/// The metres of a unit.
pub(super) fn unit_m(word: &[u8]) -> Result<f64, CommandError> {
    match word.to_ascii_lowercase().as_slice() {
        b"m" => Ok(1.0),
        b"km" => Ok(1000.0),
        b"ft" => Ok(0.3048),
        b"mi" => Ok(1609.34),
        _ => Err(CommandError::text("ERR unsupported unit provided. please use M, KM, FT, MI")),
    }
}

impl Extent {
    /// `radius unit` from `at` on, and the metres of the unit.
    pub(super) fn circle(args: Args<'_>, at: usize) -> Result<(Self, f64), CommandError> {
        let radius =
            parse_double(args.get(at)).ok_or(CommandError::text("ERR need numeric radius"))?;
        if radius < 0.0 {
            return Err(CommandError::text("ERR radius cannot be negative"));
        }
        Ok((Self::Circle { radius }, unit_m(args.get(at + 1))?))
    }

    /// `width height unit` from `at` on, and the metres of the unit.
    pub(super) fn rectangle(args: Args<'_>, at: usize) -> Result<(Self, f64), CommandError> {
        let width =
            parse_double(args.get(at)).ok_or(CommandError::text("ERR need numeric width"))?;
        let height =
            parse_double(args.get(at + 1)).ok_or(CommandError::text("ERR need numeric height"))?;
        if width < 0.0 || height < 0.0 {
            return Err(CommandError::text("ERR height or width cannot be negative"));
        }
        Ok((Self::Box { width, height }, unit_m(args.get(at + 2))?))
    }
}

impl Shape {
    /// The distance of a position within from the centre, in metres.
    pub(super) fn distance_m(&self, position: Position) -> Option<f64> {
        let distance_m = self.centre.distance_m(position);
        match self.extent {
            Extent::Circle { radius } => distance_m <= radius * self.unit_m,
            Extent::Box { width, height } => {
                let beside = Position { longitude: self.centre.longitude, ..position };
                self.centre.latitude_distance_m(position) <= height * self.unit_m / 2.0
                    && position.distance_m(beside) <= width * self.unit_m / 2.0
            }
        }
        .then_some(distance_m)
    }

    /// The scores in each of the cells that cover the shape, in Redis' search order; rarely, a cell is listed twice.
    pub(super) fn scores(&self) -> Vec<Range<f64>> {
        let scores = |cell: Cell| cell.first_score()..cell.next().first_score();
        self.cells().into_iter().map(scores).collect()
    }

    fn cells(&self) -> Vec<Cell> {
        let bounds = self.bounds();
        let mut step = self.step();
        let mut centre = Cell::of(self.centre, step);
        let reaches_far = || {
            centre.neighbour(0, 1).area().latitudes.max < bounds.north
                || centre.neighbour(0, -1).area().latitudes.min > bounds.south
                || centre.neighbour(1, 0).area().longitudes.max < bounds.east
                || centre.neighbour(-1, 0).area().longitudes.min > bounds.west
        };
        if step > 1 && reaches_far() {
            step -= 1;
            centre = Cell::of(self.centre, step);
        }
        let area = centre.area();
        // In few large cells all around, nothing is left out.
        let is_left_out = |east: i32, north: i32| {
            step >= 2
                && ((north < 0 && area.latitudes.min < bounds.south)
                    || (north > 0 && area.latitudes.max > bounds.north)
                    || (east < 0 && area.longitudes.min < bounds.west)
                    || (east > 0 && area.longitudes.max > bounds.east))
        };
        const AROUND: [(i32, i32); 8] =
            [(0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells = vec![centre];
        for (east, north) in AROUND {
            let cell = centre.neighbour(east, north);
            let is_last = cells.len() > 1 && cells.last() == Some(&cell);
            if !is_left_out(east, north) && !is_last {
                cells.push(cell);
            }
        }
        cells
    }

    /// The largest number of bits whose cell is larger than the extent.
    fn step(&self) -> u32 {
        let mut range_m = self.unit_m
            * match self.extent {
                Extent::Circle { radius } => radius,
                Extent::Box { width, height } => {
                    ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
                }
            };
        if range_m == 0.0 {
            return STEP_MAX;
        }
        let mut step: i32 = 1;
        while range_m < MERCATOR_MAX_M {
            range_m *= 2.0;
            step += 1;
        }
        step -= 2;
        // Cells are narrower near the poles.
        let latitude = self.centre.latitude.abs();
        step -= i32::from(latitude > 66.0) + i32::from(latitude > 80.0);
        step.clamp(1, STEP_MAX as i32) as u32
    }

    fn bounds(&self) -> Bounds {
        let (half_height, half_width) = match self.extent {
            Extent::Circle { radius } => (radius, radius),
            Extent::Box { width, height } => (height / 2.0, width / 2.0),
        };
        let Position { longitude, latitude } = self.centre;
        let latitudes = degrees_of_m(self.unit_m * half_height);
        // A box is widest, in degrees, at its end near the pole.
        let widest = if latitude < 0.0 { latitude - latitudes } else { latitude + latitudes };
        let longitudes = longitudes_of_m(self.unit_m * half_width, widest);
        Bounds {
            west: longitude - longitudes,
            south: latitude - latitudes,
            east: longitude + longitudes,
            north: latitude + latitudes,
        }
    }
}

/// The least and greatest coordinates, in degrees.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    west: f64,
    south: f64,
    east: f64,
    north: f64,
}
