//! Fences that this server completes by itself.

use pmix_types::job::JobSpec;
use pmix_types::message::Identity;
use pmix_types::{Info, Key, ProcId, Rank, Scope, Status, keys};

use super::super::upcall::Upcall;
use super::super::{Answer, Command, HostCall};
use super::harness::*;

#[test]
fn fen_01_fen_02_fen_03_nothing_means_all_and_all_is_no_full_list() {
    let (mut t, peers) = Harness::local(2);
    let by_nothing = t.ask(&peers[0], fence_all());
    let by_wildcard = t.ask(&peers[1], fence([all_of("job")]));
    assert_eq!(t.fenced(by_nothing), modex([]));
    assert_eq!(t.fenced(by_wildcard), modex([]));

    let by_wildcard = t.ask(&peers[0], fence([all_of("job")]));
    let by_list = t.ask(&peers[1], fence([proc("job", 0), proc("job", 1)]));
    t.quiet();
    let other_list = t.ask(&peers[0], fence([proc("job", 1), proc("job", 0)]));
    assert_eq!(t.fenced(by_list), modex([]));
    assert_eq!(t.fenced(other_list), modex([]));
    let other_wildcard = t.ask(&peers[1], fence_all());
    assert_eq!(t.fenced(by_wildcard), modex([]));
    assert_eq!(t.fenced(other_wildcard), modex([]));
    t.finish();
}

#[test]
fn fen_01_fen_11_a_fence_of_tools_waits_for_those_that_it_names_and_for_no_job_of_theirs() {
    let mut t = Harness::new([Upcall::ToolConnected]);
    t.job("job", "0");
    let rank = t.connect(&proc("job", 0));
    let attach = |t: &mut Harness, own: ProcId| {
        let conn = t.hello_as(Identity::Tool(None), USER);
        let (id, ..) = t.upcall();
        t.answer(id, Ok(Answer::Identity(own.clone())));
        assert!(matches!(t.next(), Command::Accept { conn: accepted, .. } if accepted == conn));
        Peer { conn, proc: own }
    };
    let (tool, other) = (attach(&mut t, proc("tool", 0)), attach(&mut t, proc("other", 0)));
    for alone in [fence([tool.proc.clone()]), fence([all_of("tool")]), fence_all()] {
        let to = t.ask(&tool, alone);
        assert_eq!(t.fenced(to), modex([]));
    }
    let three = [tool.proc.clone(), other.proc.clone(), rank.proc.clone()];
    let first = [t.ask(&tool, fence(three.clone())), t.ask(&rank, fence(three.clone()))];
    t.quiet();
    let last = t.ask(&other, fence(three));
    for to in [first[0], first[1], last] {
        assert_eq!(t.fenced(to), modex([]));
    }
    // a tool that is not here may come
    t.ask(&tool, fence([tool.proc.clone(), proc("tool", 1)]));
    t.quiet();
    t.lose(&tool);
    t.drain();
    t.finish();
}

#[test]
fn fen_03_fen_04_order_and_repeats_do_not_matter() {
    let (mut t, peers) = Harness::local(3);
    let first = t.ask(&peers[0], fence([proc("job", 2), proc("job", 0), proc("job", 2)]));
    t.quiet();
    let second = t.ask(&peers[2], fence([proc("job", 0), proc("job", 2)]));
    assert_eq!(t.fenced(first), modex([]));
    assert_eq!(t.fenced(second), modex([]));
    t.finish();
}

#[test]
fn fen_04_different_participants_do_not_mix() {
    let (mut t, peers) = Harness::local(3);
    let all = t.ask(&peers[0], fence_all());
    let pair = t.ask(&peers[0], fence([proc("job", 0), proc("job", 1)]));
    let other_pair = t.ask(&peers[1], fence([proc("job", 1), proc("job", 2)]));
    t.quiet();
    let in_pair = t.ask(&peers[1], fence([proc("job", 0), proc("job", 1)]));
    t.fenced(pair);
    t.fenced(in_pair);
    let in_other_pair = t.ask(&peers[2], fence([proc("job", 1), proc("job", 2)]));
    t.fenced(other_pair);
    t.fenced(in_other_pair);
    let rest = [t.ask(&peers[1], fence_all()), t.ask(&peers[2], fence_all())];
    t.fenced(all);
    for to in rest {
        t.fenced(to);
    }
    t.finish();
}

#[test]
fn fen_04_fen_15_a_second_call_belongs_to_the_next_round() {
    let (mut t, peers) = Harness::local(2);
    let calls: Vec<_> = (0..3).map(|_| t.ask(&peers[0], fence_all())).collect();
    t.quiet();
    for call in calls {
        let to = t.ask(&peers[1], fence_all());
        t.fenced(call);
        t.fenced(to);
    }
    assert_eq!(t.engine.stats().fences, 3);
    t.finish();
}

#[test]
fn fen_05_the_caller_takes_part() {
    let (mut t, peers) = Harness::local(3);
    for procs in [vec![proc("job", 1), proc("job", 2)], vec![all_of("other")], vec![proc("other", 0)]] {
        let to = t.ask(&peers[0], fence(procs));
        t.fails(to, Status::ERR_NOT_A_MEMBER);
    }
    t.finish();
}

#[test]
fn fen_05_participants_must_be_processes() {
    let (mut t, peers) = Harness::local(1);
    let odd = |rank| vec![proc("job", 0), all_of("job").with_rank(rank)];
    for procs in [vec![], odd(Rank::UNDEF), odd(Rank::INVALID), odd(Rank::LOCAL_PEERS), vec![proc("", 0)]] {
        let to = t.ask(&peers[0], fence(procs));
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    t.finish();
}

#[test]
fn fen_06_no_data_moves_unless_asked_for() {
    let (mut t, peers) = Harness::local(2);
    let (mut other, more) = Harness::local(2);
    for (t, peers, collect) in [(&mut t, &peers, false), (&mut other, &more, true)] {
        for peer in peers {
            let rank = peer.proc.rank.to_raw();
            t.commits(
                peer,
                [
                    entry(Scope::GLOBAL, "g", rank),
                    entry(Scope::LOCAL, "l", rank),
                    entry(Scope::REMOTE, "r", rank),
                ],
            );
        }
        let calls = [0, 1].map(|rank| t.ask(&peers[rank], fence_all().with(&keys::COLLECT_DATA, collect)));
        // put_08: what is for other nodes stays out
        let seen = |rank: u32| {
            data_of(&proc("job", rank), [entry(Scope::GLOBAL, "g", rank), entry(Scope::LOCAL, "l", rank)])
        };
        let expected = if collect { modex([seen(0), seen(1)]) } else { modex([]) };
        for to in calls {
            assert_eq!(t.fenced(to), expected);
        }
    }
    t.finish();
    other.finish();
}

#[test]
fn fen_07c_generated_job_info_alone_brings_no_put_data() {
    let (mut t, peers) = Harness::local(2);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32)]);
    let generated = || fence_all().require(&keys::COLLECT_GENERATED_JOB_INFO, true);
    for to in [t.ask(&peers[0], generated()), t.ask(&peers[1], generated())] {
        assert_eq!(t.fenced(to), modex([]));
    }
    t.finish();
}

#[test]
fn fen_08_one_who_asks_for_data_asks_for_all() {
    for asks in [0, 1] {
        let (mut t, peers) = Harness::local(2);
        t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32)]);
        let calls =
            [0, 1].map(|rank| t.ask(&peers[rank], fence_all().with(&keys::COLLECT_DATA, rank == asks)));
        let expected = modex([data_of(&proc("job", 0), [entry(Scope::GLOBAL, "k", 1u32)])]);
        for to in calls {
            assert_eq!(t.fenced(to), expected);
        }
        t.finish();
    }
}

#[test]
fn fen_10_reg_02_the_registered_number_is_waited_for() {
    let mut t = Harness::new([Upcall::Fence]);
    t.register(JobSpec::new(nspace("job")).info(&keys::JOB_SIZE, 2u32), Some(2));
    t.register_client(&proc("job", 0));
    let a = t.connect(&proc("job", 0));
    // the other one is not registered yet: neither here nor elsewhere
    let by_name = t.ask(&a, fence([proc("job", 0), proc("job", 1)]));
    let by_wildcard = t.ask(&a, fence_all());
    t.quiet();
    t.register_client(&proc("job", 1));
    let b = t.connect(&proc("job", 1));
    t.quiet();
    let to = t.ask(&b, fence_all());
    t.fenced(by_wildcard);
    t.fenced(to);
    let to = t.ask(&b, fence([proc("job", 1), proc("job", 0)]));
    t.fenced(by_name);
    t.fenced(to);
    t.finish();
}

#[test]
fn fen_10_once_all_are_registered_the_rest_is_elsewhere() {
    let mut t = Harness::new([Upcall::Fence]);
    t.register(JobSpec::new(nspace("job")).info(&keys::JOB_SIZE, 3u32), Some(2));
    t.register_client(&proc("job", 0));
    let a = t.connect(&proc("job", 0));
    let to = t.ask(&a, fence([proc("job", 0), proc("job", 1)]));
    t.quiet();
    t.register_client(&proc("job", 2));
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Blob(blob([]))));
    t.fenced(to);
    t.finish();
}

#[test]
fn fen_11_a_namespace_not_known_yet_is_waited_for() {
    let (mut t, peers) = Harness::local(1);
    let to = t.ask(&peers[0], fence([all_of("job"), all_of("later")]));
    let timed = t.ask(&peers[0], fence([proc("job", 0), proc("never", 0)]).with(&keys::TIMEOUT, 1));
    t.quiet();
    t.advance(1);
    t.fails(timed, Status::ERR_TIMEOUT);
    t.job("later", "0");
    let later = t.connect(&proc("later", 0));
    t.quiet();
    let other = t.ask(&later, fence([all_of("later"), all_of("job")]));
    t.fenced(to);
    t.fenced(other);
    // the round with the unknown namespace stays for those who may come, until one of its namespaces ends
    assert!(t.called(HostCall::DeregisterNspace(nspace("job"))).is_ok());
    assert!(matches!(t.next(), Command::Close { .. }));
    t.finish();
}

#[test]
fn fen_12_hst_02_ini_10_the_host_is_not_called_for_a_local_fence() {
    let mut t = Harness::new([Upcall::Fence]);
    t.job("job", "0-1;2-3");
    let (a, b) = (t.connect(&proc("job", 0)), t.connect(&proc("job", 1)));
    let procs = || fence([proc("job", 0), proc("job", 1)]);
    let calls = [t.ask(&a, procs()), t.ask(&b, procs())];
    for to in calls {
        t.fenced(to);
    }
    assert_eq!(t.engine.stats().upcalls, 0);
    t.finish();
}

#[test]
fn fen_13_a_death_before_the_call_ends_the_fence_for_the_rest() {
    let (mut t, peers) = Harness::local(4);
    let early = t.ask(&peers[0], fence_all());
    t.lose(&peers[2]);
    let failure = t.fails(early, Status::ERR_PROC_TERM_WO_SYNC);
    assert_eq!(failure.procs, [proc("job", 2)]);
    assert!(failure.message.contains("job:2") && failure.message.contains(RESET), "{failure}");
    // those who come later get the same word, and the next fence has no chance either
    let rest = [t.ask(&peers[1], fence_all()), t.ask(&peers[3], fence_all())];
    for to in rest {
        assert_eq!(t.fails(to, Status::ERR_PROC_TERM_WO_SYNC), failure);
    }
    for rank in [0, 1, 3] {
        let to = t.ask(&peers[rank], fence_all());
        assert_eq!(t.fails(to, Status::ERR_PROC_TERM_WO_SYNC), failure);
    }
    let without = [0, 1].map(|rank| t.ask(&peers[rank], fence([proc("job", 0), proc("job", 1)])));
    for to in without {
        t.fenced(to);
    }
    t.finish();
}

#[test]
fn fen_13_who_is_back_when_a_broken_fence_is_over_starts_anew() {
    let (mut t, peers) = Harness::local(2);
    t.lose(&peers[1]);
    let to = t.ask(&peers[0], fence_all());
    t.fails(to, Status::ERR_PROC_TERM_WO_SYNC);
    let again = t.connect(&proc("job", 1));
    let to = t.ask(&again, fence_all());
    t.quiet();
    let other = t.ask(&peers[0], fence_all());
    t.fenced(to);
    t.fenced(other);
    t.finish();
}

#[test]
fn fen_14_a_death_after_the_call_changes_nothing() {
    let (mut t, peers) = Harness::local(3);
    t.commits(&peers[0], [entry(Scope::GLOBAL, "k", 1u32)]);
    t.ask(&peers[0], fence_all().with(&keys::COLLECT_DATA, true));
    t.lose(&peers[0]);
    t.quiet();
    let rest = [1, 2].map(|rank| t.ask(&peers[rank], fence_all()));
    let expected = modex([data_of(&proc("job", 0), [entry(Scope::GLOBAL, "k", 1u32)])]);
    for to in rest {
        assert_eq!(t.fenced(to), expected);
    }
    t.finish();
}

#[test]
fn fen_15_participants_are_counted_by_name() {
    let mut t = Harness::new([]);
    t.register(JobSpec::new(nspace("job")), None);
    let peers = [0, 1, 2].map(|rank| {
        t.register_client(&proc("job", rank));
        t.connect(&proc("job", rank))
    });
    let call = t.ask(&peers[1], fence_all());
    // it has entered, and is then forgotten: two others are still to come
    assert!(t.called(HostCall::DeregisterClient(proc("job", 1))).is_ok());
    assert!(matches!(t.next(), Command::Close { .. }));
    let second = t.ask(&peers[2], fence_all());
    t.quiet();
    let third = t.ask(&peers[0], fence_all());
    t.fenced(second);
    t.fenced(third);
    assert!(call.conn == peers[1].conn);
    t.finish();
}

#[test]
fn fen_13_a_deregistered_process_is_missed() {
    // with the map, by number, and with neither
    for case in 0..3 {
        let mut t = Harness::new([]);
        match case {
            0 => t.register(spec("job", "0-1"), None),
            1 => t.register(JobSpec::new(nspace("job")), Some(2)),
            _ => t.register(JobSpec::new(nspace("job")), None),
        }
        for rank in [0, 1] {
            t.register_client(&proc("job", rank));
        }
        let a = t.connect(&proc("job", 0));
        assert!(t.called(HostCall::DeregisterClient(proc("job", 1))).is_ok());
        for request in [fence_all(), fence([proc("job", 0), proc("job", 1)])] {
            let to = t.ask(&a, request);
            assert_eq!(t.fails(to, Status::ERR_PROC_TERM_WO_SYNC).procs, [proc("job", 1)]);
        }
        t.finish();
    }
}

#[test]
fn fen_17_gen_12_the_first_timeout_ends_the_fence_for_all() {
    let (mut t, peers) = Harness::local(3);
    let a = t.ask(&peers[0], fence_all().with(&keys::TIMEOUT, 9));
    let b = t.ask(&peers[1], fence_all().with(&keys::TIMEOUT, 2));
    t.advance(1);
    t.quiet();
    t.advance(1);
    let failure = t.fails(a, Status::ERR_TIMEOUT);
    assert_eq!(failure.procs, [proc("job", 2)]);
    assert!(failure.message.contains("job:2"), "{failure}");
    assert_eq!(t.fails(b, Status::ERR_TIMEOUT), failure);
    // the one who was late hears the same
    let late = t.ask(&peers[2], fence_all());
    assert_eq!(t.fails(late, Status::ERR_TIMEOUT), failure);
    let next = [0, 1, 2].map(|rank| t.ask(&peers[rank], fence_all()));
    for to in next {
        t.fenced(to);
    }
    t.finish();
}

#[test]
fn fen_17_a_fence_in_time_leaves_no_timer() {
    let (mut t, peers) = Harness::local(2);
    let calls = [1, 5].map(|seconds| {
        let peer = &peers[usize::from(seconds == 5)];
        t.ask(peer, fence_all().with(&keys::TIMEOUT, seconds))
    });
    for to in calls {
        t.fenced(to);
    }
    t.advance(10);
    t.finish();
}

#[test]
fn fen_18_gen_05_what_must_be_done_and_is_not_known_is_not_supported() {
    const ALGORITHM: Key<String> = Key::new("pmix.calgo", pmix_types::DataType::STRING);
    const REQUIRED: Key<bool> = Key::new("pmix.calreqd", pmix_types::DataType::BOOL);
    let (mut t, peers) = Harness::local(1);
    let plain = t.ask(&peers[0], fence_all().with(&ALGORITHM, "ring"));
    t.fenced(plain);
    let wanted = t.ask(&peers[0], fence_all().with(&ALGORITHM, "ring").with(&REQUIRED, true));
    t.fails(wanted, Status::ERR_NOT_SUPPORTED);
    let required = t.ask(&peers[0], fence_all().require(&ALGORITHM, "ring"));
    t.fails(required, Status::ERR_NOT_SUPPORTED);
    // what the server does itself may be required
    let known = fence_all().require(&keys::COLLECT_DATA, true).require(&keys::TIMEOUT, 5);
    let known = t.ask(&peers[0], known);
    t.fenced(known);
    t.finish();
}

#[test]
fn gen_04_gen_07a_unknown_directives_are_ignored_and_contradictions_refused() {
    let (mut t, peers) = Harness::local(1);
    let mut request = fence_all();
    request.held().push(Info::dynamic(key("my.own"), 3u32));
    let to = t.ask(&peers[0], request);
    t.fenced(to);
    for request in [
        fence_all().with(&keys::COLLECT_DATA, true).with(&keys::COLLECT_DATA, false),
        fence_all().with(&keys::TIMEOUT, -4),
    ] {
        let to = t.ask(&peers[0], request);
        t.fails(to, Status::ERR_BAD_PARAM);
    }
    t.finish();
}

#[test]
fn fen_04_rounds_have_a_limit() {
    let (mut t, peers) = Harness::local(2);
    let calls: Vec<_> = (0..1024).map(|_| t.ask(&peers[0], fence_all())).collect();
    t.quiet();
    let refused = t.ask(&peers[0], fence_all());
    t.fails(refused, Status::ERR_RESOURCE_BUSY);
    t.lose(&peers[1]);
    for call in calls {
        t.fails(call, Status::ERR_PROC_TERM_WO_SYNC);
    }
    t.finish();
}

#[test]
fn fen_11_reg_01_a_job_known_through_a_client_alone_is_not_registered_yet() {
    let mut t = Harness::new([]);
    t.register_client(&proc("job", 0));
    let a = t.connect(&proc("job", 0));
    let first = t.ask(&a, fence_all());
    t.quiet();
    t.register(spec("job", "0-1"), None);
    t.register_client(&proc("job", 1));
    let b = t.connect(&proc("job", 1));
    let second = t.ask(&b, fence_all());
    t.fenced(first);
    t.fenced(second);
    t.finish();
}

#[test]
fn fen_11_reg_03_a_registration_without_data_is_one() {
    let mut t = Harness::new([]);
    t.register_client(&proc("job", 0));
    let a = t.connect(&proc("job", 0));
    let to = t.ask(&a, fence_all());
    t.quiet();
    let infos = vec![Info::new(&keys::REGISTER_NODATA, true)];
    let call = HostCall::RegisterNspace { nspace: nspace("job"), local_procs: Some(1), infos };
    let call = t.call(call);
    t.fenced(to);
    assert!(t.returned(call).is_ok());
    t.finish();
}

#[test]
fn fen_11_fen_17_a_fence_with_a_namespace_that_never_comes_leaves_nothing() {
    let (mut t, peers) = Harness::local(2);
    for name in ["never", "neither"] {
        let procs = || fence([all_of("job"), all_of(name)]).with(&keys::TIMEOUT, 1);
        let calls = [t.ask(&peers[0], procs()), t.ask(&peers[1], procs())];
        t.advance(1);
        for to in calls {
            t.fails(to, Status::ERR_TIMEOUT);
        }
        assert!(t.engine.collectives.is_empty(), "{:?}", t.engine.collectives);
    }
    t.finish();
}

#[test]
fn fen_13_fen_17_who_is_known_still_gets_the_verdict_of_such_a_fence() {
    let (mut t, peers) = Harness::local(2);
    let procs = || fence([all_of("job"), all_of("never")]).with(&keys::TIMEOUT, 1);
    let first = t.ask(&peers[0], procs());
    t.advance(1);
    t.fails(first, Status::ERR_TIMEOUT);
    let late = t.ask(&peers[1], procs());
    t.fails(late, Status::ERR_TIMEOUT);
    t.finish();
}

#[test]
fn fen_10_fen_15_who_has_died_after_its_call_is_counted_once() {
    let mut t = Harness::new([]);
    t.register(JobSpec::new(nspace("job")).info(&keys::JOB_SIZE, 3u32), Some(3));
    let peers = [0, 1].map(|rank| {
        t.register_client(&proc("job", rank));
        t.connect(&proc("job", rank))
    });
    t.ask(&peers[0], fence_all());
    t.lose(&peers[0]);
    let second = t.ask(&peers[1], fence_all());
    // two of three have called
    t.quiet();
    t.register_client(&proc("job", 2));
    let last = t.connect(&proc("job", 2));
    let third = t.ask(&last, fence_all());
    for to in [second, third] {
        t.fenced(to);
    }
    t.finish();
}
