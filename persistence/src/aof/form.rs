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
    // Most are lengths of one or two digits.
    match number {
        0..10 => out.extend_from_slice(&[kind, b'0' + number as u8, b'\r', b'\n']),
        10..100 => {
            let [tens, ones] = [number / 10, number % 10].map(|digit| b'0' + digit as u8);
            out.extend_from_slice(&[kind, tens, ones, b'\r', b'\n']);
        }
        _ => {
            out.push(kind);
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}
