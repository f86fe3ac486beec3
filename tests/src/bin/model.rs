//! Long runs of the model (`make model`), and replays of single histories.

use sexton_tests::model::history::{self, Emphasis, Found, Seen};
use sexton_tests::model::{Rule, Rules};
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

const USAGE: &str = "\
usage: model [--histories N] [--limit N] [--seed N] [--first N] [--rule NAME] [--snapshots long]
  without options    all rules on for 100000 histories, then each rule off until it is caught
  --histories N      so many histories with all rules on (0: none)
  --limit N          give a switch up after N histories (default 1000000)
  --first N          first seed of the histories with all rules on
  --snapshots long   snapshots stay open for long, over undo runs; without --rule only the histories with
                     all rules on
  --rule NAME        only with this rule off; with --seed in the traced history
  --seed N           replay one history, with a line for each step";

/// Histories that a thread takes at a time.
const CHUNK: u64 = 64;

/// Violations after which a run with all rules on ends.
const ENOUGH: usize = 20;

struct Arguments {
    histories: u64,
    limit: u64,
    first: u64,
    seed: Option<u64>,
    rule: Option<Rule>,
    emphasis: Emphasis,
}

fn parse() -> Result<Arguments, String> {
    let mut arguments = Arguments {
        histories: 100_000,
        limit: 1_000_000,
        first: 0,
        seed: None,
        rule: None,
        emphasis: Emphasis::None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--help" {
            return Err(String::new());
        }
        let value = words.next().ok_or_else(|| format!("{word} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|error| format!("{word} {value}: {error}"));
        match word.as_str() {
            "--histories" => arguments.histories = number()?,
            "--limit" => arguments.limit = number()?,
            "--first" => arguments.first = number()?,
            "--seed" => arguments.seed = Some(number()?),
            "--rule" => arguments.rule = Some(value.parse()?),
            "--snapshots" if value == "long" => arguments.emphasis = Emphasis::LongSnapshots,
            _ => return Err(format!("{word}: unknown option")),
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    let arguments = match parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let emphasis = arguments.emphasis;
    let good = match (arguments.seed, arguments.rule) {
        (Some(seed), off) => replay(seed, Rules { off }, emphasis),
        (None, Some(rule)) => break_rules(&[rule], arguments.limit, emphasis),
        (None, None) => {
            let kept = keep_rules(arguments.first, arguments.histories, emphasis);
            let breaks = emphasis == Emphasis::None;
            (!breaks || break_rules(Rule::ALL, arguments.limit, emphasis)) && kept
        }
    };
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// One history, step by step.
fn replay(seed: u64, rules: Rules, emphasis: Emphasis) -> bool {
    let result = history::run(seed, rules, emphasis, Some(&mut |line| println!("{line}")));
    match &result {
        Ok(_) => println!("seed {seed}: no violation"),
        Err(violation) => println!("seed {seed}: {violation}"),
    }
    result.is_ok()
}

/// All rules on: no history may violate the specification.
fn keep_rules(first: u64, histories: u64, emphasis: Emphasis) -> bool {
    let begun = Instant::now();
    let (found, seen) = search(first, histories, Rules::default(), emphasis, ENOUGH);
    for one in &found {
        println!("seed {}: {}", one.seed, one.violation);
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!("all rules: {} violations in {histories} histories, {seconds:.0} s", found.len());
    let percent = |part: u64| 100.0 * part as f64 / seen.steps.max(1) as f64;
    println!(
        "a snapshot or iterator was open after {:.0} % of the steps (for {} at most), an undo run was there \
         after {:.0} %; {} crashes",
        percent(seen.with_reader),
        seen.longest_reader,
        percent(seen.with_undo_run),
        seen.crashes
    );
    found.is_empty()
}

/// Each rule off: prints after how many histories that shows.
fn break_rules(rules: &[Rule], limit: u64, emphasis: Emphasis) -> bool {
    println!("\n{:>10}  {:22}  what it says", "histories", "rule off");
    let mut all_caught = true;
    for &rule in rules {
        let (found, _) = search(0, limit, Rules { off: Some(rule) }, emphasis, 1);
        match found.iter().map(|found| found.seed).min() {
            Some(seed) => println!("{:>10}  {:22}  {}", seed + 1, rule.to_string(), rule.text()),
            None => {
                all_caught = false;
                println!(
                    "{:>10}  {:22}  NOT CAUGHT in {limit}: {}",
                    "-",
                    rule.to_string(),
                    rule.text()
                );
            }
        }
    }
    all_caught
}

/// Searches on all cores until `enough` violations are found; in the order of seeds. With what the histories
/// without one went through.
fn search(
    first: u64,
    histories: u64,
    rules: Rules,
    emphasis: Emphasis,
    enough: usize,
) -> (Vec<Found>, Seen) {
    let end = first.saturating_add(histories);
    let next = AtomicU64::new(first);
    let found = Mutex::new(Vec::new());
    let seen = Mutex::new(Seen::default());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let shown = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let from = next.fetch_add(CHUNK, Ordering::Relaxed);
                    let all = found.lock().unwrap_or_else(PoisonError::into_inner).len();
                    if from >= end || all >= enough {
                        break;
                    }
                    show_progress(from - first, histories, &shown);
                    for seed in from..end.min(from + CHUNK) {
                        let violation = match history::run(seed, rules, emphasis, None) {
                            Ok(one) => {
                                seen.lock().unwrap_or_else(PoisonError::into_inner).add(one);
                                continue;
                            }
                            Err(violation) => violation,
                        };
                        let one = Found { seed, violation };
                        found.lock().unwrap_or_else(PoisonError::into_inner).push(one);
                        if enough == 1 {
                            break;
                        }
                    }
                }
            });
        }
    });
    eprint!("\r{:40}\r", "");
    let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.sort_by_key(|one| one.seed);
    (found, seen.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// A line on the terminal at each percent.
fn show_progress(done: u64, of: u64, shown: &AtomicU64) {
    let percent = done * 100 / of.max(1);
    if shown.swap(percent, Ordering::Relaxed) != percent {
        eprint!("\r{percent:3} %, {done} of {of} histories");
        let _ = std::io::stderr().flush();
    }
}
