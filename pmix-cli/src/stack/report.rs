//! What was found, for people and for programs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use pmix_tool::types::{RankSet, escaped};
use pmix_tool::{Nspace, ProcInfo, Rank};
use serde::Serialize;

use super::super::Console;
use super::answer::{self, Group};
use super::backend::Looked;
use super::find::{NoStack, Outcome};
use super::frame::Frame;
use super::text;
use super::tree::{self, Node};

/// Columns of a sentence where standard output is no terminal.
const COLUMNS: usize = 80;
/// Columns for ranks in a message.
const MAX_RANKS: usize = 30;

#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) jobs: Vec<JobStacks>,
}

#[derive(Debug, Serialize)]
pub(super) struct JobStacks {
    nspace: Nspace,
    answer: String,
    places: Vec<Group>,
    tree: Vec<Node>,
    procs: Vec<RankReport>,
    /// Ranks that were asked for and that the job does not have.
    #[serde(skip)]
    missing: RankSet,
}

#[derive(Debug, Serialize)]
pub(super) struct RankReport {
    rank: Rank,
    node: Option<String>,
    pid: i32,
    outcome: Outcome,
    message: Option<String>,
    is_stopped: bool,
    /// How long a thread was held at most.
    stopped_us: Option<u128>,
    by: Option<String>,
    /// Whether the stack of the main thread begins where it should.
    #[serde(skip)]
    is_whole: bool,
    /// The main thread first.
    #[serde(skip)]
    stacks: Vec<Vec<Frame>>,
}

impl RankReport {
    pub(super) fn new(info: &ProcInfo, is_stopped: bool, result: Result<Looked, NoStack>) -> Self {
        let report = Self {
            rank: info.proc.rank,
            node: info.hostname.clone(),
            pid: info.pid.0,
            outcome: Outcome::Stack,
            message: None,
            is_stopped,
            stopped_us: None,
            by: None,
            is_whole: false,
            stacks: Vec::new(),
        };
        match result {
            Ok(looked) => Self {
                message: looked.note,
                is_whole: looked.is_whole,
                stopped_us: Some(looked.stopped.as_micros()),
                by: Some(looked.by),
                stacks: looked.threads.into_iter().map(|(_, frames)| frames).collect(),
                ..report
            },
            Err(NoStack { outcome, message }) => Self { outcome, message: Some(message), ..report },
        }
    }

    pub(super) const fn rank(&self) -> Rank {
        self.rank
    }

    const fn is_complete(&self) -> bool {
        matches!(self.outcome, Outcome::Stack | Outcome::Elsewhere | Outcome::NotRunning)
    }
}

impl JobStacks {
    pub(super) fn new(nspace: Nspace, mut procs: Vec<RankReport>, missing: RankSet) -> Self {
        set_broken_apart(&mut procs);
        let places = procs.iter().filter_map(|proc| {
            let main = proc.stacks.first().filter(|_| proc.is_whole)?;
            Some((proc.rank, answer::place(main)?, proc.is_stopped))
        });
        let places = answer::groups(places);
        let answer = of_this_host(&procs, answer::sentence(&places));
        let stacks =
            procs.iter().flat_map(|proc| proc.stacks.iter().map(|stack| (proc.rank, stack.as_slice())));
        let tree = tree::merge(stacks);
        Self { answer, nspace, places, tree, procs, missing }
    }

    /// What else there is to say, with the ranks that it is said of.
    fn notes(&self) -> BTreeMap<&str, RankSet> {
        let mut notes: BTreeMap<&str, RankSet> = BTreeMap::new();
        for proc in &self.procs {
            if let Some(message) = &proc.message {
                notes.entry(message).or_default().insert(proc.rank);
            }
        }
        if !self.missing.is_empty() {
            notes.insert("not in this job", self.missing.clone());
        }
        notes
    }

    fn write(&self, console: &mut Console<'_>) -> io::Result<()> {
        let width = console.width.unwrap_or(COLUMNS);
        writeln!(console.out, "{}", wrapped(&escaped(&self.answer).to_string(), width))?;
        let mut notes: Vec<_> = self.notes().into_iter().collect();
        notes.sort_by_key(|(_, ranks)| ranks.first());
        for (message, ranks) in notes {
            let (text, is_all) = answer::shortened(&ranks, MAX_RANKS);
            let count = if is_all { String::new() } else { format!(" ({})", ranks.len()) };
            let plural = if ranks.len() == 1 { "" } else { "s" };
            let line = format!("rank{plural} {text}{count}: {message}");
            writeln!(console.out, "{}", wrapped(&escaped(&line).to_string(), width))?;
        }
        if !self.tree.is_empty() {
            writeln!(console.out)?;
            text::write(console.out, &self.tree, console.width)?;
        }
        Ok(())
    }
}

/// The answer, which says of whom it is if ranks run on other hosts.
fn of_this_host(procs: &[RankReport], answer: String) -> String {
    let of = |outcome| procs.iter().filter(move |proc| proc.outcome == outcome);
    let elsewhere = of(Outcome::Elsewhere).count();
    if elsewhere == 0 {
        return answer;
    }
    let total = procs.len() - of(Outcome::NotRunning).count();
    let hosts: BTreeSet<_> = of(Outcome::Stack).filter_map(|proc| proc.node.as_deref()).collect();
    if hosts.is_empty() {
        let here = total - elsewhere;
        return format!("{here} of {total} ranks run on this host. {answer}");
    }
    let hosts = hosts.into_iter().collect::<Vec<_>>().join(", ");
    let mut letters = answer.chars();
    let answer: String = letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect();
    format!("{} of {total} ranks, those on {hosts}: {answer}", total - elsewhere)
}

/// A stack that was not followed to its beginning does not locate a rank, unless there is no better one.
fn set_broken_apart(procs: &mut [RankReport]) {
    let is_any_whole = procs.iter().any(|proc| proc.is_whole);
    for proc in procs.iter_mut().filter(|proc| !proc.stacks.is_empty() && !proc.is_whole) {
        if is_any_whole {
            proc.message.get_or_insert_with(|| "the stack could not be followed to its beginning".into());
        } else {
            proc.is_whole = true;
        }
    }
}

impl Report {
    /// Whether all that can be seen from this host was.
    pub(super) fn is_complete(&self) -> bool {
        self.jobs.iter().all(|job| job.missing.is_empty() && job.procs.iter().all(RankReport::is_complete))
    }

    /// A title for each job, if there are several.
    pub(super) fn write(&self, console: &mut Console<'_>) -> io::Result<()> {
        for (index, job) in self.jobs.iter().enumerate() {
            if index > 0 {
                writeln!(console.out)?;
            }
            if self.jobs.len() > 1 {
                writeln!(console.out, "job {}:", job.nspace)?;
            }
            job.write(console)?;
        }
        Ok(())
    }
}

/// Wraps a text at `width` columns; longer words get a line of their own.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}
