//! `pmixrun` binds ranks to processors: what the kernel says of them.

use std::collections::BTreeSet;

use pmix_topology::{Level, Processors, Topology};
use pmix_types::BindEnvelope;

use crate::common::{Done, Site};

/// What the kernel says to each rank, by rank.
const TELL: [&str; 3] = ["sh", "-c", "echo $PMIX_RANK $(grep Cpus_allowed_list /proc/self/status)"];

fn mine() -> Processors {
    Processors::bound(BindEnvelope::THREAD).unwrap()
}

/// Parts of the cores that the tests may use.
fn cores() -> Vec<Processors> {
    let topology = Topology::read();
    let parts = topology.objects(Level::Core).iter().map(|core| core.intersection(&mine()));
    parts.filter(|core| !core.is_empty()).collect()
}

fn told(done: &Done) -> Vec<Processors> {
    assert_eq!(done.code(), 0, "{done:?}");
    let list = |line: &&str| line.split_whitespace().last().unwrap().parse().unwrap();
    done.lines().iter().map(list).collect()
}

fn bound(options: &[&str], ranks: usize) -> Vec<Processors> {
    let count = ranks.to_string();
    told(&Site::new().run(&[options, &["-n", &count], &TELL].concat()))
}

#[test]
fn bnd_01_two_ranks_get_a_core_each_and_a_crowd_gets_none() {
    let cores = cores();
    assert_eq!(bound(&[], 1), cores[..1]);
    if cores.len() > 1 {
        assert_eq!(bound(&[], 2), cores[..2]);
        // also if their nodes are simulated on one machine
        assert_eq!(bound(&["--vnodes", "2"], 2), cores[..2]);
    }
    let crowd = mine().len() + 1;
    assert_eq!(bound(&[], crowd), vec![mine(); crowd]);
}

#[test]
fn bnd_01_ranks_are_bound_as_requested() {
    let topology = Topology::read();
    let mut numa = topology.objects(Level::Numa).iter().map(|node| node.intersection(&mine()));
    let numa = numa.find(|part| !part.is_empty()).unwrap();
    for policy in [&["--bind-to", "none"][..], &["--map-by", "core", "--bind-to", "NONE"]] {
        assert_eq!(bound(policy, 1), [mine()], "{policy:?}");
    }
    assert_eq!(bound(&["--bind-to", "numa"], 1), std::slice::from_ref(&numa));
    assert_eq!(bound(&["--map-by", "numa"], 1), [numa]);
    assert_eq!(bound(&["-bind-to", "hwthread"], 1), [Processors::from_iter(mine().first())]);
    let cores = cores();
    if cores.len() > 1 {
        assert_eq!(bound(&["--map-by", "slot:PE=2"], 1), [cores[0].union(&cores[1])]);
    }
    let crowd = cores.len() + 1;
    let shared = bound(&["--bind-to", "core:overload-allowed"], crowd);
    assert_eq!((&shared[0], shared.len()), (&shared[crowd - 1], crowd));
}

#[test]
fn only_processors_of_pmixrun_itself_are_given_out() {
    let last = mine().iter().last().unwrap();
    let site = Site::new();
    let on_last =
        |args: &[&str]| told(&site.run_below(&["taskset", "-c", &last.to_string()], &[args, &TELL].concat()));
    let one = Processors::from_iter([last]);
    assert_eq!(on_last(&["-n", "1"]), std::slice::from_ref(&one));
    assert_eq!(on_last(&["-n", "1", "--bind-to", "package"]), std::slice::from_ref(&one));
    assert_eq!(on_last(&["-n", "2"]), [one.clone(), one]);
}

#[test]
fn report_bindings_prints_a_line_for_each_rank() {
    let done = Site::new().run(&[&["--report-bindings", "-n", "1"][..], &TELL].concat());
    let node = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let processors = &told(&done)[0];
    let topology = Topology::read();
    let is_mine = |core: &Processors| !core.intersection(&mine()).is_empty();
    let core = topology.objects(Level::Core).iter().position(is_mine).unwrap();
    let said = format!("pmixrun: rank 0 on {node} is bound to core {core} (processors {processors})\n");
    assert_eq!(done.err(), said);
    let done = Site::new().run(&["--report-bindings", "--bind-to", "none", "-n", "2", "true"]);
    let said = ["0", "1"].map(|rank| format!("pmixrun: rank {rank} on {node} is not bound\n"));
    assert_eq!(done.err(), said.concat());
    assert_eq!(Site::new().run(&["-n", "1", "true"]).err(), "");
}

#[test]
fn bnd_01_what_cannot_be_bound_as_requested_is_not_started() {
    let crowd = (mine().len() + 1).to_string();
    for (options, reason) in [
        (&["--bind-to", "core"][..], "not enough processors"),
        (&["--map-by", "numa:PE=1"], "not enough processors"),
        (&["--map-by", ":NOOVERSUBSCRIBE"], "fewer processors"),
    ] {
        let done = Site::new().run(&[options, &["-n", &crowd, "sh", "-c", "echo started"]].concat());
        assert_eq!((done.code(), done.out()), (1, ""), "{done:?}");
        assert!(done.err().contains(reason), "{done:?}");
    }
    let done = Site::new().run(&[&["--bind-to", "core:if-supported", "-n", &crowd], &TELL[..]].concat());
    assert!(told(&done).iter().all(|processors| *processors == mine()), "{done:?}");
    let done = Site::new().run(&["--bind-to", "moon", "-n", "1", "true"]);
    assert_eq!(done.code(), 2, "{done:?}");
}

#[test]
fn descendants_of_a_rank_are_bound_like_it() {
    let text = "for i in 1 2; do (sh -c 'grep Cpus_allowed_list /proc/self/status') & done; wait";
    let done = Site::new().run(&["-n", "1", "sh", "-c", text]);
    let all: BTreeSet<String> = told(&done).iter().map(ToString::to_string).collect();
    assert_eq!(all, BTreeSet::from([cores()[0].to_string()]));
}
