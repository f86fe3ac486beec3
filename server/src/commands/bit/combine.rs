//! BITOP: strings combined bit by bit.

use crate::dispatch::{CommandError, CommandResult, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::collection::Edit;
use crate::keyspace::{StringView, Strings, Written};
use crate::value::ValueType;
use sexton_engine::Meta;

/// The operation on the bits at one position. Shorter strings are padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
    Not,
}

impl Operation {
    fn parse(word: &[u8]) -> Option<Self> {
        [
            (b"AND".as_slice(), Self::And),
            (b"OR", Self::Or),
            (b"XOR", Self::Xor),
            (b"NOT", Self::Not),
        ]
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(word))
        .map(|(_, operation)| operation)
    }

    /// Brings one more string into `made`.
    fn add(self, made: &mut Vec<u8>, bytes: &[u8]) {
        let old_len = made.len();
        let common = old_len.min(bytes.len());
        if bytes.len() > old_len {
            match self {
                Self::And => made.resize(bytes.len(), 0),
                _ => made.extend_from_slice(&bytes[common..]),
            }
        }
        let pairs = made[..common].iter_mut().zip(&bytes[..common]);
        match self {
            Self::And => {
                pairs.for_each(|(byte, other)| *byte &= other);
                made[common..].fill(0);
            }
            Self::Or => pairs.for_each(|(byte, other)| *byte |= other),
            Self::Xor => pairs.for_each(|(byte, other)| *byte ^= other),
            Self::Not => {}
        }
    }
}

/// The bytes of a string, or of none.
fn bytes_of(string: Option<StringView<'_>>) -> &[u8] {
    string.map_or(&[], |string| string.bytes())
}

/// A string to be stored.
#[derive(Debug)]
struct Combined(Vec<u8>);

impl Edit for Combined {
    const TYPE: ValueType = ValueType::String;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn expiring_at(expire_at_ms: u64) -> Meta {
        Written::Edited.expiring_at(expire_at_ms)
    }
}

/// BITOP operation destination key [key ...]. A result without bytes deletes the destination.
pub(super) fn bitop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let operation = Operation::parse(ctx.args.get(1)).ok_or(CommandError::Syntax)?;
    if operation == Operation::Not && ctx.args.len() != 4 {
        return Err(CommandError::text("ERR BITOP NOT must be called with a single source key."));
    }
    let made = ctx.made_of_keys(|ctx| combined(ctx, operation))?;
    ctx.store(ctx.args.get(2), made, Event::string("set"))
}

fn combined(ctx: &mut Ctx<'_, '_>, operation: Operation) -> Result<Combined, CommandError> {
    ctx.hand_over_sources();
    let mut made = Vec::new();
    for (index, key) in ctx.args.from(3).enumerate() {
        let mut add = |bytes: &[u8]| match index {
            0 => made.extend_from_slice(bytes),
            _ => operation.add(&mut made, bytes),
        };
        match ctx.past_value(key, &[ValueType::String]) {
            Some(value) => {
                let value = value?;
                add(bytes_of(value.as_ref().and_then(|value| StringView::of(value.entry()))));
            }
            None => {
                ctx.lookup::<Strings, _>(Purpose::Read, key, |string, _| add(bytes_of(string)))?
            }
        }
    }
    if operation == Operation::Not {
        made.iter_mut().for_each(|byte| *byte = !*byte);
    }
    Ok(Combined(made))
}

#[cfg(test)]
mod tests {
    use super::Operation;

    #[test]
    fn a_shorter_string_is_followed_by_zeros() {
        let combined = |operation: Operation, strings: [&[u8]; 3]| {
            let mut made = strings[0].to_vec();
            strings[1..].iter().for_each(|bytes| operation.add(&mut made, bytes));
            made
        };
        let strings = [b"\x0f\xff".as_slice(), b"\x3c", b"\xf7\x01\x80"];
        assert_eq!(combined(Operation::And, strings), b"\x04\0\0");
        assert_eq!(combined(Operation::Or, strings), b"\xff\xff\x80");
        assert_eq!(combined(Operation::Xor, strings), b"\xc4\xfe\x80");
        assert_eq!(combined(Operation::And, [b"\xff", b"", b"\xff"]), b"\0");
    }
}
