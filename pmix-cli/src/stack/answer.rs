//! Who is elsewhere: the sentence before the tree.
//!
//! The place of a rank is the function of MPI, PMIx or OpenSHMEM that its program has called, whatever that does inside. Outside of
//! these it is the function that the innermost one of the program has called, such as `usleep`, or that one itself. Two ranks
//! are at the same place if they have called the same function from the same line, or if they compute in the same function of
//! the program, whatever their lines. More than half of the ranks at one place
//! are the majority; without one, all places are listed, the largest first.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use pmix_tool::Rank;
use pmix_tool::types::RankSet;
use serde::{Serialize, Serializer};

use super::frame::{Frame, Source};

/// Places named in the sentence; the others are counted.
const MAX_NAMED: usize = 4;
/// Columns for the ranks of a place.
const MAX_RANKS: usize = 40;

/// Where a rank is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Place {
    pub(super) function: String,
    #[serde(serialize_with = "as_text")]
    pub(super) source: Option<Source>,
    /// The function of the program that has called it.
    pub(super) caller: Option<String>,
    #[serde(serialize_with = "as_text")]
    pub(super) caller_source: Option<Source>,
}

/// Ranks at the same place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Group {
    #[serde(flatten)]
    pub(super) place: Place,
    #[serde(serialize_with = "rank_text")]
    pub(super) ranks: RankSet,
    pub(super) count: u64,
    /// Those of them that a signal has stopped.
    #[serde(serialize_with = "rank_text")]
    pub(super) stopped: RankSet,
}

fn as_text<S: Serializer>(source: &Option<Source>, serializer: S) -> Result<S::Ok, S::Error> {
    match source {
        Some(source) => serializer.collect_str(source),
        None => serializer.serialize_none(),
    }
}

fn rank_text<S: Serializer>(ranks: &RankSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(ranks)
}

/// The place of a stack, whose outermost frame comes first.
pub(super) fn place(frames: &[Frame]) -> Option<Place> {
    let call = frames.iter().position(|frame| frame.library_call().is_some());
    if let Some(call) = call {
        // an interpreter or a wrapper of the library may be between them
        let caller = frames[..call].iter().rev().find(|frame| frame.is_program);
        let name = frames[call].library_call().unwrap_or_default();
        return Some(Place::new(name.to_owned(), None, caller));
    }
    let innermost = frames.iter().rposition(|frame| frame.is_program).unwrap_or(frames.len().checked_sub(1)?);
    let program = &frames[innermost];
    Some(match frames.get(innermost + 1) {
        Some(called) => Place::new(called.function.clone(), None, Some(program)),
        None => {
            let caller = frames[..innermost].iter().rev().find(|frame| frame.is_program);
            // the line may change while it computes, and tells nothing of where it is stuck
            Place {
                caller_source: None,
                ..Place::new(program.function.clone(), program.source.clone(), caller)
            }
        }
    })
}

impl Place {
    fn new(function: String, source: Option<Source>, caller: Option<&Frame>) -> Self {
        let caller_source = caller.and_then(|caller| caller.source.clone());
        Self { function, source, caller: caller.map(|caller| caller.function.clone()), caller_source }
    }

    /// By what places are the same: not by a line that is just being executed.
    fn key(&self) -> (&str, Option<&str>, Option<&Source>) {
        (&self.function, self.caller.as_deref(), self.caller_source.as_ref())
    }

    /// `usleep, called from compute (late.c:14)`
    fn text(&self) -> String {
        let at = |source: &Option<Source>| source.as_ref().map_or_else(String::new, |at| format!(" ({at})"));
        let mut text = format!("{}{}", self.function, at(&self.source));
        if let Some(caller) = &self.caller {
            let _ = write!(text, ", called from {caller}{}", at(&self.caller_source));
        }
        text
    }
}

/// Ranks by place: the largest group first, then by rank.
pub(super) fn groups(places: impl IntoIterator<Item = (Rank, Place, bool)>) -> Vec<Group> {
    let mut groups: BTreeMap<(String, Option<String>, Option<Source>), Group> = BTreeMap::new();
    for (rank, place, is_stopped) in places {
        let (function, caller, source) = place.key();
        let key = (function.to_owned(), caller.map(str::to_owned), source.cloned());
        let group = groups.entry(key).or_insert_with(|| Group {
            place,
            ranks: RankSet::new(),
            count: 0,
            stopped: RankSet::new(),
        });
        group.ranks.insert(rank);
        group.count = group.ranks.len();
        if is_stopped {
            group.stopped.insert(rank);
        }
    }
    // ranks that compute at several lines are at none of them
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.iter_mut().filter(|group| group.count > 1).for_each(|group| group.place.source = None);
    groups.sort_by_key(|group| (Reverse(group.count), group.ranks.first()));
    groups
}

/// The sentence: `15 of 16 ranks are in MPI_Barrier, called from main (late.c:20); rank 3 is in usleep, called from compute
/// (late.c:14).`
pub(super) fn sentence(groups: &[Group]) -> String {
    let total: u64 = groups.iter().map(|group| group.count).sum();
    let named = |group: &Group| format!("{} in {}", subject(group), group.place.text());
    let mut text = match groups {
        [] => return "There is no stack to show.".into(),
        [one] if total == 1 => capital(&named(one)),
        [all] => {
            format!(
                "All {total} ranks are{} in {}",
                if all.stopped == all.ranks { " stopped" } else { "" },
                all.place.text()
            )
        }
        [most, rest @ ..] if most.count * 2 > total => {
            let mut rest: Vec<_> = rest.iter().collect();
            let stopped = if most.stopped == most.ranks { " stopped" } else { "" };
            let mut text = format!("{} of {total} ranks are{stopped} in {}", most.count, most.place.text());
            let others = rest.split_off(rest.len().min(MAX_NAMED));
            rest.iter().for_each(|group| text += &format!("; {}", named(group)));
            text + &elsewhere(&others)
        }
        all => {
            let (named_groups, others) = all.split_at(all.len().min(MAX_NAMED));
            let mut text = format!("The {total} ranks are at {} places", all.len());
            for (index, group) in named_groups.iter().enumerate() {
                text += if index == 0 { ": " } else { "; " };
                text += &named(group);
            }
            text + &elsewhere(&others.iter().collect::<Vec<_>>())
        }
    };
    text.push('.');
    let some = groups.iter().filter(|group| !group.stopped.is_empty() && group.stopped != group.ranks);
    let stopped: RankSet = some.flat_map(|group| group.stopped.iter()).collect();
    if !stopped.is_empty() {
        text += &format!(" {} stopped by a signal.", capital(&verb(&stopped)));
    }
    text
}

fn elsewhere(groups: &[&Group]) -> String {
    let count: u64 = groups.iter().map(|group| group.count).sum();
    match (count, groups.len()) {
        (0, _) => String::new(),
        (1, _) => "; 1 more rank is elsewhere".into(),
        (count, 1) => format!("; {count} more ranks are elsewhere"),
        (count, places) => format!("; {count} more ranks are at {places} other places"),
    }
}

/// `rank 3 is stopped`
fn subject(group: &Group) -> String {
    let is_stopped = group.stopped == group.ranks;
    format!("{}{}", verb(&group.ranks), if is_stopped { " stopped" } else { "" })
}

fn verb(ranks: &RankSet) -> String {
    match ranks.len() {
        1 => format!("rank {ranks} is"),
        count => match shortened(ranks, MAX_RANKS) {
            (text, true) => format!("ranks {text} are"),
            (text, false) => format!("{count} ranks ({text}) are"),
        },
    }
}

/// The first ranges, as many as fit into `columns`, and whether these are all.
pub(super) fn shortened(ranks: &RankSet, columns: usize) -> (String, bool) {
    // no more than fits is made
    let mut text = String::new();
    for (index, range) in ranks.ranges().enumerate() {
        let (start, end) = range.into_inner();
        let item = if start == end { start.to_string() } else { format!("{start}-{end}") };
        let is_last = index + 1 == ranks.range_count();
        let comma = usize::from(index > 0);
        // the mark of those that are left out needs room, too
        if index > 0 && text.len() + comma + item.len() + if is_last { 0 } else { 2 } > columns {
            return (text + ",…", false);
        }
        text += if index > 0 { "," } else { "" };
        text += &item;
    }
    (text, true)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
