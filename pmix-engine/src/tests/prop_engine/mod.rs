//! Random schedules on one engine, compared with a simple model.

mod model;
mod world;

use proptest::prelude::*;

use super::super::upcall::{Capabilities, Upcall};
use world::World;

/// One thing that happens. Small numbers pick among what there is.
#[derive(Clone, Debug)]
enum Action {
    /// A process or a clone of one comes.
    Hello {
        rank: u8,
    },
    Commit {
        who: u8,
        key: u8,
        scope: u8,
    },
    Get {
        who: u8,
        rank: u8,
        key: u8,
        immediate: bool,
        refresh: bool,
        timeout: u8,
    },
    Fence {
        who: u8,
        set: u8,
        collect: bool,
        timeout: u8,
    },
    Finalize {
        who: u8,
    },
    Lose {
        who: u8,
    },
    HostAnswers {
        which: u8,
        ok: bool,
    },
    /// The host answers what was answered or cancelled before.
    HostRepeats {
        which: u8,
        ok: bool,
    },
    HostAsks {
        rank: u8,
        key: Option<u8>,
    },
    Ended {
        rank: u8,
    },
    DeregisterClient {
        rank: u8,
    },
    RegisterClient {
        rank: u8,
    },
    DeregisterNspace,
    Pass {
        seconds: u8,
    },
}

fn action() -> impl Strategy<Value = Action> {
    let small = || 0..8u8;
    let timeout = || prop_oneof![3 => Just(0u8), 2 => 1..4u8];
    prop_oneof![
        4 => small().prop_map(|rank| Action::Hello { rank }),
        6 => (small(), 0..3u8, 0..3u8).prop_map(|(who, key, scope)| Action::Commit { who, key, scope }),
        8 => (small(), small(), 0..4u8, prop::bool::weighted(0.2), prop::bool::weighted(0.1), timeout())
            .prop_map(|(who, rank, key, immediate, refresh, timeout)| {
                Action::Get { who, rank, key, immediate, refresh, timeout }
            }),
        16 => (small(), 0..5u8, any::<bool>(), timeout())
            .prop_map(|(who, set, collect, timeout)| Action::Fence { who, set, collect, timeout }),
        1 => small().prop_map(|who| Action::Finalize { who }),
        2 => small().prop_map(|who| Action::Lose { who }),
        8 => (small(), prop::bool::weighted(0.8))
            .prop_map(|(which, ok)| Action::HostAnswers { which, ok }),
        2 => (small(), any::<bool>()).prop_map(|(which, ok)| Action::HostRepeats { which, ok }),
        2 => (small(), prop::option::of(0..3u8)).prop_map(|(rank, key)| Action::HostAsks { rank, key }),
        1 => small().prop_map(|rank| Action::Ended { rank }),
        1 => small().prop_map(|rank| Action::DeregisterClient { rank }),
        1 => small().prop_map(|rank| Action::RegisterClient { rank }),
        1 => Just(Action::DeregisterNspace),
        4 => (1..3u8).prop_map(|seconds| Action::Pass { seconds }),
    ]
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    let all = [
        Upcall::ClientConnected,
        Upcall::ClientFinalized,
        Upcall::ClientLost,
        Upcall::Fence,
        Upcall::DirectModex,
    ];
    prop::sample::subsequence(all.to_vec(), 0..=all.len()).prop_map(Capabilities::from_iter)
}

proptest! {
    #[test]
    fn any_schedule_keeps_the_promises(
        capabilities in capabilities(),
        local in 3..=6u32,
        remote in 0..=2u32,
        actions in prop::collection::vec(action(), 0..80),
    ) {
        let mut world = World::new(capabilities, local, remote);
        for action in actions {
            world.step(action);
        }
        world.end();
    }
}
