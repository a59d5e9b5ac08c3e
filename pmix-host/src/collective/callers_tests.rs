use pmix_types::{Rank, Uid, keys};

use super::*;

fn proc(rank: u32) -> ProcId {
    ProcId::new("job".parse().unwrap(), Rank::from_raw(rank))
}

fn leads(leaders: u64, added: &[u32]) -> Option<Leads> {
    let added = added.iter().map(|rank| proc(*rank)).collect();
    Some(Leads { leaders, added, directives: Directives::new() })
}

/// The callers of one user's group `g`, each at a place of its own.
#[derive(Default)]
struct Table {
    callers: Callers,
    calls: u64,
}

const USER: Uid = Uid::new(7);
const OTHER_USER: Uid = Uid::new(8);

impl Table {
    fn call(&mut self, rank: u32, leads: Option<Leads>) -> oneshot::Receiver<Found> {
        self.call_of(USER, rank, leads)
    }

    fn call_of(&mut self, uid: Uid, rank: u32, leads: Option<Leads>) -> oneshot::Receiver<Found> {
        self.calls += 1;
        let place = ("n0".to_owned(), self.calls);
        self.callers.call(&(uid, "g".to_owned()), place, proc(rank), leads)
    }

    fn leave_last(&mut self) {
        self.callers.leave(&("n0".to_owned(), self.calls));
    }

    #[track_caller]
    fn is_empty(&self) {
        assert!(self.callers.waiting.is_empty() && self.callers.known.is_empty(), "{:?}", self.callers);
    }
}

#[track_caller]
fn members(answer: &mut oneshot::Receiver<Found>) -> Vec<u32> {
    answer.try_recv().unwrap().unwrap().members.iter().map(|proc| proc.rank.to_raw()).collect()
}

#[track_caller]
fn waits(answer: &mut oneshot::Receiver<Found>) {
    assert_eq!(answer.try_recv(), Err(oneshot::error::TryRecvError::Empty));
}

#[test]
fn grp_02_the_members_are_the_leaders_and_those_they_add_each_once() {
    let mut t = Table::default();
    let mut early = t.call(5, None);
    let mut second = t.call(4, leads(2, &[5, 1, 6, 4]));
    waits(&mut early);
    waits(&mut second);
    let mut first = t.call(1, leads(2, &[6, 4]));
    for answer in [&mut early, &mut second, &mut first] {
        let found = answer.try_recv().unwrap().unwrap();
        assert_eq!(found.leaders, [proc(1), proc(4)]);
        assert_eq!(
            found.members,
            [1, 4, 6, 5].map(proc),
            "leaders first, then in the order in which they are named"
        );
    }
    // the last one comes when it likes
    let mut late = t.call(6, None);
    assert_eq!(members(&mut late), [1, 4, 6, 5]);
    t.is_empty();
}

#[test]
fn grp_02_leaders_that_name_different_numbers_fail_and_others_wait() {
    let mut t = Table::default();
    let mut added = t.call(3, None);
    let mut one = t.call(0, leads(3, &[3]));
    let mut other = t.call(1, leads(2, &[]));
    for answer in [&mut one, &mut other] {
        let failure = answer.try_recv().unwrap().unwrap_err();
        assert_eq!(failure.status, Status::ERR_BAD_PARAM);
        assert!(failure.message.contains("2 and 3"), "{failure}");
    }
    waits(&mut added);
    // once they agree it is made
    let mut alone = t.call(0, leads(1, &[3]));
    assert_eq!(members(&mut alone), [0, 3]);
    assert_eq!(members(&mut added), [0, 3]);
    t.is_empty();
}

#[test]
fn grp_02_a_leader_too_many_is_told_so_and_the_same_leaders_can_do_it_again() {
    let mut t = Table::default();
    let mut first = t.call(0, leads(1, &[1, 2]));
    assert_eq!(members(&mut first), [0, 1, 2]);
    let failure = t.call(1, leads(1, &[])).try_recv().unwrap().unwrap_err();
    assert_eq!(failure.status, Status::ERR_BAD_PARAM);
    // rank 2 never came: the next group is another one
    let mut again = t.call(0, leads(1, &[3]));
    assert_eq!(members(&mut again), [0, 3]);
    let mut never = t.call(2, None);
    waits(&mut never);
    let mut added = t.call(3, None);
    assert_eq!(members(&mut added), [0, 3]);
    t.callers.leave(&("n0".to_owned(), 4));
    t.is_empty();
}

#[test]
fn grp_02_a_leader_that_gives_up_does_not_count() {
    let mut t = Table::default();
    let mut gone = t.call(0, leads(2, &[]));
    t.leave_last();
    assert_eq!(gone.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    let mut one = t.call(1, leads(2, &[]));
    waits(&mut one);
    // what a process calls again takes the place of what it has called before
    let mut before = t.call(2, leads(3, &[]));
    assert_eq!(before.try_recv().unwrap().unwrap_err().status, Status::ERR_BAD_PARAM);
    let mut one = t.call(1, leads(2, &[]));
    let mut twice = t.call(1, leads(2, &[]));
    assert_eq!(one.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    waits(&mut twice);
    let mut two = t.call(2, leads(2, &[]));
    assert_eq!(members(&mut two), [1, 2]);
    assert_eq!(members(&mut twice), [1, 2]);
    t.is_empty();
}

#[test]
fn grp_02_what_one_leader_directs_holds_for_all() {
    let mut t = Table::default();
    let directed =
        |key| Some(Leads { directives: Directives::new().with(key, true), ..leads(2, &[]).unwrap() });
    t.call(0, directed(&keys::GROUP_OPTIONAL));
    let found = t.call(1, directed(&keys::GROUP_ASSIGN_CONTEXT_ID)).try_recv().unwrap().unwrap();
    assert_eq!(found.directives.flag(&keys::GROUP_OPTIONAL), Ok(true));
    assert_eq!(found.directives.flag(&keys::GROUP_ASSIGN_CONTEXT_ID), Ok(true));
}

#[test]
fn sec_01_processes_of_different_users_do_not_meet() {
    let mut t = Table::default();
    let mut mine = t.call_of(USER, 0, leads(2, &[2]));
    let mut theirs = t.call_of(OTHER_USER, 1, leads(2, &[2]));
    waits(&mut mine);
    waits(&mut theirs);
    let mut second = t.call_of(USER, 3, leads(2, &[]));
    assert_eq!(members(&mut second), [0, 3, 2]);
    // another user's process is not told of it, whatever it calls itself
    let mut stranger = t.call_of(OTHER_USER, 2, None);
    waits(&mut stranger);
    waits(&mut theirs);
}

#[test]
fn groups_whose_members_do_not_come_are_kept_in_bounded_number_and_bytes() {
    let mut t = Table::default();
    for number in 0..u32::try_from(MAX_KNOWN).unwrap() + 9 {
        t.call(number + 10, leads(1, &[1]));
    }
    assert_eq!(t.callers.known[&USER].len(), MAX_KNOWN);
    let many: Vec<_> = (0..100_000).collect();
    for leader in 0..9 {
        t.call(1_000_000 + leader, leads(1, &many));
    }
    let bytes: usize = t.callers.known[&USER].iter().map(Known::memory).sum();
    assert!(bytes <= MAX_KNOWN_BYTES, "{bytes}");
}
