use bytes::Bytes;
use pmix_types::message::{IofPull, IofPush, Output, Push, Reply, Request};
use pmix_types::{Directives, IofChannels, ProcId, Status, keys};

use super::super::iof_cache::{CACHE_SIZE, MAX_CACHE};
use super::super::upcall::{IofPullRequest, Upcall};
use super::super::{Answer, Caller, Command, HostCall, UpcallId, UpcallRequest};
use super::harness::{Harness, Peer, USER, With, all_of, assert_same, failure, nspace, proc};

pub(super) const OUT: IofChannels = IofChannels::STDOUT;
pub(super) const ERR: IofChannels = IofChannels::STDERR;

/// A tool-like listener and a writer: rank 0 asks for the output of rank 1.
fn two() -> (Harness, Peer, ProcId) {
    let mut t = Harness::new([Upcall::IofPull, Upcall::PushStdin]);
    t.job("job", "0-1");
    let listener = t.connect(&proc("job", 0));
    (t, listener, proc("job", 1))
}

pub(super) fn pull(procs: impl IntoIterator<Item = ProcId>, channels: IofChannels) -> Request {
    Request::IofPull(IofPull::new(procs.into_iter().collect(), channels))
}

fn push(targets: impl IntoIterator<Item = ProcId>, data: &'static str) -> Request {
    Request::IofPush(IofPush::new(targets.into_iter().collect(), data.into()))
}

pub(super) fn text(source: &ProcId, channels: IofChannels, data: &str) -> Output {
    Output::new(source.clone(), channels, Bytes::copy_from_slice(data.as_bytes()))
}

pub(super) fn complete(source: &ProcId, channels: IofChannels, data: &str) -> Output {
    let mut output = text(source, channels, data);
    output.info = Directives::new().with(&keys::IOF_COMPLETE, true);
    output
}

fn pushed(peer: &Peer, registration: u64, output: Output) -> Command {
    Command::Push { conn: peer.conn, push: Push::Output { registration, output } }
}

fn lost(peer: &Peer, registration: u64, bytes: u64) -> Command {
    Command::Push { conn: peer.conn, push: Push::OutputLost { registration, bytes } }
}

/// The host asked to begin or end forwarding.
#[track_caller]
pub(super) fn asked(t: &mut Harness, start: bool) -> (UpcallId, Caller, IofPullRequest) {
    match t.upcall() {
        (id, caller, UpcallRequest::IofPull(request)) if request.start == start => (id, caller, request),
        other => panic!("expected forwarding to change, not {other:?}"),
    }
}

#[track_caller]
fn input(t: &mut Harness) -> (UpcallId, IofPush) {
    match t.upcall() {
        (id, _, UpcallRequest::PushStdin(request)) => (id, request),
        other => panic!("expected input for the host, not {other:?}"),
    }
}

impl Harness {
    /// Asks for output, with a host that agrees; what was kept for it is left to be looked at.
    #[track_caller]
    fn pulls(&mut self, peer: &Peer, wish: Request) -> u64 {
        let to = self.ask(peer, wish);
        let (upcall, ..) = asked(self, true);
        self.answer(upcall, Ok(Answer::Done));
        match self.ok(to) {
            Reply::Registered(number) => number,
            other => panic!("expected a registration, not {other:?}"),
        }
    }

    #[track_caller]
    fn delivers(&mut self, output: Output) {
        self.called(HostCall::IofDeliver(output)).unwrap();
    }

    /// The next thing is that output is pushed that is too large to be printed if it is not.
    #[track_caller]
    fn shows(&mut self, number: u64, expected: &Output) {
        match self.next() {
            Command::Push { push: Push::Output { registration, output }, .. } => {
                assert_eq!((registration, &output.source), (number, &expected.source));
                assert!(output == *expected, "{} bytes of {}", output.data.len(), output.source);
            }
            other => panic!("expected what {} has written, not {other:?}", expected.source),
        }
    }

    /// Ends the wish of a connection that is gone, at the host.
    #[track_caller]
    fn leaves(mut self, peer: &Peer) {
        self.lose(peer);
        let (upcall, ..) = asked(&mut self, false);
        self.answer(upcall, Ok(Answer::Done));
        self.finish();
    }
}

#[test]
fn iof_01_output_comes_with_source_channel_bytes_and_info() {
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
fn a_wish_that_makes_no_sense_is_refused() {
    let (mut t, listener, writer) = two();
    for (procs, channels) in [(vec![], OUT), (vec![proc("", 0)], OUT), (vec![writer], IofChannels::NONE)] {
        let to = t.ask(&listener, pull(procs, channels));
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    let to = t.ask(&listener, Request::IofDeregister(7));
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
fn iof_05_what_nobody_has_asked_for_is_kept_for_the_first_who_does() {
    let (mut t, listener, writer) = two();
    t.delivers(text(&writer, OUT, "ea"));
    t.delivers(text(&writer, ERR, "other channel"));
    t.delivers(text(&writer, OUT, "rly"));
    let to = t.ask(&listener, pull([writer.clone()], OUT));
    let (upcall, ..) = asked(&mut t, true);
    // the host begins before its answer has arrived
    t.delivers(complete(&writer, OUT, " bird"));
    t.answer(upcall, Ok(Answer::Done));
    assert!(matches!(t.ok(to), Reply::Registered(1)));
    t.expect([
        pushed(&listener, 1, text(&writer, OUT, "early bird")),
        pushed(&listener, 1, complete(&writer, OUT, "")),
    ]);
    // once taken it is gone; the other channel's is still there
    assert_eq!(t.pulls(&listener, pull([writer.clone()], OUT)), 2);
    t.quiet();
    assert_eq!(t.pulls(&listener, pull([all_of("job")], ERR)), 3);
    t.expect([pushed(&listener, 3, text(&writer, ERR, "other channel"))]);

    t.lose(&listener);
    let ends: Vec<_> = (0..3).map(|_| asked(&mut t, false).0).collect();
    for upcall in ends {
        t.answer(upcall, Ok(Answer::Done));
    }
    t.finish();
}

/// What a puller gets of three pieces of output, sent with directives of the host or of its own.
fn kept(host: &Directives, own: Directives, pieces: [&str; 3]) -> Vec<Result<String, u64>> {
    let (mut t, listener, writer) = two();
    let mut wish = pull([writer.clone()], OUT);
    *wish.directives_mut() = own;
    let to = t.ask(&listener, wish);
    let (upcall, ..) = asked(&mut t, true);
    for piece in pieces {
        let mut output = text(&writer, OUT, piece);
        output.info = host.clone();
        t.delivers(output);
    }
    t.delivers(complete(&writer, OUT, ""));
    t.answer(upcall, Ok(Answer::Done));
    t.ok(to);
    let mut got = Vec::new();
    loop {
        match t.next() {
            Command::Push { push: Push::OutputLost { bytes, .. }, .. } => got.push(Err(bytes)),
            Command::Push { push: Push::Output { output, .. }, .. } if output.data.is_empty() => {
                assert_eq!(output, complete(&writer, OUT, ""));
                break;
            }
            Command::Push { push: Push::Output { output, .. }, .. } => {
                assert!(output.info.is_empty(), "directives to the server are not passed on");
                got.push(Ok(String::from_utf8(output.data.to_vec()).unwrap()));
            }
            other => panic!("{other:?}"),
        }
    }
    t.leaves(&listener);
    got
}

#[test]
fn iof_05_a_full_cache_drops_what_is_newest_unless_told_otherwise() {
    let none = Directives::new();
    let size = Directives::new().with(&keys::IOF_CACHE_SIZE, 8u32);
    let oldest = size.clone().with(&keys::IOF_DROP_OLDEST, true);
    let newest = size.clone().with(&keys::IOF_DROP_NEWEST, true);
    let pieces = ["abcde", "fghij", "kl"];
    assert_eq!(kept(&none, none.clone(), pieces), [Ok("abcdefghijkl".into())]);
    for rule in [&size, &newest] {
        let expected = [Ok("abcdefgh".to_owned()), Err(4)];
        assert_eq!(kept(rule, none.clone(), pieces), expected);
        assert_eq!(
            kept(&none, rule.clone(), pieces),
            expected,
            "before the host has answered the wish's rule holds"
        );
    }
    assert_eq!(kept(&oldest, none.clone(), pieces), [Err(4), Ok("efghijkl".into())]);
    assert_eq!(kept(&none, oldest, ["abcde", "", "fghijklmnopq"]), [Err(9), Ok("jklmnopq".into())]);

    let long = "x".repeat(CACHE_SIZE);
    assert_eq!(kept(&none, Directives::new(), [&long, "y", "z"]), [Ok(long.clone()), Err(2)]);
    // what the host says goes before what the wish says
    let said = Directives::new().with(&keys::IOF_DROP_NEWEST, true);
    let wished = Directives::new().with(&keys::IOF_DROP_OLDEST, true);
    assert_eq!(kept(&said, wished, [&long, "y", ""]), [Ok(long.clone()), Err(1)]);
}

#[test]
fn iof_05_pieces_with_words_of_their_own_are_bounded_too() {
    let (mut t, listener, writer) = two();
    for _ in 0..300 {
        let mut output = text(&writer, OUT, "ab");
        output.info = Directives::new().with(&keys::HOSTNAME, "n0");
        t.delivers(output);
    }
    t.pulls(&listener, pull([writer], OUT));
    let (mut shown, mut lost, mut pieces) = (0, 0, 0);
    for command in t.drain() {
        pieces += 1;
        match command {
            Command::Push { push: Push::Output { output, .. }, .. } => shown += output.data.len() as u64,
            Command::Push { push: Push::OutputLost { bytes, .. }, .. } => lost += bytes,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(shown + lost, 600);
    assert!(pieces < 300, "{pieces}");
    t.leaves(&listener);
}

#[test]
fn iof_05_the_cache_goes_with_its_namespace_and_keeps_nothing_of_unknown_ones() {
    let (mut t, listener, writer) = two();
    t.job("brief", "0");
    t.delivers(text(&proc("brief", 0), OUT, "gone"));
    t.delivers(text(&proc("unknown", 0), OUT, "gone"));
    t.called(HostCall::DeregisterNspace(nspace("brief"))).unwrap();
    t.job("brief", "0");
    t.pulls(&listener, pull([proc("brief", 0), proc("unknown", 0), writer], OUT));
    t.leaves(&listener);
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
    let to = t.ask(&listener, Request::IofDeregister(number));
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
fn iof_07_a_wish_is_ended_by_its_owner_only() {
    let (mut t, listener, writer) = two();
    let other = t.connect(&writer);
    let number = t.pulls(&listener, pull([writer.clone()], OUT));
    let to = t.ask(&other, Request::IofDeregister(number));
    t.fails(to, Status::ERR_BAD_PARAM);
    t.delivers(text(&writer, OUT, "on"));
    t.expect([pushed(&listener, number, text(&writer, OUT, "on"))]);
    // nor is there one before the host has agreed
    let pulled = t.ask(&listener, pull([writer], ERR));
    let (upcall, ..) = asked(&mut t, true);
    let early = t.ask(&listener, Request::IofDeregister(number + 1));
    t.fails(early, Status::ERR_BAD_PARAM);
    t.answer(upcall, Err(failure(Status::ERR_NOT_FOUND)));
    t.fails(pulled, Status::ERR_NOT_FOUND);
    t.leaves(&listener);
}

#[test]
fn iof_03_the_host_hears_of_the_end_of_a_lost_listener_after_it_has_answered_the_beginning() {
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
fn iof_03_finalize_ends_wishes_too() {
    let (mut t, listener, writer) = two();
    t.pulls(&listener, pull([writer], OUT));
    let to = t.ask(&listener, Request::Finalize(Directives::new()));
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
    t.lose(&listener);
    let ends = [asked(&mut t, false).0, asked(&mut t, false).0];
    for upcall in ends {
        t.answer(upcall, Ok(Answer::Done));
    }
    t.finish();
}

#[test]
fn wishes_of_one_connection_are_bounded() {
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

#[test]
fn gen_07_directives_of_the_wrong_type_are_refused() {
    let (mut t, listener, writer) = two();
    let wrong = pmix_types::Info::dynamic(keys::IOF_BUFFERING_SIZE.key_name(), "many");
    let mut wish = pull([writer.clone()], OUT);
    wish.directives_mut().push(wrong);
    let to = t.ask(&listener, wish);
    t.fails(to, Status::ERR_BAD_PARAM);
    let mut output = text(&writer, OUT, "x");
    output.info.push(pmix_types::Info::dynamic(keys::IOF_CACHE_SIZE.key_name(), "many"));
    assert!(t.called(HostCall::IofDeliver(output)).is_err());
    t.finish();
}

#[test]
fn iof_05_loss_is_told_under_the_number_of_the_wish() {
    let (mut t, listener, writer) = two();
    let mut output = text(&writer, OUT, "abc");
    output.info = Directives::new().with(&keys::IOF_CACHE_SIZE, 1u32);
    t.delivers(output);
    let number = t.pulls(&listener, pull([writer.clone()], OUT));
    t.expect([pushed(&listener, number, text(&writer, OUT, "a")), lost(&listener, number, 2)]);
    t.leaves(&listener);
}

#[test]
fn iof_05_the_cache_of_all_processes_together_is_bounded() {
    let (mut t, listener, writer) = two();
    t.job("more", "0");
    let most = "x".repeat(MAX_CACHE * 3 / 4);
    let writers = [writer, proc("more", 0)];
    for writer in &writers {
        let mut output = text(writer, OUT, &most);
        output.info = Directives::new().with(&keys::IOF_CACHE_SIZE, u32::MAX);
        t.delivers(output);
    }
    t.pulls(&listener, pull(writers, OUT));
    let (mut shown, mut lost) = (0, 0);
    for command in t.drain() {
        match command {
            Command::Push { push: Push::Output { output, .. }, .. } => shown += output.data.len(),
            Command::Push { push: Push::OutputLost { bytes, .. }, .. } => lost += bytes as usize,
            _ => panic!("expected output"),
        }
    }
    assert_eq!(shown + lost, 2 * most.len());
    assert!((most.len()..=MAX_CACHE).contains(&shown), "{shown}");
    t.leaves(&listener);
}

#[test]
fn iof_05_what_leaves_the_cache_makes_room_again() {
    let mut t = Harness::new([Upcall::IofPull]);
    t.job("job", "0-3");
    t.job("brief", "0");
    let listener = t.connect(&proc("job", 0));
    let most = "x".repeat(MAX_CACHE * 3 / 4);
    let keep = |source: &ProcId| {
        let mut output = text(source, OUT, &most);
        output.info = Directives::new().with(&keys::IOF_CACHE_SIZE, u32::MAX);
        output
    };
    t.delivers(keep(&proc("brief", 0)));
    t.called(HostCall::DeregisterNspace(nspace("brief"))).unwrap();
    for writer in [1, 2, 3].map(|rank| proc("job", rank)) {
        t.delivers(keep(&writer));
        let number = t.pulls(&listener, pull([writer.clone()], OUT));
        t.shows(number, &text(&writer, OUT, &most));
        t.quiet();
    }
    t.lose(&listener);
    for upcall in [(); 3].map(|()| asked(&mut t, false).0) {
        t.answer(upcall, Ok(Answer::Done));
    }
    t.finish();
}

#[test]
fn iof_05_iof_08_words_outlive_the_oldest_bytes_they_came_with() {
    let (mut t, listener, writer) = two();
    let mut tagged = text(&writer, OUT, "ab");
    tagged.info = Directives::new().with(&keys::HOSTNAME, "n0");
    let word = |mut output: Output| {
        output.data = Bytes::new();
        output
    };
    let ended = complete(&writer, OUT, "cd");
    for mut output in [tagged.clone(), ended.clone(), text(&writer, OUT, "efghij")] {
        for info in Directives::new().with(&keys::IOF_CACHE_SIZE, 4u32).with(&keys::IOF_DROP_OLDEST, true) {
            output.info.push(info);
        }
        t.delivers(output);
    }
    let number = t.pulls(&listener, pull([writer.clone()], OUT));
    t.expect([
        lost(&listener, number, 6),
        pushed(&listener, number, word(tagged)),
        pushed(&listener, number, word(ended)),
        pushed(&listener, number, text(&writer, OUT, "ghij")),
    ]);
    t.leaves(&listener);
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
