//! The `--json` file.

use crate::stats::Outcome;
use std::fmt::Write;

/// Percentiles of the file, with their names in it.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p75", 75.0), ("p99", 99.0), ("p99_9", 99.9), ("p99_99", 99.99)];

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A number as JSON has them: not a NaN, not infinite.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:.6}") } else { "null".to_owned() }
}

fn result(outcome: &Outcome) -> String {
    let mut fields = vec![
        format!("\"name\": {}", quoted(&outcome.name)),
        format!("\"threads\": {}", outcome.threads),
        format!("\"operations\": {}", outcome.done),
        format!("\"seconds\": {}", number(outcome.seconds)),
        format!("\"micros_per_op\": {}", number(outcome.micros_per_op())),
        format!("\"ops_per_sec\": {}", number(outcome.ops_per_second())),
        format!("\"cpu_us_per_op\": {}", number(outcome.cpu_us_per_op())),
        format!("\"mb_per_sec\": {}", number(outcome.megabytes_per_second())),
    ];
    if outcome.asked > 0 {
        fields.push(format!("\"found\": {}", outcome.found));
        fields.push(format!("\"asked\": {}", outcome.asked));
    }
    if !outcome.histogram.is_empty() {
        let histogram = &outcome.histogram;
        let mut parts = vec![format!("\"average\": {}", number(histogram.average_us()))];
        for (name, percent) in PERCENTILES {
            parts.push(format!("\"{name}\": {}", number(histogram.percentile_us(percent))));
        }
        parts.push(format!("\"max\": {}", number(histogram.max_us())));
        fields.push(format!("\"latency_us\": {{{}}}", parts.join(", ")));
    }
    if !outcome.figures.is_empty() {
        let parts =
            outcome.figures.iter().map(|(name, v)| format!("{}: {}", quoted(name), number(*v)));
        fields.push(format!("\"figures\": {{{}}}", parts.collect::<Vec<_>>().join(", ")));
    }
    format!("    {{{}}}", fields.join(", "))
}

/// The whole file: the flags as given, and one object a benchmark.
pub(crate) fn document(flags: &[(String, String)], outcomes: &[Outcome]) -> String {
    let flags = flags.iter().map(|(name, v)| format!("    {}: {}", quoted(name), quoted(v)));
    let results: Vec<String> = outcomes.iter().map(result).collect();
    format!(
        "{{\n  \"flags\": {{\n{}\n  }},\n  \"results\": [\n{}\n  ]\n}}\n",
        flags.collect::<Vec<_>>().join(",\n"),
        results.join(",\n")
    )
}
