//! The stream entries that a waiter wants.

use sexton_persistence::rdb::StreamId;

/// The consumer group and consumer on whose behalf a client reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The group.
    pub group: Vec<u8>,
    /// The consumer.
    pub consumer: Vec<u8>,
    /// What is read counts as acknowledged.
    pub acknowledges: bool,
}

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// For each key: entries after this ID. A member reads the entries after its group's position.
    pub after: Vec<StreamId>,
    /// Maximum number of entries.
    pub count: u64,
    /// On behalf of a group.
    pub member: Option<Member>,
}
