//! The options that SET and GETEX share with HSETEX and HGETEX.

use crate::dispatch::{Args, CommandError};
use std::ops::Range;

/// Unit and origin of an expiry argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum ExpiryKind {
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
    pub(in crate::commands) fn is_absolute(self) -> bool {
        matches!(self, Self::ExAt | Self::PxAt)
    }
}

/// The options as they were given; an impossible combination was a syntax error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::commands) struct Options<'a> {
    pub(in crate::commands) nx: bool,
    pub(in crate::commands) xx: bool,
    /// Of fields: none of them may be there, or all must.
    pub(in crate::commands) field_nx: bool,
    pub(in crate::commands) field_xx: bool,
    pub(in crate::commands) get: bool,
    pub(in crate::commands) keep_ttl: bool,
    pub(in crate::commands) persist: bool,
    pub(in crate::commands) expiry: Option<(ExpiryKind, &'a [u8])>,
}

/// Which command the options belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Owner {
    Set,
    GetEx,
    HSetEx,
}

impl<'a> Options<'a> {
    /// Parses the arguments from `first` on.
    pub(in crate::commands) fn parse(
        args: Args<'a>,
        first: usize,
        owner: Owner,
    ) -> Result<Self, CommandError> {
        Self::parse_range(args, first..args.len(), owner)
    }

    /// Parses the arguments of a range.
    pub(in crate::commands) fn parse_range(
        args: Args<'a>,
        range: Range<usize>,
        owner: Owner,
    ) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut at = range.start;
        while at < range.end {
            let option = args.get(at);
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            let no_expiry = options.expiry.is_none();
            match owner {
                Owner::Set | Owner::HSetEx if is("NX") && !options.xx => options.nx = true,
                Owner::Set | Owner::HSetEx if is("XX") && !options.nx => options.xx = true,
                Owner::HSetEx if is("FNX") && !options.field_xx => options.field_nx = true,
                Owner::HSetEx if is("FXX") && !options.field_nx => options.field_xx = true,
                Owner::Set if is("GET") => options.get = true,
                Owner::Set | Owner::HSetEx if is("KEEPTTL") && no_expiry => options.keep_ttl = true,
                Owner::GetEx if is("PERSIST") && no_expiry => options.persist = true,
                _ => {
                    let kind = ExpiryKind::named(option).ok_or(CommandError::Syntax)?;
                    // One unit may be given twice, and the last value counts; two different units may not.
                    let same_unit = options.expiry.is_none_or(|(earlier, _)| earlier == kind);
                    if options.keep_ttl || options.persist || !same_unit || at + 1 == range.end {
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
pub(in crate::commands) fn absolute_ms(
    kind: ExpiryKind,
    text: &[u8],
    now_ms: u64,
    command: &'static str,
) -> Result<u64, CommandError> {
    at_least(1, (kind, text), now_ms, command)
}

/// Like [`absolute_ms`], but for a field, which may expire at once: zero is allowed.
pub(in crate::commands) fn field_ms(
    kind: ExpiryKind,
    text: &[u8],
    now_ms: u64,
    command: &'static str,
) -> Result<u64, CommandError> {
    at_least(0, (kind, text), now_ms, command)
}

fn at_least(
    least: i64,
    (kind, text): (ExpiryKind, &[u8]),
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
        .filter(|&ms| ms >= least)
        .and_then(|ms| ms.checked_add(origin_ms))
        .map(|ms| ms as u64)
        .ok_or(CommandError::InvalidExpire(command))
}
