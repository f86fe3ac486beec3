//! The devices in INFO.

use sexton_persistence::device::{Device, Latency};

/// Fields of one device, each with its value.
pub(crate) fn lines(number: usize, device: &Device) -> Vec<(String, String)> {
    let figures = device.figures();
    let latency = |kind: &Latency| {
        let us = |ns: u64| ns as f64 / 1000.0;
        format!(
            "operations={},total_us={},p50_us={:.1},p99_us={:.1},p99.9_us={:.1},max_us={:.1}",
            kind.operations,
            kind.total_us,
            us(kind.p50_ns),
            us(kind.p99_ns),
            us(kind.p999_ns),
            us(kind.max_ns)
        )
    };
    let head = format!(
        "name={},kind={},path={},emulated={},mapped={},read_bytes={},written_bytes={},errors={}",
        device.name(),
        device.kind().map_or("unknown", |kind| kind.name()),
        device.dir().display(),
        device.emulated().unwrap_or("no"),
        device.mapped().unwrap_or("no"),
        figures.read_bytes,
        figures.written_bytes,
        figures.errors
    );
    let emulated = device.emulated().map_or("", |_| ",emulated=yes");
    vec![
        (format!("device{number}"), head),
        (format!("device{number}_reads"), latency(&figures.reads) + emulated),
        (format!("device{number}_writes"), latency(&figures.writes) + emulated),
        (format!("device{number}_syncs"), latency(&figures.syncs) + emulated),
    ]
}
