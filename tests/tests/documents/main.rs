//! What the documents promise, against the sources.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

mod clocks;
mod columns;
mod coverage;
mod errors;
mod features;
mod glossary;
mod layers;
mod limits;
mod pages;
mod readme;
mod routes;
mod rules;
mod security;
mod test_code;
mod type_names;
mod wires;

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All files below a directory in a fixed order, but for hidden ones and what a build has made.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> = fs::read_dir(dir).unwrap().flatten().collect();
    entries.retain(|entry| {
        entry.file_name() != "target" && !entry.file_name().to_str().unwrap().starts_with('.')
    });
    entries.sort_by_key(fs::DirEntry::file_name);
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.into_iter().flat_map(|entry| below(entry.path())).collect()
}

/// All Rust sources below a directory.
fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = files(dir);
    found.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    found
}

/// The same in one text.
fn sources(dir: &Path) -> String {
    rust_files(dir).into_iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// Whether a program has written a source: its first line says so.
fn is_generated(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.starts_with("// Generated ") || first.contains("@generated")
}

/// The words between backquotes.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
