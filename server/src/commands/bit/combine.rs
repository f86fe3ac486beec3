//! BITOP: strings combined bit by bit.

use crate::dispatch::{CommandError, CommandResult, Ctx, OUT_OF_MEMORY, Purpose};
use crate::events::Event;
use crate::keyspace::{StringView, Strings, Written};

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

/// BITOP operation destination key [key ...]. A result without bytes deletes the destination.
pub(super) fn bitop(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let (db, args, destination) = (ctx.client.db, ctx.args, ctx.args.get(2));
    let operation = Operation::parse(args.get(1)).ok_or(CommandError::Syntax)?;
    if operation == Operation::Not && args.len() != 4 {
        return Err(CommandError::text("ERR BITOP NOT must be called with a single source key."));
    }
    let mut made = Vec::new();
    for (index, key) in args.from(3).enumerate() {
        ctx.lookup::<Strings, _>(Purpose::Read, key, |string, _| match index {
            0 => made.extend_from_slice(bytes_of(string)),
            _ => operation.add(&mut made, bytes_of(string)),
        })?;
    }
    if operation == Operation::Not {
        made.iter_mut().for_each(|byte| *byte = !*byte);
    }
    if made.len() as u64 > ctx.memory_max_bytes() {
        return Err(CommandError::text(OUT_OF_MEMORY));
    }
    let was = ctx.peek(db, destination).is_some();
    if !made.is_empty() {
        ctx.put(db, destination, Written::Edited.expiring_at(0), &made, Event::string("set"));
        ctx.log_request();
    } else if was {
        ctx.delete(db, destination, Event::generic("del"));
        ctx.log_request();
    }
    ctx.out.int(made.len() as i64);
    Ok(())
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
