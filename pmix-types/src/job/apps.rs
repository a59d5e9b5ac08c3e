//! The apps of a job and their ranks.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::{Rank, RankSet};

use super::table::Table;
use super::{JobData, names};

/// What is known of an app.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct KnownApp {
    /// Ranks that were said one by one to belong to it. Other ranks may do so too.
    pub(super) given: RankSet,
    /// All its ranks, if a process map of its own says so.
    pub(super) mapped: Option<RankSet>,
    pub(super) values: Table,
}

impl KnownApp {
    pub(super) fn heap_bytes(&self) -> usize {
        let ranges = self.given.range_count() + self.mapped.as_ref().map_or(0, RankSet::range_count);
        size_of::<Self>() + ranges * size_of::<[u32; 2]>() + self.values.heap_bytes()
    }
}

impl JobData {
    /// Number of the app that a rank belongs to.
    pub(super) fn app_of(&self, rank: Rank) -> Option<u32> {
        let holds = |set: &RankSet| set.contains(rank);
        let given = self.apps.iter().find(|(_, app)| holds(&app.given));
        let mapped = || self.apps.iter().find(|(_, app)| app.mapped.as_ref().is_some_and(holds));
        match given.or_else(mapped) {
            Some((number, _)) => Some(*number),
            None => self.only_app().filter(|_| self.contains(rank)),
        }
    }

    /// Number of the job's app, if it has just one; 0 if nothing is said of apps.
    pub(super) fn only_app(&self) -> Option<u32> {
        let count = self.job.get(names::JOB_NUM_APPS).and_then(|value| value.get::<u32>().ok());
        if count.is_some_and(|count| count > 1) || self.apps.len() > 1 {
            return None;
        }
        let known = self.apps.keys().next().copied();
        let alone = || self.job.get(names::APPNUM).and_then(|value| value.get().ok());
        Some(known.or_else(alone).unwrap_or(0))
    }

    /// All ranks of an app; `None` unless they are known for sure.
    pub(super) fn ranks_of_app(&self, number: u32) -> Option<Cow<'_, RankSet>> {
        if self.only_app() == Some(number) {
            return self.all_ranks().map(Cow::Owned);
        }
        let app = self.apps.get(&number)?;
        if let Some(mapped) = &app.mapped {
            return Some(Cow::Borrowed(mapped));
        }
        let told: u64 = self.apps.values().map(|app| app.given.len()).sum();
        (Some(told) == self.size().map(u64::from)).then_some(Cow::Borrowed(&app.given))
    }

    /// Rank inside its app of each rank for which that is known, in a job of several apps.
    pub(super) fn app_ranks(&self) -> HashMap<Rank, Rank> {
        // in the order of precedence that `app_of` has, lowest first
        let mapped = self.apps.iter().rev().filter_map(|(number, app)| Some((*number, app.mapped.as_ref()?)));
        let given = self.apps.iter().rev().map(|(number, app)| (*number, &app.given));
        let app_of =
            mapped.chain(given).flat_map(|(number, ranks)| ranks.iter().map(move |rank| (rank, number)));
        let app_of: HashMap<Rank, u32> = app_of.collect();

        let mut app_ranks = HashMap::new();
        for number in self.apps.keys() {
            let Some(ranks) = self.ranks_of_app(*number) else { continue };
            let positions = ranks.iter().zip((0..).map(Rank::from_raw));
            app_ranks.extend(positions.filter(|(rank, _)| app_of.get(rank) == Some(number)));
        }
        app_ranks
    }
}
