//! Listening, clients, protocol, TLS, access.

use super::{INT_MAX, LONG_MAX, choice, int, memory, optional, special, text, yes_no};
use crate::directive::Directive;
use crate::kind::Kind;

pub(super) const PROTECTED_ACTION: &[(&str, u8)] = &[("no", 0), ("yes", 1), ("local", 2)];
const PUBSUB_DEFAULT: &[(&str, u8)] = &[("allchannels", 1), ("resetchannels", 0)];
const TLS_AUTH_CLIENTS: &[(&str, u8)] = &[("no", 0), ("yes", 1), ("optional", 2)];
const NO_PASSPHRASE: &str = "keys with a passphrase are not read";
const NO_DH: &str = "keys are exchanged over elliptic curves only";
const NO_REPLICATION: &str = "replication is not built";
const NO_CLUSTER: &str = "cluster mode is not built";
const NO_OUTGOING: &str = "the server connects to no other server";
const NO_MODULES: &str = "modules are not built";
const OWN_THREADS: &str = "worker-threads says how many threads serve connections";
const ALL_AT_ONCE: &str = "connections are accepted as they come";

pub(super) const TABLE: &[Directive] = &[
    special("bind", Kind::Bind, "* -::*"),
    int("port", 0, 65535, "6379"),
    optional("unixsocket").immutable(),
    special("unixsocketperm", Kind::Octal { max: 0o777 }, "0").immutable(),
    int("tcp-backlog", 0, INT_MAX, "511").immutable(),
    int("tcp-keepalive", 0, INT_MAX, "300"),
    int("timeout", 0, INT_MAX, "0"),
    int("maxclients", 1, u32::MAX as i128, "10000"),
    special("bind-source-addr", optional("").kind, "").no_effect(NO_OUTGOING),
    int("socket-mark-id", 0, u32::MAX as i128, "0").immutable().no_effect(NO_OUTGOING),
    yes_no("protected-mode", "yes"),
    special(
        "client-output-buffer-limit",
        Kind::OutputLimits,
        "normal 0 0 0 replica 256mb 64mb 60 pubsub 32mb 8mb 60",
    ),
    memory("client-query-buffer-limit", 1 << 20, LONG_MAX, "1gb"),
    memory("proto-max-bulk-len", 1 << 20, LONG_MAX, "512mb"),
    special("maxmemory-clients", Kind::Memory { min: -100, max: LONG_MAX, percent: true }, "0"),
    int("tracking-table-max-keys", 0, LONG_MAX, "1000000"),
    optional("requirepass").sensitive(),
    text("aclfile", super::anything, "").immutable(),
    choice("acl-pubsub-default", PUBSUB_DEFAULT, "resetchannels"),
    int("acllog-max-len", 0, LONG_MAX, "128"),
    choice("enable-protected-configs", PROTECTED_ACTION, "no").immutable(),
    choice("enable-debug-command", PROTECTED_ACTION, "no").immutable(),
    choice("enable-module-command", PROTECTED_ACTION, "no").immutable().no_effect(NO_MODULES),
    int("io-threads", 1, 128, "1").immutable().no_effect(OWN_THREADS).doc("Use worker-threads."),
    yes_no("io-threads-do-reads", "no").immutable().no_effect(OWN_THREADS),
    int("max-new-connections-per-cycle", 1, 1000, "10").no_effect(ALL_AT_ONCE),
    int("max-new-tls-connections-per-cycle", 1, 1000, "1").no_effect(ALL_AT_ONCE),
    int("tls-port", 0, 65535, "0"),
    int("tls-session-cache-size", 0, INT_MAX, "20480"),
    int("tls-session-cache-timeout", 0, INT_MAX, "300"),
    yes_no("tls-cluster", "no").no_effect(NO_CLUSTER),
    yes_no("tls-replication", "no").no_effect(NO_REPLICATION),
    choice("tls-auth-clients", TLS_AUTH_CLIENTS, "yes"),
    yes_no("tls-prefer-server-ciphers", "no"),
    yes_no("tls-session-caching", "yes"),
    optional("tls-cert-file"),
    optional("tls-key-file"),
    optional("tls-key-file-pass").sensitive().no_effect(NO_PASSPHRASE),
    optional("tls-client-cert-file").no_effect(NO_OUTGOING),
    optional("tls-client-key-file").no_effect(NO_OUTGOING),
    optional("tls-client-key-file-pass").sensitive().no_effect(NO_OUTGOING),
    optional("tls-dh-params-file").no_effect(NO_DH),
    optional("tls-ca-cert-file"),
    optional("tls-ca-cert-dir"),
    optional("tls-protocols"),
    optional("tls-ciphers"),
    optional("tls-ciphersuites"),
];
