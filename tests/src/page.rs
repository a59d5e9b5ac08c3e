//! Pages that are generated from the tables in `spec/`: a summary that is committed, and the whole below `target/`.

use std::path::Path;
use std::{fs, io};

/// A generated page.
#[derive(Debug)]
pub struct Page {
    /// The file of the summary, in the workspace.
    pub file: &'static str,
    /// The text of that file.
    pub summary: String,
    /// All that the tables have, for a file that is not committed.
    pub whole: String,
}

impl Page {
    /// Writes the summary, and the whole to the file of the same name, in lower case, in `target/`.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(&self, root: &Path) -> io::Result<()> {
        let target = root.join("target");
        fs::create_dir_all(&target)?;
        let name = self.file.rsplit('/').next().unwrap_or(self.file);
        fs::write(target.join(name.to_lowercase()), &self.whole)?;
        fs::write(root.join(self.file), &self.summary)
    }

    /// Whether the file of the summary is what would be written.
    pub fn is_current(&self, root: &Path) -> bool {
        fs::read_to_string(root.join(self.file)).is_ok_and(|held| held == self.summary)
    }
}

/// Names for a sentence: `a`, `b`, `c`.
pub fn listed<N: AsRef<str>>(names: impl IntoIterator<Item = N>) -> String {
    let quoted: Vec<_> = names.into_iter().map(|name| format!("`{}`", name.as_ref())).collect();
    quoted.join(", ")
}

/// Paragraphs of a generated page, wrapped as documents are. Lines of tables and headings stay as they are.
pub fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 130;
    let mut wrapped = String::new();
    for line in text.lines() {
        let mut width = 0;
        let indent = if line.starts_with("* ") { "\n  " } else { "\n" };
        if line.starts_with(['|', '#', ' ']) {
            wrapped.push_str(line);
        } else {
            for word in line.split(' ') {
                let length = word.chars().count();
                if width > 0 && width + 1 + length > COLUMNS {
                    wrapped.push_str(indent);
                    width = indent.len() - 1;
                } else if width > 0 {
                    wrapped.push(' ');
                    width += 1;
                }
                wrapped.push_str(word);
                width += length;
            }
        }
        wrapped.push('\n');
    }
    wrapped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_that_has_changed_is_not_current() {
        let dir = tempfile::tempdir().unwrap();
        let page = |summary: &str| Page { file: "TABLE.md", summary: summary.into(), whole: "all".into() };
        page("two").write(dir.path()).unwrap();
        assert!(page("two").is_current(dir.path()));
        assert!(!page("three").is_current(dir.path()));
        assert_eq!(fs::read_to_string(dir.path().join("target/table.md")).unwrap(), "all");
    }

    #[test]
    fn only_paragraphs_are_wrapped() {
        let long = "word ".repeat(40);
        let long = long.trim_end();
        let text = wrapped(&format!("{long}\n| {long} |\n"));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!((lines[0].len(), lines[2].len()), (129, 204 - 1));
        assert_eq!(lines[..2].join(" "), long);
    }
}
