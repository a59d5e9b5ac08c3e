//! Random schedules on three servers that a host links: every operation, with deaths, timeouts, and answers that are
//! late, lost, wrong or given twice.
//!
//! Processes of two jobs and two users ask whatever they like at any time, and go through a program of collectives
//! besides. Published data is kept by the store of `StandardHost`. What comes of it is held against `model`, which
//! knows what may be seen by whom, and which collectives nothing excuses for failing.

mod ask;
mod collectives;
mod fixtures;
mod groups;
mod host;
mod model;
mod verdicts;
mod world;

use proptest::prelude::*;

use world::World;

/// One thing that happens. Small numbers pick among what there is.
#[derive(Clone, Debug)]
enum Action {
    /// A process asks for something.
    Ask {
        who: u8,
        what: What,
    },
    /// A process goes on with its program.
    Enter {
        who: u8,
    },
    /// Something arrives at a server or at the host.
    Deliver {
        which: u8,
    },
    /// The host does badly by what it is asked next.
    Fate(Fate),
    /// The host answers again what was answered or given up before.
    Repeat {
        which: u8,
        ok: bool,
    },
    /// Output of a process.
    Output {
        who: u8,
    },
    /// A connection is lost.
    Kill {
        who: u8,
    },
    /// The host says that a process has ended.
    Ended {
        who: u8,
    },
    DeregisterClient {
        who: u8,
    },
    /// The second job is over everywhere, but not everywhere at once.
    DeregisterNspace,
    Pass {
        seconds: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Fails,
    /// It answers something else than was asked for.
    Nonsense,
    /// It answers long after all timeouts.
    Sleeps,
}

#[derive(Clone, Debug)]
enum What {
    Commit { key: u8, scope: u8 },
    Get { target: u8, key: u8, immediate: bool, timeout: u8 },
    Publish { key: u8, range: u8, lasting: u8, to: u8, opened: bool, timeout: u8 },
    Lookup { keys: u8, range: u8, to: u8, wait: Option<u8>, timeout: u8 },
    Unpublish { key: Option<u8>, range: u8 },
    Register { codes: u8 },
    Deregister { which: u8 },
    Notify { code: u8, range: u8, to: u8 },
    Query { timeless: bool },
    Resolve { peers: bool },
    Log { timeout: u8 },
    Spawn { timeout: u8 },
    Control { timeout: u8 },
    Pull { target: u8 },
    EndPull { which: u8 },
    Push { target: u8 },
    Abort,
    Finalize,
}

/// A collective that its members enter in the order of the program.
#[derive(Clone, Debug)]
enum Step {
    Fence {
        members: Members,
        collect: bool,
        timeout: u8,
    },
    Connect {
        members: Members,
        optional: bool,
        notify_each: bool,
        timeout: u8,
    },
    /// Of an earlier connect, if there is one, as are those below.
    Reconnect {
        of: u8,
        timeout: u8,
    },
    GroupFence {
        of: u8,
    },
    Disconnect {
        of: u8,
        timeout: u8,
    },
    Group {
        members: Members,
        optional: bool,
        numbered: bool,
        timeout: u8,
    },
    /// A group of which only the leaders know how many they are, and whom they add.
    Bootstrap {
        members: Members,
        leaders: u8,
        numbered: bool,
        timeout: u8,
    },
    /// A group by invitation; of the members, some decline, and some answer by an event, as libraries in C do.
    Invite {
        members: Members,
        leader: u8,
        optional: bool,
        numbered: bool,
        declines: u8,
        by_event: u8,
        timeout: u8,
    },
    /// Of an earlier group, if there is one.
    Ungroup {
        of: u8,
        timeout: u8,
    },
}

#[derive(Clone, Debug)]
enum Members {
    /// All of a job, by wildcard.
    Job(u8),
    Everybody,
    Some(Vec<u8>),
}

fn what() -> impl Strategy<Value = What> {
    let who = || 0..8u8;
    let timeout = || prop_oneof![2 => Just(0u8), 1 => 1..4u8];
    prop_oneof![
        8 => (0..3u8, 0..3u8).prop_map(|(key, scope)| What::Commit { key, scope }),
        8 => (who(), 0..3u8, prop::bool::weighted(0.2), timeout())
            .prop_map(|(target, key, immediate, timeout)| What::Get { target, key, immediate, timeout }),
        8 => (0..3u8, 0..8u8, 0..4u8, who(), prop::bool::weighted(0.2), timeout()).prop_map(
            |(key, range, lasting, to, opened, timeout)| What::Publish { key, range, lasting, to, opened, timeout }
        ),
        10 => (1..8u8, 0..8u8, who(), prop::option::weighted(0.4, 0..3u8), timeout())
            .prop_map(|(keys, range, to, wait, timeout)| What::Lookup { keys, range, to, wait, timeout }),
        2 => (prop::option::of(0..3u8), 0..8u8).prop_map(|(key, range)| What::Unpublish { key, range }),
        4 => (0..8u8).prop_map(|codes| What::Register { codes }),
        1 => (0..8u8).prop_map(|which| What::Deregister { which }),
        6 => (0..3u8, 0..8u8, who()).prop_map(|(code, range, to)| What::Notify { code, range, to }),
        1 => any::<bool>().prop_map(|timeless| What::Query { timeless }),
        1 => any::<bool>().prop_map(|peers| What::Resolve { peers }),
        1 => timeout().prop_map(|timeout| What::Log { timeout }),
        1 => timeout().prop_map(|timeout| What::Spawn { timeout }),
        1 => timeout().prop_map(|timeout| What::Control { timeout }),
        2 => who().prop_map(|target| What::Pull { target }),
        1 => (0..4u8).prop_map(|which| What::EndPull { which }),
        2 => who().prop_map(|target| What::Push { target }),
        1 => Just(What::Abort),
        1 => Just(What::Finalize),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let who = || 0..8u8;
    let fate = prop_oneof![2 => Just(Fate::Fails), 1 => Just(Fate::Nonsense), 2 => Just(Fate::Sleeps)];
    prop_oneof![
        40 => (who(), what()).prop_map(|(who, what)| Action::Ask { who, what }),
        16 => who().prop_map(|who| Action::Enter { who }),
        48 => any::<u8>().prop_map(|which| Action::Deliver { which }),
        3 => fate.prop_map(Action::Fate),
        2 => (any::<u8>(), any::<bool>()).prop_map(|(which, ok)| Action::Repeat { which, ok }),
        2 => who().prop_map(|who| Action::Output { who }),
        1 => who().prop_map(|who| Action::Kill { who }),
        1 => who().prop_map(|who| Action::Ended { who }),
        1 => who().prop_map(|who| Action::DeregisterClient { who }),
        1 => Just(Action::DeregisterNspace),
        3 => (1..3u8).prop_map(|seconds| Action::Pass { seconds }),
    ]
}

fn members() -> impl Strategy<Value = Members> {
    prop_oneof![
        1 => (0..2u8).prop_map(Members::Job),
        1 => Just(Members::Everybody),
        4 => prop::collection::vec(0..8u8, 1..5).prop_map(Members::Some),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let timeout = || prop_oneof![4 => Just(0u8), 1 => 1..4u8];
    prop_oneof![
        4 => (members(), any::<bool>(), timeout())
            .prop_map(|(members, collect, timeout)| Step::Fence { members, collect, timeout }),
        3 => (members(), prop::bool::weighted(0.2), any::<bool>(), timeout()).prop_map(
            |(members, optional, notify_each, timeout)| Step::Connect { members, optional, notify_each, timeout }
        ),
        1 => (0..4u8, timeout()).prop_map(|(of, timeout)| Step::Reconnect { of, timeout }),
        1 => (0..4u8).prop_map(|of| Step::GroupFence { of }),
        2 => (0..4u8, timeout()).prop_map(|(of, timeout)| Step::Disconnect { of, timeout }),
        3 => (members(), prop::bool::weighted(0.2), any::<bool>(), timeout()).prop_map(
            |(members, optional, numbered, timeout)| Step::Group { members, optional, numbered, timeout }
        ),
        2 => (members(), any::<u8>(), any::<bool>(), timeout()).prop_map(
            |(members, leaders, numbered, timeout)| Step::Bootstrap { members, leaders, numbered, timeout }
        ),
        3 => (members(), any::<u8>(), any::<bool>(), any::<bool>(), some_of_all(), some_of_all(), timeout()).prop_map(
            |(members, leader, optional, numbered, declines, by_event, timeout)| Step::Invite {
                members, leader, optional, numbered, declines, by_event, timeout
            }
        ),
        2 => (0..4u8, timeout()).prop_map(|(of, timeout)| Step::Ungroup { of, timeout }),
    ]
}

/// A bit for each process; often for none.
fn some_of_all() -> impl Strategy<Value = u8> {
    prop_oneof![2 => Just(0u8), 1 => any::<u8>(), 1 => (0..8u32).prop_map(|bit| 1 << bit)]
}

/// As many as `PROPTEST_CASES` says, if it is set.
fn cases(otherwise: u32) -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = otherwise;
    }
    config
}

proptest! {
    #![proptest_config(cases(2000))]
    #[test]
    fn gen_08_gen_12_gen_13_grp_01_grp_02_grp_03_pub_04_pub_07_pub_09_pub_10_evt_11_evt_14_any_schedule_on_three_servers_ends_well(
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 0..8),
        actions in prop::collection::vec(action(), 0..120),
    ) {
        let mut world = World::new(seed, &steps);
        for action in actions {
            world.act(action);
        }
        world.end();
    }
}
