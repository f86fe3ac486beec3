//! Scores: doubles whose bits ascend with them.

/// A double that is a number, as bits that ascend with it. Zero and minus zero are told apart, and equal in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Score(u64);

const SIGN: u64 = 1 << 63;

/// What minus zero is turned into.
const MINUS_ZERO: u64 = SIGN - 1;

impl Score {
    /// `None` for NaN.
    #[must_use]
    pub fn of(number: f64) -> Option<Self> {
        if number.is_nan() {
            return None;
        }
        let bits = number.to_bits();
        Some(Self(if bits & SIGN == 0 { bits | SIGN } else { !bits }))
    }

    /// The score of bits stored in a page; `None` if they are those of NaN.
    #[must_use]
    pub fn of_bits(bits: u64) -> Option<Self> {
        let score = Self(bits);
        if score.number().is_nan() { None } else { Some(score) }
    }

    /// The double.
    #[must_use]
    pub fn number(self) -> f64 {
        f64::from_bits(if self.0 & SIGN == 0 { !self.0 } else { self.0 & !SIGN })
    }

    /// The bits as stored in pages.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// What scores are compared by.
    #[must_use]
    pub fn order(self) -> u64 {
        if self.0 == MINUS_ZERO { SIGN } else { self.0 }
    }
}

/// True if what has the score `order` is before a place with the score `than`. Only where they are equal is `tie` asked, which
/// compares what follows the scores.
pub(super) fn is_before<E>(
    order: u64,
    than: u64,
    tie: impl FnOnce() -> Result<bool, E>,
) -> Result<bool, E> {
    if order == than { tie() } else { Ok(order < than) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_ascend_as_their_numbers_do() {
        let numbers = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -1.0,
            -1e-310,
            -0.0,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
        ];
        for a in numbers {
            for b in numbers {
                let scores = [a, b].map(|number| Score::of(number).expect("a number"));
                assert_eq!(
                    scores[0].order().cmp(&scores[1].order()),
                    a.partial_cmp(&b).expect("numbers")
                );
            }
            let score = Score::of(a).expect("a number");
            assert_eq!(score.number().to_bits(), a.to_bits());
            assert_eq!(Score::of_bits(score.bits()), Some(score));
        }
        assert_eq!(Score::of(f64::NAN), None);
        assert_eq!((Score::of_bits(0), Score::of_bits(u64::MAX)), (None, None));
    }
}
