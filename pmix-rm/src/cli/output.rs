//! `--output`: format and files of the output of ranks.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pmix_types::split_variable;

/// Names of the files for the output of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `<directory>/<namespace>/rank.<rank>/stdout` and `stderr`.
    Directory(PathBuf),
    /// `<name>.<namespace>.<rank>.out` and `.err`.
    Named(PathBuf),
}

/// Format and files of the output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Format {
    pub(crate) tag: bool,
    pub(crate) timestamp: bool,
    pub(crate) merge: bool,
    pub(crate) files: Option<Layout>,
    /// Whether output in files is printed, too.
    pub(crate) copy: bool,
}

/// One item of `--output`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Directive {
    Tag,
    Timestamp,
    Merge,
    Files { layout: Layout, copy: bool },
}

/// Switches of `--output` by their full names; an unambiguous prefix is accepted.
const SWITCHES: [(&str, Directive); 3] = [
    ("tag", Directive::Tag),
    ("timestamp", Directive::Timestamp),
    ("merge-stderr-to-stdout", Directive::Merge),
];

impl Directive {
    pub(super) fn parse(text: &OsStr) -> Result<Self, String> {
        if let Some((name, path)) = split_variable(text) {
            return match name.to_ascii_lowercase().to_str() {
                Some("dir") => files(path, Layout::Directory),
                Some("file") => files(path, Layout::Named),
                _ => Err(known(&text.to_string_lossy())),
            };
        }
        let text = text.to_string_lossy().to_lowercase();
        let mut matching =
            SWITCHES.into_iter().filter(|(name, _)| !text.is_empty() && name.starts_with(&text));
        match (matching.next(), matching.next()) {
            (Some((_, directive)), None) => Ok(directive),
            _ => Err(known(&text)),
        }
    }

    /// Parses the text after `file=`.
    pub(super) fn parse_file(text: &OsStr) -> Result<Self, String> {
        files(text, Layout::Named)
    }
}

fn known(text: &str) -> String {
    let what = if text.is_empty() { "an empty directive" } else { "not a known directive" };
    format!(
        "{what}; use tag, timestamp, merge, dir=DIR or file=NAME, the last two optionally followed by :copy or :nocopy"
    )
}

/// Parses a path with an optional qualifier.
fn files(text: &OsStr, layout: fn(PathBuf) -> Layout) -> Result<Directive, String> {
    let bytes = text.as_bytes();
    let without = |qualifier: &str| {
        let (path, last) = bytes.split_at(bytes.len().checked_sub(qualifier.len())?);
        last.eq_ignore_ascii_case(qualifier.as_bytes()).then(|| OsStr::from_bytes(path))
    };
    let (path, copy) = match (without(":copy"), without(":nocopy")) {
        (Some(path), _) => (path, true),
        (None, Some(path)) => (path, false),
        (None, None) => (text, false),
    };
    if path.is_empty() {
        return Err("a file or directory needs a name".into());
    }
    let path = std::path::absolute(Path::new(path)).map_err(|error| error.to_string())?;
    Ok(Directive::Files { layout: layout(path), copy })
}

impl Format {
    /// Adds a directive.
    ///
    /// # Errors
    /// Other files were given before.
    pub(super) fn add(&mut self, directive: Directive) -> Result<(), String> {
        match directive {
            Directive::Tag => self.tag = true,
            Directive::Timestamp => self.timestamp = true,
            Directive::Merge => self.merge = true,
            Directive::Files { layout, copy } => {
                if self.files.as_ref().is_some_and(|other| *other != layout) {
                    return Err("only one directory or file can be given".into());
                }
                self.files = Some(layout);
                self.copy |= copy;
            }
        }
        Ok(())
    }

    /// Whether output is printed.
    pub(crate) const fn is_shown(&self) -> bool {
        self.files.is_none() || self.copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(list: &str) -> Result<Format, String> {
        let mut format = Format::default();
        list.split(',').try_for_each(|text| format.add(Directive::parse(text.as_ref())?))?;
        Ok(format)
    }

    #[test]
    fn what_is_said_may_be_cut_short_and_in_any_case() {
        let all = Format { tag: true, timestamp: true, merge: true, ..Format::default() };
        assert_eq!(format("tag,timestamp,merge"), Ok(all.clone()));
        assert_eq!(format("TAG,Time,MERGE-STDERR-TO-STDOUT"), Ok(all));
        for wrong in ["t", "", "tags", "tag-detailed", "xml", "raw", "dirs=x", "dir=", "file=:copy"] {
            let error = format(wrong).unwrap_err();
            assert!(error.contains("merge, dir=DIR") || error.contains("needs a name"), "{wrong}: {error}");
        }
    }

    #[test]
    fn files_are_named_and_may_be_shown_too() {
        let kept = |layout, copy| Ok(Format { files: Some(layout), copy, ..Format::default() });
        assert_eq!(format("dir=/a:b"), kept(Layout::Directory("/a:b".into()), false));
        assert_eq!(format("dir=/a:copy"), kept(Layout::Directory("/a".into()), true));
        assert_eq!(format("FILE=/a,file=/a:NoCopy"), kept(Layout::Named("/a".into()), false));
        let Ok(Format { files: Some(Layout::Named(path)), .. }) = format("file=a") else { panic!() };
        assert_eq!(path, std::env::current_dir().unwrap().join("a"));
        assert!(format("dir=/a,file=/a").unwrap_err().contains("only one directory or file"));
    }

    #[test]
    fn what_goes_to_files_is_not_shown_unless_copied() {
        assert!(format("tag").unwrap().is_shown() && format("dir=/a:copy").unwrap().is_shown());
        assert!(!format("dir=/a").unwrap().is_shown());
    }
}
