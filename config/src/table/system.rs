//! Process, log, time, observation, shutdown.

use super::{INT_MAX, LONG_MAX, choice, int, optional, special, text, yes_no};
use crate::directive::Directive;
use crate::kind::Kind;

const SUPERVISED: &[(&str, u8)] = &[("upstart", 1), ("systemd", 2), ("auto", 3), ("no", 0)];
const SYSLOG_FACILITY: &[(&str, u8)] = &[
    ("user", 8),
    ("local0", 0),
    ("local1", 1),
    ("local2", 2),
    ("local3", 3),
    ("local4", 4),
    ("local5", 5),
    ("local6", 6),
    ("local7", 7),
];
const NO_SYSLOG: &str = "lines go to logfile only";
const NO_LOGO: &str = "there is no logo";
const NO_TITLE: &str = "the process keeps its title";
const NO_PINNING: &str = "threads are not bound to processors";
const FIXED_HZ: &str = "the cycle runs ten times a second, and more often while it has work";
const NO_WATCHDOG: &str = "there is no watchdog";
const NO_SCRIPTS: &str = "scripts are not built yet";
const NO_REPLICATION: &str = "replication is not built yet";
const NO_SUCH_WARNING: &str = "there is no warning that it could leave out";
const HUGE_PAGES_WANTED: &str = "no fork copies pages, so that large ones do no harm";
const NO_MEMCHECK: &str = "a crash is reported without a test of the memory";
const LOG_LEVEL: &[(&str, u8)] = &[("debug", 0), ("verbose", 1), ("notice", 2), ("warning", 3)];
const OOM_SCORE_ADJ: &[(&str, u8)] = &[("no", 0), ("yes", 1), ("relative", 1), ("absolute", 2)];
const SHUTDOWN: &[(&str, u8)] =
    &[("default", 0), ("save", 1), ("nosave", 2), ("now", 4), ("force", 8)];
const PROPAGATION_ERROR: &[(&str, u8)] = &[("ignore", 0), ("panic", 1), ("panic-on-replicas", 2)];

pub(super) const TABLE: &[Directive] = &[
    yes_no("daemonize", "no").immutable(),
    choice("supervised", SUPERVISED, "no").immutable(),
    optional("pidfile").immutable(),
    choice("loglevel", LOG_LEVEL, "notice"),
    text("logfile", super::anything, "").protected(),
    yes_no("syslog-enabled", "no").immutable().no_effect(NO_SYSLOG),
    text("syslog-ident", super::anything, "redis").immutable().no_effect(NO_SYSLOG),
    choice("syslog-facility", SYSLOG_FACILITY, "local0").immutable().no_effect(NO_SYSLOG),
    yes_no("always-show-logo", "no").immutable().no_effect(NO_LOGO),
    yes_no("set-proc-title", "yes").immutable().no_effect(NO_TITLE),
    text("proc-title-template", proc_title, "{title} {listen-addr} {server-mode}")
        .no_effect(NO_TITLE),
    text("ignore-warnings", super::anything, "").no_effect(NO_SUCH_WARNING),
    yes_no("crash-log-enabled", "yes"),
    yes_no("crash-memcheck-enabled", "yes").no_effect(NO_MEMCHECK),
    yes_no("use-exit-on-panic", "no").hidden().no_effect(NO_MEMCHECK),
    yes_no("disable-thp", "yes").immutable().no_effect(HUGE_PAGES_WANTED),
    choice("oom-score-adj", OOM_SCORE_ADJ, "no"),
    special("oom-score-adj-values", Kind::OomScores, "0 200 800"),
    optional("server_cpulist").alias("server-cpulist").immutable().no_effect(NO_PINNING),
    optional("bio_cpulist").alias("bio-cpulist").immutable().no_effect(NO_PINNING),
    optional("aof_rewrite_cpulist").alias("aof-rewrite-cpulist").immutable().no_effect(NO_PINNING),
    optional("bgsave_cpulist").alias("bgsave-cpulist").immutable().no_effect(NO_PINNING),
    int("hz", 0, INT_MAX, "10").no_effect(FIXED_HZ),
    yes_no("dynamic-hz", "yes").no_effect(FIXED_HZ),
    int("watchdog-period", 0, INT_MAX, "0").hidden().no_effect(NO_WATCHDOG),
    int("busy-reply-threshold", 0, LONG_MAX, "5000").alias("lua-time-limit"),
    int("slowlog-log-slower-than", -1, LONG_MAX, "10000").alias("commandlog-execution-slower-than"),
    int("slowlog-max-len", 0, LONG_MAX, "128").alias("commandlog-slow-execution-max-len"),
    int("latency-monitor-threshold", 0, LONG_MAX, "0"),
    yes_no("latency-tracking", "yes"),
    special("latency-tracking-info-percentiles", Kind::Percentiles, "50 99 99.9"),
    special("notify-keyspace-events", Kind::Events, "\"\""),
    int("shutdown-timeout", 0, INT_MAX, "10").no_effect(NO_REPLICATION),
    special("shutdown-on-sigint", Kind::Flags(SHUTDOWN), "default"),
    special("shutdown-on-sigterm", Kind::Flags(SHUTDOWN), "default"),
    choice("propagation-error-behavior", PROPAGATION_ERROR, "ignore").no_effect(NO_REPLICATION),
    text("locale-collate", super::anything, "").no_effect(NO_SCRIPTS),
];

/// Known variables in balanced braces (Redis: `validateProcTitleTemplate`).
fn proc_title(template: &[u8]) -> Result<(), &'static str> {
    const WRONG: &str = "template format is invalid or contains unknown variables";
    const VARIABLES: [&[u8]; 6] =
        [b"title", b"listen-addr", b"server-mode", b"port", b"tls-port", b"unixsocket"];
    if template.trim_ascii().is_empty() {
        return Err(WRONG);
    }
    let mut rest = template;
    while let Some(open) = rest.iter().position(|b| *b == b'{') {
        rest = &rest[open + 1..];
        let close = rest.iter().position(|b| *b == b'}').ok_or(WRONG)?;
        if !VARIABLES.contains(&&rest[..close]) && &rest[..close] != b"config-file" {
            return Err(WRONG);
        }
        rest = &rest[close + 1..];
    }
    Ok(())
}
