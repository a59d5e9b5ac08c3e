use std::fmt;

use pmix_types::{escaped, escaped_json};
use serde::{Deserialize, Serialize};

/// What all checks found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// One entry a check, in the order they ran.
    pub outcomes: Vec<Outcome>,
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// Name of the check.
    pub check: String,
    /// The rules that it shows, as `FEN-02`.
    pub rules: Vec<String>,
    /// What the rules say, in a few words.
    pub title: String,
    /// What was found.
    pub verdict: Verdict,
}

/// What was found.
///
/// Of the ranks of a job the first that does not pass counts: the others may fail only because it has left them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "verdict", content = "reason")]
#[allow(clippy::exhaustive_enums)]
pub enum Verdict {
    /// The rules are kept.
    Passed,
    /// It could not be checked, for this reason.
    Skipped(String),
    /// A rule is broken, in this way.
    Failed(String),
}

impl Report {
    /// Whether no rule was found broken.
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The checks that found a rule broken.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Failed(_)))
    }

    /// How many checks passed, failed and were skipped, in one line.
    pub fn summary(&self) -> String {
        let count =
            |of: fn(&Verdict) -> bool| self.outcomes.iter().filter(|outcome| of(&outcome.verdict)).count();
        let passed = count(|verdict| matches!(verdict, Verdict::Passed));
        let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = count(|verdict| matches!(verdict, Verdict::Skipped(_)));
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }

    /// The report as one JSON object: `{"outcomes": [{"check", "rules", "title", "verdict": {..}}]}`.
    ///
    /// # Errors
    /// None that is known: everything in it can be written.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| escaped_json(&json))
    }
}

/// One line: the verdict, the rules, what they say, and what is wrong in the words of a rank or a launcher.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { check, rules, title, verdict } = self;
        let rules = rules.join(" ");
        match verdict {
            Verdict::Passed => write!(f, "pass  {rules:<16} {title}"),
            Verdict::Skipped(reason) => write!(f, "skip  {rules:<16} {title} [{check}]: {}", escaped(reason)),
            Verdict::Failed(reason) => write!(f, "FAIL  {rules:<16} {title} [{check}]: {}", escaped(reason)),
        }
    }
}

/// One line a check, and the summary.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for outcome in &self.outcomes {
            writeln!(f, "{outcome}")?;
        }
        f.write_str(&self.summary())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_json_and_back() {
        let outcome = Outcome {
            check: "c".into(),
            rules: vec!["FEN-02".into()],
            title: "t".into(),
            // in the words of a rank
            verdict: Verdict::Failed("why\nFAIL\u{9b}2J".into()),
        };
        let report = Report { outcomes: vec![outcome] };
        let json = report.to_json().unwrap();
        assert!(json.contains(r"why\nFAIL\u009b2J"), "{json}");
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        assert!(!report.passed());
        let shown = report.to_string();
        assert!(shown.starts_with("FAIL  FEN-02 ") && shown.contains(r"why\nFAIL\u{9b}2J"), "{shown}");
        assert!(report.to_string().ends_with("0 passed, 1 failed, 0 skipped"));
    }
}
