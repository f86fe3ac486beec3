//! Redis Cluster: not supported, so all directives but `cluster-enabled` are only stored.

use super::{INT_MAX, LONG_MAX, ULONG_MAX, choice, int, memory, optional, special, text, yes_no};
use crate::directive::Directive;
use crate::kind::Kind;

const NO_CLUSTER: &str = "Redis Cluster is not built";
const ENDPOINT: &[(&str, u8)] = &[("ip", 0), ("hostname", 1), ("unknown-endpoint", 2)];

pub(super) const TABLE: &[Directive] = &[
    yes_no("cluster-enabled", "no").immutable().refused(NO_CLUSTER),
    text("cluster-config-file", super::anything, "nodes.conf").immutable().no_effect(NO_CLUSTER),
    int("cluster-node-timeout", 0, LONG_MAX, "15000").no_effect(NO_CLUSTER),
    int("cluster-port", 0, 65535, "0").immutable().no_effect(NO_CLUSTER),
    optional("cluster-announce-ip").no_effect(NO_CLUSTER),
    int("cluster-announce-port", 0, 65535, "0").no_effect(NO_CLUSTER),
    int("cluster-announce-tls-port", 0, 65535, "0").no_effect(NO_CLUSTER),
    int("cluster-announce-bus-port", 0, 65535, "0").no_effect(NO_CLUSTER),
    special("cluster-announce-hostname", Kind::Text { empty_is_none: true, check: hostname }, "")
        .no_effect(NO_CLUSTER),
    choice("cluster-preferred-endpoint-type", ENDPOINT, "ip").no_effect(NO_CLUSTER),
    int("cluster-migration-barrier", 0, INT_MAX, "1").no_effect(NO_CLUSTER),
    int("cluster-replica-validity-factor", 0, INT_MAX, "10")
        .alias("cluster-slave-validity-factor")
        .no_effect(NO_CLUSTER),
    yes_no("cluster-replica-no-failover", "no")
        .alias("cluster-slave-no-failover")
        .no_effect(NO_CLUSTER),
    yes_no("cluster-require-full-coverage", "yes").no_effect(NO_CLUSTER),
    yes_no("cluster-allow-reads-when-down", "no").no_effect(NO_CLUSTER),
    yes_no("cluster-allow-pubsubshard-when-down", "yes").no_effect(NO_CLUSTER),
    yes_no("cluster-allow-replica-migration", "yes").no_effect(NO_CLUSTER),
    memory("cluster-link-sendbuf-limit", 0, ULONG_MAX, "0").no_effect(NO_CLUSTER),
];

/// Redis' NET_HOST_STR_LEN.
const HOST_MAX: usize = 256;

fn hostname(name: &[u8]) -> Result<(), &'static str> {
    if name.len() >= HOST_MAX {
        return Err("Hostnames must be less than 256 characters");
    }
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    if !name.iter().all(allowed) {
        return Err("Hostnames may only contain alphanumeric characters, hyphens or dots");
    }
    Ok(())
}
