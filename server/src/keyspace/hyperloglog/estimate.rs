//! Estimates the cardinality from the registers: the estimator of Otmar Ertl (arXiv:1702.01284), with Redis' order of
//! operations, so that the results are identical bit by bit.

use super::{COUNT_BITS, Histogram, REGISTERS};

/// 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The estimate, rounded.
pub(super) fn cardinality(histogram: &Histogram) -> u64 {
    let registers = REGISTERS as f64;
    let full = f64::from(histogram[COUNT_BITS as usize + 1]);
    let mut sum = registers * tau((registers - full) / registers);
    for &count in histogram[1..=COUNT_BITS as usize].iter().rev() {
        sum += f64::from(count);
        sum *= 0.5;
    }
    sum += registers * sigma(f64::from(histogram[0]) / registers);
    (ALPHA * registers * registers / sum).round() as u64
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if before == sum {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * y;
        if before == sum {
            return sum / 3.0;
        }
    }
}
