//! Commands in RESP form, as the log has them and the wire.

/// A command in RESP form.
#[must_use]
pub fn command_bytes(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_command(&mut bytes, args.iter().copied());
    bytes
}

/// Appends a command in RESP form.
pub fn write_command<'a>(out: &mut Vec<u8>, args: impl ExactSizeIterator<Item = &'a [u8]>) {
    write_header(out, b'*', args.len() as i64);
    for arg in args {
        write_header(out, b'$', arg.len() as i64);
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends the first line of an element: its kind and a number.
#[inline]
pub fn write_header(out: &mut Vec<u8>, kind: u8, number: i64) {
    let digit = |number: i64| b'0'.wrapping_add(number as u8);
    // Most are lengths of few digits.
    match number {
        0..10 => out.extend_from_slice(&[kind, digit(number), b'\r', b'\n']),
        10..100 => {
            let (tens, ones) = (digit(number / 10), digit(number % 10));
            out.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
        }
        100..1000 => {
            let digits = [number / 100, number / 10 % 10, number % 10];
            let [hundreds, tens, ones] = digits.map(digit);
            out.extend_from_slice(&[kind, hundreds, tens, ones, b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_digits_of_their_number() {
        for number in
            [0, 1, 9, 10, 42, 99, 100, 101, 999, 1000, 65_536, i64::MAX, -1, -10, i64::MIN]
        {
            let mut out = b"before".to_vec();
            write_header(&mut out, b':', number);
            assert_eq!(String::from_utf8(out).unwrap(), format!("before:{number}\r\n"));
        }
    }

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let value = [b'v'; 120];
        let bytes = command_bytes(&[b"SET", b"", &value]);
        let head = b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$120\r\n";
        assert_eq!(bytes, [&head[..], &value, b"\r\n"].concat());
        let mut commands = super::super::Commands::new(&bytes);
        assert_eq!(commands.next(), Some(&bytes[..]), "it is read as it is written");
    }
}
