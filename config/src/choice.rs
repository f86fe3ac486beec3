//! The enum directives that the other crates act on, as Rust enums.
//!
//! The discriminants are the numbers of the directive table; a test compares all names.

/// Defines an enum with the table's numbers and a conversion from them.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, default $default:ident,
        $($(#[$item_doc:meta])* $item:ident = $number:literal),+ $(,)?) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$item_doc])* $item = $number),+
        }

        impl $name {
            /// From the table's number; the default for a number no name has.
            pub(crate) fn of(number: u8) -> Self {
                match number {
                    $($number => Self::$item,)+
                    _ => Self::$default,
                }
            }
        }
    };
}

choice! {
    /// `maxmemory-policy`: which keys are evicted at `maxmemory`.
    EvictionPolicy, default NoEviction,
    /// Least recently used of the keys with a time to live.
    VolatileLru = 0,
    /// Least frequently used of the keys with a time to live.
    VolatileLfu = 1,
    /// Any key with a time to live.
    VolatileRandom = 2,
    /// The key that expires soonest.
    VolatileTtl = 3,
    /// Least recently used of all keys.
    AllkeysLru = 4,
    /// Least frequently used of all keys.
    AllkeysLfu = 5,
    /// Any key.
    AllkeysRandom = 6,
    /// Writes that need memory fail.
    NoEviction = 7,
}

choice! {
    /// `appendfsync`: when the append only file is synced.
    AppendFsync, default EverySecond,
    /// The kernel decides.
    No = 0,
    /// Once a second; a crash loses about a second of writes.
    EverySecond = 1,
    /// Before the reply.
    Always = 2,
}

choice! {
    /// `loglevel`: the least important lines that are logged.
    LogLevel, default Notice,
    /// Everything.
    Debug = 0,
    /// Many rarely useful lines.
    Verbose = 1,
    /// The recommended level for production.
    Notice = 2,
    /// Only what matters most.
    Warning = 3,
}

choice! {
    /// `supervised`: how the process reports that it is ready.
    Supervised, default No,
    /// Not at all.
    No = 0,
    /// By stopping itself (SIGSTOP).
    Upstart = 1,
    /// `READY=1` on the socket of `NOTIFY_SOCKET`.
    Systemd = 2,
    /// By what the environment names.
    Auto = 3,
}

choice! {
    /// `tls-auth-clients`: whether clients with TLS must show a certificate.
    TlsAuthClients, default Yes,
    /// They are not asked.
    No = 0,
    /// Without one they are turned away.
    Yes = 1,
    /// They may have none; one that they show must be right.
    Optional = 2,
}

choice! {
    /// `tls-auth-clients-user`: what of a client's certificate names its user.
    TlsUser, default Off,
    /// Nothing.
    Off = 0,
    /// The common name of its subject.
    CommonName = 1,
    /// Its URIs (subject alternative names).
    Uri = 2,
}

choice! {
    /// `enable-debug-command` and `enable-protected-configs`: the clients that may run dangerous commands.
    Permission, default No,
    /// Nobody.
    No = 0,
    /// Every client.
    Yes = 1,
    /// Clients on the loop back or unix socket.
    Local = 2,
}

impl Permission {
    /// Whether a client has the permission, given whether its connection is local.
    pub fn allows(self, local: bool) -> bool {
        self == Permission::Yes || (self == Permission::Local && local)
    }
}

choice! {
    /// `sanitize-dump-payload`: whether RESTORE checks payloads deeply.
    SanitizePayload, default No,
    /// Never.
    No = 0,
    /// Always.
    Yes = 1,
    /// For clients, not for files and masters.
    Clients = 2,
}

choice! {
    /// Block compression of tables.
    Compression, default Lz4,
    /// Blocks as they are.
    None = 0,
    /// LZ4, block by block.
    Lz4 = 1,
    /// zstd, block by block.
    Zstd = 2,
}

choice! {
    /// `deletes`: how deletes are kept.
    Deletes, default Cemetery,
    /// Outside the tree.
    Cemetery = 0,
    /// As records of the tree: the ordinary LSM-tree.
    Tombstones = 1,
}

choice! {
    /// `memtable`: how memtables find and order their records.
    Memtable, default Hash,
    /// By hash; sorted when needed.
    Hash = 0,
    /// In a skip list.
    SkipList = 1,
}

choice! {
    /// `persistence-mode`: what keeps the newest writes over a crash.
    PersistenceMode, default Log,
    /// The append only file.
    Log = 0,
    /// The memtable itself, in persistent memory.
    Wbl = 1,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::Kind;
    use crate::table;

    fn names(directive: &str, shown: impl Fn(u8) -> String) {
        let Kind::Enum(names) = table::find(directive.as_bytes()).unwrap().kind else {
            panic!("{directive} is no enum");
        };
        for (name, number) in names {
            let variant = shown(*number).to_ascii_lowercase();
            let plain = name.replace('-', "").replace("everysec", "everysecond");
            assert_eq!(variant, plain, "{directive}");
        }
    }

    #[test]
    fn variants_have_the_numbers_of_the_table() {
        names("maxmemory-policy", |n| format!("{:?}", EvictionPolicy::of(n)));
        names("appendfsync", |n| format!("{:?}", AppendFsync::of(n)));
        names("loglevel", |n| format!("{:?}", LogLevel::of(n)));
        names("supervised", |n| format!("{:?}", Supervised::of(n)));
        names("enable-debug-command", |n| format!("{:?}", Permission::of(n)));
        names("sanitize-dump-payload", |n| format!("{:?}", SanitizePayload::of(n)));
        names("memtable", |n| format!("{:?}", Memtable::of(n)));
        names("persistence-mode", |n| format!("{:?}", PersistenceMode::of(n)));
        names("deletes", |n| format!("{:?}", Deletes::of(n)));
        names("compression", |n| format!("{:?}", Compression::of(n)));
        names("compression-bottom", |n| format!("{:?}", Compression::of(n)));
    }
}
