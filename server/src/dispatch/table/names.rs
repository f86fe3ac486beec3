//! Finds a command by the name that clients call it by, in any case.

/// Slots of the hash, a power of two well above the number of commands.
const SLOTS: usize = 1024;

/// Where a name leads.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// What [`fold`] makes of it.
    folded: u64,
    /// Index of the command plus one, 0 for an empty slot.
    index: u16,
    /// Length of a name of at most eight letters, which `folded` tells from all others of this length.
    letters: Option<u8>,
}

/// The names of all commands, by open addressing.
pub(super) struct Names(Box<[Slot; SLOTS]>);

impl Names {
    /// Those of the commands with these indexes.
    pub(super) fn new<'n>(names: impl Iterator<Item = (usize, &'n str)>) -> Self {
        let mut slots = Box::new([Slot::default(); SLOTS]);
        for (index, name) in names {
            let folded = fold(name.as_bytes());
            let is_told = name.len() <= 8 && name.bytes().all(|byte| byte.is_ascii_alphabetic());
            let mut at = place(folded);
            while slots[at].index != 0 {
                at = (at + 1) % SLOTS;
            }
            let letters = is_told.then_some(name.len() as u8);
            slots[at] = Slot { folded, index: index as u16 + 1, letters };
        }
        Self(slots)
    }

    /// The index of the command with this name; `name_of` knows the names by their indexes.
    #[inline]
    pub(super) fn find<'n>(
        &self,
        name: &[u8],
        name_of: impl Fn(usize) -> &'n str,
    ) -> Option<usize> {
        let folded = fold(name);
        let mut at = place(folded);
        loop {
            let slot = self.0[at];
            let index = usize::from(slot.index).checked_sub(1)?;
            if slot.folded == folded
                && (slot.letters.is_some_and(|len| usize::from(len) == name.len())
                    || name_of(index).as_bytes().eq_ignore_ascii_case(name))
            {
                return Some(index);
            }
            at = (at + 1) % SLOTS;
        }
    }
}

/// The first eight bytes of a name, and its length. Bit 5 maps letters to lower case; other bytes may collide.
fn fold(name: &[u8]) -> u64 {
    let head = if let Some(head) = name.first_chunk() {
        u64::from_le_bytes(*head)
    } else if let (Some(low), Some(high)) = (name.first_chunk(), name.last_chunk()) {
        let high = u64::from(u32::from_le_bytes(*high));
        u64::from(u32::from_le_bytes(*low)) | high << (8 * (name.len() - 4))
    } else {
        name.iter().rev().fold(0, |head, &byte| head << 8 | u64::from(byte))
    };
    (head | 0x2020_2020_2020_2020) ^ (name.len() as u64).rotate_right(8)
}

fn place(folded: u64) -> usize {
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_in_any_case_and_nothing_else_is() {
        const NAMES: [&str; 9] =
            ["GET", "get2", "sexpire", "GetRange", "zrangebyscore", "zrangebylex", "a_b", "x", "1"];
        let names = Names::new(NAMES.into_iter().enumerate());
        let find = |name: &[u8]| names.find(name, |index| NAMES[index]);
        let is = |name: &[u8]| {
            NAMES.iter().position(|known| known.as_bytes().eq_ignore_ascii_case(name))
        };
        assert_eq!(find(b""), None);
        for (index, name) in NAMES.iter().enumerate() {
            assert_eq!(find(name.to_ascii_uppercase().as_bytes()), Some(index));
            for at in 0..name.len() {
                assert_eq!(find(&name.as_bytes()[..at]), is(&name.as_bytes()[..at]));
                for byte in 0..=u8::MAX {
                    let mut other = name.as_bytes().to_vec();
                    other[at] = byte;
                    assert_eq!(find(&other), is(&other), "{other:?}");
                    let longer = [name.as_bytes(), &[byte]].concat();
                    assert_eq!(find(&longer), is(&longer), "{longer:?}");
                }
            }
        }
    }
}
