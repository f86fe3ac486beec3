//! DEBUG PROTOCOL: one reply of each type, for tests of client libraries.

use crate::dispatch::{CommandError, CommandResult, Ctx};

/// `DEBUG PROTOCOL type`
pub(super) fn protocol(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let out = &mut *ctx.out;
    match args.get(2).to_ascii_lowercase().as_slice() {
        b"string" => out.bulk(b"Hello World"),
        b"integer" => out.int(12345),
        b"double" => out.double("3.141"),
        b"null" => out.null(),
        b"array" => {
            out.array(3);
            (0..3).for_each(|number| out.int(number));
        }
        b"set" => {
            out.set(3);
            (0..3).for_each(|number| out.int(number));
        }
        b"map" => {
            out.map(3);
            for number in 0..3 {
                out.int(number);
                out.boolean(number == 1);
            }
        }
        b"bignum" => {
            let digits = b"1234567999999999999999999999999999999";
            if out.is_resp3() {
                out.raw(b"(");
                out.raw(digits);
                out.raw(b"\r\n");
            } else {
                out.bulk(digits);
            }
        }
        b"attrib" => {
            if out.is_resp3() {
                out.raw(b"|1\r\n");
                out.bulk(b"key-popularity");
                out.array(2);
                out.bulk(b"key:123");
                out.int(90);
            }
            // Attributes never come alone: this is the reply they belong to.
            out.bulk(b"Some real reply following the attribute");
        }
        b"push" => {
            if !out.is_resp3() {
                return Err(CommandError::text("ERR RESP2 is not supported by this command"));
            }
            out.push(2);
            out.bulk(b"server-cpu-usage");
            out.int(42);
            // Nor is a push a reply.
            out.bulk(b"Some real reply following the push reply");
        }
        b"true" => out.boolean(true),
        b"false" => out.boolean(false),
        b"verbatim" => out.verbatim("txt", b"This is a verbatim\nstring"),
        _ => {
            return Err(CommandError::text(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}
