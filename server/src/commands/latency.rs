//! LATENCY: slow events, and how long commands take.

use super::introspect::help;
use crate::commands::table;
use crate::dispatch::{Binding, CommandError, CommandResult, CommandSpec, Ctx};

/// LATENCY and its subcommands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("latency"),
    Binding::local("latency|doctor", doctor),
    Binding::local("latency|graph", graph),
    Binding::local("latency|help", help),
    Binding::local("latency|histogram", histogram),
    Binding::local("latency|history", history),
    Binding::local("latency|latest", latest),
    Binding::local("latency|reset", reset),
];

const DISABLED: &str = "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this \
    Redis instance. You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order \
    to enable it. If we weren't in a deep space mission I'd suggest to take a look at \
    https://redis.io/topics/latency-monitor.\n";

const NO_SPIKE: &str = "Dave, no latency spike was observed during the lifetime of this Redis \
    instance, not in the slightest bit. I honestly think you ought to sit down calmly, take a \
    stress pill, and think things over.\n";

fn latest(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let all = ctx.server.observe.latency.all();
    ctx.out.array(all.len());
    for (event, series) in all {
        let last = series.samples.back();
        ctx.out.array(4);
        ctx.out.bulk(event.as_bytes());
        ctx.out.int(last.map_or(0, |sample| sample.time_s as i64));
        ctx.out.int(last.map_or(0, |sample| sample.latency_ms as i64));
        ctx.out.int(series.max_ms as i64);
    }
    Ok(())
}

fn history(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let series = ctx.server.observe.latency.series(ctx.args.get(2));
    let samples = series.map(|(_, series)| series.samples).unwrap_or_default();
    ctx.out.array(samples.len());
    for sample in samples {
        ctx.out.array(2);
        ctx.out.int(sample.time_s as i64);
        ctx.out.int(sample.latency_ms as i64);
    }
    Ok(())
}

fn reset(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let monitor = &ctx.server.observe.latency;
    let forgotten = if ctx.args.len() == 2 {
        monitor.reset(None)
    } else {
        ctx.args.from(2).map(|event| monitor.reset(Some(event))).sum()
    };
    ctx.out.int(forgotten as i64);
    Ok(())
}

/// A bar for each sample, as high as it is slow.
fn graph(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    const LEVELS: [&str; 4] = ["_", "o", "O", "#"];
    let wanted = ctx.args.get(2);
    let Some((event, series)) = ctx.server.observe.latency.series(wanted) else {
        let wanted = String::from_utf8_lossy(wanted);
        return Err(CommandError::from(format!("ERR No samples available for event '{wanted}'")));
    };
    let latencies = || series.samples.iter().map(|sample| sample.latency_ms);
    let high = latencies().max().unwrap_or(0);
    let low = latencies().min().unwrap_or(0);
    let bars: String = latencies()
        .map(|latency| LEVELS[((latency - low) * 3).checked_div(high - low).unwrap_or(0) as usize])
        .collect();
    let rule = "-".repeat(80);
    let text = format!(
        "{event} - high {high} ms, low {low} ms (all time high {} ms)\n{rule}\n{bars}\n",
        series.max_ms
    );
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

fn doctor(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let monitor = &ctx.server.observe.latency;
    let all = monitor.all();
    let text = if !all.is_empty() {
        let mut text = String::from(
            "Dave, I have observed latency spikes in this Redis instance. You don't mind talking \
             about it, do you Dave?\n\n",
        );
        for (nth, (event, series)) in all.iter().enumerate() {
            let count = series.samples.len().max(1) as u64;
            let mean = series.samples.iter().map(|s| s.latency_ms).sum::<u64>() / count;
            text.push_str(&format!(
                "{}. {event}: {} latency spikes (average {mean}ms). Worst all time event {}ms.\n",
                nth + 1,
                series.samples.len(),
                series.max_ms
            ));
        }
        text
    } else if monitor.threshold_ms() == 0 {
        DISABLED.to_owned()
    } else {
        NO_SPIKE.to_owned()
    };
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

/// `LATENCY HISTOGRAM [command ...]`: cumulative counts at powers of two of a microsecond.
fn histogram(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let called = |spec: &&CommandSpec| !spec.stats.histogram().is_empty();
    let specs: Vec<&CommandSpec> = if ctx.args.len() == 2 {
        table::all_with_subcommands().filter(called).collect()
    } else {
        // A container represents all its subcommands.
        ctx.args
            .from(2)
            .filter_map(table::find_full)
            .flat_map(|spec| std::iter::once(spec).chain(&spec.subcommands))
            .filter(called)
            .collect()
    };
    ctx.out.map(specs.len());
    for spec in specs {
        let buckets = cumulative(&spec.stats.histogram());
        ctx.out.bulk(spec.name.as_bytes());
        ctx.out.map(2);
        ctx.out.bulk(b"calls");
        ctx.out.int(buckets.last().map_or(0, |bucket| bucket.1 as i64));
        ctx.out.bulk(b"histogram_usec");
        ctx.out.map(buckets.len());
        for (bound, count) in buckets {
            ctx.out.int(bound as i64);
            ctx.out.int(count as i64);
        }
    }
    Ok(())
}

/// Sums a histogram up at powers of two; a step without new counts is left out.
fn cumulative(histogram: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut steps: Vec<(u64, u64)> = Vec::new();
    let mut sum = 0;
    for (bound, count) in histogram {
        sum += count;
        let step = bound.max(&1).next_power_of_two();
        match steps.last_mut() {
            Some(last) if last.0 == step => last.1 = sum,
            _ => steps.push((step, sum)),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histogram_is_cumulative_at_powers_of_two() {
        assert_eq!(
            cumulative(&[(0, 2), (1, 1), (3, 1), (4, 4), (900, 1)]),
            [(1, 3), (4, 8), (1024, 9)]
        );
        assert!(cumulative(&[]).is_empty());
    }
}
