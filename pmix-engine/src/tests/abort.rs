//! Abort.

use pmix_types::Status;
use pmix_types::message::{Abort, Request};

use super::super::upcall::Upcall;
use super::super::{Answer, Caller, UpcallRequest};
use super::harness::*;

#[test]
fn abt_01_hst_05_status_message_and_targets_go_to_the_host() {
    let mut t = Harness::new([Upcall::Abort]);
    t.job("job", "0-1");
    let peer = t.connect(&proc("job", 0));
    for procs in [vec![], vec![proc("job", 1), all_of("other")]] {
        for status in [0, -3] {
            let mut abort = Abort::new(status, "why".into());
            abort.procs = procs.clone();
            let to = t.ask(&peer, Request::Abort(abort));
            let (id, caller, request) = t.upcall();
            assert_same(
                &caller,
                &Caller {
                    proc: peer.proc.clone(),
                    uid: USER.0,
                    gid: Some(USER.1),
                    object: None,
                    trace: None,
                },
            );
            assert_eq!(
                request,
                UpcallRequest::Abort(Abort::new(status, "why".into()).with_procs(procs.clone()))
            );
            t.answer(id, Ok(Answer::Done));
            t.done(to);
        }
    }
    t.finish();
}

#[test]
fn hst_05_the_hosts_refusal_is_passed_on() {
    let mut t = Harness::new([Upcall::Abort]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    let to = t.ask(&peer, Request::Abort(Abort::new(1, "".into())));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_PARAM_VALUE_NOT_SUPPORTED)));
    t.fails(to, Status::ERR_PARAM_VALUE_NOT_SUPPORTED);
    t.finish();
}

#[test]
fn abt_01_an_abort_goes_on_although_its_caller_is_gone() {
    let mut t = Harness::new([Upcall::Abort]);
    t.job("job", "0");
    let peer = t.connect(&proc("job", 0));
    t.ask(&peer, Request::Abort(Abort::new(1, "".into())));
    let (id, ..) = t.upcall();
    t.lose(&peer);
    t.quiet();
    t.answer(id, Ok(Answer::Done));
    t.finish();
}

#[test]
fn gen_11_without_the_entry_abort_is_not_supported() {
    let (mut t, peers) = Harness::local(1);
    let to = t.ask(&peers[0], Request::Abort(Abort::new(1, "".into())));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    t.finish();
}
