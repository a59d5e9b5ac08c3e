//! Groups: made, used, left and ended.

use std::collections::BTreeSet;
use std::slice::from_ref;
use std::sync::Arc;

use pmix_types::message::{GroupConstruct, GroupDestruct, GroupLeave, GroupReply, Reply, Request};
use pmix_types::{DataArray, Directives, Nspace, ProcId, Query, Scope, Status, Value, keys};

use super::super::rank::{Answer, Checked, Rank, broken, ensure, must, must_fail};
use super::{Check, ensure_left_after, family, now};

family! {
    a_group_is_made_when_all_have_called ["GRP-01", "GRP-08"], "no construct ends before all members have called, however they name the set", across [Group, Fence, DirectModex];
    members_have_the_order_of_the_construct ["GRP-04", "QRY-12"], "the ranks in a group follow the order in which its construct names the members", across [Group, Fence];
    members_read_what_members_have_put ["GRP-05"], "a construct brings each member what the others have put", across [Group, Fence];
    a_group_gets_a_number ["GRP-05"], "a context id is the same for all members, and no two groups have the same", needs [Group], across [Fence, DirectModex];
    leaders_that_do_not_know_each_other_make_a_group ["GRP-02"], "leaders that name only themselves make one group with those they add", needs [Bootstrap], across [Group, Fence];
    a_construct_ends_in_time ["GRP-01", "GEN-12"], "TIMEOUT ends a construct", across [Group, Fence];
    a_group_can_be_made_again_after_its_end ["GRP-09"], "a group ends when all its members have called, and its id is free again", across [Group, Fence, DirectModex];
    a_member_leaves_alone ["GRP-10"], "a member leaves without the others, and each of them receives GROUP_LEFT", across [Group, Fence, NotifyEvent];
    a_group_has_no_name_of_a_namespace ["GRP-11"], "a group cannot have the name of a namespace", across [Fence];
}

/// Enters the construct of a group called after the job and `name`.
async fn construct(
    rank: &Rank,
    name: &str,
    procs: Vec<ProcId>,
    directives: Directives,
) -> Checked<Answer<GroupReply>> {
    let mut construct = GroupConstruct::new(id(rank, name)?, procs);
    construct.directives = directives;
    match rank.request(Request::GroupConstruct(construct)).await? {
        Ok(Reply::Group(reply)) => Ok(Ok(Arc::unwrap_or_clone(reply))),
        Ok(other) => Err(broken(format!("the reply to a group construct is {other:?}"))),
        Err(failure) => Ok(Err(failure)),
    }
}

async fn destruct(rank: &Rank, name: &str) -> Checked {
    let destruct = GroupDestruct::new(id(rank, name)?);
    must("destruct", rank.request(Request::GroupDestruct(destruct)).await?).map(drop)
}

fn id(rank: &Rank, name: &str) -> Checked<Nspace> {
    Nspace::new(format!("check.{}.{name}", rank.me().nspace)).map_err(|error| broken(error.to_string()))
}

/// All ranks of the job, from the last to the first.
fn backwards(rank: &Rank) -> Vec<ProcId> {
    (0..rank.size()).rev().map(|peer| rank.peer(peer)).collect()
}

async fn a_group_is_made_when_all_have_called(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let key = rank.key("called")?;
    if rank.is_last() {
        rank.be_late().await;
        rank.commit(Scope::GLOBAL, key.clone(), now()).await?;
    }
    let procs = if rank.is_first() { vec![rank.job()] } else { backwards(rank) };
    must("construct", construct(rank, "all", procs, Directives::new()).await?)?;
    ensure_left_after(rank, &key, now(), "construct").await?;
    destruct(rank, "all").await?;
    rank.sync(None).await
}

async fn members_have_the_order_of_the_construct(rank: &Rank) -> Checked {
    rank.needs(2)?;
    must("construct", construct(rank, "order", backwards(rank), Directives::new()).await?)?;
    let members = members(rank, "order").await?;
    // nobody may end it before all have asked
    rank.sync(None).await?;
    destruct(rank, "order").await?;
    rank.sync(None).await?;
    ensure(members == backwards(rank), || format!("the members are {members:?}"))
}

/// The members of a group as its server knows them.
async fn members(rank: &Rank, name: &str) -> Checked<Vec<ProcId>> {
    let query =
        Query::new(&keys::QUERY_GROUP_MEMBERSHIP).qualifier(&keys::GROUP_ID, id(rank, name)?.as_str());
    let reply = must("query of the members of a group", rank.query(vec![query]).await?)?;
    // the results of one query come as one array, or as they are
    let mut answers =
        reply.results.iter().flat_map(|info| info.value.as_infos().unwrap_or_else(|| from_ref(info)));
    let answer = answers.find(|info| info.is(&keys::QUERY_GROUP_MEMBERSHIP));
    let members = answer.and_then(|info| info.value.as_array()).and_then(|array| array.as_procs());
    members.map(<[ProcId]>::to_vec).ok_or_else(|| broken(format!("the members of a group are {reply:?}")))
}

async fn members_read_what_members_have_put(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let key = rank.key("endpoint")?;
    rank.commit(Scope::GLOBAL, key.clone(), rank.number()).await?;
    must("construct", construct(rank, "data", vec![rank.job()], Directives::new()).await?)?;
    for peer in 0..rank.size() {
        // what the construct has not brought is not fetched
        let found = rank.get(&rank.peer(peer), &key, Directives::new().with(&keys::IMMEDIATE, true)).await?;
        let put = must(&format!("value of rank {peer} after a construct"), found)?;
        ensure(put == Value::Uint32(peer), || format!("rank {peer} had put {peer}, and it is {put:?}"))?;
    }
    destruct(rank, "data").await?;
    rank.sync(None).await
}

async fn a_group_gets_a_number(rank: &Rank) -> Checked {
    let key = rank.key("numbers")?;
    let mut numbers = Vec::new();
    for name in ["one", "two"] {
        let numbered = Directives::new().with(&keys::GROUP_ASSIGN_CONTEXT_ID, true);
        let group = must("construct", construct(rank, name, vec![rank.job()], numbered).await?)?;
        let number =
            group.context_id.ok_or_else(|| broken("a group has no context id, though it was requested"))?;
        numbers.push(number);
    }
    ensure(numbers[0] != numbers[1], || format!("two groups have context id {}", numbers[0]))?;
    let told = format!("{numbers:?}");
    rank.commit(Scope::GLOBAL, key.clone(), told.clone()).await?;
    rank.sync(None).await?;
    for peer in 0..rank.size() {
        let others = must("get", rank.get(&rank.peer(peer), &key, Directives::new()).await?)?;
        ensure(others.as_str() == Some(&told), || {
            format!("the groups have context ids {told} here, and {others:?} at rank {peer}")
        })?;
    }
    destruct(rank, "one").await?;
    destruct(rank, "two").await?;
    rank.sync(None).await
}

async fn leaders_that_do_not_know_each_other_make_a_group(rank: &Rank) -> Checked {
    rank.needs(2)?;
    let led = Directives::new().with(&keys::GROUP_BOOTSTRAP, 2u64);
    // the first adds all between the leaders, and the last adds one of them again
    let (procs, directives) = if rank.is_first() {
        let between = (1..rank.size() - 1).map(|peer| rank.peer(peer)).collect();
        (vec![rank.me().clone()], led.with(&keys::GROUP_ADD_MEMBERS, DataArray::Proc(between)))
    } else if rank.is_last() {
        let again = (1..rank.size() - 1).take(1).map(|peer| rank.peer(peer)).collect();
        (vec![rank.me().clone()], led.with(&keys::GROUP_ADD_MEMBERS, DataArray::Proc(again)))
    } else {
        (vec![], Directives::new())
    };
    must("construct", construct(rank, "bootstrap", procs, directives).await?)?;
    let known = members(rank, "bootstrap").await?;
    // a fence of the group waits for all its members
    rank.sync(Some(vec![ProcId::wildcard(id(rank, "bootstrap")?)])).await?;
    destruct(rank, "bootstrap").await?;
    rank.sync(None).await?;
    let members: BTreeSet<_> = known.iter().cloned().collect();
    let all = backwards(rank).into_iter().collect();
    ensure(known.len() == members.len() && members == all, || format!("the members are {known:?}"))
}

async fn a_construct_ends_in_time(rank: &Rank) -> Checked {
    rank.needs(2)?;
    if !rank.is_last() {
        let a_second = Directives::new().with(&keys::TIMEOUT, 1);
        let late = construct(rank, "late", vec![rank.job()], a_second).await?;
        must_fail("a construct that one member does not enter", late, &[Status::ERR_TIMEOUT])?;
    }
    rank.sync(None).await
}

async fn a_group_can_be_made_again_after_its_end(rank: &Rank) -> Checked {
    rank.needs(2)?;
    for round in ["first", "second"] {
        must("construct", construct(rank, "again", vec![rank.job()], Directives::new()).await?)?;
        let key = rank.key(round)?;
        if rank.is_last() {
            rank.be_late().await;
            rank.commit(Scope::GLOBAL, key.clone(), now()).await?;
        }
        destruct(rank, "again").await?;
        ensure_left_after(rank, &key, now(), "destruct").await?;
    }
    rank.sync(None).await
}

async fn a_member_leaves_alone(rank: &Rank) -> Checked {
    rank.needs(2)?;
    rank.listen(Status::GROUP_LEFT).await?;
    must("construct", construct(rank, "left", vec![rank.job()], Directives::new()).await?)?;
    rank.sync(None).await?;
    if rank.is_last() {
        let leave = GroupLeave::new(id(rank, "left")?);
        must("leave", rank.request(Request::GroupLeave(leave)).await?)?;
    } else {
        let event = rank.next_event().await?;
        ensure(event.code == Status::GROUP_LEFT, || format!("the event is {event:?}"))?;
        destruct(rank, "left").await?;
    }
    rank.sync(None).await
}

async fn a_group_has_no_name_of_a_namespace(rank: &Rank) -> Checked {
    let construct = GroupConstruct::new(rank.me().nspace.clone(), vec![rank.job()]);
    let refused = rank.request(Request::GroupConstruct(construct)).await?;
    must_fail(
        "a group called like its members' namespace",
        refused,
        &[Status::ERR_EXISTS, Status::ERR_BAD_PARAM],
    )?;
    rank.sync(None).await
}
