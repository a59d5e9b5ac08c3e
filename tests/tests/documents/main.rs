//! What the documents promise, against the sources.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod glossary;
mod limits;
mod security;

use std::fs;
use std::path::Path;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All Rust sources below a directory, in one text.
fn sources(dir: &Path) -> String {
    let mut all = String::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            all.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push_str(&fs::read_to_string(path).unwrap());
        }
    }
    all
}

/// The words between backquotes.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
