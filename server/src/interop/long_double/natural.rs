//! Natural numbers of any size: the few operations that exact decimal conversion needs.

use std::cmp::Ordering;

/// A natural number; limbs from the lowest on, without zero limbs at the top.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Natural(Vec<u64>);

impl From<u64> for Natural {
    fn from(number: u64) -> Self {
        let mut natural = Self(vec![number]);
        natural.trim();
        natural
    }
}

impl Natural {
    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// The number written with decimal `digits` (values 0 to 9).
    pub(super) fn from_digits(digits: impl Iterator<Item = u8>) -> Self {
        let mut natural = Self::default();
        for digit in digits {
            natural.multiply_add(10, u64::from(digit));
        }
        natural
    }

    /// `self * factor + addend`, in place.
    pub(super) fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for limb in &mut self.0 {
            let wide = u128::from(*limb) * u128::from(factor) + carry;
            *limb = wide as u64;
            carry = wide >> 64;
        }
        if carry != 0 {
            self.0.push(carry as u64);
        }
        self.trim();
    }

    /// `self * 10^exponent`, in place.
    pub(super) fn multiply_by_power_of_ten(&mut self, exponent: u32) {
        const STEP: u32 = 19;
        for _ in 0..exponent / STEP {
            self.multiply_add(10_u64.pow(STEP), 0);
        }
        self.multiply_add(10_u64.pow(exponent % STEP), 0);
    }

    /// Divides by `divisor` in place and gives the remainder.
    fn divide_by(&mut self, divisor: u64) -> u64 {
        let mut remainder = 0_u128;
        for limb in self.0.iter_mut().rev() {
            let wide = remainder << 64 | u128::from(*limb);
            *limb = (wide / u128::from(divisor)) as u64;
            remainder = wide % u128::from(divisor);
        }
        self.trim();
        remainder as u64
    }

    /// Decimal digits as text.
    pub(super) fn to_decimal(&self) -> String {
        const CHUNK_DIGITS: usize = 19;
        let mut rest = self.clone();
        let mut chunks = Vec::new();
        while !rest.is_zero() {
            chunks.push(rest.divide_by(10_u64.pow(CHUNK_DIGITS as u32)));
        }
        let mut text = chunks.pop().unwrap_or(0).to_string();
        for chunk in chunks.iter().rev() {
            text.push_str(&format!("{chunk:0CHUNK_DIGITS$}"));
        }
        text
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of bits: 0 for 0, 1 for 1, 2 for 2 and 3.
    pub(super) fn bits(&self) -> u32 {
        self.0.last().map_or(0, |top| self.0.len() as u32 * 64 - top.leading_zeros())
    }

    /// True when one of the lowest `count` bits is set.
    pub(super) fn any_bit_below(&self, count: u32) -> bool {
        let (limbs, bits) = ((count / 64) as usize, count % 64);
        self.0.iter().take(limbs).any(|&limb| limb != 0)
            || self.0.get(limbs).is_some_and(|limb| limb & ((1 << bits) - 1) != 0)
    }

    pub(super) fn shifted_left(&self, count: u32) -> Self {
        let (limbs, bits) = ((count / 64) as usize, count % 64);
        let mut shifted = vec![0; limbs];
        let mut carry = 0;
        for &limb in &self.0 {
            shifted.push(limb << bits | carry);
            carry = if bits == 0 { 0 } else { limb >> (64 - bits) };
        }
        shifted.push(carry);
        let mut shifted = Self(shifted);
        shifted.trim();
        shifted
    }

    /// The bits from `count` on, which must be at most 128.
    pub(super) fn shifted_right_to_u128(&self, count: u32) -> u128 {
        let (limbs, bits) = ((count / 64) as usize, count % 64);
        let limb = |at: usize| u128::from(self.0.get(limbs + at).copied().unwrap_or(0));
        let low = (limb(1) << 64 | limb(0)) >> bits;
        if bits == 0 { low } else { low | limb(2) << (128 - bits) }
    }

    pub(super) fn add(&self, other: &Self) -> Self {
        let mut sum = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        let mut carry = 0_u128;
        for at in 0..self.0.len().max(other.0.len()) {
            let limb = |number: &Self| u128::from(number.0.get(at).copied().unwrap_or(0));
            let wide = limb(self) + limb(other) + carry;
            sum.push(wide as u64);
            carry = wide >> 64;
        }
        sum.push(carry as u64);
        let mut sum = Self(sum);
        sum.trim();
        sum
    }

    /// `self - other`, which must not be negative.
    pub(super) fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for at in 0..self.0.len() {
            let (first, under) = self.0[at].overflowing_sub(other.0.get(at).copied().unwrap_or(0));
            let (second, again) = first.overflowing_sub(u64::from(borrow));
            self.0[at] = second;
            borrow = under || again;
        }
        debug_assert!(!borrow, "the subtrahend is not larger");
        self.trim();
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.0.len().cmp(&other.0.len());
        by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_text_survives_the_round_trip() {
        for text in
            ["0", "7", "18446744073709551616", "340282366920938463463374607431768211456000001"]
        {
            let number = Natural::from_digits(text.bytes().map(|b| b - b'0'));
            assert_eq!(number.to_decimal(), text);
        }
    }

    #[test]
    fn sums_and_differences_carry_over_limbs() {
        let big = Natural::from(u64::MAX);
        let mut sum = big.add(&Natural::from(1));
        assert_eq!(sum.to_decimal(), "18446744073709551616");
        assert_eq!(sum.bits(), 65);
        sum.subtract(&Natural::from(1));
        assert_eq!(sum, big);
    }

    #[test]
    fn shifts_undo_each_other() {
        let number = Natural::from(0xdead_beef_cafe_f00d);
        for count in [0, 1, 63, 64, 65, 200] {
            let shifted = number.shifted_left(count);
            assert_eq!(shifted.shifted_right_to_u128(count), 0xdead_beef_cafe_f00d);
            assert!(!shifted.any_bit_below(count));
            assert!(shifted.any_bit_below(count + 1));
        }
    }
}
