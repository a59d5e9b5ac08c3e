//! Reads the small files of `/sys`. What is missing or garbage there counts as not told.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

/// Longer files tell nothing that is read here.
const MAX_FILE: u64 = 64 << 10;

/// A file's text without white space at its ends; `None` if there is none.
pub(crate) fn line(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub(crate) fn parsed<T: FromStr>(path: &Path) -> Option<T> {
    line(path)?.parse().ok()
}

/// The names in a directory, in order.
pub(crate) fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// Numbers of entries named by a prefix and a number, such as `cpu12`, in order.
pub(crate) fn numbered(path: &Path, prefix: &str) -> Vec<u32> {
    let number = |name: String| name.strip_prefix(prefix)?.parse().ok();
    let mut numbers: Vec<u32> = names(path).into_iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}
