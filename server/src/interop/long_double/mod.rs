//! The x87 extended format (64-bit mantissa) in integer arithmetic.
//!
//! Redis' INCRBYFLOAT on x86-64 computes in C's `long double` and prints it with `%.17Lf`. Results
//! must match to the last digit on every machine. Reading, adding and printing are therefore
//! exact here and rounded once, to nearest, ties to even.

mod natural;

use natural::Natural;

const MANTISSA_BITS: u32 = 64;
/// Weight of the lowest mantissa bit of the largest finite numbers.
const EXPONENT_MAX: i32 = 16_383 - 63;
/// Weight of the lowest bit of the smallest subnormal numbers.
const EXPONENT_MIN: i32 = -16_382 - 63;
/// Longest text that Redis reads as a number, in bytes.
const TEXT_MAX_BYTES: usize = 5 * 1024 - 1;
/// Decimal exponents beyond this are infinite or zero whatever the digits.
const DECIMAL_EXPONENT_MAX: i64 = 100_000;
/// Digits after the decimal point.
const PRINTED_DIGITS: u32 = 17;

/// A number: `mantissa * 2^exponent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LongDouble {
    /// Any finite number; the highest mantissa bit is set unless it is zero or subnormal.
    Finite {
        /// Sign.
        negative: bool,
        /// Mantissa.
        mantissa: u64,
        /// Power of two.
        exponent: i32,
    },
    /// Plus or minus infinity.
    Infinite {
        /// Sign.
        negative: bool,
    },
}

impl LongDouble {
    /// Reads what C's `strtold` reads from the whole of `text`: decimal and hexadecimal numbers and
    /// infinity. `None` for anything else, for NaN, and for numbers too large or too small.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > TEXT_MAX_BYTES {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite { negative });
        }
        match text {
            [b'0', b'x' | b'X', rest @ ..] => parse_hexadecimal(negative, rest),
            _ => parse_decimal(negative, text),
        }
    }

    /// The sum, rounded once. `None` when it is infinite or not a number.
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        let (
            Self::Finite { negative: a_negative, mantissa: a, exponent: a_exponent },
            Self::Finite { negative: b_negative, mantissa: b, exponent: b_exponent },
        ) = (self, other)
        else {
            return None;
        };
        let exponent = a_exponent.min(b_exponent);
        let shifts = [a_exponent, b_exponent].map(|own| (own - exponent) as u32);
        if shifts[0].max(shifts[1]) < MANTISSA_BITS {
            let (a, b) = (u128::from(a) << shifts[0], u128::from(b) << shifts[1]);
            let (negative, sum) = match (a_negative == b_negative, a >= b) {
                (true, _) => (a_negative, a + b),
                (false, true) => (a_negative, a - b),
                (false, false) => (b_negative, b - a),
            };
            return round(negative, sum, exponent, false);
        }
        let (a, b) = (Natural::from(a), Natural::from(b));
        let (a, b) = (a.shifted_left(shifts[0]), b.shifted_left(shifts[1]));
        if a_negative == b_negative {
            return round_natural(a_negative, &a.add(&b), exponent, false);
        }
        let (negative, mut large, small) =
            if a >= b { (a_negative, a, b) } else { (b_negative, b, a) };
        large.subtract(&small);
        round_natural(negative, &large, exponent, false)
    }

    /// The text of `%.17Lf` without trailing zeros, point and the sign of a zero.
    #[must_use]
    pub fn to_text(self) -> String {
        let (negative, mantissa, exponent) = match self {
            Self::Finite { negative, mantissa, exponent } => (negative, mantissa, exponent),
            Self::Infinite { negative } => {
                return if negative { "-inf" } else { "inf" }.to_owned();
            }
        };
        let mut text = if exponent >= 0 {
            Natural::from(mantissa).shifted_left(exponent as u32).to_decimal()
        } else {
            fixed_point(mantissa, exponent.unsigned_abs())
        };
        if negative && text != "0" {
            text.insert(0, '-');
        }
        text
    }
}

/// `mantissa / 2^shift` with 17 digits after the decimal point, trailing zeros removed.
fn fixed_point(mantissa: u64, shift: u32) -> String {
    let scale = 10_u128.pow(PRINTED_DIGITS);
    // 64 bits times 57 bits: below 2^121, so a shift of 122 and more leaves less than one half.
    let scaled = u128::from(mantissa) * scale;
    let rounded = if shift >= 122 {
        0
    } else {
        let quotient = scaled >> shift;
        let remainder = scaled & ((1 << shift) - 1);
        let half = 1_u128 << (shift - 1);
        quotient + u128::from(remainder > half || (remainder == half && quotient & 1 == 1))
    };
    let text = format!("{}.{:017}", rounded / scale, rounded % scale);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// [`round`], of a number of any size.
fn round_natural(
    negative: bool,
    number: &Natural,
    exponent: i32,
    sticky: bool,
) -> Option<LongDouble> {
    let shift = number.bits().saturating_sub(u128::BITS);
    let sticky = sticky || number.any_bit_below(shift);
    round(negative, number.shifted_right_to_u128(shift), exponent + shift as i32, sticky)
}

/// `number * 2^exponent`, rounded; `sticky` indicates a missing part above zero and below one unit of
/// `number`, which has more bits then than a mantissa. `None` if the result is too large.
fn round(negative: bool, number: u128, exponent: i32, sticky: bool) -> Option<LongDouble> {
    if number == 0 {
        return Some(LongDouble::Finite { negative, mantissa: 0, exponent: EXPONENT_MIN });
    }
    let bits = (u128::BITS - number.leading_zeros()) as i32;
    let shift = (bits - MANTISSA_BITS as i32).max(EXPONENT_MIN - exponent);
    if shift <= 0 {
        let mantissa = (number << shift.unsigned_abs()) as u64;
        let exponent = exponent + shift;
        return (exponent <= EXPONENT_MAX).then_some(LongDouble::Finite {
            negative,
            mantissa,
            exponent,
        });
    }
    let (shift, mut exponent) = (shift as u32, exponent + shift);
    let mut mantissa = number.checked_shr(shift).unwrap_or(0) as u64;
    let half = number.checked_shr(shift - 1).is_some_and(|rest| rest & 1 == 1);
    let below_half = sticky || (number.trailing_zeros() < shift - 1);
    if half && (below_half || mantissa & 1 == 1) {
        match mantissa.checked_add(1) {
            Some(next) => mantissa = next,
            None => {
                mantissa = 1 << 63;
                exponent += 1;
            }
        }
    }
    (exponent <= EXPONENT_MAX).then_some(LongDouble::Finite { negative, mantissa, exponent })
}

/// Digits of a number, and the power of its base that the last of them has.
struct Digits<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

impl<'a> Digits<'a> {
    /// Splits `digits [. digits] [marker [sign] digits]`.
    fn split(text: &'a [u8], is_digit: fn(&u8) -> bool, marker: u8) -> Option<Self> {
        let run = |text: &'a [u8]| {
            text.split_at(text.iter().position(|b| !is_digit(b)).unwrap_or(text.len()))
        };
        let (whole, mut rest) = run(text);
        let mut fraction = &[][..];
        if let [b'.', behind @ ..] = rest {
            (fraction, rest) = run(behind);
        }
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let exponent = match rest {
            [] => 0,
            [first, digits @ ..] if first.eq_ignore_ascii_case(&marker) => exponent_of(digits)?,
            _ => return None,
        };
        Some(Self { whole, fraction, exponent })
    }

    fn all(&self) -> impl Iterator<Item = u8> + '_ {
        self.whole.iter().chain(self.fraction).map(|&b| match b {
            b'0'..=b'9' => b - b'0',
            letter => letter.to_ascii_lowercase() - b'a' + 10,
        })
    }
}

/// An exponent, cut to a range that is surely infinite or zero at its ends.
fn exponent_of(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits
        .iter()
        .fold(0, |sum: i64, &digit| (sum * 10 + i64::from(digit - b'0')).min(DECIMAL_EXPONENT_MAX));
    Some(if negative { -size } else { size })
}

/// Zero that was written as another number is out of range.
fn refuse_underflow(rounded: LongDouble) -> Option<LongDouble> {
    match rounded {
        LongDouble::Finite { mantissa: 0, .. } => None,
        number => Some(number),
    }
}

fn parse_decimal(negative: bool, text: &[u8]) -> Option<LongDouble> {
    let digits = Digits::split(text, u8::is_ascii_digit, b'e')?;
    if digits.whole.len() + digits.fraction.len() <= WORD_DIGITS
        && let exponent = digits.exponent - digits.fraction.len() as i64
        && (-DIVISOR_ZEROS..=0).contains(&exponent)
    {
        let number = digits.all().fold(0, |number, digit| number * 10 + u64::from(digit));
        return round_quotient(negative, number, 10_u64.pow(exponent.unsigned_abs() as u32));
    }
    parse_long_decimal(negative, &digits)
}

/// Decimal digits that fit into a word.
const WORD_DIGITS: usize = 19;

/// A power of ten with so many zeros divides any word of which the highest bit is set, and which 64 bits follow, with a quotient of more
/// bits than a mantissa.
const DIVISOR_ZEROS: i64 = 18;

/// The quotient of a word and a power of ten with at most [`DIVISOR_ZEROS`]: what most numbers are.
fn round_quotient(negative: bool, number: u64, divisor: u64) -> Option<LongDouble> {
    if number == 0 {
        return round(negative, 0, 0, false);
    }
    let shift = number.leading_zeros() + u64::BITS;
    let (dividend, divisor) = (u128::from(number) << shift, u128::from(divisor));
    round(negative, dividend / divisor, -(shift as i32), dividend % divisor != 0)
}

fn parse_long_decimal(negative: bool, digits: &Digits<'_>) -> Option<LongDouble> {
    let mut number = Natural::from_digits(digits.all());
    if number.is_zero() {
        return round(negative, 0, 0, false);
    }
    let exponent = digits.exponent - digits.fraction.len() as i64;
    let magnitude = exponent + i64::from(number.bits()) * 30_103 / 100_000;
    if !(-5_000..=5_000).contains(&magnitude) {
        return None;
    }
    if exponent >= 0 {
        number.multiply_by_power_of_ten(exponent as u32);
        return round_natural(negative, &number, 0, false);
    }
    let mut divisor = Natural::from(1);
    divisor.multiply_by_power_of_ten(exponent.unsigned_abs() as u32);
    // Long division in binary. With dividend and divisor of the same length, 68 steps give at least
    // 67 significant bits: three more than the mantissa, and the remainder is the sticky bit.
    const STEPS: u32 = 68;
    let alignment = divisor.bits() as i32 - number.bits() as i32;
    if alignment >= 0 {
        number = number.shifted_left(alignment as u32);
    } else {
        divisor = divisor.shifted_left(alignment.unsigned_abs());
    }
    let mut quotient = Natural::default();
    for _ in 0..STEPS {
        let bit = number >= divisor;
        if bit {
            number.subtract(&divisor);
        }
        quotient.multiply_add(2, u64::from(bit));
        number = number.shifted_left(1);
    }
    let exponent = -(alignment + STEPS as i32 - 1);
    round_natural(negative, &quotient, exponent, !number.is_zero()).and_then(refuse_underflow)
}

fn parse_hexadecimal(negative: bool, text: &[u8]) -> Option<LongDouble> {
    let digits = Digits::split(text, u8::is_ascii_hexdigit, b'p')?;
    let mut number = Natural::default();
    for digit in digits.all() {
        number.multiply_add(16, u64::from(digit));
    }
    if number.is_zero() {
        return round(negative, 0, 0, false);
    }
    let exponent = digits.exponent - 4 * digits.fraction.len() as i64;
    let exponent = i32::try_from(exponent).ok()?;
    round_natural(negative, &number, exponent, false).and_then(refuse_underflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let (a, b) = (LongDouble::parse(a.as_bytes())?, LongDouble::parse(b.as_bytes())?);
        a.checked_add(b).map(LongDouble::to_text)
    }

    #[test]
    fn sums_equal_those_of_redis() {
        // Answers of INCRBYFLOAT of redis-server 7.0.15 on x86-64.
        for (a, b, expected) in [
            ("0", "0.1", "0.1"),
            ("0.1", "0.2", "0.3"),
            ("0.3", "-0.3", "0"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0x10", "0", "16"),
            ("0x1.8p1", "-.5", "2.5"),
            ("9007199254740993", "1", "9007199254740994"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Some(expected), "{a} + {b}");
        }
    }

    #[test]
    fn rounds_to_a_mantissa_of_64_bits() {
        assert_eq!(sum("18446744073709551615", "0").unwrap(), "18446744073709551615");
        // 2^64 + 1 is a tie between 2^64 and 2^64 + 2: to even.
        assert_eq!(sum("18446744073709551617", "0").unwrap(), "18446744073709551616");
        assert_eq!(sum("18446744073709551619", "0").unwrap(), "18446744073709551620");
        assert_eq!(sum("18446744073709551615", "1").unwrap(), "18446744073709551616");
    }

    #[test]
    fn short_numbers_are_read_as_long_ones() {
        let mut state = 1_u64;
        for round in 0..20_000_u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = state >> (round % 64);
            let zeros = round / 64 % (DIVISOR_ZEROS as u32 + 1);
            let text = format!("{}e-{zeros}", number % 10_u64.pow(19));
            let digits = Digits::split(text.as_bytes(), u8::is_ascii_digit, b'e').unwrap();
            let long = parse_long_decimal(false, &digits);
            assert_eq!(LongDouble::parse(text.as_bytes()), long, "{text}");
        }
    }

    #[test]
    fn sums_of_near_numbers_are_those_of_far_ones() {
        let number =
            |mantissa, exponent| LongDouble::Finite { negative: false, mantissa, exponent };
        let top = 1 << 63;
        for (a, shift) in [(top, 62), (top | 1, 63), (u64::MAX, 63), (u64::MAX, 64), (top, 65)] {
            for b in [top, top | 1, u64::MAX] {
                let exact = Natural::from(a).shifted_left(shift).add(&Natural::from(b));
                let sum = number(a, shift as i32).checked_add(number(b, 0));
                assert_eq!(sum, round_natural(false, &exact, 0, false), "{a} {shift} {b}");
                let mut exact = Natural::from(a).shifted_left(shift);
                exact.subtract(&Natural::from(b));
                let less = LongDouble::Finite { negative: true, mantissa: b, exponent: 0 };
                let rest = number(a, shift as i32).checked_add(less);
                assert_eq!(rest, round_natural(false, &exact, 0, false), "{a} {shift} -{b}");
            }
        }
    }

    #[test]
    fn limits_of_the_format() {
        assert!(LongDouble::parse(b"1.18973149535723176502e4932").is_some());
        assert!(LongDouble::parse(b"1.2e4932").is_none());
        assert!(LongDouble::parse(b"3.7e-4951").is_some());
        assert!(LongDouble::parse(b"1e-4951").is_none());
        assert!(LongDouble::parse(b"0e99999999999999999999").is_some());
        assert!(LongDouble::parse(b"1e99999999999999999999").is_none());
        assert!(sum("1.1e4932", "1.1e4932").is_none());
        assert!(sum("inf", "1").is_none());
    }

    #[test]
    fn refuses_what_strtold_leaves_over() {
        for text in ["", " 1", "1 ", "1e", "0x", ".", "e1", "nan", "--1", "1.2.3", "1f", "infinit"]
        {
            assert!(LongDouble::parse(text.as_bytes()).is_none(), "{text:?}");
        }
        for text in ["1.", ".5", "+1", "1e+2", "1E-2", "0X1P3", "INFINITY", "00012"] {
            assert!(LongDouble::parse(text.as_bytes()).is_some(), "{text:?}");
        }
    }
}
