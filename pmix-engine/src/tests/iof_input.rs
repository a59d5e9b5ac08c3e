//! Input for processes.

use pmix_types::message::{IofPush, Request};
use pmix_types::{Directives, ProcId, Status, keys};

use super::super::{Answer, UpcallId, UpcallRequest};
use super::harness::{Harness, USER, With, all_of, failure, proc};
use super::iof::*;

fn push(targets: impl IntoIterator<Item = ProcId>, data: &'static str) -> Request {
    Request::IofPush(IofPush::new(targets.into_iter().collect(), data.into()))
}

#[track_caller]
fn input(t: &mut Harness) -> (UpcallId, IofPush) {
    match t.upcall() {
        (id, _, UpcallRequest::PushStdin(request)) => (id, request),
        other => panic!("expected input for the host, not {other:?}"),
    }
}

#[test]
fn iof_10_input_is_passed_up_in_order_and_answered_when_it_is_taken() {
    let (mut t, pusher, reader) = two();
    let first = t.ask(&pusher, push([reader.clone()], "one"));
    let second = t.ask(&pusher, push([all_of("job")], "").with(&keys::IOF_COMPLETE, true));
    let (upcall, request) = input(&mut t);
    let identity = Directives::new().with(&keys::USERID, USER.0).with(&keys::GRPID, USER.1);
    let expected = IofPush::new(vec![reader], "one".into());
    assert_eq!(request, expected.with_directives(identity.clone()));
    // the second waits until the first is taken
    t.quiet();
    t.answer(upcall, Ok(Answer::Done));
    t.done(first);
    let (upcall, request) = input(&mut t);
    assert_eq!((request.targets, request.data.len()), (vec![all_of("job")], 0));
    assert!(request.directives.flag(&keys::IOF_COMPLETE).unwrap());
    t.answer(upcall, Err(failure(Status::ERR_NOT_FOUND)));
    t.fails(second, Status::ERR_NOT_FOUND);
    t.finish();
}

#[test]
fn iof_10_input_that_waits_goes_with_its_process() {
    let (mut t, pusher, reader) = two();
    t.ask(&pusher, push([reader.clone()], "one"));
    t.ask(&pusher, push([reader], "two"));
    let (upcall, _) = input(&mut t);
    t.lose(&pusher);
    t.answer(upcall, Ok(Answer::Done));
    t.finish();
}

#[test]
fn iof_10_input_that_waits_is_bounded() {
    let (mut t, pusher, reader) = two();
    let wish = |bytes: usize| Request::IofPush(IofPush::new(vec![reader.clone()], vec![0; bytes].into()));
    t.ask(&pusher, wish(1));
    let (upcall, _) = input(&mut t);
    t.ask(&pusher, wish(16 << 20));
    let to = t.ask(&pusher, wish(1));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    t.lose(&pusher);
    t.answer(upcall, Ok(Answer::Done));
    t.finish();
}

#[test]
fn iof_12_without_a_host_that_takes_input_it_is_not_supported() {
    let (mut t, peers) = Harness::local(2);
    let to = t.ask(&peers[0], push([proc("job", 1)], "hello"));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    for nobody in [vec![], vec![proc("job", 1), proc("", 0)]] {
        let to = t.ask(&peers[0], push(nobody, "hello"));
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    t.finish();
}
