//! The command line. Its man page and the completion of shells are made from it, too.

use crate::copy::copy_store;
use crate::time::parse_time;
use clap::{CommandFactory, Parser};
use sexton_engine::check::CheckOptions;
use sexton_persistence::device::DiskStorage;
use std::path::PathBuf;
use std::sync::Arc;

/// Verifies a data directory, and restores one to a second.
///
/// Reads every table, the manifest, the cemetery checkpoint, and the log or the memtables in persistent memory behind the recovery
/// mark, and says what is wrong and where. Changes nothing unless told to. The server must not be running on the directory.
///
/// Exit code: 0 nothing is wrong, 1 something is, 2 it could not be checked.
#[derive(Debug, Parser)]
#[command(name = "sexton-check", version, max_term_width = 110)]
pub(crate) struct Arguments {
    /// The data directory.
    #[arg(value_name = "DIR", required_unless_present_any = ["man", "completion"])]
    dir: Option<PathBuf>,
    /// Make DIR first, as a copy of this backup or checkpoint; DIR must not exist, or be empty.
    #[arg(long, value_name = "BACKUP")]
    restore_from: Option<PathBuf>,
    /// Cut the log behind the last write of this second: YYYY-MM-DDTHH:MM:SSZ (UTC), or seconds since 1970. The log must
    /// have been written with aof-timestamp-enabled yes.
    #[arg(long, value_name = "TIME", value_parser = parse_time, visible_alias = "truncate-to-timestamp", conflicts_with = "truncate_log")]
    restore_to: Option<u64>,
    /// Put the log of a checkpoint together first, from this appendonlydir or aof-archive-dir; may be given several times.
    #[arg(long, value_name = "LOGDIR")]
    with_log: Vec<PathBuf>,
    /// Cut the log where it can no longer be read, even if what follows was acknowledged.
    #[arg(long)]
    truncate_log: bool,
    /// Make the tree anew from its tables when the manifest is lost or damaged; the old one is kept as tree.damaged.
    #[arg(long)]
    rebuild_manifest: bool,
    /// As in the server's configuration (16), for --rebuild-manifest without any manifest.
    #[arg(long, value_name = "N")]
    databases: Option<usize>,
    /// As in the server's configuration (appendonlydir).
    #[arg(long, value_name = "NAME")]
    appenddirname: Option<String>,
    /// As in the server's configuration (appendonly.aof).
    #[arg(long, value_name = "NAME")]
    appendfilename: Option<String>,
    /// No progress.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print the man page.
    #[arg(long, hide = true)]
    man: bool,
    /// Print the completion of this shell.
    #[arg(long, hide = true, value_name = "SHELL")]
    completion: Option<clap_complete::Shell>,
}

impl Arguments {
    /// The page that was asked for in place of a check.
    pub(crate) fn page(&self) -> Option<String> {
        let mut page = Vec::new();
        if self.man {
            // A vector takes everything.
            let _ = clap_mangen::Man::new(Self::command()).render(&mut page);
        } else {
            clap_complete::generate(
                self.completion?,
                &mut Self::command(),
                "sexton-check",
                &mut page,
            );
        }
        Some(String::from_utf8_lossy(&page).into_owned())
    }

    /// What is to be checked; the directory is made first where that is asked for.
    pub(crate) fn options(&self) -> Result<CheckOptions, String> {
        let dir = self.dir.clone().ok_or("no directory given")?;
        if let Some(from) = &self.restore_from {
            copy_store(from, &dir)?;
        }
        let mut options = CheckOptions::new(Arc::new(DiskStorage), dir);
        options.truncate_log = self.truncate_log;
        options.truncate_to_s = self.restore_to;
        options.rebuild_manifest = self.rebuild_manifest;
        options.log_sources.clone_from(&self.with_log);
        if let Some(databases) = self.databases {
            options.databases = databases;
        }
        if let Some(name) = &self.appenddirname {
            options.log_dir_name.clone_from(name);
        }
        if let Some(name) = &self.appendfilename {
            options.log_file_name.clone_from(name);
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_old_name_of_a_flag_is_taken() {
        let parsed = Arguments::parse_from(["sexton-check", "--truncate-to-timestamp", "7", "d"]);
        assert_eq!((parsed.restore_to, parsed.dir), (Some(7), Some("d".into())));
        let both = ["sexton-check", "--truncate-log", "--restore-to", "7", "d"];
        assert!(Arguments::try_parse_from(both).is_err());
        assert!(Arguments::try_parse_from(["sexton-check"]).is_err());
        assert!(Arguments::parse_from(["sexton-check", "--man"]).page().is_some());
    }
}
