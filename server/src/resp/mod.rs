//! The wire protocol: requests in, replies out.

mod args;
mod inline;
mod reply;
mod request;
mod scanner;

pub use args::{Args, pack};
pub use reply::Reply;
pub use request::{Batch, Limits, ProtocolError, Request};
pub use scanner::Scanner;

/// A request in RESP form, as in the log.
#[must_use]
pub fn command_bytes(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_command(&mut bytes, args.iter().copied());
    bytes
}

/// Appends a request in RESP form.
pub fn write_command<'a>(out: &mut Vec<u8>, args: impl ExactSizeIterator<Item = &'a [u8]>) {
    let mut digits = itoa::Buffer::new();
    out.push(b'*');
    out.extend_from_slice(digits.format(args.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    for arg in args {
        out.push(b'$');
        out.extend_from_slice(digits.format(arg.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}
