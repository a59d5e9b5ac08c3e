//! Fence.

use pmix_types::{Directives, Info, InfoFlags, KeyName, Scope, Status, Value, keys};

use super::super::rank::{Checked, Rank, broken, ensure, must, must_fail};
use super::{Check, ensure_left_after, family, now};

family! {
    fence_waits_for_all ["FEN-01", "FEN-09"], "no fence ends before all have entered", across [Fence, DirectModex];
    fence_brings_data ["FEN-06", "FEN-09"], "COLLECT_DATA brings the committed data of all participants", across [Fence];
    rounds_do_not_mix ["FEN-04"], "fences of the same participants are matched in the order in which each process calls them", across [Fence];
    subsets_do_not_wait_for_others ["FEN-03", "FEN-04"], "a fence waits only for its participants", across [Fence];
    a_stranger_may_not_enter ["FEN-05"], "the caller of a fence must be a participant", across [Fence];
    a_fence_ends_in_time ["FEN-17", "GEN-12"], "TIMEOUT ends a fence for all waiting participants", across [Fence];
    an_unknown_required_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive is refused", across [Fence];
    an_unknown_optional_directive_is_ignored ["GEN-04"], "an unknown optional directive is ignored", across [Fence];
}

/// The last rank enters late and says when. A rank that left earlier did not wait for it.
async fn fence_waits_for_all(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let key = rank.key("entered")?;
    if rank.is_last() {
        rank.be_late().await;
        rank.commit(Scope::GLOBAL, key.clone(), now()).await?;
    }
    rank.sync(None).await?;
    ensure_left_after(rank, &key, now(), "fence").await?;
    rank.sync(None).await
}

async fn fence_brings_data(rank: &Rank) -> Checked {
    let key = rank.key("endpoint")?;
    rank.commit(Scope::GLOBAL, key.clone(), rank.number()).await?;
    must("fence", rank.fence(None, Directives::new().with(&keys::COLLECT_DATA, true)).await?)?;
    for number in 0..rank.size() {
        let proc = rank.peer(number);
        let found = rank.get(&proc, &key, Directives::new().with(&keys::IMMEDIATE, true)).await?;
        let value = must(&format!("value of {proc} after a fence that collects data"), found)?;
        ensure(value == Value::Uint32(number), || format!("{proc} has {value:?}"))?;
    }
    rank.sync(None).await
}

async fn rounds_do_not_mix(rank: &Rank) -> Checked {
    for round in 0..5u32 {
        let key = rank.key(&format!("round.{round}"))?;
        rank.commit(Scope::GLOBAL, key.clone(), round).await?;
        must("fence", rank.fence(None, Directives::new().with(&keys::COLLECT_DATA, true)).await?)?;
        let found = rank.get(&rank.last(), &key, Directives::new().with(&keys::IMMEDIATE, true)).await?;
        must(&format!("data of round {round}"), found)?;
    }
    Ok(())
}

async fn subsets_do_not_wait_for_others(rank: &Rank) -> Checked {
    rank.needs(3)?;
    let some = vec![rank.peer(0), rank.last()];
    if rank.is_first() {
        rank.sync(Some(some)).await?;
    } else if rank.is_last() {
        // order does not matter
        rank.sync(Some(some.into_iter().rev().collect())).await?;
    }
    rank.sync(None).await
}

async fn a_stranger_may_not_enter(rank: &Rank) -> Checked {
    rank.needs(2)?;
    if rank.is_first() {
        let refused = rank.fence(Some(vec![rank.last()]), Directives::new()).await?;
        // C libraries before 6.0 know only the second
        must_fail("a fence of other processes", refused, &[Status::ERR_NOT_A_MEMBER, Status::ERR_BAD_PARAM])?;
    }
    rank.sync(None).await
}

async fn a_fence_ends_in_time(rank: &Rank) -> Checked {
    rank.needs(3)?;
    // without one rank: the last could enter a fence of all by that of the job, as servers may take both names for the same
    let most: Vec<_> =
        (0..rank.size()).filter(|number| *number != 1).map(|number| rank.peer(number)).collect();
    if rank.number() != 1 && !rank.is_last() {
        let late = rank.fence(Some(most), Directives::new().with(&keys::TIMEOUT, 1)).await?;
        must_fail("a fence that one participant does not enter", late, &[Status::ERR_TIMEOUT])?;
    }
    rank.sync(None).await
}

async fn an_unknown_required_directive_is_refused(rank: &Rank) -> Checked {
    let unknown = unknown()?.with_flags(InfoFlags::REQUIRED);
    // a fence that is not supported at all would also be refused
    rank.sync(None).await?;
    let refused = rank.fence(None, Directives::from(vec![unknown])).await?;
    must_fail("a fence with an unknown required directive", refused, &[Status::ERR_NOT_SUPPORTED])
}

async fn an_unknown_optional_directive_is_ignored(rank: &Rank) -> Checked {
    must(
        "a fence with an unknown optional directive",
        rank.fence(None, Directives::from(vec![unknown()?])).await?,
    )
}

fn unknown() -> Checked<Info> {
    let key = KeyName::new("check.unknown.directive").map_err(|error| broken(error.to_string()))?;
    Ok(Info::dynamic(key, true))
}
