use std::fmt;

use pmix_types::{escaped, escaped_json};
use serde::{Deserialize, Serialize};

/// The results of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Report {
    /// One entry per check, in the order in which they ran.
    pub outcomes: Vec<Outcome>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Outcome {
    /// Name of the check.
    pub check: String,
    /// Ids of the rules that it checks, such as `FEN-02`.
    pub rules: Vec<String>,
    /// A short statement of the rules.
    pub title: String,
    /// The verdict.
    pub verdict: Verdict,
}

/// The verdict of a check.
///
/// If a rank of a job does not pass, the verdict of the first such rank counts: the others may fail only because that rank
/// has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "verdict", content = "reason")]
#[allow(clippy::exhaustive_enums, reason = "a report of fixed form, which programs read")]
pub enum Verdict {
    /// The rules are followed.
    Passed,
    /// The check could not be run, for this reason.
    Skipped(String),
    /// A rule is broken; the text says how.
    Failed(String),
}

impl Report {
    /// Whether no check failed. Skipped checks do not count as failed.
    pub fn passed(&self) -> bool {
        self.failed().next().is_none()
    }

    /// The outcomes of the checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Failed(_)))
    }

    /// The numbers of checks that passed, failed and were skipped, in one line.
    pub fn summary(&self) -> String {
        let count =
            |of: fn(&Verdict) -> bool| self.outcomes.iter().filter(|outcome| of(&outcome.verdict)).count();
        let passed = count(|verdict| matches!(verdict, Verdict::Passed));
        let failed = count(|verdict| matches!(verdict, Verdict::Failed(_)));
        let skipped = count(|verdict| matches!(verdict, Verdict::Skipped(_)));
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }

    /// Where what was checked differs from the texts: for each check that failed, the rules with what they say, and what happened
    /// instead. Empty if none failed.
    pub fn differences(&self) -> String {
        let difference = |outcome: &Outcome| {
            let Outcome { rules, title, verdict: Verdict::Failed(reason), .. } = outcome else { return None };
            let rules = rules.join(" ");
            Some(format!("{rules:<16} {title}\n{:16}   but: {}", "", escaped(reason)))
        };
        self.outcomes.iter().filter_map(difference).collect::<Vec<_>>().join("\n")
    }

    /// The report as one JSON object: `{"outcomes": [{"check", "rules", "title", "verdict": {..}}]}`.
    ///
    /// # Errors
    /// None are known, since a report contains only text.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| escaped_json(&json))
    }
}

/// One line: the verdict, the rules, the title, and the reason as reported by a rank or launcher, escaped.
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

/// One line per check, followed by the summary.
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
            // a reason reported by a rank
            verdict: Verdict::Failed("why\nFAIL\u{9b}2J".into()),
        };
        let report = Report { outcomes: vec![outcome] };
        let json = report.to_json().unwrap();
        assert!(json.contains(r"why\nFAIL\u009b2J"), "{json}");
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
        assert!(!report.passed());
        let shown = report.to_string();
        assert!(shown.starts_with("FAIL  FEN-02 ") && shown.contains(r"why\nFAIL\u{9b}2J"), "{shown}");
        let differences = report.differences();
        assert_eq!(differences, format!("FEN-02           t\n{:16}   but: why\\nFAIL\\u{{9b}}2J", ""));
        assert!(report.to_string().ends_with("0 passed, 1 failed, 0 skipped"));
    }
}
