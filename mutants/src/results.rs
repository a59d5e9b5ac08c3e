//! The verdicts so far, in a file that is only appended to.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::build::Mutant;

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A test of the rule failed.
    Died,
    /// Another test failed.
    DiedElsewhere,
    /// The tests did not come to their end in time.
    Overdue,
    Survived,
}

impl Verdict {
    const ALL: [Self; 4] = [Self::Died, Self::DiedElsewhere, Self::Overdue, Self::Survived];

    const fn name(self) -> &'static str {
        match self {
            Self::Died => "died",
            Self::DiedElsewhere => "died-elsewhere",
            Self::Overdue => "overdue",
            Self::Survived => "survived",
        }
    }
}

/// A line of the file.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    rule: String,
    mutant: String,
    verdict: Verdict,
    by: String,
}

impl Row {
    pub(crate) fn new(rule: &str, mutant: &Mutant, verdict: Verdict, by: &str) -> Self {
        Self {
            rule: rule.trim_end_matches('_').to_owned(),
            mutant: mutant.to_string(),
            verdict,
            by: by.to_owned(),
        }
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, mutant, verdict, by } = self;
        write!(f, "{}\t{rule}\t{mutant}\t{by}", verdict.name())
    }
}

/// The verdicts on the mutants of one commit that one seed has drawn.
#[derive(Debug)]
pub(crate) struct Results {
    file: File,
    /// Commit and seed, with which its lines begin.
    head: String,
    rows: BTreeMap<String, Row>,
}

impl Results {
    pub(crate) fn open(path: &Path, commit: &str, seed: u64) -> io::Result<Self> {
        let head = format!("{commit}\t{seed}\t");
        let held = fs::read_to_string(path).unwrap_or_default();
        let rows = held.lines().filter_map(|line| row_of(line.strip_prefix(&head)?));
        let rows = rows.map(|row| (row.mutant.clone(), row)).collect();
        Ok(Self { file: File::options().append(true).create(true).open(path)?, head, rows })
    }

    pub(crate) fn has(&self, mutant: &Mutant) -> bool {
        self.rows.contains_key(&mutant.to_string())
    }

    pub(crate) fn add(&mut self, row: Row) -> io::Result<()> {
        self.file.write_all(format!("{}{row}\n", self.head).as_bytes())?;
        self.rows.insert(row.mutant.clone(), row);
        Ok(())
    }

    /// Prints what became of these mutants; whether enough of them have died.
    pub(crate) fn summary(&self, drawn: &[&Mutant], percent: usize) -> bool {
        let rows: Vec<&Row> = drawn.iter().filter_map(|mutant| self.rows.get(&mutant.to_string())).collect();
        let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
        for row in rows.iter().filter(|row| row.verdict == Verdict::Survived) {
            println!("{row}");
        }
        let counts = Verdict::ALL.map(|verdict| format!("{} {}", count(verdict), verdict.name()));
        println!("of {} mutants: {}", rows.len(), counts.join(", "));
        let dead = rows.len() - count(Verdict::Survived);
        dead * 100 >= rows.len() * percent
    }
}

fn row_of(line: &str) -> Option<Row> {
    let mut cells = line.split('\t').map(str::to_owned);
    let verdict = cells.next()?;
    let verdict = Verdict::ALL.into_iter().find(|one| one.name() == verdict)?;
    Some(Row { verdict, rule: cells.next()?, mutant: cells.next()?, by: cells.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        for verdict in Verdict::ALL {
            let row = Row { rule: "get_22".into(), mutant: "a.rs:1:2 x".into(), verdict, by: "t".into() };
            let read = row_of(&row.to_string()).unwrap();
            assert_eq!((read.verdict, read.mutant, read.by), (verdict, row.mutant, row.by));
        }
        assert!(row_of("half a li").is_none(), "the last line of a run that was killed");
    }
}
