//! The client's side of a conversation, against a server played by the test.

use crate::talk::{Talk, V4, V5, proc};
use pmix_native::client::{Caller, Conversation, Delivery};
use pmix_native::conn::{Frame, User, tag};
use pmix_native::msg::{
    Body, Context, Entry, GroupResult, IofDelivery, ProcData, Push, Reply as Answer, Request as Ask,
};
use pmix_native::{Dialect, Encoding, Version};
use pmix_types::message::{
    Commit, Connect, DeregisterEvents, Fabric, Fence, Get, GetCredential, GroupConstruct, GroupInvite,
    GroupJoin, IofDeregister, IofPull, Lookup, Monitor, NotifyEvent, PutEntry, QueryInfo, RegisterEvents,
    Reply, Request, ResolveNodes, ResolvePeers,
};
use pmix_types::{
    DataRange, Directives, Event, FabricOperation, Gid, GroupOpt, Info, IofChannels, KeyVal, Pdata, ProcId,
    Query, Rank, Scope, Status, Uid, Value, keys,
};
use proptest::prelude::*;

#[test]
fn put_04_a_commit_sends_all_that_was_committed_before() {
    let mut talk = Talk::started(V4);
    let entry = |scope, key: &str, value: i32| PutEntry::new(scope, key.parse().unwrap(), value);
    let first = vec![entry(Scope::GLOBAL, "a", 1), entry(Scope::LOCAL, "b", 1)];
    talk.round(Request::Commit(Commit::new(first)), Status::SUCCESS).unwrap();
    talk.client.request(
        2,
        Request::Commit(Commit::new(vec![entry(Scope::REMOTE, "c", 2), entry(Scope::GLOBAL, "a", 2)])),
    );
    let (_, Ask::Commit(parts)) = talk.asked() else { panic!("no commit") };
    let said: Vec<_> = parts
        .iter()
        .map(|part| {
            (part.scope, part.pairs.iter().map(|pair| (&*pair.key, pair.value.clone())).collect::<Vec<_>>())
        })
        .collect();
    let value = |value: i32| Value::from(value);
    assert_eq!(
        said,
        [
            (Scope::LOCAL, vec![("a", value(2)), ("b", value(1))]),
            (Scope::REMOTE, vec![("a", value(2)), ("c", value(2))]),
        ]
    );
}

#[test]
fn a_value_that_the_dialect_lacks_fails_its_commit_and_no_later_one() {
    let mut talk = Talk::started(V4);
    let context = Context::new(Encoding::plain(Dialect::V21), V4);
    talk.client =
        Conversation::new(Caller::new(proc(0), User { uid: Uid::new(7), gid: Gid::new(8) }, "n0", context));
    talk.context = context;
    let nspace = Value::Nspace("job".parse().unwrap());
    talk.client.request(
        1,
        Request::Commit(Commit::new(vec![PutEntry::new(Scope::GLOBAL, "new".parse().unwrap(), nspace)])),
    );
    let failure = talk.reply(1).unwrap_err();
    assert_eq!(failure.status, Status::ERR_NOT_SUPPORTED, "{failure}");
    assert!(failure.to_string().contains("dialect v21 cannot encode it"), "{failure}");
    talk.round(
        Request::Commit(Commit::new(vec![PutEntry::new(Scope::GLOBAL, "old".parse().unwrap(), 1)])),
        Status::SUCCESS,
    )
    .unwrap();
}

#[test]
fn get_30_what_the_job_says_is_answered_here_and_the_rest_is_asked_for_at_once() {
    let mut talk = Talk::started(V4);
    talk.client.request(1, Request::Get(Get::new(proc(1), Some(keys::LOCAL_RANK.key_name()))));
    let Ok(Reply::Get(found)) = talk.reply(1) else { panic!("no value") };
    assert_eq!(found.value, Some(Value::Uint16(1)));
    // libpmix 4.2 reports success with nothing
    talk.client.request(2, Request::Get(Get::new(proc(1), Some(keys::CPUSET.key_name()))));
    let (tag, Ask::Operation(Request::Get(asked))) = talk.asked() else { panic!("no get") };
    assert!(asked.directives.flag(&keys::IMMEDIATE).unwrap());
    talk.answer(tag, Status::SUCCESS);
    assert_eq!(talk.reply(2).unwrap_err().status, Status::ERR_NOT_FOUND);
}

#[test]
fn gen_05_what_is_required_is_not_dropped_where_there_is_no_room_for_it() {
    let mut talk = Talk::started(V5);
    let required = || Directives::new().require(&keys::COLLECT_DATA, true);
    // nothing here knows what that means for a get
    let mut get = Get::new(proc(1), Some(keys::LOCAL_RANK.key_name()));
    get.directives = required();
    talk.client.request(1, Request::Get(get));
    let (_, Ask::Operation(Request::Get(asked))) = talk.asked() else { panic!("answered") };
    assert!(asked.directives.deny_unprocessed().is_err());
    let mut beat = Monitor::new(Info::new(&keys::SEND_HEARTBEAT, true), Status::SUCCESS);
    beat.directives = required();
    let mut update = Fabric::new(FabricOperation::UPDATE_INFO);
    update.directives = required().with(&keys::FABRIC_INDEX, 3u64);
    let without_index = Fabric::new(FabricOperation::UPDATE_INFO);
    for (request, status) in [
        (Request::Monitor(beat), Status::ERR_NOT_SUPPORTED),
        (Request::Fabric(update), Status::ERR_NOT_SUPPORTED),
        (Request::Fabric(without_index), Status::ERR_BAD_PARAM),
    ] {
        talk.client.request(2, request);
        assert_eq!(talk.reply(2).unwrap_err().status, status);
        assert!(talk.frame().is_none());
    }
}

#[test]
fn get_31_data_of_another_job_comes_with_its_description() {
    let mut talk = Talk::started(V4);
    let other = |rank| ProcId::new("other".parse().unwrap(), rank);
    let mut whole = ProcData::new(other(Rank::WILDCARD));
    let pair = |key, value| Entry::from(KeyVal { key, value });
    whole.entries.push(pair(keys::JOB_SIZE.key_name(), 3u32.into()));
    let mut one = ProcData::new(other(Rank::from_raw(2)));
    one.entries.push(pair("card".parse().unwrap(), Value::CompressedString("c2".into())));
    one.entries.push(pair(keys::HOSTNAME.key_name(), "n7".into()));
    let asked = Request::Get(Get::new(other(Rank::from_raw(2)), Some("card".parse().unwrap())));
    let Ok(Reply::Get(found)) = talk.round(asked, Body::Get(vec![whole, one])) else { panic!("no reply") };
    assert_eq!(found.value, Some("c2".into()));
    assert_eq!(found.modex.procs[0].entries.len(), 1, "what the host knows is part of the job");
    let job = found.job.unwrap();
    assert_eq!((job.size(), job.hostname_of(Rank::from_raw(2)).as_deref()), (Some(3), Some("n7")));
    talk.client.request(3, Request::Get(Get::new(other(Rank::WILDCARD), Some(keys::JOB_SIZE.key_name()))));
    assert!(
        matches!(talk.reply(3), Ok(Reply::Get(found)) if found.value == Some(3u32.into())),
        "it is known by now"
    );
}

#[test]
fn evt_09_a_code_stays_at_the_server_while_it_is_asked_for_it_again() {
    let status = |codes: &[i32]| codes.iter().copied().map(Status::from_raw).collect::<Vec<_>>();
    for (held, asked, unknown) in [(&[-5][..], &[-5, -6][..], &[-6][..]), (&[], &[], &[])] {
        let mut talk = Talk::started(V4);
        // for all codes, two may ask before the first is answered
        let pending = |talk: &mut Talk| {
            talk.client.request(2, Request::RegisterEvents(RegisterEvents::new(status(asked))));
            let (tag, Ask::Operation(Request::RegisterEvents(ask))) = talk.asked() else {
                panic!("it does not ask")
            };
            assert_eq!(ask.codes, status(unknown));
            tag
        };
        let (first, tag) = if held.is_empty() {
            talk.client.request(1, Request::RegisterEvents(RegisterEvents::new(Vec::new())));
            let (first, _) = talk.asked();
            let tag = pending(&mut talk);
            talk.answer(first, Status::SUCCESS);
            let Ok(Reply::Registered(number)) = talk.reply(1) else { panic!("it is not registered") };
            (number, tag)
        } else {
            (talk.register(held), pending(&mut talk))
        };
        talk.client.request(3, Request::DeregisterEvents(DeregisterEvents::new(first)));
        assert!(talk.reply(3).is_ok() && talk.frame().is_none(), "the other needs the code");
        talk.answer(tag, Status::SUCCESS);
        let Ok(Reply::Registered(second)) = talk.reply(2) else { panic!("it is not registered") };
        talk.push(&Push::Event(Event::new(Status::from_raw(-5), proc(1))));
        assert_eq!(talk.event().unwrap().0, [second]);
        talk.client.request(4, Request::DeregisterEvents(DeregisterEvents::new(second)));
        assert!(talk.reply(4).is_ok());
        let (_, Ask::DeregisterEvents(ended)) = talk.asked() else { panic!("the server goes on") };
        let expected = if asked.is_empty() { vec![Ask::DEFAULT_HANDLERS] } else { status(asked) };
        assert_eq!(ended.len(), expected.len());
        assert!(expected.iter().all(|code| ended.contains(code)), "{ended:?}");
    }
}

#[test]
fn evt_14_own_events_are_delivered_here_and_those_of_others_to_whom_they_concern() {
    let mut talk = Talk::started(V4);
    let (five, all, again) = (talk.register(&[-5]), talk.register(&[]), talk.register(&[-5]));
    let notify = |range| {
        Request::NotifyEvent(NotifyEvent::new(
            Event::new(Status::from_raw(-5), ProcId::none()).with_range(range),
        ))
    };
    talk.client.request(2, notify(DataRange::NAMESPACE));
    let (tag, Ask::Operation(Request::NotifyEvent(_))) = talk.asked() else { panic!("no event") };
    assert!(talk.event().is_none(), "the server may refuse it");
    talk.answer(tag, Status::SUCCESS);
    let (to, event) = talk.event().unwrap();
    assert_eq!((to, event.source), (vec![five, all, again], proc(0)));
    assert!(talk.reply(2).is_ok());
    // not for processes
    assert!(talk.round(notify(DataRange::RM), Status::SUCCESS).is_ok());
    // of the process alone: the server does not hear of it
    talk.client.request(3, notify(DataRange::PROC_LOCAL));
    assert!(talk.frame().is_none() && talk.event().is_some() && talk.reply(3).is_ok());

    talk.client.request(4, Request::DeregisterEvents(DeregisterEvents::new(five)));
    assert!(talk.reply(4).is_ok() && talk.frame().is_none(), "the code has another listener");
    talk.client.request(5, Request::DeregisterEvents(DeregisterEvents::new(again)));
    assert!(talk.reply(5).is_ok(), "there is no answer to wait for");
    assert!(matches!(talk.asked(), (_, Ask::DeregisterEvents(codes)) if codes == [Status::from_raw(-5)]));
    let mut event = Event::new(Status::from_raw(-6), proc(1));
    event.info.push(Info::dynamic("pmix.srvr.internal.notify".parse().unwrap(), true));
    talk.push(&Push::Event(event));
    let (to, event) = talk.event().unwrap();
    assert_eq!((to, event.info.len()), (vec![all], 0));
    talk.client.request(6, Request::DeregisterEvents(DeregisterEvents::new(five)));
    assert_eq!(talk.reply(6).unwrap_err().status, Status::ERR_BAD_PARAM);
}

#[test]
fn what_servers_of_a_release_do_not_know_is_not_asked() {
    let pull = || Request::IofPull(IofPull::new(vec![proc(1)], IofChannels::STDOUT));
    let construct =
        || Request::GroupConstruct(GroupConstruct::new("g".parse().unwrap(), vec![proc(0), proc(1)]));
    let control = || Request::SessionControl(pmix_types::message::SessionControl::new(Some(1)));
    let credential = || Request::GetCredential(GetCredential::new());
    // it takes servers before 5.0 down
    let attributes = || Request::QueryInfo(QueryInfo::new(vec![Query::attributes(["PMIx_Fence"])]));
    let cases: [(Version, Request, bool); 9] = [
        (V4, attributes(), false),
        (V5, attributes(), true),
        (Version::new(2, 2, 0), pull(), false),
        (Version::new(3, 0, 0), pull(), true),
        (Version::new(2, 2, 0), credential(), false),
        (Version::new(3, 2, 0), construct(), false),
        (V4, construct(), true),
        (V5, control(), false),
        (Version::new(6, 0, 0), control(), true),
    ];
    for (version, request, is_known) in cases {
        let mut talk = Talk::started(version);
        let what = format!("{version} {}", request.operation());
        talk.client.request(1, request);
        assert_eq!(talk.frame().is_some(), is_known, "{what}");
        if !is_known {
            let failure = talk.reply(1).unwrap_err();
            assert_eq!(failure.status, Status::ERR_NOT_SUPPORTED);
            assert!(failure.message.contains(&format!("OpenPMIx {version}")), "{failure}");
            assert!(talk.client.is_idle());
        }
    }
}

#[test]
fn get_08_older_servers_are_asked_anew_without_the_directive() {
    let mut talk = Talk::started(V4);
    let mut get = Get::new(proc(1), Some("k".parse().unwrap()));
    get.directives.push(Info::new(&keys::GET_REFRESH_CACHE, true));
    talk.client.request(1, Request::Get(get));
    let (_, Ask::Operation(Request::Get(asked))) = talk.asked() else { panic!("no get") };
    assert_eq!((asked.proc, asked.directives.is_empty()), (proc(1), true));
}

#[test]
fn res_02_res_03_res_06_older_servers_are_asked_for_a_job_instead_of_its_peers() {
    let ask = |nspace: &str| {
        Request::ResolvePeers(ResolvePeers::new(Some("n7".into()), Some(nspace.parse().unwrap())))
    };
    let mut talk = Talk::started(V4);
    let mut own = ResolvePeers::new(None, None);
    own.nspace = Some("job".parse().unwrap());
    talk.client.request(1, Request::ResolvePeers(own));
    assert!(matches!(talk.reply(1), Ok(Reply::Procs(procs)) if procs == [proc(0), proc(1)]));

    let mut whole = ProcData::new(ProcId::wildcard("other".parse().unwrap()));
    let node = vec![Info::new(&keys::HOSTNAME, "n7"), Info::new(&keys::LOCAL_PEERS, "4,5")];
    whole.entries.push(KeyVal { key: keys::NODE_INFO_ARRAY.key_name(), value: node.into() }.into());
    let peers = talk.round(ask("other"), Body::Get(vec![whole]));
    let of_other = |rank| ProcId::new("other".parse().unwrap(), Rank::from_raw(rank));
    assert!(matches!(&peers, Ok(Reply::Procs(procs)) if *procs == [of_other(4), of_other(5)]), "{peers:?}");
    let unknown = talk.round(ask("nobody"), Status::ERR_NOT_FOUND);
    assert_eq!(unknown.unwrap_err().status, Status::ERR_INVALID_NAMESPACE);

    let mut talk = Talk::started(V5);
    let peers = talk.round(ask("other"), Body::Peers(vec![of_other(1)]));
    assert!(matches!(&peers, Ok(Reply::Procs(procs)) if *procs == [of_other(1)]), "{peers:?}");
}

#[test]
fn pub_12_a_lookup_that_finds_some_of_its_keys_says_so() {
    let lookup = || Request::Lookup(Lookup::new(vec!["a".parse().unwrap(), "b".parse().unwrap()]));
    let mut talk = Talk::started(V4);
    let found = || vec![Pdata::new(proc(1), "a".parse().unwrap(), 5.into())];
    let Ok(Reply::Lookup(reply)) = talk.round(lookup(), Body::Lookup(found())) else { panic!("nothing") };
    assert_eq!((reply.status, reply.found), (Status::ERR_PARTIAL_SUCCESS, found()));
    let none = talk.round(lookup(), Body::Lookup(vec![]));
    assert_eq!(none.unwrap_err().status, Status::ERR_NOT_FOUND);
    // 4.2 and 5.0 keep back what they have found unless it is all
    talk.client.request(9, lookup());
    let (tag, _) = talk.asked();
    talk.answer(tag, Status::ERR_PARTIAL_SUCCESS);
    let mut asked = Vec::new();
    for answer in [Answer::from(Body::Lookup(found())), Status::ERR_NOT_FOUND.into()] {
        let (tag, Ask::Lookup(one)) = talk.asked() else { panic!("no lookup") };
        asked.extend(one.keys);
        talk.answer(tag, answer);
    }
    let Ok(Reply::Lookup(reply)) = talk.reply(9) else { panic!("nothing") };
    assert_eq!((reply.status, reply.found, asked.len()), (Status::ERR_PARTIAL_SUCCESS, found(), 2));
}

#[test]
fn qry_02_results_of_older_libraries_are_sorted_by_query() {
    let mut talk = Talk::started(V4);
    let queries =
        vec![Query::new(&keys::QUERY_NAMESPACES), Query::new(&keys::JOB_SIZE).key(&keys::QUERY_NAMESPACES)];
    let flat = vec![
        Info::new(&keys::QUERY_NAMESPACES, "a"),
        Info::new(&keys::JOB_SIZE, 2u32),
        Info::new(&keys::QUERY_NAMESPACES, "b"),
    ];
    let reply = talk.round(Request::QueryInfo(QueryInfo::new(queries)), Body::Info(flat));
    let Ok(Reply::Query(reply)) = reply else { panic!("{reply:?}") };
    let sorted: Vec<_> = reply.results.iter().map(|result| result.value.as_infos().unwrap().len()).collect();
    assert_eq!(sorted, [1, 2]);
    assert!(reply.results.iter().all(|result| result.is(&keys::QUERY_RESULTS)));
}

#[test]
fn idn_06_grp_01_members_of_a_group_are_named_to_servers_that_do_not_know_it() {
    for version in [V4, V5] {
        let mut talk = Talk::started(version);
        let whole = ProcId::wildcard("job".parse().unwrap());
        let construct = GroupConstruct::new("g".parse().unwrap(), vec![whole]);
        let mut result = GroupResult::new(vec![proc(1), proc(0)]);
        result.context_id = Some(77);
        let Ok(Reply::Group(group)) = talk.round(Request::GroupConstruct(construct), Body::Group(result))
        else {
            panic!("no group")
        };
        // before 5.0, servers name nobody
        let members = if version == V4 { [proc(0), proc(1)] } else { [proc(1), proc(0)] };
        assert_eq!(
            (&*group.members, group.context_id),
            (&members[..], None),
            "nobody has asked for the number"
        );
        let of_group = |rank| ProcId::new("g".parse().unwrap(), rank);
        talk.client.request(2, Request::Fence(Fence::new(Some(vec![of_group(Rank::WILDCARD)]))));
        assert_eq!(talk.asked().1, Fence::new(Some(members.to_vec())).into());
        talk.client
            .request(3, Request::Get(Get::new(of_group(Rank::from_raw(1)), Some("k".parse().unwrap()))));
        assert_eq!(talk.asked().1, Get::new(members[1].clone(), Some("k".parse().unwrap())).into());
    }
}

#[test]
fn con_03_fen_05_a_collective_of_others_is_refused_here() {
    let mut talk = Talk::started(V4);
    let others = || vec![proc(1)];
    for request in [Request::Fence(Fence::new(Some(others()))), Request::Connect(Connect::new(others()))] {
        talk.client.request(1, request);
        assert_eq!(talk.reply(1).unwrap_err().status, Status::ERR_NOT_A_MEMBER);
        assert!(talk.frame().is_none());
    }
}

#[test]
fn mon_02_a_heartbeat_has_no_answer() {
    let mut talk = Talk::started(V4);
    let beat = Monitor::new(Info::new(&keys::SEND_HEARTBEAT, true), Status::SUCCESS);
    talk.client.request(1, Request::Monitor(beat));
    assert!(matches!(talk.reply(1), Ok(Reply::Info(infos)) if infos.is_empty()), "the form of its operation");
    let frame = talk.frame().unwrap();
    assert_eq!((frame.tag, frame.payload.len()), (tag::HEARTBEAT, 0));
}

#[test]
fn iof_04_output_goes_to_its_subscription_until_the_end_is_answered() {
    let mut talk = Talk::started(V5);
    let pull = Request::IofPull(IofPull::new(vec![proc(1)], IofChannels::STDOUT));
    let Ok(Reply::Registered(own)) = talk.round(pull, Body::Iof(88)) else { panic!("no subscription") };
    let piece = |id| {
        let mut piece = IofDelivery::new(proc(1), IofChannels::STDOUT, vec![7].into());
        piece.id = id;
        Push::Iof(piece)
    };
    talk.push(&piece(own));
    let heard = talk.client.next_delivery();
    let is_own = |push: &_| matches!(push, pmix_types::message::Push::Output { registration, .. } if *registration == own);
    assert!(matches!(&heard, Some(Delivery::Push(push)) if is_own(push)), "{heard:?}");
    // that of the server itself
    talk.push(&piece(0));
    assert!(talk.client.next_delivery().is_none());
    talk.client.request(2, Request::IofDeregister(IofDeregister::new(own)));
    let (tag, Ask::IofDeregister(end)) = talk.asked() else { panic!("it does not end") };
    assert_eq!(end.id, 88, "the server's own number");
    talk.push(&piece(own));
    assert!(matches!(talk.client.next_delivery(), Some(Delivery::Push(_))), "it comes before the answer");
    talk.answer(tag, Status::SUCCESS);
    assert!(talk.reply(2).is_ok());
    talk.push(&piece(own));
    assert!(talk.client.next_delivery().is_none());
}

#[test]
fn a_reply_that_is_too_large_or_cannot_be_read_fails_its_own_call() {
    let mut talk = Talk::started(V4);
    for id in [1, 2, 3] {
        talk.client.request(id, Request::Fence(Fence::new(None)));
    }
    let tags = [talk.asked().0, talk.asked().0, talk.asked().0];
    talk.client.skip(tags[1], 1 << 30);
    assert_eq!(talk.reply(2).unwrap_err().status, Status::ERR_OUT_OF_RESOURCE);
    talk.client.receive(&Frame { index: 0, tag: tags[0], payload: vec![0xff; 3].into() });
    assert!(talk.reply(1).unwrap_err().message.contains("cannot be read"));
    talk.answer(tags[2], Status::SUCCESS);
    assert!(talk.reply(3).is_ok() && talk.client.is_idle());
    // replies that nobody waits for
    talk.answer(tags[2], Status::SUCCESS);
    talk.client.skip(4711, 1);
    assert!(talk.client.next_delivery().is_none());
}

proptest! {
    /// Whatever a server says, each request is answered once at most, and nothing else breaks.
    #[test]
    fn no_server_breaks_a_conversation(
        frames in prop::collection::vec((0..115_u32, prop::collection::vec(any::<u8>(), 0..60)), 0..20),
        major in 2..7_u16,
    ) {
        let mut talk = Talk::with(Version::new(major, 1, 0));
        talk.client.start();
        for (id, request) in (1..).zip(requests()) {
            talk.client.request(id, request);
        }
        let mut answered = std::collections::BTreeSet::new();
        for (tag, payload) in frames {
            talk.client.receive(&Frame { index: 0, tag, payload: payload.into() });
            while let Some(delivery) = talk.client.next_delivery() {
                if let Delivery::Reply { id, .. } = delivery {
                    prop_assert!(answered.insert(id));
                }
            }
        }
    }
}

/// One of most kinds.
fn requests() -> Vec<Request> {
    let key = || "k".parse().unwrap();
    vec![
        Request::Get(Get::new(proc(1), Some(key()))),
        Request::Get(Get::new(proc(1), None)),
        Request::Fence(Fence::new(None)),
        Request::Lookup(Lookup::new(vec![key()])),
        Request::QueryInfo(QueryInfo::new(vec![Query::new(&keys::QUERY_NAMESPACES)])),
        Request::RegisterEvents(RegisterEvents::new(vec![])),
        Request::Connect(Connect::new(vec![proc(0)])),
        Request::GroupConstruct(GroupConstruct::new("g".parse().unwrap(), vec![proc(0)])),
        Request::GroupInvite(GroupInvite::new("h".parse().unwrap(), vec![proc(1)])),
        Request::GroupJoin(GroupJoin::new("i".parse().unwrap(), proc(1), GroupOpt::ACCEPT)),
        Request::IofPull(IofPull::new(vec![proc(1)], IofChannels::STDOUT)),
        Request::GetCredential(GetCredential::new()),
        Request::ResolveNodes(ResolveNodes::new(Some("other".parse().unwrap()))),
        Request::NotifyEvent(NotifyEvent::new(Event::new(Status::from_raw(-5), ProcId::none()))),
    ]
}

#[test]
fn gen_12_replies_that_nobody_waits_for_are_dropped_when_they_come() {
    let mut talk = Talk::started(V4);
    let own = requests().into_iter().filter(|request| {
        // an invitation goes on
        !matches!(request, Request::GroupInvite(_) | Request::GroupJoin(_))
    });
    for (id, request) in (1..).zip(own) {
        talk.client.request(id, request);
        let (tag, _) = talk.asked();
        talk.client.give_up(&[id + 1].into_iter().collect());
        assert!(!talk.client.is_idle(), "that is another one");
        talk.client.give_up(&[id].into_iter().collect());
        assert!(talk.client.is_idle());
        talk.answer(tag, Status::SUCCESS);
        assert!(talk.client.next_delivery().is_none() && talk.frame().is_none());
    }
    // what comes after it is answered
    let answered = talk.round(Request::Fence(Fence::new(None)), Status::SUCCESS);
    assert!(matches!(answered, Ok(Reply::Done)));
}

#[test]
fn iof_02_qry_05_what_servers_take_for_something_else_is_refused_here() {
    let mut talk = Talk::started(V5);
    let pull = IofPull::new(vec![proc(1)], IofChannels::STDIN | IofChannels::STDOUT);
    let query = Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), "job");
    let query = query.qualifier(&keys::PROCID, proc(1));
    for (request, status) in [
        (Request::IofPull(pull), Status::ERR_NOT_SUPPORTED),
        (Request::QueryInfo(QueryInfo::new(vec![query])), Status::ERR_BAD_PARAM),
        (Request::QueryInfo(QueryInfo::new(vec![])), Status::ERR_BAD_PARAM),
    ] {
        talk.client.request(1, request);
        assert_eq!(talk.reply(1).unwrap_err().status, status);
        assert!(talk.frame().is_none());
    }
}

#[test]
fn att_05_a_server_that_does_not_know_attributes_is_named_with_its_release() {
    let mut talk = Talk::started(V5);
    let ask = |function| Request::QueryInfo(QueryInfo::new(vec![Query::attributes([function])]));
    let refused = talk.round(ask("PMIx_Get"), Status::ERR_NOT_SUPPORTED).unwrap_err();
    assert_eq!(refused.status, Status::ERR_NOT_SUPPORTED);
    assert_eq!(
        refused.message,
        "query of the attributes of functions: servers of OpenPMIx 5.0.11 do not serve it"
    );
    let other = talk.round(ask("PMIx_Get"), Status::ERR_NOT_FOUND).unwrap_err();
    assert_eq!((other.status, &*other.message), (Status::ERR_NOT_FOUND, ""));
}
