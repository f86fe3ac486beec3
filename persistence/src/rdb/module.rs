//! Data of modules: passed over, the module itself is not needed for that.

use super::{Input, RdbError, read_count, read_string};

/// Letters of module type names, six bits each.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What follows in a module's data.
mod opcode {
    pub(super) const END: u64 = 0;
    pub(super) const SIGNED: u64 = 1;
    pub(super) const UNSIGNED: u64 = 2;
    pub(super) const FLOAT: u64 = 3;
    pub(super) const DOUBLE: u64 = 4;
    pub(super) const STRING: u64 = 5;
}

/// Name of a module type: nine letters, then ten bits of version.
fn name_of(id: u64) -> String {
    let letter = |nth: u32| char::from(LETTERS[(id >> (10 + 6 * (8 - nth)) & 63) as usize]);
    (0..9).map(letter).collect()
}

fn skip_parts(input: &mut Input<'_>) -> Result<(), RdbError> {
    loop {
        match read_count(input)? {
            opcode::END => return Ok(()),
            opcode::SIGNED | opcode::UNSIGNED => {
                read_count(input)?;
            }
            opcode::FLOAT => input.skip(4)?,
            opcode::DOUBLE => input.skip(8)?,
            opcode::STRING => {
                read_string(input)?;
            }
            _ => return Err(RdbError::BadValue { reason: "unknown part of a module's data" }),
        }
    }
}

/// Passes over a value; gives the name of its type.
pub(super) fn skip_value(input: &mut Input<'_>) -> Result<String, RdbError> {
    let name = name_of(read_count(input)?);
    skip_parts(input)?;
    Ok(name)
}

/// Passes over what a module keeps beside the keys; gives the name of its type.
pub(super) fn skip_aux(input: &mut Input<'_>) -> Result<String, RdbError> {
    let name = name_of(read_count(input)?);
    if read_count(input)? != opcode::UNSIGNED {
        return Err(RdbError::BadValue { reason: "module data without its place in the file" });
    }
    read_count(input)?;
    skip_parts(input)?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdb::write_length;

    #[test]
    fn values_are_passed_over() {
        let mut bytes = Vec::new();
        let letters = b"ReJSON-RL".iter().map(|l| LETTERS.iter().position(|o| o == l).unwrap());
        let id = letters.fold(0, |id, letter| id << 6 | letter as u64) << 10 | 3;
        write_length(&mut bytes, id);
        bytes.extend_from_slice(b"\x01\x05\x02\x40\xff\x03abcd\x04abcdefgh\x05\x02hi\x00");
        let mut input = Input::new(&bytes);
        assert_eq!(skip_value(&mut input), Ok("ReJSON-RL".to_owned()));
        assert_eq!(input.left(), 0);
        assert!(skip_value(&mut Input::new(&bytes[..bytes.len() - 1])).is_err());
    }
}
