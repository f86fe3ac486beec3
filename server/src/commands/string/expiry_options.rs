//! The options that SET and GETEX share.

use crate::dispatch::{Args, CommandError};

/// Unit and origin of an expiry argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpiryKind {
    /// `EX`: seconds from now.
    Ex,
    /// `PX`: milliseconds from now.
    Px,
    /// `EXAT`: seconds since the epoch.
    ExAt,
    /// `PXAT`: milliseconds since the epoch.
    PxAt,
}

impl ExpiryKind {
    fn named(option: &[u8]) -> Option<Self> {
        [(&b"EX"[..], Self::Ex), (b"PX", Self::Px), (b"EXAT", Self::ExAt), (b"PXAT", Self::PxAt)]
            .into_iter()
            .find_map(|(name, kind)| option.eq_ignore_ascii_case(name).then_some(kind))
    }

    /// True when the argument is a point in time instead of a span.
    pub(super) fn is_absolute(self) -> bool {
        matches!(self, Self::ExAt | Self::PxAt)
    }
}

/// The options as they were given; an impossible combination was a syntax error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options<'a> {
    pub(super) nx: bool,
    pub(super) xx: bool,
    pub(super) get: bool,
    pub(super) keep_ttl: bool,
    pub(super) persist: bool,
    pub(super) expiry: Option<(ExpiryKind, &'a [u8])>,
}

/// Which command the options belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Set,
    GetEx,
}

impl<'a> Options<'a> {
    /// Parses the arguments from `first` on.
    pub(super) fn parse(args: Args<'a>, first: usize, owner: Owner) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut at = first;
        while at < args.len() {
            let option = args.get(at);
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            let no_expiry = options.expiry.is_none();
            match owner {
                Owner::Set if is("NX") && !options.xx => options.nx = true,
                Owner::Set if is("XX") && !options.nx => options.xx = true,
                Owner::Set if is("GET") => options.get = true,
                Owner::Set if is("KEEPTTL") && no_expiry => options.keep_ttl = true,
                Owner::GetEx if is("PERSIST") && no_expiry => options.persist = true,
                _ => {
                    let kind = ExpiryKind::named(option).ok_or(CommandError::Syntax)?;
                    // The same unit given twice is fine, and the last one counts; two units are not.
                    let same_unit = options.expiry.is_none_or(|(earlier, _)| earlier == kind);
                    if options.keep_ttl || options.persist || !same_unit || at + 1 == args.len() {
                        return Err(CommandError::Syntax);
                    }
                    options.expiry = Some((kind, args.get(at + 1)));
                    at += 1;
                }
            }
            at += 1;
        }
        Ok(options)
    }
}

/// The absolute expiry in milliseconds that `text` means.
///
/// # Errors
/// No integer; zero, negative, or beyond the range of a signed 64-bit number of milliseconds.
pub(super) fn absolute_ms(
    kind: ExpiryKind,
    text: &[u8],
    now_ms: u64,
    command: &'static str,
) -> Result<u64, CommandError> {
    let given = crate::number::parse_i64(text).ok_or(CommandError::NotInteger)?;
    let in_ms = match kind {
        ExpiryKind::Ex | ExpiryKind::ExAt => given.checked_mul(1000),
        ExpiryKind::Px | ExpiryKind::PxAt => Some(given),
    };
    let origin_ms = if kind.is_absolute() { 0 } else { now_ms as i64 };
    in_ms
        .filter(|&ms| ms > 0)
        .and_then(|ms| ms.checked_add(origin_ms))
        .map(|ms| ms as u64)
        .ok_or(CommandError::InvalidExpire(command))
}
