use bytes::Bytes;
use pmix_types::message::{Finalize, IofDeregister, IofPull, Output, Push, Reply, Request};
use pmix_types::{Directives, IofChannels, ProcId, Status, keys};

use super::super::upcall::{IofPullRequest, Upcall};
use super::super::{Answer, Caller, Command, HostCall, UpcallId, UpcallRequest};
use super::harness::{Harness, Peer, USER, With, all_of, assert_same, failure, nspace, proc};

pub(super) const OUT: IofChannels = IofChannels::STDOUT;
pub(super) const ERR: IofChannels = IofChannels::STDERR;

/// A tool-like listener and a writer: rank 0 asks for the output of rank 1.
pub(super) fn two() -> (Harness, Peer, ProcId) {
    let mut t = Harness::new([Upcall::IofPull, Upcall::PushStdin]);
    t.job("job", "0-1");
    let listener = t.connect(&proc("job", 0));
    (t, listener, proc("job", 1))
}

pub(super) fn pull(procs: impl IntoIterator<Item = ProcId>, channels: IofChannels) -> Request {
    Request::IofPull(IofPull::new(procs.into_iter().collect(), channels))
}

pub(super) fn text(source: &ProcId, channels: IofChannels, data: &str) -> Output {
    Output::new(source.clone(), channels, Bytes::copy_from_slice(data.as_bytes()))
}

pub(super) fn complete(source: &ProcId, channels: IofChannels, data: &str) -> Output {
    let mut output = text(source, channels, data);
    output.info = Directives::new().with(&keys::IOF_COMPLETE, true);
    output
}

pub(super) fn pushed(peer: &Peer, registration: u64, output: Output) -> Command {
    Command::Push { conn: peer.conn, push: Push::Output { registration, output } }
}

/// The host asked to begin or end forwarding.
#[track_caller]
pub(super) fn asked(t: &mut Harness, start: bool) -> (UpcallId, Caller, IofPullRequest) {
    match t.upcall() {
        (id, caller, UpcallRequest::IofPull(request)) if request.start == start => (id, caller, request),
        other => panic!("expected forwarding to change, not {other:?}"),
    }
}

impl Harness {
    /// Asks for output, with a host that agrees; what was kept for it is left to be looked at.
    #[track_caller]
    pub(super) fn pulls(&mut self, peer: &Peer, request: Request) -> u64 {
        let to = self.ask(peer, request);
        let (upcall, ..) = asked(self, true);
        self.answer(upcall, Ok(Answer::Done));
        match self.ok(to) {
            Reply::Registered(number) => number,
            other => panic!("expected a registration, not {other:?}"),
        }
    }

    #[track_caller]
    pub(super) fn delivers(&mut self, output: Output) {
        self.called(HostCall::IofDeliver(output)).unwrap();
    }

    /// The next thing is that output is pushed that is too large to be printed if it is not.
    #[track_caller]
    pub(super) fn shows(&mut self, number: u64, expected: &Output) {
        match self.next() {
            Command::Push { push: Push::Output { registration, output }, .. } => {
                assert_eq!((registration, &output.source), (number, &expected.source));
                assert!(output == *expected, "{} bytes of {}", output.data.len(), output.source);
            }
            other => panic!("expected what {} has written, not {other:?}", expected.source),
        }
    }

    /// Ends the subscription of a connection that is gone, at the host.
    #[track_caller]
    pub(super) fn leaves(mut self, peer: &Peer) {
        self.lose(peer);
        let (upcall, ..) = asked(&mut self, false);
        self.answer(upcall, Ok(Answer::Done));
        self.finish();
    }
}

#[test]
fn iof_01a_output_comes_with_source_channel_bytes_and_info() {
    let (mut t, listener, writer) = two();
    let to = t.ask(&listener, pull([writer.clone()], OUT | ERR).with(&keys::IOF_COPY, true));
    let (upcall, caller, request) = asked(&mut t, true);
    assert_eq!(caller.proc, listener.proc);
    let directives =
        Directives::new().with(&keys::IOF_COPY, true).with(&keys::USERID, USER.0).with(&keys::GRPID, USER.1);
    let pull = IofPull::new(vec![writer.clone()], OUT | ERR).with_directives(directives);
    let expected = IofPullRequest::new(pull, true);
    assert_eq!(request, expected);
    t.answer(upcall, Ok(Answer::Done));
    let Reply::Registered(number) = t.ok(to) else { panic!("no registration") };

    t.delivers(text(&writer, ERR, "oh"));
    t.expect([pushed(&listener, number, text(&writer, ERR, "oh"))]);
    let mut tagged = text(&writer, OUT, "\u{0}\u{1}");
    tagged.info = Directives::new().with(&keys::HOSTNAME, "n0");
    t.delivers(tagged.clone());
    t.expect([pushed(&listener, number, tagged)]);
    t.leaves(&listener);
}

#[test]
fn iof_05_the_server_finds_who_asked_for_that_source_and_channel() {
    let (mut t, a, b) = {
        let mut t = Harness::new([Upcall::IofPull]);
        t.job("job", "0-2");
        let (a, b) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
        (t, a, b)
    };
    let of_one = t.pulls(&a, pull([proc("job", 1)], OUT));
    let of_all = t.pulls(&b, pull([all_of("job")], OUT | ERR));
    let [by_one, by_two] = [1, 2].map(|rank| proc("job", rank));

    t.delivers(text(&by_one, OUT, "both"));
    t.expect([
        pushed(&a, of_one, text(&by_one, OUT, "both")),
        pushed(&b, of_all, text(&by_one, OUT, "both")),
    ]);
    t.delivers(text(&by_one, ERR, "channel"));
    t.expect([pushed(&b, of_all, text(&by_one, ERR, "channel"))]);
    t.delivers(text(&by_two, OUT, "rank"));
    t.expect([pushed(&b, of_all, text(&by_two, OUT, "rank"))]);
    t.delivers(text(&proc("other", 1), OUT, "job"));
    t.quiet();

    t.lose(&a);
    let (upcall, ..) = asked(&mut t, false);
    t.answer(upcall, Ok(Answer::Done));
    t.leaves(&b);
}

#[test]
fn iof_02_standard_input_cannot_be_pulled() {
    let (mut t, listener, writer) = two();
    for channels in [IofChannels::STDIN, IofChannels::STDIN | OUT, IofChannels::ALL] {
        let to = t.ask(&listener, pull([writer.clone()], channels));
        t.fails(to, Status::ERR_NOT_SUPPORTED);
    }
    t.finish();
}

#[test]
fn a_subscription_that_makes_no_sense_is_refused() {
    let (mut t, listener, writer) = two();
    for (procs, channels) in [(vec![], OUT), (vec![proc("", 0)], OUT), (vec![writer], IofChannels::NONE)] {
        let to = t.ask(&listener, pull(procs, channels));
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    let to = t.ask(&listener, Request::IofDeregister(IofDeregister::new(7)));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.finish();
}

#[test]
fn iof_04_the_host_may_refuse_and_without_a_host_nothing_is_forwarded() {
    let (mut t, listener, writer) = two();
    let to = t.ask(&listener, pull([writer.clone()], OUT));
    let (upcall, ..) = asked(&mut t, true);
    t.answer(upcall, Err(failure(Status::ERR_NOT_SUPPORTED)));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    t.delivers(text(&writer, OUT, "nobody listens"));
    t.finish();

    let (mut t, peers) = Harness::local(2);
    let to = t.ask(&peers[0], pull([proc("job", 1)], OUT));
    t.fails(to, Status::ERR_NOT_SUPPORTED);
    t.finish();
}

#[test]
fn iof_06_output_is_collected_until_there_is_enough_or_time_has_passed() {
    let (mut t, listener, writer) = two();
    let wish = pull([all_of("job")], OUT | ERR)
        .with(&keys::IOF_BUFFERING_SIZE, 6u32)
        .with(&keys::IOF_BUFFERING_TIME, 3u32);
    let number = t.pulls(&listener, wish);
    t.delivers(text(&writer, OUT, "abc"));
    t.delivers(text(&writer, ERR, "x"));
    t.quiet();
    t.delivers(text(&writer, OUT, "defgh"));
    t.expect([pushed(&listener, number, text(&writer, OUT, "abcdefgh"))]);
    t.advance(2);
    t.delivers(text(&writer, OUT, "i"));
    t.quiet();
    // three seconds after the first byte that is held
    t.advance(1);
    t.expect([
        pushed(&listener, number, text(&writer, OUT, "i")),
        pushed(&listener, number, text(&writer, ERR, "x")),
    ]);
    t.advance(10);
    t.quiet();
    t.delivers(text(&writer, OUT, "j"));
    t.advance(2);
    t.quiet();
    t.advance(1);
    t.expect([pushed(&listener, number, text(&writer, OUT, "j"))]);
    // the size itself is enough
    t.delivers(text(&writer, OUT, "k"));
    t.delivers(text(&writer, OUT, "lmnop"));
    t.expect([pushed(&listener, number, text(&writer, OUT, "klmnop"))]);
    t.leaves(&listener);
}

#[test]
fn iof_06_time_alone_collects_too() {
    let (mut t, listener, writer) = two();
    let number = t.pulls(&listener, pull([all_of("job")], OUT).with(&keys::IOF_BUFFERING_TIME, 2u32));
    t.delivers(text(&writer, OUT, "a"));
    t.advance(1);
    t.delivers(text(&writer, OUT, "b"));
    t.quiet();
    t.advance(1);
    t.expect([pushed(&listener, number, text(&writer, OUT, "ab"))]);
    // a bounded part of it
    let piece = "x".repeat(600 << 10);
    t.delivers(text(&writer, OUT, &piece));
    t.quiet();
    t.delivers(text(&writer, OUT, &piece));
    t.shows(number, &text(&writer, OUT, &piece.repeat(2)));
    // what is held goes with who wanted it, and its time too
    t.delivers(text(&writer, OUT, "c"));
    t.leaves(&listener);
}

#[test]
fn iof_06_iof_08_the_end_of_a_channel_and_words_about_a_piece_do_not_wait() {
    let (mut t, listener, writer) = two();
    let number =
        t.pulls(&listener, pull([writer.clone()], OUT | ERR).with(&keys::IOF_BUFFERING_SIZE, 100u32));
    t.delivers(text(&writer, ERR, "other"));
    t.delivers(text(&writer, OUT, "last "));
    t.delivers(complete(&writer, OUT, "words"));
    t.expect([
        pushed(&listener, number, text(&writer, OUT, "last ")),
        pushed(&listener, number, complete(&writer, OUT, "words")),
    ]);
    // a gone process needs nothing flushed
    t.leaves(&listener);
}

#[test]
fn iof_06_no_more_than_a_bounded_part_is_collected() {
    let (mut t, listener, writer) = two();
    let number = t.pulls(&listener, pull([writer.clone()], OUT).with(&keys::IOF_BUFFERING_SIZE, u32::MAX));
    let piece = "x".repeat(600 << 10);
    t.delivers(text(&writer, OUT, &piece));
    t.quiet();
    t.delivers(text(&writer, OUT, &piece));
    t.expect([pushed(&listener, number, text(&writer, OUT, &piece.repeat(2)))]);
    t.leaves(&listener);
}

#[test]
fn iof_06_iof_07_deregistering_flushes_and_ends() {
    let (mut t, listener, writer) = two();
    let number = t.pulls(
        &listener,
        pull([writer.clone()], OUT)
            .with(&keys::IOF_BUFFERING_SIZE, 100u32)
            .with(&keys::IOF_BUFFERING_TIME, 9u32)
            .with(&keys::IOF_COPY, true),
    );
    t.delivers(text(&writer, OUT, "rest"));
    t.quiet();
    let to = t.ask(&listener, Request::IofDeregister(IofDeregister::new(number)));
    assert_same(&t.next(), &pushed(&listener, number, text(&writer, OUT, "rest")));
    let (upcall, caller, request) = asked(&mut t, false);
    assert_eq!((caller.proc, request.pull.channels), (listener.proc.clone(), OUT));
    assert!(request.pull.directives.flag(&keys::IOF_COPY).unwrap(), "the host sees which wish it was");
    t.delivers(text(&writer, OUT, "late"));
    t.quiet();
    t.answer(upcall, Ok(Answer::Done));
    t.done(to);
    t.finish();
}

#[test]
fn iof_07_a_subscription_is_ended_by_its_owner_only() {
    let (mut t, listener, writer) = two();
    let other = t.connect(&writer);
    let number = t.pulls(&listener, pull([writer.clone()], OUT));
    let to = t.ask(&other, Request::IofDeregister(IofDeregister::new(number)));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.delivers(text(&writer, OUT, "on"));
    t.expect([pushed(&listener, number, text(&writer, OUT, "on"))]);
    // nor is there one before the host has agreed
    let pulled = t.ask(&listener, pull([writer], ERR));
    let (upcall, ..) = asked(&mut t, true);
    let early = t.ask(&listener, Request::IofDeregister(IofDeregister::new(number + 1)));
    t.fails(early, Status::ERR_BAD_PARAM);
    t.answer(upcall, Err(failure(Status::ERR_NOT_FOUND)));
    t.fails(pulled, Status::ERR_NOT_FOUND);
    t.leaves(&listener);
}

#[test]
fn iof_03a_the_host_hears_of_the_end_of_a_lost_listener_after_it_has_answered_the_beginning() {
    let (mut t, listener, writer) = two();
    let to = t.ask(&listener, pull([writer.clone()], OUT));
    let (upcall, ..) = asked(&mut t, true);
    t.lose_conn(to.conn);
    t.quiet();
    t.answer(upcall, Ok(Answer::Done));
    let (upcall, ..) = asked(&mut t, false);
    t.answer(upcall, Ok(Answer::Done));

    let listener = t.connect(&listener.proc);
    let to = t.ask(&listener, pull([writer], OUT));
    let (upcall, ..) = asked(&mut t, true);
    t.lose_conn(to.conn);
    t.answer(upcall, Err(failure(Status::ERR_NOT_SUPPORTED)));
    t.finish();
}

#[test]
fn iof_03a_finalize_ends_subscriptions_too() {
    let (mut t, listener, writer) = two();
    t.pulls(&listener, pull([writer], OUT));
    let to = t.ask(&listener, Request::Finalize(Finalize::new()));
    let (upcall, ..) = asked(&mut t, false);
    t.done(to);
    t.answer(upcall, Ok(Answer::Done));
    t.lose(&listener);
    t.finish();
}

#[test]
fn iof_08_the_end_of_a_namespace_is_told_for_all_of_it() {
    let (mut t, listener, _) = two();
    t.job("other", "0-1");
    let number =
        t.pulls(&listener, pull([all_of("other")], OUT | ERR).with(&keys::IOF_BUFFERING_SIZE, 100u32));
    let late = t.ask(&listener, pull([proc("other", 1)], OUT));
    let (upcall, ..) = asked(&mut t, true);
    t.delivers(text(&proc("other", 0), OUT, "rest"));
    t.called(HostCall::DeregisterNspace(nspace("other"))).unwrap();
    t.expect([
        pushed(&listener, number, text(&proc("other", 0), OUT, "rest")),
        pushed(&listener, number, complete(&all_of("other"), OUT | ERR, "")),
    ]);
    t.answer(upcall, Ok(Answer::Done));
    assert!(matches!(t.ok(late), Reply::Registered(_)));
    t.expect([pushed(&listener, number + 1, complete(&all_of("other"), OUT, ""))]);
    // another job of that name is another's, also while the host is asked for the first
    let late = t.ask(&listener, pull([proc("gone", 0)], OUT));
    let (upcall, ..) = asked(&mut t, true);
    t.job("gone", "0");
    t.called(HostCall::DeregisterNspace(nspace("gone"))).unwrap();
    t.job("gone", "0");
    t.delivers(text(&proc("gone", 0), OUT, "secret"));
    t.answer(upcall, Ok(Answer::Done));
    assert!(matches!(t.ok(late), Reply::Registered(_)));
    t.expect([pushed(&listener, number + 2, complete(&all_of("gone"), OUT, ""))]);
    t.called(HostCall::DeregisterNspace(nspace("gone"))).unwrap();
    t.quiet();
    t.job("other", "0-1");
    t.delivers(text(&proc("other", 1), OUT, "secret"));
    t.quiet();
    t.called(HostCall::DeregisterNspace(nspace("other"))).unwrap();
    t.quiet();
    t.lose(&listener);
    let ends = [0, 1, 2].map(|_| asked(&mut t, false).0);
    for upcall in ends {
        t.answer(upcall, Ok(Answer::Done));
    }
    t.finish();
}

#[test]
fn subscriptions_of_one_connection_are_bounded() {
    let (mut t, listener, writer) = two();
    for _ in 0..1024 {
        t.ask(&listener, pull([writer.clone()], OUT));
        asked(&mut t, true);
    }
    let to = t.ask(&listener, pull([writer], OUT));
    t.fails(to, Status::ERR_OUT_OF_RESOURCE);
    t.lose_conn(listener.conn);
    for upcall in 1..=1024 {
        t.answer(UpcallId(upcall), Err(failure(Status::ERROR)));
    }
    t.finish();
}

#[test]
fn gen_07c_directives_of_the_wrong_type_are_refused() {
    let (mut t, listener, writer) = two();
    let wrong = pmix_types::Info::dynamic(keys::IOF_BUFFERING_SIZE.key_name(), "many");
    let mut wish = pull([writer.clone()], OUT);
    wish.held().push(wrong);
    let to = t.ask(&listener, wish);
    t.fails(to, Status::ERR_BAD_PARAM);
    let mut output = text(&writer, OUT, "x");
    output.info.push(pmix_types::Info::dynamic(keys::IOF_CACHE_SIZE.key_name(), "many"));
    assert!(t.called(HostCall::IofDeliver(output)).is_err());
    t.finish();
}

#[test]
fn iof_06_what_is_collected_of_all_channels_together_is_bounded() {
    let mut t = Harness::new([Upcall::IofPull]);
    t.job("job", "0-9");
    let listener = t.connect(&proc("job", 0));
    let number = t.pulls(&listener, pull([all_of("job")], OUT).with(&keys::IOF_BUFFERING_SIZE, u32::MAX));
    let piece = "x".repeat((1 << 20) - 1);
    let outputs = (1..=9).map(|rank| text(&proc("job", rank), OUT, &piece));
    // what was sent makes room again
    for _ in 0..2 {
        for output in outputs.clone() {
            t.quiet();
            t.delivers(output);
        }
        for output in outputs.clone() {
            t.shows(number, &output);
        }
    }
    t.leaves(&listener);
}

#[test]
fn iof_06_the_end_of_a_namespace_leaves_what_is_collected_of_others() {
    let (mut t, listener, writer) = two();
    t.job("other", "0");
    let wish = pull([writer.clone(), all_of("other")], OUT).with(&keys::IOF_BUFFERING_SIZE, 4u32);
    let number = t.pulls(&listener, wish);
    t.delivers(text(&writer, OUT, "ab"));
    t.delivers(text(&proc("other", 0), OUT, "xy"));
    t.called(HostCall::DeregisterNspace(nspace("other"))).unwrap();
    t.expect([
        pushed(&listener, number, text(&proc("other", 0), OUT, "xy")),
        pushed(&listener, number, complete(&all_of("other"), OUT, "")),
    ]);
    t.delivers(text(&writer, OUT, "cd"));
    t.expect([pushed(&listener, number, text(&writer, OUT, "abcd"))]);
    t.leaves(&listener);
}
