//! DEBUG DIGEST and DIGEST-VALUE: for equal data they return the 40 digits that redis-server returns, so
//! that a test can compare two servers, or one server before and after a crash.

use super::{find_value, whole_of};
use crate::digest::{hex, sha1};
use crate::dispatch::{CommandError, CommandResult, Ctx};
use crate::interop::c_numbers::general;
use crate::keyspace::AnyView;
use crate::keyspace::collection::stream::{HIGHEST, LOWEST};
use crate::keyspace::paged::whole_at;
use crate::value::ValueType;
use sexton_engine::{IterOptions, Key, Meta, ScanItem, ScanRange, SnapshotOptions};

/// Digits of a score, as `%.17g`.
const SCORE_DIGITS: usize = 17;

/// A digest that values are mixed into: Redis' `xorDigest` and `mixDigest`.
#[derive(Clone, Copy, Default)]
struct Digest([u8; 20]);

impl Digest {
    /// Order of calls does not matter.
    fn xor(&mut self, data: &[u8]) {
        for (byte, other) in self.0.iter_mut().zip(sha1(data)) {
            *byte ^= other;
        }
    }

    /// Order of calls matters.
    fn mix(&mut self, data: &[u8]) {
        self.xor(data);
        self.0 = sha1(&self.0);
    }

    /// Order within the pair matters, and that of calls does not.
    fn xor_pair(&mut self, first: &[u8], second: &[u8]) {
        let mut pair = Self::default();
        pair.mix(first);
        pair.mix(second);
        self.xor(&pair.0);
    }

    fn mix_value(&mut self, meta: Meta, value: &[u8]) -> CommandResult {
        let unknown = CommandError::text("ERR a value is of an unknown type");
        let kind = ValueType::of(meta.flags).ok_or(unknown.clone())?;
        // Redis has modules between hashes and streams.
        let number = if kind == ValueType::Stream { 6 } else { kind as u32 };
        self.mix(&number.to_be_bytes());
        match AnyView::of(meta, value).ok_or(unknown)? {
            AnyView::String(string) => self.mix(string),
            AnyView::List(list) => list.iter().for_each(|element| self.mix(element)),
            AnyView::Set(set) => set.iter().for_each(|member| self.xor(&member)),
            AnyView::SortedSet(set) => {
                for (score, member) in set.iter() {
                    self.xor_pair(member, general(score, SCORE_DIGITS).as_bytes());
                }
            }
            AnyView::Hash(hash) => {
                hash.iter().for_each(|(field, value)| self.xor_pair(field, value));
            }
            AnyView::Stream(stream) => {
                for entry in stream.range(LOWEST, HIGHEST) {
                    self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    for (field, value) in entry.pairs() {
                        self.mix(field);
                        self.mix(value);
                    }
                }
            }
        }
        if meta.expire_at_ms != 0 {
            self.xor(b"!!expire!!");
        }
        Ok(())
    }
}

/// `DEBUG DIGEST`
pub(super) fn digest(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let mut all = Digest::default();
    for db in 0..ctx.server.databases {
        let range = ScanRange { db, ..ScanRange::default() };
        let mut empty = true;
        let mut add = |key: &[u8], meta: Meta, value: &[u8]| -> CommandResult {
            if std::mem::take(&mut empty) {
                all.mix(&(db as u32).to_be_bytes());
            }
            let mut one = Digest::default();
            one.mix(key);
            one.mix_value(meta, value)?;
            all.xor(&one.0);
            Ok(())
        };
        let failed = |error: sexton_engine::EngineError| CommandError::from(format!("ERR {error}"));
        match ctx.tx.as_deref_mut() {
            Some(tx) => {
                let mut added = Ok(());
                let mut paged = Vec::new();
                let mut visit = |item: ScanItem| {
                    if item.meta.is_paged() {
                        paged.push(item);
                    } else {
                        added = add(&item.key, item.meta, &item.value);
                    }
                    added.is_ok()
                };
                tx.scan(&range, &mut visit).map_err(failed)?;
                added?;
                let engine = &ctx.server.engine;
                for item in paged {
                    let (slot, hash) = (engine.slot_of(db), engine.hash(&item.key));
                    let key = Key { slot, bytes: &item.key, hash };
                    let (meta, value) = whole_of(tx, key, item.meta, item.value)?;
                    add(&item.key, meta, &value)?;
                }
            }
            None if !ctx.server.engine.has_pages() => {
                for item in ctx.server.engine.scan(&range).map_err(failed)? {
                    let item = item.map_err(failed)?;
                    add(&item.key, item.meta, &item.value)?;
                }
            }
            // Pages have the same instant as their roots.
            None => {
                let snapshot = ctx.server.engine.snapshot(SnapshotOptions::default());
                let snapshot = snapshot.map_err(failed)?;
                let options = IterOptions { db, ..IterOptions::default() };
                let mut iter = snapshot.iter(&options).map_err(failed)?;
                iter.seek_to_first().map_err(failed)?;
                while iter.valid() {
                    let (meta, value) = (iter.meta(), iter.value());
                    match whole_at(&snapshot, db, meta, value).map_err(failed)? {
                        Some((meta, whole)) => add(iter.key(), meta, &whole)?,
                        None => add(iter.key(), meta, value)?,
                    }
                    iter.next().map_err(failed)?;
                }
            }
        }
    }
    ctx.out.simple(&hex(&all.0));
    Ok(())
}

/// `DEBUG DIGEST-VALUE key [key ...]`
pub(super) fn digest_value(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let mut digests = Vec::new();
    for key in args.from(2) {
        let mut one = Digest::default();
        if let Some((meta, value)) = find_value(ctx, key)? {
            one.mix_value(meta, &value)?;
        }
        digests.push(one);
    }
    ctx.out.array(digests.len());
    for one in digests {
        ctx.out.simple(&hex(&one.0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures of redis-server 7.0.15 after `DEBUG POPULATE 3` (key:0 to key:2).
    #[test]
    fn equals_redis() {
        let meta = Meta { flags: crate::value::PLAIN_STRING, expire_at_ms: 0 };
        let mut one = Digest::default();
        one.mix_value(meta, b"value:1").unwrap();
        assert_eq!(hex(&one.0), "ec4b7bec343ec862c8bd5dd8feab05ec1e9e6703");

        let mut all = Digest::default();
        all.mix(&0u32.to_be_bytes());
        for number in 0..3 {
            let mut entry = Digest::default();
            entry.mix(format!("key:{number}").as_bytes());
            entry.mix_value(meta, format!("value:{number}").as_bytes()).unwrap();
            all.xor(&entry.0);
        }
        assert_eq!(hex(&all.0), "f25db52166a7d712fb7362fd197165342e2b7442");
    }
}
