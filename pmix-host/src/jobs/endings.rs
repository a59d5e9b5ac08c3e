//! How jobs have ended, for those who ask later, and as that is kept elsewhere.

use std::collections::{BTreeMap, HashMap};

use pmix_types::{Nspace, Status, Uid};
use prost::Message;

use super::report::JobOutcome;
use super::store::{EndedJob, TicketOf, UnreadableJob};

/// Jobs of a user whose ends are remembered.
const MAX_ENDINGS: usize = 1000;
/// Users of whose jobs ends are remembered.
const MAX_USERS: usize = 1024;

/// How the last jobs have ended.
#[derive(Debug, Default)]
pub(super) struct Endings {
    /// Those of each user, in the order in which they were reported.
    of_users: HashMap<Uid, BTreeMap<u64, JobEnding>>,
    places: HashMap<Nspace, Place>,
    last: u64,
}

/// The user and the number of an end.
type Place = (Uid, u64);

impl Endings {
    /// Forgets the user's earliest one if there are too many of that user, and those of the user who has had none for longest if
    /// there are too many users.
    pub(super) fn remember(&mut self, ending: JobEnding) {
        self.last += 1;
        let place = (ending.owner, self.last);
        if let Some((owner, earlier)) = self.places.insert(ending.nspace.clone(), place) {
            self.of_users.get_mut(&owner).and_then(|all| all.remove(&earlier));
        }
        let of_user = self.of_users.entry(ending.owner).or_default();
        of_user.insert(self.last, ending);
        if of_user.len() > MAX_ENDINGS
            && let Some((_, earliest)) = of_user.pop_first()
        {
            self.places.remove(&earliest.nspace);
        }
        if self.of_users.len() > MAX_USERS {
            self.forget_a_user();
        }
    }

    fn forget_a_user(&mut self) {
        let last_of = |all: &BTreeMap<u64, JobEnding>| all.last_key_value().map(|(number, _)| *number);
        let longest_ago = self.of_users.iter().min_by_key(|(_, all)| last_of(all)).map(|(user, _)| *user);
        let forgotten = longest_ago.and_then(|user| self.of_users.remove(&user));
        for ending in forgotten.into_iter().flat_map(BTreeMap::into_values) {
            self.places.remove(&ending.nspace);
        }
    }

    pub(super) fn of(&self, nspace: &Nspace) -> Option<&JobEnding> {
        let (owner, number) = self.places.get(nspace)?;
        self.of_users.get(owner)?.get(number)
    }
}

/// How a job has ended, for those who ask later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobEnding {
    pub(crate) number: u32,
    pub(crate) nspace: Nspace,
    pub(crate) owner: Uid,
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
        number: u32,
        nspace: &Nspace,
        owner: Uid,
        last_child: u32,
        ticket: Option<TicketOf>,
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
        let (owner, exit_code, last_child) = (self.owner.as_raw(), self.exit_code, self.last_child);
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
        let (owner, status) = (owner.into(), status.into());
        Ok(Self { number: kept.number, nspace, owner, status, exit_code, ticket, last_child })
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::JobTable;
    use super::*;

    fn name(number: usize) -> Nspace {
        Nspace::new(format!("job.{number}")).unwrap()
    }

    fn ending(owner: impl Into<Uid>, number: usize, code: i32) -> JobEnding {
        JobEnding::new(0, &name(number), owner.into(), 0, None, &JobOutcome::new(Status::SUCCESS, code))
    }

    #[test]
    fn a_user_with_many_jobs_displaces_no_end_of_another_user() {
        let table = JobTable::default();
        table.remember([ending(1, 0, 7)]);
        table.remember((1..=MAX_ENDINGS + 1).map(|number| ending(2, number, 0)));
        assert!(table.ending(&name(1)).is_none(), "the earliest of the other user");
        assert_eq!(table.ending(&name(0)).unwrap().exit_code, 7);
    }

    #[test]
    fn of_very_many_users_the_one_who_has_been_away_for_longest_is_forgotten() {
        let table = JobTable::default();
        for user in 0..MAX_USERS {
            table.remember([ending(user as u32, user, 0)]);
        }
        table.remember([ending(0, MAX_USERS, 0), ending(MAX_USERS as u32, MAX_USERS + 1, 0)]);
        assert!(table.ending(&name(1)).is_none());
        for number in [0, 2, MAX_USERS, MAX_USERS + 1] {
            assert!(table.ending(&name(number)).is_some(), "{number}");
        }
    }

    #[test]
    fn the_ends_of_the_last_jobs_are_remembered_each_once() {
        let table = JobTable::default();
        let ending = |number, code| ending(0, number, code);
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
