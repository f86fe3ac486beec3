//! Inline requests, as typed by a human: words, with quoting as in Redis.

use super::request::ProtocolError;

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Splits a line as Redis' `sdssplitargs` does; unquoted words are written over the line, which is
/// always long enough.
pub(super) fn split_inline(
    buf: &mut [u8],
    start: usize,
    end: usize,
    ranges: &mut Vec<(u32, u32)>,
) -> Result<(), ProtocolError> {
    enum Mode {
        Plain,
        Double,
        Single,
    }
    let mut at = start;
    loop {
        while at < end && is_space(buf[at]) {
            at += 1;
        }
        if at == end {
            return Ok(());
        }
        let word = at;
        let mut to = at;
        let mut mode = Mode::Plain;
        loop {
            let byte = (at < end).then(|| buf[at]);
            let next = (at + 1 < end).then(|| buf[at + 1]);
            let mut put = None;
            match (&mode, byte) {
                (Mode::Plain, None | Some(b' ' | b'\n' | b'\r' | b'\t')) => break,
                (Mode::Plain, Some(b'"')) => mode = Mode::Double,
                (Mode::Plain, Some(b'\'')) => mode = Mode::Single,
                (Mode::Double | Mode::Single, None) => return Err(ProtocolError::UnbalancedQuotes),
                (Mode::Double, Some(b'"')) | (Mode::Single, Some(b'\'')) => {
                    if next.is_some_and(|next| !is_space(next)) {
                        return Err(ProtocolError::UnbalancedQuotes);
                    }
                    at += 1;
                    break;
                }
                (Mode::Double, Some(b'\\')) => {
                    let digits = if at + 3 < end && next == Some(b'x') {
                        hex(buf[at + 2]).zip(hex(buf[at + 3]))
                    } else {
                        None
                    };
                    if let Some((high, low)) = digits {
                        put = Some(high << 4 | low);
                        at += 3;
                    } else if let Some(next) = next {
                        at += 1;
                        put = Some(match next {
                            b'n' => b'\n',
                            b'r' => b'\r',
                            b't' => b'\t',
                            b'b' => 0x08,
                            b'a' => 0x07,
                            other => other,
                        });
                    } else {
                        put = Some(b'\\');
                    }
                }
                (Mode::Single, Some(b'\\')) if next == Some(b'\'') => {
                    at += 1;
                    put = Some(b'\'');
                }
                (_, Some(byte)) => put = Some(byte),
            }
            if let Some(byte) = put {
                buf[to] = byte;
                to += 1;
            }
            at += 1;
        }
        ranges.push((word as u32, to as u32));
    }
}
