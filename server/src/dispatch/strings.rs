//! How commands look at strings and change them, wherever they lie.

use super::guard::give_up;
use super::long_reply::{LongReply, OpenReply};
use super::snapshot_session::snapshot_error;
use super::{CommandError, Ctx, Purpose};
use crate::events::Event;
use crate::keyspace::paged::{
    self, EditedString, Paged, PagedString, PastString, Stop, StringBytes, StringEdit, WholeString,
};
use crate::keyspace::{StringView, Strings, Written};
use crate::resp::Reply;
use crate::value::ValueType;
use sexton_engine::Meta;
use sexton_engine::page::LongString;

/// What an edit has done with a string.
#[derive(Clone, Copy, Debug)]
pub enum EditedAs {
    /// It is as it was.
    Nothing,
    /// It is as it was, but Redis keeps it as `raw` from then on, as OBJECT ENCODING shows. Nobody is notified.
    Looked,
    /// It is another one.
    Written(Written, Option<Event>),
}

impl Ctx<'_, '_> {
    /// Looks at the string of a key of the client's database, `None` for no string; what `look` has written is dropped where it stops.
    /// `goes_through`: so many bytes of one of this length.
    ///
    /// # Errors
    /// WRONGTYPE.
    pub fn read_string<R>(
        &mut self,
        key: &[u8],
        goes_through: impl Fn(u64) -> u64,
        mut look: impl FnMut(Option<&dyn StringBytes>, &mut Reply) -> Result<R, Stop>,
    ) -> Result<R, CommandError> {
        if let Some(paged) = self.paged::<Strings>(Purpose::Read, key)? {
            if let LongReply::Open(open) = std::mem::take(&mut self.client.long_reply) {
                self.changes.count_lookup(true);
                return read_apart(*open, self.out, look);
            }
            self.hand_over_apart_above(goes_through(paged.descriptor.totals.bytes));
            return Ok(self.read_pages(key, &paged, |string: &LongString, pages, out| {
                look(Some(&PagedString { string, pages }), out)
            }));
        }
        self.lookup::<Strings, _>(Purpose::Read, key, |string, out| {
            let looked = match string.as_ref().map(StringView::bytes) {
                Some(bytes) => look(Some(&bytes), out),
                None => look(None, out),
            };
            looked.map_err(not_in_pages)
        })?
    }

    /// The string in pages of a key of the client's database, all of which are in memory from here on: [`Ctx::copy_string`] copies it.
    /// `None` for anything else.
    pub fn string_to_copy(&mut self, purpose: Purpose, key: &[u8]) -> Option<Paged> {
        let (db, of) = (self.client.db, |meta: Meta| ValueType::of(meta.flags));
        let found =
            self.inspect(Purpose::Write, db, key, |entry, _| entry.map(|entry| entry.meta()));
        found.filter(|meta| meta.is_paged() && of(*meta) == Some(ValueType::String))?;
        let paged = self.paged::<Strings>(purpose, key).ok()??;
        self.hand_over_above(paged.descriptor.totals.bytes);
        self.read_pages(key, &paged, |string: &LongString, pages, _| {
            paged::needs_string(string, pages)
        });
        Some(paged)
    }

    /// Gives a key a copy of a string in pages, as [`Ctx::put`] would: one operation. Log it.
    pub fn copy_string(
        &mut self,
        (key, paged): (&[u8], &Paged),
        (to_db, to): (usize, &[u8]),
        event: impl Into<Option<Event>>,
    ) {
        let (from, cid) = (self.key_in(self.client.db, key), paged.descriptor.collection);
        self.put_by(to_db, to, event, |tx, to| {
            let copied = paged::copy_string(tx, (from, cid), to, paged);
            copied.unwrap_or_else(|error| give_up(error));
        });
    }

    /// Edits the string of a key of the client's database, or a new one: one operation, logged verbatim, or none.
    ///
    /// # Errors
    /// WRONGTYPE, and what `edit` refuses; nothing is changed then.
    pub fn edit_string(
        &mut self,
        key: &[u8],
        mut edit: impl FnMut(
            &mut dyn StringEdit,
            &mut Reply,
        ) -> Result<Result<EditedAs, CommandError>, Stop>,
    ) -> Result<(), CommandError> {
        if let Some(paged) = self.paged::<Strings>(Purpose::Write, key)? {
            return self.edit_pages(key, &paged, edit);
        }
        let db = self.client.db;
        // In a store without pages, what another start has laid out in some is read whole.
        let has_parts = self.server.engine.takes_pages();
        let edited = self.lookup::<Strings, _>(Purpose::Write, key, |string, out| {
            let meta = string.map(|string| string.meta());
            let mut whole = WholeString::new(string.map(|string| string.bytes()));
            let edited = edit(&mut whole, out).map_err(not_in_pages)??;
            let value = matches!(edited, EditedAs::Written(..)).then(|| match has_parts {
                true => whole.into_edited(),
                false => whole.into_whole(),
            });
            Ok::<_, CommandError>((edited, meta, value))
        })??;
        match edited {
            (EditedAs::Nothing, ..) | (EditedAs::Looked, None, _) => {}
            (EditedAs::Looked, Some(old), _) => {
                let meta = Written::Edited.expiring_at(old.expire_at_ms);
                if meta != old {
                    let key = self.key_in(db, key);
                    self.tx().set_meta(key, meta);
                    self.log_request();
                }
            }
            (EditedAs::Written(written, event), old, value) => {
                let meta = written.expiring_at(old.map_or(0, |meta| meta.expire_at_ms));
                let inline_bytes = self.server.settings.thresholds.inline_bytes();
                match value {
                    Some(EditedString::Part(range, new)) => {
                        self.put_by(db, key, event, |tx, key| {
                            paged::put_part(tx, key, meta, (range, &new), inline_bytes);
                        });
                    }
                    Some(EditedString::Whole(value)) => self.put(db, key, meta, &value, event),
                    None => {}
                }
                self.log_request();
            }
        }
        Ok(())
    }

    fn edit_pages(
        &mut self,
        key: &[u8],
        paged: &paged::Paged,
        mut edit: impl FnMut(
            &mut dyn StringEdit,
            &mut Reply,
        ) -> Result<Result<EditedAs, CommandError>, Stop>,
    ) -> Result<(), CommandError> {
        let mut refused = None;
        let changed = self.change_told(key, paged, |pages, string: &mut LongString, out| {
            Ok(match edit(&mut PagedString { string, pages }, out)? {
                Ok(EditedAs::Nothing | EditedAs::Looked) => None,
                Ok(EditedAs::Written(_, event)) => {
                    Some(((), event.map_or(Vec::new(), |event| vec![event])))
                }
                Err(error) => {
                    refused = Some(error);
                    None
                }
            })
        });
        if changed.is_some() {
            self.log_request();
        }
        refused.map_or(Ok(()), Err)
    }
}

/// A look at the string that is held for the request, or at that of a snapshot: no latch is held meanwhile.
fn read_apart<R>(
    mut open: OpenReply,
    out: &mut Reply,
    mut look: impl FnMut(Option<&dyn StringBytes>, &mut Reply) -> Result<R, Stop>,
) -> Result<R, CommandError> {
    let string = PastString::new(open.collection());
    let looked = look(Some(&string), out);
    match string.into_failure() {
        Some(error) => Err(snapshot_error(error)),
        None => looked.map_err(not_in_pages),
    }
}

/// Nothing of a string that lies whole in its record, or is held, is ever missing.
fn not_in_pages(stop: Stop) -> CommandError {
    CommandError::from(format!("ERR storage: {stop:?}"))
}
