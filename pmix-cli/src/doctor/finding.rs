//! What a check has found, and how it is printed.

use std::io::{self, Write};

use pmix_tool::types::escaped;
use serde::Serialize;

/// Columns before the text of a finding.
const INDENT: usize = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Ok,
    /// Nothing is wrong, but it explains what else may be seen.
    Note,
    Warning,
    Failure,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Which group of checks.
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) text: String,
    /// What to do about a warning or failure.
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, text: text.into(), remedy: None }
    }

    pub(super) fn note(check: &'static str, text: impl Into<String>) -> Self {
        Self { check, level: Level::Note, text: text.into(), remedy: None }
    }

    pub(super) fn warning(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Warning, text: text.into(), remedy: Some(remedy.into()) }
    }

    pub(super) fn failure(check: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Failure, text: text.into(), remedy: Some(remedy.into()) }
    }

    /// One line. On a terminal it is folded at spaces, and continues below the text.
    fn write(&self, out: &mut dyn Write, width: Option<usize>) -> io::Result<()> {
        let label = match self.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "WARN",
            Level::Failure => "FAIL",
        };
        let line = match &self.remedy {
            Some(remedy) => format!("{}: {}; {remedy}", self.check, self.text),
            None => format!("{}: {}", self.check, self.text),
        };
        let line = escaped(&line).to_string();
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(INDENT).max(20));
        for (index, part) in folded(&line, room).iter().enumerate() {
            writeln!(out, "{:<INDENT$}{part}", if index == 0 { label } else { "" })?;
        }
        Ok(())
    }
}

/// Everything that was found.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    failures: usize,
    warnings: usize,
    findings: Vec<Finding>,
}

impl Report {
    /// The worst come last, next to the prompt.
    pub(super) fn new(mut findings: Vec<Finding>) -> Self {
        findings.sort_by_key(|finding| finding.level);
        let count = |level| findings.iter().filter(|finding| finding.level == level).count();
        Self { failures: count(Level::Failure), warnings: count(Level::Warning), findings }
    }

    pub(super) const fn is_well(&self, strict: bool) -> bool {
        self.failures == 0 && !(strict && self.warnings > 0)
    }

    pub(super) fn write(
        &self,
        out: &mut dyn Write,
        is_verbose: bool,
        width: Option<usize>,
    ) -> io::Result<()> {
        let is_shown = |finding: &&Finding| is_verbose || finding.level >= Level::Warning;
        self.findings.iter().filter(is_shown).try_for_each(|finding| finding.write(out, width))?;
        let rest = self.findings.len() - self.failures - self.warnings;
        let hint = if is_verbose { "" } else { " (-v shows them)" };
        let (failures, warnings) = (counted(self.failures, "failure"), counted(self.warnings, "warning"));
        writeln!(out, "{failures}, {warnings}; {} without need for action{hint}", counted(rest, "finding"))
    }
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Folds a text at its spaces; a word that is longer than a line, such as a path, stays whole, so that it can be copied.
fn folded(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(findings: Vec<Finding>, is_verbose: bool, width: Option<usize>) -> String {
        let mut out = Vec::new();
        Report::new(findings).write(&mut out, is_verbose, width).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_finding_is_one_line_and_failures_come_last() {
        let findings = vec![
            Finding::failure("files", "/a\u{1b}b is full", "remove files"),
            Finding::ok("limits", "fine"),
            Finding::warning("limits", "few", "ulimit -n 9"),
        ];
        assert_eq!(
            written(findings.clone(), false, None),
            "WARN  limits: few; ulimit -n 9\nFAIL  files: /a\\u{1b}b is full; remove files\n\
             1 failure, 1 warning; 1 finding without need for action (-v shows them)\n"
        );
        assert!(written(findings, true, None).starts_with("ok    limits: fine\n"));
    }

    #[test]
    fn a_terminal_gets_folded_lines_with_words_whole() {
        let text = format!("{} and /a/path/{}", "word ".repeat(30).trim_end(), "x".repeat(90));
        let all = written(vec![Finding::failure("c", text.clone(), "do it")], false, Some(80));
        let lines: Vec<_> = all.lines().collect();
        assert!(
            lines.iter().filter(|line| !line.contains("xxx")).all(|line| line.chars().count() <= 80),
            "{all}"
        );
        assert!(lines[1..lines.len() - 1].iter().all(|line| line.starts_with("      ")), "{all}");
        let joined =
            lines[..lines.len() - 1].iter().map(|line| line[6..].to_owned()).collect::<Vec<_>>().join(" ");
        assert_eq!(joined, format!("c: {text}; do it"));
    }

    #[test]
    fn only_failures_matter_unless_strict() {
        let warned = Report::new(vec![Finding::warning("c", "t", "r"), Finding::note("c", "t")]);
        assert!(warned.is_well(false) && !warned.is_well(true));
        assert!(Report::new(vec![Finding::note("c", "t")]).is_well(true));
        assert!(!Report::new(vec![Finding::failure("c", "t", "r")]).is_well(false));
    }
}
