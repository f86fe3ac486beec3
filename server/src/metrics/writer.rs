//! The Prometheus text format.

use std::fmt::{Display, Write as _};

/// What a figure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A value that only grows, except for a restart and CONFIG RESETSTAT.
    Counter,
    /// A value that can increase and decrease.
    Gauge,
    /// Counts of values up to bounds.
    Histogram,
    /// Percentiles.
    Summary,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// Text as it grows, family by family.
#[derive(Default)]
pub(super) struct Writer {
    text: String,
    family: String,
}

impl Writer {
    /// What follows are samples of this family.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) {
        name.clone_into(&mut self.family);
        // Writing to a string cannot fail.
        let _ = write!(self.text, "# HELP {name} {help}\n# TYPE {name} {}\n", kind.name());
    }

    /// A sample of the family.
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.part("", labels, value);
    }

    /// A sample of a part of the family: `_bucket`, `_sum`, `_count`.
    pub(super) fn part(&mut self, suffix: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(&self.family);
        self.text.push_str(suffix);
        for (nth, (name, label)) in labels.iter().enumerate() {
            self.text.push(if nth == 0 { '{' } else { ',' });
            self.text.push_str(name);
            self.text.push_str("=\"");
            for c in label.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }

    /// A histogram of the family from (upper bound, count): `unit` turns a bound into seconds.
    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        counts: &[(u64, u64)],
        sum: u64,
        unit: f64,
    ) {
        let mut bucket = |bound: &str, total: u64| {
            let with_bound: Vec<_> = labels.iter().copied().chain([("le", bound)]).collect();
            self.part("_bucket", &with_bound, total);
        };
        let (mut total, mut rest) = (0, counts.iter().peekable());
        // Each power of two: what is less than it.
        for power in 1..=POWERS {
            let bound = 1_u64 << power;
            while let Some((_, count)) = rest.next_if(|(upper, _)| *upper < bound) {
                total += count;
            }
            bucket(&(bound as f64 * unit).to_string(), total);
        }
        total += rest.map(|(_, count)| count).sum::<u64>();
        bucket("+Inf", total);
        self.part("_sum", labels, sum as f64 * unit);
        self.part("_count", labels, total);
    }

    pub(super) fn finish(self) -> String {
        self.text
    }
}

/// Bounds of a histogram: the powers of two up to half a minute of microseconds.
const POWERS: u32 = 25;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_escaped_labels() {
        let mut writer = Writer::default();
        writer.family("a_total", Kind::Counter, "What it is.");
        writer.sample(&[("x", "1\"\\\n"), ("y", "")], 0.5);
        let text = "# HELP a_total What it is.\n# TYPE a_total counter\na_total{x=\"1\\\"\\\\\\n\",y=\"\"} 0.5\n";
        assert_eq!(writer.finish(), text);
    }

    #[test]
    fn buckets_add_up() {
        let mut writer = Writer::default();
        writer.family("h", Kind::Histogram, "");
        writer.histogram(&[("a", "b")], &[(1, 5), (2, 1), (1 << 40, 2)], 77, 1e-6);
        let text = writer.finish();
        for line in [
            "h_bucket{a=\"b\",le=\"0.000002\"} 5",
            "h_bucket{a=\"b\",le=\"0.000004\"} 6",
            "h_bucket{a=\"b\",le=\"33.554432\"} 6",
            "h_bucket{a=\"b\",le=\"+Inf\"} 8",
            "h_sum{a=\"b\"} 0.000077",
            "h_count{a=\"b\"} 8",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
