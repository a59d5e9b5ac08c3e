//! What processes use: as the kernel says, and as they enter collectives.

use std::time::Duration;

use pmix_types::message::{QueryInfo, Reply, Request};
use pmix_types::usage::{ProcUsage, USAGE};
use pmix_types::why::{Activity, LOOKS};
use pmix_types::{Query, Status, keys};

use super::super::{Answer, CallValue, Command, HostCall};
use super::harness::*;
use super::query::*;

const SECOND: Duration = Duration::from_secs(1);

/// What a query is told when the kernel says that each process has used a second and a megabyte.
#[track_caller]
fn usage(t: &mut Harness, by: &Peer) -> Vec<ProcUsage> {
    let to = t.ask(
        by,
        Request::QueryInfo(QueryInfo::new(vec![Query::new(&USAGE).qualifier(&keys::NSPACE.text(), "job")])),
    );
    measured(t);
    let Reply::Query(reply) = t.ok(to) else { panic!() };
    ProcUsage::read_all(&the_only(&reply))
}

#[track_caller]
fn measured(t: &mut Harness) {
    let Command::Measure { id, mut procs, is_brief: true } = t.next() else { panic!() };
    procs.iter_mut().for_each(|look| (look.cpu_time, look.rss) = (SECOND, 1 << 20));
    procs.iter_mut().take(1).for_each(|look| look.activity = Activity::Stopped);
    t.answer(id, Ok(Answer::Looks(procs)));
}

fn collectives(all: &[ProcUsage]) -> Vec<(u64, u64)> {
    all.iter().map(|one| (one.collectives.unwrap(), one.waited.unwrap().as_secs())).collect()
}

#[test]
fn collectives_are_counted_and_so_is_the_time_until_the_last_has_entered() {
    let (mut t, peers) = Harness::local(2);
    let all = usage(&mut t, &peers[1]);
    assert_eq!(
        (all[0].proc.clone(), all[0].cpu_time, all[0].rss),
        (peers[0].proc.clone(), Some(SECOND), Some(1 << 20))
    );
    assert_eq!(all[0].output, None);
    assert_eq!((all[0].stopped, all[1].stopped), (Some(true), Some(false)));
    assert_eq!(collectives(&all), [(0, 0), (0, 0)]);

    let first = t.ask(&peers[0], fence_all());
    t.pass(3);
    // it waits still
    assert_eq!(collectives(&usage(&mut t, &peers[1])), [(1, 3), (0, 0)]);
    let second = t.ask(&peers[1], fence_all());
    t.fenced(first);
    t.fenced(second);
    t.pass(5);
    assert_eq!(collectives(&usage(&mut t, &peers[1])), [(1, 3), (1, 0)]);

    // time in two at once counts once
    let named = fence(peers.iter().map(|peer| peer.proc.clone()));
    t.ask(&peers[0], fence_all());
    t.ask(&peers[0], named.clone());
    t.pass(2);
    t.ask(&peers[1], fence_all());
    t.drain();
    t.pass(2);
    assert_eq!(collectives(&usage(&mut t, &peers[1])), [(3, 7), (2, 0)]);

    // the host is told the same
    let call = t.call(HostCall::Usage(vec![all_of("job")]));
    measured(&mut t);
    match t.returned(call) {
        Ok(CallValue::Usage(all)) => assert_eq!(collectives(&all)[0], (3, 7)),
        other => panic!("{other:?}"),
    }
    t.ask(&peers[1], named);
    t.drain();
    t.pass(1);
    assert_eq!(collectives(&usage(&mut t, &peers[1])), [(3, 7), (3, 0)]);
    t.finish();
}

#[test]
fn processes_must_be_named_and_looks_want_all_that_the_kernel_knows() {
    let (mut t, peers) = Harness::local(1);
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![Query::new(&USAGE)])));
    measured(&mut t);
    t.fails(to, Status::ERR_BAD_PARAM);
    let both = Query::new(&USAGE).key(&LOOKS).qualifier(&keys::NSPACE.text(), "job");
    let to = t.ask(&peers[0], Request::QueryInfo(QueryInfo::new(vec![both])));
    let Command::Measure { id, procs, is_brief: false } = t.next() else { panic!() };
    t.answer(id, Ok(Answer::Looks(procs)));
    let Reply::Query(reply) = t.ok(to) else { panic!() };
    assert_eq!(reply.results[0].value.as_infos().unwrap().len(), 3, "{reply:?}");
    t.finish();
}
