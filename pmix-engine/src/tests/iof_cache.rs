//! Output that is kept until somebody subscribes.

use bytes::Bytes;
use pmix_types::message::{Output, Push, Reply};
use pmix_types::{Directives, ProcId, Status, keys};

use super::super::iof::{CACHE_SIZE, MAX_CACHE};
use super::super::{Answer, Command, HostCall, Upcall};
use super::harness::{Harness, Peer, With, all_of, failure, nspace, proc};
use super::iof::*;

fn lost(peer: &Peer, registration: u64, bytes: u64) -> Command {
    Command::Push { conn: peer.conn, push: Push::OutputLost { registration, bytes } }
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
    *wish.held() = own;
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
fn iof_05_iof_08_what_a_job_has_written_is_not_lost_if_it_ends_while_the_host_is_asked() {
    for (is_answered, is_allowed) in [(true, true), (true, false), (false, true)] {
        let (mut t, listener, writer) = two();
        t.job("brief", "0-1");
        let [wanted, other] = [0, 1].map(|rank| proc("brief", rank));
        t.delivers(text(&wanted, OUT, "all of it"));
        t.delivers(text(&other, OUT, "nobody wants this"));
        let to = t.ask(&listener, pull([wanted.clone(), writer], OUT));
        let (upcall, ..) = asked(&mut t, true);
        t.called(HostCall::DeregisterNspace(nspace("brief"))).unwrap();
        if !is_answered {
            t.lose(&listener);
        }
        let answer = if is_allowed { Ok(Answer::Done) } else { Err(failure(Status::ERR_NOT_FOUND)) };
        t.answer(upcall, answer);
        if !is_answered {
            let (upcall, ..) = asked(&mut t, false);
            t.answer(upcall, Ok(Answer::Done));
        } else if is_allowed {
            let Reply::Registered(number) = t.ok(to) else { panic!("no registration") };
            t.expect([
                pushed(&listener, number, text(&wanted, OUT, "all of it")),
                pushed(&listener, number, complete(&all_of("brief"), OUT, "")),
            ]);
        } else {
            t.fails(to, Status::ERR_NOT_FOUND);
        }
        // and nothing is left for another job of that name
        t.job("brief", "0-1");
        let late = t.connect(&proc("brief", 0));
        t.pulls(&late, pull([all_of("brief")], OUT));
        t.quiet();
        if is_answered && is_allowed {
            t.lose(&listener);
            let (upcall, ..) = asked(&mut t, false);
            t.answer(upcall, Ok(Answer::Done));
        }
        t.leaves(&late);
    }
}

#[test]
fn iof_05_loss_is_told_under_the_number_of_the_subscription() {
    let (mut t, listener, writer) = two();
    let mut output = text(&writer, OUT, "abc");
    output.info = Directives::new().with(&keys::IOF_CACHE_SIZE, 1u32);
    t.delivers(output);
    let number = t.pulls(&listener, pull([writer.clone()], OUT));
    t.expect([pushed(&listener, number, text(&writer, OUT, "a")), lost(&listener, number, 2)]);
    t.leaves(&listener);
}

#[test]
fn iof_05_the_cache_of_all_processes_of_a_user_is_bounded() {
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
