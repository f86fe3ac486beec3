//! `GET /metrics`: the figures of INFO as Prometheus text.

use super::names::{ROWS, SECTIONS};
use super::writer::{Kind, Writer};
use crate::commands::info::{fields, mean_time_to_live_ms};
use crate::commands::table;
use crate::observe::percentile;
use crate::server::Server;
use crate::version::REDIS_VERSION;
use std::borrow::Cow;
use std::collections::HashMap;

const UP: (&str, &str) = ("redis_up", "Whether the store is there: 0 while it is being opened.");

/// The metrics while the store is being opened.
pub(super) fn without_store() -> String {
    let mut to = Writer::default();
    to.family(UP.0, Kind::Gauge, UP.1);
    to.sample(&[], 0);
    to.finish()
}

/// All metrics of a server.
pub(super) fn of(server: &Server) -> String {
    let mut to = Writer::default();
    to.family(UP.0, Kind::Gauge, UP.1);
    to.sample(&[], 1);
    let fields: HashMap<_, _> = fields(server, SECTIONS).into_iter().collect();
    instance(&mut to, server, &fields);
    for row in ROWS {
        if let Some(value) = fields.get(row.field).and_then(|value| number(value)) {
            to.family(row.metric, row.kind, row.help);
            to.sample(&[], value * row.unit);
        }
    }
    commands(&mut to, server);
    errors(&mut to, server);
    databases(&mut to, server);
    slow(&mut to, server);
    memory_parts(&mut to, &fields);
    levels(&mut to, server);
    devices(&mut to, server);
    condition(&mut to, server);
    to.finish()
}

/// A field's number: `ok` and `err` are 1 and 0.
fn number(value: &str) -> Option<f64> {
    match value {
        "ok" => Some(1.0),
        "err" => Some(0.0),
        value => value.parse().ok(),
    }
}

fn instance(to: &mut Writer, server: &Server, fields: &HashMap<Cow<'static, str>, String>) {
    let field = |name| fields.get(name).map_or("", String::as_str);
    to.family("redis_instance_info", Kind::Gauge, "What runs.");
    to.sample(
        &[
            ("role", field("role")),
            ("redis_version", REDIS_VERSION),
            ("sexton_version", field("sexton_version")),
            ("redis_build_id", field("redis_build_id")),
            ("redis_mode", field("redis_mode")),
            ("os", field("os")),
            ("maxmemory_policy", field("maxmemory_policy")),
            ("tcp_port", field("tcp_port")),
            ("run_id", field("run_id")),
            ("process_id", field("process_id")),
        ],
        1,
    );
    to.family("redis_start_time_seconds", Kind::Gauge, "When the process started.");
    to.sample(&[], server.observe.started_s);
}

fn commands(to: &mut Writer, server: &Server) {
    let known: Vec<_> = table::all_with_subcommands()
        .map(|spec| (spec.name, spec.stats.totals(), spec.stats.histogram()))
        .filter(|(_, totals, _)| totals.calls + totals.rejected + totals.failed > 0)
        .collect();
    to.family("redis_commands_total", Kind::Counter, "Executions by command.");
    for (name, totals, _) in &known {
        to.sample(&[("cmd", name)], totals.calls);
    }
    let help = "Time spent in executions by command.";
    to.family("redis_commands_duration_seconds_total", Kind::Counter, help);
    for (name, totals, _) in &known {
        to.sample(&[("cmd", name)], totals.time_us as f64 / 1e6);
    }
    let help = "Requests refused before execution by command.";
    to.family("redis_commands_rejected_calls_total", Kind::Counter, help);
    for (name, totals, _) in &known {
        to.sample(&[("cmd", name)], totals.rejected);
    }
    let help = "Executions that ended with an error by command.";
    to.family("redis_commands_failed_calls_total", Kind::Counter, help);
    for (name, totals, _) in &known {
        to.sample(&[("cmd", name)], totals.failed);
    }
    let percentiles = server.config.options().latency_tracking_percentiles;
    let timed = || known.iter().filter(|(_, _, histogram)| !histogram.is_empty());
    let help = "Percentiles of execution times by command, in microseconds.";
    to.family("redis_latency_percentiles_usec", Kind::Summary, help);
    for (name, totals, histogram) in timed() {
        for percent in &percentiles {
            let labels = [("cmd", *name), ("quantile", &percent.to_string())];
            to.sample(&labels, percentile(histogram, *percent));
        }
        to.part("_sum", &[("cmd", name)], totals.time_us);
        to.part("_count", &[("cmd", name)], totals.calls);
    }
    let help = "Execution times by command.";
    to.family("sexton_command_duration_seconds", Kind::Histogram, help);
    for (name, totals, histogram) in timed() {
        to.histogram(&[("cmd", name)], histogram, totals.time_us, 1e-6);
    }
}

fn errors(to: &mut Writer, server: &Server) {
    to.family("redis_errors_total", Kind::Counter, "Error replies by their first word.");
    for (prefix, count) in server.observe.traffic.errors() {
        to.sample(&[("err", &prefix)], count);
    }
}

fn databases(to: &mut Writer, server: &Server) {
    let counts: Vec<_> = (0..server.databases)
        .map(|db| (format!("db{db}"), server.engine.count_provisional(db)))
        .collect();
    to.family("redis_db_keys", Kind::Gauge, "Keys by database.");
    for (db, (keys, _, _)) in &counts {
        to.sample(&[("db", db)], keys);
    }
    to.family("redis_db_keys_expiring", Kind::Gauge, "Keys with an expiry by database.");
    for (db, (_, expires, _)) in &counts {
        to.sample(&[("db", db)], expires);
    }
    to.family("redis_db_avg_ttl_seconds", Kind::Gauge, "Mean time to live of those in memory.");
    for (number, (db, (_, expires, _))) in counts.iter().enumerate() {
        let mean_ms = mean_time_to_live_ms(server, number, *expires);
        to.sample(&[("db", db)], mean_ms as f64 / 1000.0);
    }
}

fn slow(to: &mut Writer, server: &Server) {
    let slowlog = &server.observe.slowlog;
    let newest = slowlog.newest(1).into_iter().next();
    to.family("redis_slowlog_length", Kind::Gauge, "Entries of SLOWLOG.");
    to.sample(&[], slowlog.len());
    to.family("redis_slowlog_last_id", Kind::Gauge, "Number of its newest entry.");
    to.sample(&[], newest.as_ref().map_or(0, |entry| entry.id));
    let help = "How long the request of its newest entry took.";
    to.family("redis_last_slow_execution_duration_seconds", Kind::Gauge, help);
    to.sample(&[], newest.map_or(0.0, |entry| entry.duration_us as f64 / 1e6));
    let events = server.observe.latency.all();
    let help = "When an event of LATENCY was slow last.";
    to.family("redis_latency_spike_last", Kind::Gauge, help);
    for (event, series) in &events {
        let last = series.samples.back().map_or(0, |sample| sample.time_s);
        to.sample(&[("event_name", event)], last);
    }
    let help = "How long it took then.";
    to.family("redis_latency_spike_duration_seconds", Kind::Gauge, help);
    for (event, series) in &events {
        let last = series.samples.back().map_or(0, |sample| sample.latency_ms);
        to.sample(&[("event_name", event)], last as f64 / 1e3);
    }
    let late = &server.observe.expired_late_ms;
    let help = "How long keys were due before the server deleted them by itself.";
    to.family("sexton_expiry_lateness_seconds", Kind::Histogram, help);
    to.histogram(&[], &late.counts(), late.sum(), 1e-3);
}

fn memory_parts(to: &mut Writer, fields: &HashMap<Cow<'static, str>, String>) {
    let help = "What the process holds by part; the parts add up to sexton_memory_held_bytes.";
    to.family("sexton_memory_part_bytes", Kind::Gauge, help);
    for part in super::page::MEMORY_PARTS {
        if let Some(bytes) = fields.get(*part) {
            to.sample(&[("part", part.trim_start_matches("mem_"))], bytes);
        }
    }
}

fn levels(to: &mut Writer, server: &Server) {
    let stats = server.engine.stats();
    let options = server.config.options();
    let numbers: Vec<_> = (0..stats.levels.len())
        .map(|level| (level.to_string(), crate::devices::of_level(&options, level)))
        .collect();
    to.family("sexton_level_tables", Kind::Gauge, "Tables by level; 0 is the newest.");
    for ((level, device), (tables, _)) in numbers.iter().zip(&stats.levels) {
        to.sample(&[("level", level), ("device", device)], tables);
    }
    to.family("sexton_level_bytes", Kind::Gauge, "Bytes of tables by level; 0 is the newest.");
    for ((level, device), (_, bytes)) in numbers.iter().zip(&stats.levels) {
        to.sample(&[("level", level), ("device", device)], bytes);
    }
    let help = "Misses of the DRAM table by the level that answered.";
    to.family("sexton_dram_misses_from_level_total", Kind::Counter, help);
    for (level, misses) in stats.misses_from_level.iter().enumerate() {
        to.sample(&[("level", &level.to_string())], misses);
    }
}

fn devices(to: &mut Writer, server: &Server) {
    let devices = server.devices.get().map(|storage| storage.devices()).unwrap_or_default();
    let figures: Vec<_> = devices
        .iter()
        .map(|device| {
            let kind = device.kind().map_or("unknown", |kind| kind.name());
            (device.name().to_owned(), kind, device.figures())
        })
        .collect();
    to.family("sexton_device_info", Kind::Gauge, "Devices that files lie on.");
    for (name, kind, _) in &figures {
        to.sample(&[("device", name), ("kind", kind)], 1);
    }
    to.family("sexton_device_read_bytes_total", Kind::Counter, "Bytes read by device.");
    for (name, _, figures) in &figures {
        to.sample(&[("device", name)], figures.read_bytes);
    }
    to.family("sexton_device_written_bytes_total", Kind::Counter, "Bytes written by device.");
    for (name, _, figures) in &figures {
        to.sample(&[("device", name)], figures.written_bytes);
    }
    to.family("sexton_device_errors_total", Kind::Counter, "Failed operations by device.");
    for (name, _, figures) in &figures {
        to.sample(&[("device", name)], figures.errors);
    }
    let help = "Times of operations by device since the start.";
    to.family("sexton_device_operation_seconds", Kind::Summary, help);
    for (name, _, figures) in &figures {
        for (operation, times) in
            [("read", figures.reads), ("write", figures.writes), ("sync", figures.syncs)]
        {
            for (quantile, ns) in [
                ("0.5", times.p50_ns),
                ("0.99", times.p99_ns),
                ("0.999", times.p999_ns),
                ("1", times.max_ns),
            ] {
                let labels =
                    [("device", &**name), ("operation", operation), ("quantile", quantile)];
                to.sample(&labels, ns as f64 / 1e9);
            }
            let labels = [("device", &**name), ("operation", operation)];
            to.part("_sum", &labels, times.total_us as f64 / 1e6);
            to.part("_count", &labels, times.operations);
        }
    }
}

/// The state reported by `/ready`, as figures.
fn condition(to: &mut Writer, server: &Server) {
    let refused = server.engine.write_refusal().is_some() || server.saving.refuses_writes();
    to.family("sexton_writes_refused", Kind::Gauge, "Whether writes are answered with MISCONF.");
    to.sample(&[], u8::from(refused));
    let error = server.engine.stats().background_error;
    let help = "Whether a background thread of the store has failed.";
    to.family("sexton_background_error", Kind::Gauge, help);
    to.sample(&[], u8::from(error.is_some()));
    let ready = super::readiness::obstacles(Some(server)).is_empty();
    to.family("sexton_ready", Kind::Gauge, "Whether /ready answers 200.");
    to.sample(&[], u8::from(ready));
}

#[cfg(test)]
mod tests {
    use super::*;
    use sexton_engine::Engine;
    use std::collections::HashSet;

    fn server() -> Server {
        Server::new(Engine::in_memory(2).expect("a store in memory opens"), 2)
    }

    #[test]
    fn every_number_of_the_store_is_a_metric() {
        let server = server();
        let named: HashSet<&str> = ROWS.iter().map(|row| row.field).collect();
        let missing: Vec<String> = fields(&server, &["flsm"])
            .into_iter()
            .filter(|(name, value)| value.parse::<f64>().is_ok() && !named.contains(&**name))
            .map(|(name, _)| name.into_owned())
            .filter(|name| !name.starts_with("flsm_dram_misses_from_level"))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_row_has_its_field_and_every_family_stands_once() {
        let server = server();
        let known: HashSet<_> =
            fields(&server, SECTIONS).into_iter().map(|(name, _)| name).collect();
        // Omitted without a log and without persistent memory.
        let optional = |field: &str| field.starts_with("wbl_") || field.starts_with("aof_");
        for row in ROWS {
            assert!(known.contains(row.field) || optional(row.field), "{}", row.field);
        }
        let text = of(&server);
        let mut seen = HashSet::new();
        for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
            assert!(seen.insert(line), "{line} twice");
        }
        assert!(text.contains("\nredis_db_keys{db=\"db1\"} 0\n"), "{text}");
        assert!(text.contains("\nsexton_ready 1\n"), "{text}");
        assert!(without_store().ends_with("redis_up 0\n"));
    }
}
