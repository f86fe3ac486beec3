//! The `--json` file.

use crate::stats::Outcome;
use serde_json::{Map, Value, json};

/// Percentiles of the file, with their names in it.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p75", 75.0), ("p99", 99.0), ("p99_9", 99.9), ("p99_99", 99.99)];

/// One benchmark. Numbers that JSON does not have (NaN, infinity) become null.
fn result(outcome: &Outcome) -> Value {
    let mut fields = json!({
        "name": outcome.name,
        "threads": outcome.threads,
        "operations": outcome.done,
        "seconds": outcome.seconds,
        "micros_per_op": outcome.micros_per_op(),
        "ops_per_sec": outcome.ops_per_second(),
        "cpu_us_per_op": outcome.cpu_us_per_op(),
        "mb_per_sec": outcome.megabytes_per_second(),
    });
    if outcome.asked > 0 {
        fields["found"] = json!(outcome.found);
        fields["asked"] = json!(outcome.asked);
    }
    let histogram = &outcome.histogram;
    if !histogram.is_empty() {
        let mut latency = json!({ "average": histogram.average_us(), "max": histogram.max_us() });
        for (name, percent) in PERCENTILES {
            latency[name] = json!(histogram.percentile_us(percent));
        }
        fields["latency_us"] = latency;
    }
    if !outcome.figures.is_empty() {
        let figures = outcome.figures.iter().map(|(name, value)| (name.clone(), json!(value)));
        fields["figures"] = figures.collect::<Map<_, _>>().into();
    }
    fields
}

/// The whole file: the flags as given, and one object a benchmark.
pub(crate) fn document(flags: &[(String, String)], outcomes: &[Outcome]) -> String {
    let flags: Map<String, Value> =
        flags.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    let results: Vec<Value> = outcomes.iter().map(result).collect();
    format!("{:#}\n", json!({ "flags": flags, "results": results }))
}
