//! `oom-score-adj`: how likely the kernel is to kill this process when memory runs out.

use crate::log;
use crate::number::parse_i64;
use parking_lot::Mutex;
use std::path::Path;

const FILE: &str = "/proc/self/oom_score_adj";

/// What the kernel takes.
const SCORES: std::ops::RangeInclusive<i64> = -1000..=1000;

/// What CONFIG SET answers, as in Redis.
const FAILED: &str = "Failed to apply new oom_score_adj configuration, check server logs.";

/// The original score of the process, to be restored; `None` while it is unchanged.
#[derive(Debug, Default)]
pub struct OomScore {
    before: Mutex<Option<i64>>,
}

impl OomScore {
    /// Sets the score according to `oom-score-adj` and the first of `oom-score-adj-values`. The other values are those of
    /// replicas and of forked children, which do not exist.
    ///
    /// # Errors
    /// Redis' text; the log has the reason.
    pub fn apply(&self, mode: &[u8], values: &[u8]) -> Result<(), String> {
        self.apply_in(Path::new(FILE), mode, values)
    }

    fn apply_in(&self, file: &Path, mode: &[u8], values: &[u8]) -> Result<(), String> {
        let mut before = self.before.lock();
        if mode == b"no" {
            let Some(score) = *before else { return Ok(()) };
            write(file, score)?;
            *before = None;
            return Ok(());
        }
        let found = match *before {
            Some(score) => score,
            None => read(file)?,
        };
        let wanted = values.split(|&byte| byte == b' ').next().and_then(parse_i64).unwrap_or(0);
        let wanted = if mode == b"absolute" { wanted } else { found + wanted };
        write(file, wanted.clamp(*SCORES.start(), *SCORES.end()))?;
        *before = Some(found);
        Ok(())
    }
}

fn failed(error: &dyn std::fmt::Display) -> String {
    log::warning(&format!("Unable to change oom_score_adj: {error}"));
    FAILED.to_owned()
}

fn read(file: &Path) -> Result<i64, String> {
    let text = std::fs::read(file).map_err(|error| failed(&error))?;
    parse_i64(text.trim_ascii()).ok_or_else(|| failed(&"it is no number"))
}

fn write(file: &Path, score: i64) -> Result<(), String> {
    std::fs::write(file, score.to_string()).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_comes_back_when_it_is_left_alone_again() {
        let file = std::env::temp_dir().join(format!("sexton-oom-score-{}", std::process::id()));
        let score = OomScore::default();
        let now = || read(&file).expect("a number");
        write(&file, 22).expect("a file");
        for (mode, values, expected) in [
            (&b"no"[..], &b"9 9 9"[..], 22),
            (b"yes", b"9 10 11", 31),
            (b"yes", b"15 10 11", 37),
            (b"absolute", b"9 9 9", 9),
            (b"relative", b"2000 9 9", 1000),
            (b"no", b"9 9 9", 22),
        ] {
            score.apply_in(&file, mode, values).expect("applied");
            assert_eq!(now(), expected, "{}", mode.escape_ascii());
        }
        std::fs::remove_file(&file).expect("removed");
        assert_eq!(score.apply_in(&file, b"yes", b"1 1 1"), Err(FAILED.to_owned()));
        assert_eq!(score.apply_in(&file, b"no", b"1 1 1"), Ok(()));
    }
}
