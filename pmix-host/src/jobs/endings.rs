//! How jobs have ended, for those who ask later, and as that is kept elsewhere.

use std::collections::{BTreeMap, HashMap};

use pmix_types::{Nspace, Status};
use prost::Message;

use super::report::JobOutcome;
use super::store::{EndedJob, TicketOf, UnreadableJob};

/// Jobs whose ends are remembered.
pub(super) const MAX_ENDINGS: usize = 1000;

/// How the last jobs have ended.
#[derive(Debug, Default)]
pub(super) struct Endings {
    /// In the order in which they were told.
    all: BTreeMap<u64, JobEnding>,
    places: HashMap<Nspace, u64>,
    last: u64,
}

impl Endings {
    /// Forgets the earliest one if there are too many.
    pub(super) fn remember(&mut self, ending: JobEnding) {
        self.last += 1;
        if let Some(earlier) = self.places.insert(ending.nspace.clone(), self.last) {
            self.all.remove(&earlier);
        }
        self.all.insert(self.last, ending);
        if self.all.len() > MAX_ENDINGS
            && let Some((_, earliest)) = self.all.pop_first()
        {
            self.places.remove(&earliest.nspace);
        }
    }

    pub(super) fn of(&self, nspace: &Nspace) -> Option<&JobEnding> {
        self.all.get(self.places.get(nspace)?)
    }
}

/// How a job has ended, for those who ask later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobEnding {
    pub(crate) number: u32,
    pub(crate) nspace: Nspace,
    pub(crate) owner: u32,
    pub(crate) status: Status,
    pub(crate) exit_code: i32,
    pub(super) ticket: Option<TicketOf>,
    last_child: u32,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct EndRecord {
    #[prost(uint32, tag = "1")]
    owner: u32,
    #[prost(sint32, tag = "2")]
    status: i32,
    #[prost(sint32, tag = "3")]
    exit_code: i32,
    #[prost(uint32, tag = "4")]
    last_child: u32,
    #[prost(string, tag = "5")]
    ticket_node: String,
    #[prost(uint64, tag = "6")]
    ticket: u64,
}

impl JobEnding {
    pub(super) fn new(
        (number, nspace): (u32, &Nspace),
        owner: u32,
        (last_child, ticket): (u32, Option<TicketOf>),
        outcome: &JobOutcome,
    ) -> Self {
        let JobOutcome { status, exit_code, .. } = *outcome;
        Self { number, nspace: nspace.clone(), owner, status, exit_code, ticket, last_child }
    }

    /// Whether it says the same of a job.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        (self.status, self.exit_code) == (other.status, other.exit_code)
    }

    pub(super) const fn last_child(&self) -> u32 {
        self.last_child
    }

    pub(super) fn keep(&self) -> EndedJob {
        let (owner, exit_code, last_child) = (self.owner, self.exit_code, self.last_child);
        let (ticket_node, ticket) = self.ticket.clone().unwrap_or_default();
        let status = self.status.into();
        let record = EndRecord { owner, status, exit_code, last_child, ticket_node, ticket };
        EndedJob::new(self.number, self.nspace.clone(), record.encode_to_vec())
    }

    /// # Errors
    /// It makes no sense.
    pub(super) fn read(kept: &EndedJob) -> Result<Self, UnreadableJob> {
        let nspace = kept.nspace.clone();
        let record = EndRecord::decode(kept.data.clone());
        let record = record.map_err(|_| UnreadableJob { nspace: nspace.clone() })?;
        let EndRecord { owner, status, exit_code, last_child, ticket_node, ticket } = record;
        let ticket = Some((ticket_node, ticket)).filter(|(_, ticket)| *ticket != 0);
        Ok(Self { number: kept.number, nspace, owner, status: status.into(), exit_code, ticket, last_child })
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::JobTable;
    use super::*;

    #[test]
    fn the_ends_of_the_last_jobs_are_remembered_each_once() {
        let table = JobTable::default();
        let name = |number: usize| Nspace::new(format!("job.{number}")).unwrap();
        let ending = |number: usize, code| {
            let outcome = JobOutcome::new(Status::SUCCESS, code);
            JobEnding::new((0, &name(number)), 0, (0, None), &outcome)
        };
        for number in 0..MAX_ENDINGS {
            table.remember([ending(number, 1)]);
        }
        // what is told again takes no further place
        table.remember([ending(0, 2)]);
        assert_eq!(table.ending(&name(0)).unwrap().exit_code, 2);
        assert!(table.ending(&name(1)).is_some());
        table.remember([ending(MAX_ENDINGS, 1)]);
        assert!(table.ending(&name(1)).is_none() && table.ending(&name(2)).is_some());
        assert!(table.ending(&name(0)).is_some());
    }
}
