//! Keys of the model: those of strings, the root of a collection, its pages, and the prefix that its grave names.

/// A key of the model.
pub type Key = u64;

/// Keys of strings in a history: few, so that histories collide.
pub const KEYS: Key = 3;

/// The root of the collection, whose value is a descriptor.
pub const COLLECTION: Key = KEYS;

/// Pages of a collection at most.
pub(super) const PAGES: u64 = 2;

/// Page keys begin here; the prefixes follow them.
const FIRST_PAGE: Key = 1 << 32;
const FIRST_PREFIX: Key = 1 << 40;

/// The key of a page of the collection `cid`.
pub(super) fn page_key(cid: u64, page: u64) -> Key {
    FIRST_PAGE + PAGES * cid + page
}

/// What the grave of the collection `cid` names.
pub(super) fn prefix_key(cid: u64) -> Key {
    FIRST_PREFIX + cid
}

/// Collection and number of a page.
pub(super) fn page_of(key: Key) -> Option<(u64, u64)> {
    let at = key.checked_sub(FIRST_PAGE).filter(|_| key < FIRST_PREFIX)?;
    Some((at / PAGES, at % PAGES))
}

/// The prefix of a page's key.
pub(super) fn prefix_of(key: Key) -> Option<Key> {
    page_of(key).map(|(cid, _)| prefix_key(cid))
}

/// True for pages and prefixes: keys of which the specification knows nothing.
pub(super) fn is_element(key: Key) -> bool {
    key >= FIRST_PAGE
}
