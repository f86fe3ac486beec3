//! The files of the repository, as these tests read them.

use std::path::{Path, PathBuf};

/// Folders whose files are read; files at the top are added.
const FOLDERS: &[&str] = &[
    ".ci",
    "config",
    "docker",
    "docs",
    "engine",
    "fuzz",
    "persistence",
    "scripts",
    "server",
    "tests",
];

/// Folders that builds and tools make.
const MADE: &[&str] = &["target", "node_modules", "__pycache__", "corpus", "artifacts", ".venv"];

/// One text file.
pub(crate) struct File {
    /// Its path from the top of the repository, with `/`.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) text: String,
}

impl File {
    /// True for a path that ends so.
    pub(crate) fn is(&self, ending: &str) -> bool {
        self.path.ends_with(ending)
    }

    /// Its lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }
}

/// The top of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_path_buf()
}

/// All text files, in the order of their paths.
pub(crate) fn all() -> Vec<File> {
    let root = root();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&root).expect("readable") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            found.push(path);
        }
    }
    for folder in FOLDERS {
        collect(&root.join(folder), &mut found);
    }
    found.sort();
    let mut files = Vec::new();
    for path in found {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let path = path.strip_prefix(&root).expect("below the top").to_string_lossy().into_owned();
        files.push(File { path, text });
    }
    assert!(files.len() > 500, "only {} files were found below {}", files.len(), root.display());
    files
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    for entry in entries {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        let path = entry.path();
        if !path.is_dir() {
            found.push(path);
        } else if !MADE.contains(&name.to_string_lossy().as_ref()) {
            collect(&path, found);
        }
    }
}

/// The comment of a line of Rust, Python, shell or configuration, and all of a line of Markdown.
pub(crate) fn comment<'a>(file: &File, line: &'a str) -> &'a str {
    let mark = if file.is(".md") {
        return line;
    } else if file.is(".rs") {
        "//"
    } else {
        "#"
    };
    line.find(mark).map_or("", |at| &line[at..])
}

/// The pieces of a line between backticks.
pub(crate) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
