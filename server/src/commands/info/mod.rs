//! INFO: Redis' sections and fields in Redis' order, then our own sections.

mod figures;
mod sections;

pub(crate) use figures::mean_time_to_live_ms;

use crate::dispatch::{Binding, CommandResult, Ctx};
use crate::server::Server;
use std::borrow::Cow;

/// INFO.
pub(super) const COMMANDS: &[Binding] = &[Binding::survey("info", info)];

type Writer = fn(&mut Text, &Server);

/// One section of the reply.
struct Section {
    /// As it is asked for.
    name: &'static str,
    /// Part of INFO without arguments.
    by_default: bool,
    write: Writer,
}

const SECTIONS: &[Section] = &[
    Section { name: "server", by_default: true, write: sections::server },
    Section { name: "clients", by_default: true, write: sections::clients },
    Section { name: "memory", by_default: true, write: sections::memory },
    Section { name: "persistence", by_default: true, write: sections::persistence },
    Section { name: "stats", by_default: true, write: sections::stats },
    Section { name: "replication", by_default: true, write: sections::replication },
    Section { name: "cpu", by_default: true, write: sections::cpu },
    Section { name: "modules", by_default: true, write: figures::modules },
    Section { name: "commandstats", by_default: false, write: figures::command_stats },
    Section { name: "errorstats", by_default: true, write: figures::error_stats },
    Section { name: "latencystats", by_default: false, write: figures::latency_stats },
    Section { name: "cluster", by_default: true, write: figures::cluster },
    Section { name: "keyspace", by_default: true, write: figures::keyspace },
    Section { name: "flsm", by_default: true, write: figures::flsm },
    Section { name: "devices", by_default: true, write: figures::devices },
    Section { name: "wbl", by_default: true, write: figures::wbl },
    Section { name: "tls", by_default: true, write: figures::tls },
];

/// `INFO [section ...]`
fn info(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let asked: Vec<Vec<u8>> = ctx.args.from(1).map(<[u8]>::to_ascii_lowercase).collect();
    let has = |word: &str| asked.iter().any(|asked| asked == word.as_bytes());
    let everything = has("all") || has("everything");
    let by_default = asked.is_empty() || has("default");
    let mut reply = String::new();
    for section in SECTIONS {
        if everything || (by_default && section.by_default) || has(section.name) {
            if !reply.is_empty() {
                reply.push_str("\r\n");
            }
            Text::of(section, ctx.server).write(&mut reply);
        }
    }
    ctx.out.verbatim("txt", reply.as_bytes());
    Ok(())
}

/// The fields of these sections, in their order: the one source of INFO, metrics and status page.
#[must_use]
pub fn fields(server: &Server, sections: &[&str]) -> Vec<(Cow<'static, str>, String)> {
    let asked = SECTIONS.iter().filter(|section| sections.contains(&section.name));
    asked.flat_map(|section| Text::of(section, server).fields).collect()
}

/// A section as it grows.
#[derive(Default)]
struct Text {
    title: &'static str,
    fields: Vec<(Cow<'static, str>, String)>,
}

impl Text {
    fn of(section: &Section, server: &Server) -> Self {
        let mut text = Self::default();
        (section.write)(&mut text, server);
        text
    }

    /// `# Title`, and `name:value` for each field.
    fn write(&self, reply: &mut String) {
        let mut line = |parts: [&str; 3]| {
            parts.iter().for_each(|part| reply.push_str(part));
            reply.push_str("\r\n");
        };
        line(["# ", self.title, ""]);
        for (name, value) in &self.fields {
            line([name, ":", value]);
        }
    }

    fn title(&mut self, name: &'static str) {
        self.title = name;
    }

    fn field(&mut self, name: impl Into<Cow<'static, str>>, value: impl std::fmt::Display) {
        self.fields.push((name.into(), value.to_string()));
    }

    /// Fields whose feature does not exist here.
    fn zeros(&mut self, names: &[&'static str]) {
        for name in names {
            self.field(*name, 0);
        }
    }

    /// A size in bytes and in human-readable form (`NAME` and `NAME_human`).
    fn bytes(&mut self, name: &'static str, bytes: u64) {
        self.field(name, bytes);
        self.field(format!("{name}_human"), human(bytes));
    }

    /// A ratio and a difference of two sizes.
    fn overhead(&mut self, prefix: &str, whole: u64, part: u64) {
        let ratio = if part == 0 { 0.0 } else { whole as f64 / part as f64 };
        self.field(format!("{prefix}_ratio"), format_args!("{ratio:.2}"));
        self.field(format!("{prefix}_bytes"), whole as i64 - part as i64);
    }
}

/// Redis' short form of a size: `943.14K`.
fn human(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn sizes_are_written_as_redis_writes_them() {
        assert_eq!(human(0), "0B");
        assert_eq!(human(200), "200B");
        assert_eq!(human(965_776), "943.14K");
        assert_eq!(human(6_983_680), "6.66M");
        assert_eq!(human(25_276_502_016), "23.54G");
    }
}
