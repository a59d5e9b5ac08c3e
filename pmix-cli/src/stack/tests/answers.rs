//! The sentence.

use std::time::Duration;

use pmix_tool::types::RankSet;
use pmix_tool::{ProcId, ProcInfo, Rank};

use super::frames;
use crate::stack::answer::{groups, place, sentence, shortened};
use crate::stack::backend::Looked;
use crate::stack::find::{NoStack, Outcome};
use crate::stack::frame::Frame;
use crate::stack::report::{JobStacks, RankReport};

/// What is said of ranks with these stacks, and whether they are stopped.
fn said(stacks: &[(u32, Vec<Frame>, bool)]) -> String {
    let places = stacks
        .iter()
        .map(|(rank, frames, stopped)| (Rank::from_raw(*rank), place(frames).unwrap(), *stopped));
    sentence(&groups(places))
}

fn barrier() -> Vec<Frame> {
    frames(&[("main", 20), ("PMPI_Barrier", 0), ("opal_progress", 0)])
}

fn asleep() -> Vec<Frame> {
    frames(&[("main", 19), ("compute", 14), ("usleep", 0), ("clock_nanosleep", 0)])
}

/// 16 ranks in a barrier, but these.
fn but(others: &[(u32, Vec<Frame>, bool)]) -> String {
    let mut stacks: Vec<_> = (0..16).map(|rank| (rank, barrier(), false)).collect();
    for (rank, frames, stopped) in others {
        stacks[*rank as usize] = (*rank, frames.clone(), *stopped);
    }
    said(&stacks)
}

#[test]
fn those_elsewhere_are_named() {
    let most = "15 of 16 ranks are in MPI_Barrier, called from main (late.c:20)";
    assert_eq!(
        but(&[(3, asleep(), false)]),
        format!("{most}; rank 3 is in usleep, called from compute (late.c:14).")
    );
    let stopped = but(&[(3, asleep(), true)]);
    assert_eq!(stopped, format!("{most}; rank 3 is stopped in usleep, called from compute (late.c:14)."));
    let spins = frames(&[("main", 19), ("compute", 11)]);
    assert_eq!(
        but(&[(3, spins, false)]),
        format!("{most}; rank 3 is in compute (late.c:11), called from main.")
    );
}

#[test]
fn nobody_is_elsewhere() {
    assert_eq!(but(&[]), "All 16 ranks are in MPI_Barrier, called from main (late.c:20).");
    // one of them is stopped, where the others are
    let one = but(&[(5, barrier(), true)]);
    assert_eq!(
        one,
        "All 16 ranks are in MPI_Barrier, called from main (late.c:20). Rank 5 is stopped by a signal."
    );
    assert_eq!(said(&[(0, asleep(), false)]), "Rank 0 is in usleep, called from compute (late.c:14).");
    assert_eq!(
        said(&[(0, asleep(), true), (1, asleep(), true)]),
        "All 2 ranks are stopped in usleep, called from compute (late.c:14)."
    );
    assert_eq!(said(&[]), "There is no stack to show.");
}

/// What is inside of a call of MPI does not tell ranks apart; what has called it does.
#[test]
fn two_barriers_are_two_places() {
    let other = frames(&[("main", 40), ("MPI_Barrier", 0), ("sched_yield", 0)]);
    let deeper = frames(&[("main", 20), ("MPI_Barrier", 0), ("PMIx_Fence", 0)]);
    assert_eq!(
        but(&[(3, other, false), (4, deeper, false)]),
        "15 of 16 ranks are in MPI_Barrier, called from main (late.c:20); rank 3 is in MPI_Barrier, called from main \
         (late.c:40)."
    );
}

/// Interpreters and wrappers are no part of the program.
#[test]
fn a_call_is_of_the_program() {
    let python =
        frames(&[("<module>", 3), ("exchange", 7), ("__pyx_pw", 0), ("PMPI_Allreduce", 0), ("poll", 0)]);
    assert_eq!(said(&[(0, python, false)]), "Rank 0 is in MPI_Allreduce, called from exchange (late.c:7).");
    let mine = frames(&[("main", 3), ("MPI_like", 4), ("pause", 0)]);
    assert_eq!(said(&[(0, mine, false)]), "Rank 0 is in pause, called from MPI_like (late.c:4).");
    for (name, call) in [("pshmem_barrier_all", "shmem_barrier_all"), ("PMIx_Fence", "PMIx_Fence")] {
        let stack = frames(&[("main", 3), (name, 0)]);
        assert_eq!(said(&[(0, stack, false)]), format!("Rank 0 is in {call}, called from main (late.c:3)."));
    }
}

#[test]
fn ranks_that_compute_at_different_lines_are_together() {
    let at = |line| frames(&[("main", 19), ("compute", line)]);
    let stacks: Vec<_> = (0..8).map(|rank| (rank, at(rank + 30), false)).collect();
    assert_eq!(said(&stacks), "All 8 ranks are in compute, called from main.");
}

#[test]
fn without_a_majority_all_places_are_named() {
    let at = |name, line| frames(&[("main", line), (name, 0)]);
    let mut stacks = vec![(0, at("MPI_Send", 5), false), (1, at("MPI_Recv", 6), false)];
    assert_eq!(
        said(&stacks),
        "The 2 ranks are at 2 places: rank 0 is in MPI_Send, called from main (late.c:5); rank 1 is in MPI_Recv, called \
         from main (late.c:6)."
    );
    stacks.extend((2..8).map(|rank| (rank, at("pause", rank), false)));
    let text = said(&stacks);
    assert!(text.starts_with("The 8 ranks are at 8 places: rank 0 is in MPI_Send"), "{text}");
    assert!(text.ends_with("; 4 more ranks are at 4 other places."), "{text}");
}

#[test]
fn ranges_are_shortened_to_what_fits() {
    let odd: RankSet = (0..10_000).filter(|rank| rank % 2 == 1).map(Rank::from_raw).collect();
    assert_eq!(shortened(&odd, 12), ("1,3,5,7,9,…".into(), false));
    let text = said(&odd.iter().map(|rank| (rank.to_raw(), asleep(), false)).collect::<Vec<_>>());
    assert_eq!(text, "All 5000 ranks are in usleep, called from compute (late.c:14).");
    let mut both: Vec<_> = odd.iter().map(|rank| (rank.to_raw(), asleep(), false)).collect();
    both.extend((0..10_000).filter(|rank| rank % 2 == 0).map(|rank| (rank, barrier(), false)));
    let text = said(&both);
    assert!(text.contains("5000 ranks (0,2,4,") && text.len() < 300, "{text}");
    let all: RankSet = (0..10_000).map(Rank::from_raw).collect();
    assert_eq!(shortened(&all, 6), ("0-9999".into(), true));
    // however little room there is, something is shown
    assert_eq!(shortened(&odd, 0), ("1,…".into(), false));
    assert_eq!(shortened(&RankSet::new(), 10), (String::new(), true));
}

#[test]
fn ranks_of_other_hosts_are_counted_and_the_command_for_them_is_named() {
    let report = |here: &[u32]| {
        let rank = |rank: u32| {
            let mut info = ProcInfo::new(ProcId::new("job".parse().unwrap(), Rank::from_raw(rank)));
            info.hostname = Some(format!("n{}", rank / 2));
            let looked = || Looked {
                threads: vec![(1, barrier())],
                is_whole: true,
                by: "gdb".into(),
                stopped: Duration::ZERO,
                note: None,
            };
            let elsewhere = || NoStack::new(Outcome::Elsewhere, "on another host");
            let result = here.contains(&rank).then(looked).ok_or_else(elsewhere);
            RankReport::new(&info, false, result)
        };
        let report = JobStacks::new("job".parse().unwrap(), (0..8).map(rank).collect(), RankSet::new());
        serde_json::to_value(&report).unwrap()["answer"].as_str().unwrap().to_owned()
    };
    let barrier = "are in MPI_Barrier, called from main (late.c:20).";
    assert_eq!(report(&[0, 1]), format!("2 of 8 ranks, those on n0: all 2 ranks {barrier}"));
    assert_eq!(report(&[]), "0 of 8 ranks run on this host. There is no stack to show.");
    assert_eq!(report(&[0, 1, 2, 3, 4, 5, 6, 7]), format!("All 8 ranks {barrier}"));
}
