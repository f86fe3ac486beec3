//! The command line: `[FILE|-] [--directive value ...] [-]`, with the rules of redis-server 7.0.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::syntax::{quote, split_words};

/// What the command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invocation {
    /// Serve with this configuration.
    Serve(Arguments),
    /// `-v` or `--version`: print one line and end with status 0.
    Version,
    /// `-h` or `--help`: print the usage to standard error and end with status 1, as Redis does.
    Help,
}

/// The sources of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The file of the first argument; a relative path starts at the working directory.
    pub file: Option<PathBuf>,
    /// Whether standard input is read after the file.
    pub stdin: bool,
    /// The `--directive value` arguments as configuration lines; they follow the file, so that
    /// they win. `None` without any argument.
    pub lines: Option<Vec<u8>>,
}

impl Invocation {
    /// Reads the arguments without the program's name.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Invocation {
        let args: Vec<Vec<u8>> = args.into_iter().map(OsString::into_vec).collect();
        match args.first().map(Vec::as_slice) {
            None => Invocation::Serve(Arguments::default()),
            Some(b"-v" | b"--version") => Invocation::Version,
            Some(b"-h" | b"--help") => Invocation::Help,
            Some(_) => Invocation::Serve(Arguments::parse(&args)),
        }
    }
}

impl Arguments {
    fn parse(args: &[Vec<u8>]) -> Arguments {
        let (mut arguments, mut lines) = (Arguments::default(), Vec::new());
        let last = args.len() - 1;
        // Whether the last directive has a value; until then even `--x` is its value.
        let mut complete = true;
        for (at, arg) in args.iter().enumerate() {
            if at == 0 && !arg.starts_with(b"-") {
                arguments.file = Some(PathBuf::from(std::ffi::OsStr::from_bytes(arg)));
            } else if arg == b"-" && (at == 0 || at == last) {
                arguments.stdin = true;
            } else if let Some(name) = arg.strip_prefix(b"--").filter(|_| complete) {
                if !lines.is_empty() {
                    lines.push(b'\n');
                }
                lines.extend_from_slice(name);
                lines.push(b' ');
                // `--port 7000` in one argument brings its value along.
                complete = !split_words(arg).is_ok_and(|words| words.len() == 1);
                let next_is_name = args.get(at + 1).is_none_or(|next| next.starts_with(b"--"));
                if arg.eq_ignore_ascii_case(b"--save") && next_is_name {
                    lines.extend_from_slice(b"\"\"");
                    complete = true;
                }
            } else {
                lines.extend_from_slice(&quote(arg));
                lines.push(b' ');
                complete = true;
            }
        }
        arguments.lines = Some(lines);
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Arguments {
        match Invocation::parse(args.iter().map(OsString::from)) {
            Invocation::Serve(arguments) => arguments,
            other => panic!("{args:?} gives {other:?}"),
        }
    }

    fn lines(args: &[&str]) -> String {
        String::from_utf8(parse(args).lines.unwrap()).unwrap()
    }

    #[test]
    fn values_are_quoted_and_lines_separate_directives() {
        for (args, expected) in [
            (&["--port", "7000", "--bind", "a", "b"][..], "port \"7000\" \nbind \"a\" \"b\" "),
            (&["--port 7000", "--foo", "1"], "port 7000 \nfoo \"1\" "),
            (&["--requirepass", "--x", "--foo", "1"], "requirepass \"--x\" \nfoo \"1\" "),
            (&["--save", "--foo", "1"], "save \"\"\nfoo \"1\" "),
            (&["--foo", "1", "--save"], "foo \"1\" \nsave \"\""),
            (&["-x"], "\"-x\" "),
            (&["--port", "1", "-", "--hz", "2"], "port \"1\" \"-\" \nhz \"2\" "),
        ] {
            assert_eq!(lines(args), expected, "{args:?}");
        }
    }

    #[test]
    fn file_and_standard_input() {
        let both = parse(&["a.conf", "--hz", "2", "-"]);
        assert_eq!(both.file, Some(PathBuf::from("a.conf")));
        assert!(both.stdin);
        assert_eq!(both.lines.as_deref(), Some(&b"hz \"2\" "[..]));
        let input = parse(&["-", "--hz", "2"]);
        assert!(input.stdin && input.file.is_none());
        assert_eq!(parse(&[]), Arguments::default());
    }

    #[test]
    fn version_and_help_count_as_first_argument_only() {
        let parse = |args: &[&str]| Invocation::parse(args.iter().map(OsString::from));
        assert_eq!(parse(&["-v"]), Invocation::Version);
        assert_eq!(parse(&["--help", "x"]), Invocation::Help);
        assert!(matches!(parse(&["a.conf", "--version"]), Invocation::Serve(_)));
    }
}
