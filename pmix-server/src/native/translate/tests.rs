use std::sync::Arc;

use pmix_native::msg as native;
use pmix_types::job::{JobData, JobSpec};
use pmix_types::message::{self as ours, GroupLeave, JobControl, Modex, NotifyEvent, RegisterEvents};
use pmix_types::{DataRange, Directives, Event, IofChannels, Nspace, Query, Rank, Time, Uid};

use super::*;

fn proc(name: &str, rank: u32) -> ProcId {
    ProcId::new(name.parse().unwrap(), Rank::from_raw(rank))
}

fn all_of(name: &str) -> ProcId {
    ProcId::wildcard(name.parse().unwrap())
}

fn key(name: &str) -> KeyName {
    name.parse().unwrap()
}

fn pair_of(name: &str, value: impl Into<Value>) -> KeyVal {
    KeyVal { key: key(name), value: value.into() }
}

fn job(name: &str) -> Arc<JobData> {
    let name: Nspace = name.parse().unwrap();
    let spec = JobSpec::new(name.clone()).node_map(["n0"]).unwrap().proc_map("0-1").unwrap();
    let mut job = JobData::new(name);
    job.register(&spec.into_infos(), "n0").unwrap();
    Arc::new(job)
}

/// Something that only the host knows what to do with.
fn directives() -> Directives {
    Directives::new().require(&keys::TIMEOUT, 3).with(&keys::JOB_TIMEOUT, 5)
}

#[track_caller]
fn asked(ask: Ask) -> Request {
    match task(&proc("job", 0), ask) {
        Task::Ask(request, _) => request,
        other => panic!("{other:?}"),
    }
}

fn answered(reply: Reply, asked: Asked) -> Answer {
    answer(&proc("server", 0), &proc("job", 0), "5.0.1".parse().unwrap(), reply, asked)
}

/// The same with directives on both sides.
macro_rules! goes_on {
    ($variant:ident: $ask:expr => $request:expr) => {{
        let (mut ask, mut request) = ($ask, $request);
        (ask.info, request.directives) = (directives(), directives());
        assert_eq!(asked(Ask::$variant(ask)), Request::$variant(request));
    }};
}

#[test]
fn gen_14_what_a_c_process_asks_for_goes_on_with_all_its_directives() {
    let (procs, keys) = (|| vec![all_of("job"), proc("b", 1)], || vec![key("k"), key("l")]);
    let group = || "g".parse::<Nspace>().unwrap();
    goes_on!(Lookup: native::Lookup::new(Uid::new(7), keys()) => Lookup::new(keys()));
    goes_on!(Unpublish: native::Lookup::new(Uid::new(7), keys()) => Unpublish::new(keys()));
    let mut destruct = native::GroupDestruct::new(group());
    destruct.procs = procs();
    goes_on!(GroupDestruct: destruct => GroupDestruct::new(group()));
    let out = IofChannels::STDOUT;
    goes_on!(IofPull: native::IofPull::new(procs(), out, 4) => IofPull::new(procs(), out));
    let codes = || vec![Status::ERR_NODE_DOWN];
    let filtered =
        directives().with(&keys::EVENT_AFFECTED_PROC, proc("b", 1)).with(&keys::RANGE, DataRange::LOCAL);
    let whole = RegisterEvents::new(codes()).with_directives(directives());
    assert_eq!(
        asked(RegisterEvents::new(codes()).with_directives(filtered).into()),
        Request::RegisterEvents(whole),
        "EVT-09: its library filters"
    );
    let get = |directives| Get::new(proc("b", 1), Some(key("k"))).with_directives(directives);
    let here = directives().with(&keys::HOSTNAME, "");
    assert_eq!(asked(get(here).into()), get(directives()).into(), "the node of the caller");
    // an operation whose message has its fields
    for request in [
        Request::from(JobControl::new(procs()).with_directives(directives())),
        get(directives()).into(),
        GroupLeave::new(group()).with_directives(directives()).into(),
    ] {
        assert_eq!(asked(request.clone().into()), request);
    }
}

#[test]
fn evt_11_pub_02_what_is_left_out_on_the_native_wire_is_meant_as_everywhere() {
    let event = |source| {
        let mut event = Event::new(Status::from_raw(-9), source).with_range(DataRange::GLOBAL);
        event.info = directives();
        NotifyEvent::new(event)
    };
    let raised = asked(event(ProcId::none()).into());
    assert_eq!(raised, event(proc("job", 0)).into(), "EVT-19: of the caller");

    // data and directives come mixed, and the engine tells them apart
    let mut publish = native::Publish::new(Uid::new(7));
    publish.info = Directives::new().with(&keys::RANGE, DataRange::LOCAL);
    publish.info.push(Info::dynamic(key("k"), Value::CompressedString("text".to_owned())));
    let data = vec![Info::new(&keys::RANGE, DataRange::LOCAL), Info::dynamic(key("k"), "text")];
    assert_eq!(asked(Ask::Publish(publish)), Request::Publish(Publish::new(data)));

    let mut end = native::IofDeregister::new(1);
    assert_eq!(asked(Ask::IofDeregister(end.clone())), Request::IofDeregister(IofDeregister::new(1)));
    end.info = Directives::new().require(&keys::COLLECT_DATA, true);
    let end = task(&proc("job", 0), Ask::IofDeregister(end));
    assert!(matches!(end, Task::Refuse(Status::ERR_NOT_SUPPORTED)), "GEN-05: {end:?}");
}

#[test]
fn log_01_the_time_of_a_message_is_what_the_process_says_it_is() {
    let (said, also) = (Time(1), Time(2));
    let mut log = native::Log::new(Directives::new().with(&keys::LOG_STDOUT, "text"));
    log.time = Some(said);
    let time_of = |log: native::Log| match asked(Ask::Log(log)) {
        Request::Log(log) => log.directives,
        other => panic!("{other:?}"),
    };
    assert_eq!(time_of(log.clone()), Directives::new().with(&keys::LOG_TIMESTAMP, said));
    log.info = Directives::new().with(&keys::LOG_TIMESTAMP, also);
    assert_eq!(time_of(log), Directives::new().with(&keys::LOG_TIMESTAMP, also));
}

#[test]
fn qry_02_the_results_of_a_query_are_framed_for_libraries_that_know_the_frame() {
    let query = Query::new(&keys::QUERY_NAMESPACES).qualifier(&keys::QUERY_LOCAL_ONLY, true);
    let names = Info::dynamic(keys::QUERY_NAMESPACES.key_name(), "job");
    let framed = vec![query.results(vec![names.clone()])];
    for (version, expected) in [("5.0.1", vec![names]), ("6.0.0", framed.clone())] {
        let reply = Reply::Query(ours::QueryReply::new(Status::SUCCESS, framed.clone()));
        let (server, caller) = (proc("server", 0), proc("job", 0));
        let told = answer(&server, &caller, version.parse().unwrap(), reply, Asked::Other);
        assert_eq!(told, Body::Info(expected).into(), "{version}");
    }
}

#[test]
fn put_02_put_03_put_08_what_a_c_process_has_put_is_filed_once_under_its_scope() {
    let local =
        [pair_of("all", 1u32), pair_of("near", 2u32), pair_of("pmix.hname", 3u32), pair_of("both", 4u32)];
    let remote =
        [pair_of("all", 1u32), pair_of("far", 5u32), pair_of("pmix.mine", 7u32), pair_of("both", 6u32)];
    let parts =
        vec![CommitPart::new(Scope::LOCAL, local.into()), CommitPart::new(Scope::REMOTE, remote.into())];
    let Request::Commit(Commit { mut entries, .. }) = asked(Ask::Commit(parts)) else { panic!("a commit") };
    entries.sort_by(|a, b| (&a.key, a.scope.to_raw()).cmp(&(&b.key, b.scope.to_raw())));
    let entry = |scope, name, value: u32| PutEntry::new(scope, key(name), value);
    let expected = [
        entry(Scope::REMOTE, "!pmix.mine", 7),
        entry(Scope::GLOBAL, "all", 1),
        entry(Scope::LOCAL, "both", 4),
        entry(Scope::REMOTE, "both", 6),
        entry(Scope::REMOTE, "far", 5),
        entry(Scope::LOCAL, "near", 2),
    ];
    assert_eq!(entries, expected);
}

#[test]
fn get_08_a_refresh_of_the_native_wire_asks_for_what_there_is_now() {
    let mut wanted = Get::new(proc("job", 1), None);
    wanted.directives = Directives::new().with(&keys::GET_REFRESH_CACHE, true);
    assert_eq!(asked(Ask::Refresh(proc("job", 1))), Request::Get(wanted));

    let mut found = GetReply::default();
    found.job = Some(job("job"));
    let entry = PutEntry::new(Scope::GLOBAL, key("k"), 1u32);
    let data = ours::ProcData::new(proc("job", 1), vec![entry]);
    found.modex = Arc::new(Modex::new(vec![data]));
    let of = |proc| match answered(Reply::Get(found.clone()), Asked::Refresh(proc)).body {
        Body::Refreshed(entries) => entries,
        other => panic!("{other:?}"),
    };
    assert_eq!(of(proc("job", 1)), [Entry::Pair(pair_of("k", 1u32))]);
    let size = Entry::Pair(KeyVal { key: keys::JOB_SIZE.key_name(), value: 2u32.into() });
    assert!(of(all_of("job")).contains(&size));
}

#[test]
fn get_33_con_08_spn_04_the_data_of_other_jobs_comes_along_on_the_native_wire() {
    let size = Entry::Pair(KeyVal { key: keys::JOB_SIZE.key_name(), value: 2u32.into() });
    let mut found = GetReply::value(1u32.into());
    found.job = Some(job("b"));
    let form = Asked::Get { proc: proc("b", 1), key: Some(key("k")) };
    let Body::Get(all) = answered(Reply::Get(found), form).body else { panic!("data") };
    assert_eq!(all.iter().map(|data| data.proc.clone()).collect::<Vec<_>>(), [all_of("b"), proc("b", 1)]);
    assert!(all[0].entries.contains(&size));
    assert_eq!(all[1].entries, [Entry::Pair(pair_of("k", 1u32))]);

    let mut connected = ours::ConnectReply::default();
    connected.jobs = vec![job("b")];
    let Body::Connect(jobs) = answered(Reply::Connect(connected), Asked::Other).body else { panic!("jobs") };
    assert!(matches!(&jobs[..], [data] if data.nspace.as_str() == "b" && data.entries.contains(&size)));

    let mut spawned = SpawnReply::new("b".parse().unwrap());
    spawned.job = Some(job("b"));
    let Body::Spawn(child) = answered(Reply::Spawn(spawned), Asked::Other).body else { panic!("a job") };
    assert!(child.nspace.as_str() == "b" && child.entries.contains(&size));
}

#[test]
fn grp_05_grp_06_a_group_is_told_on_the_native_wire() {
    let mut made = GroupReply::default();
    made.members = vec![proc("job", 0), proc("b", 1)];
    (made.context_id, made.jobs) = (Some(9), vec![job("job"), job("b")]);
    let Body::Group(told) = answered(Reply::Group(Arc::new(made.clone())), Asked::Other).body else {
        panic!("a group")
    };
    assert_eq!((&told.members, told.context_id), (&made.members, Some(9)));
    assert!(matches!(&told.jobs[..], [data] if data.nspace.as_str() == "b"), "the caller has its own");
    made.partial = true;
    assert_eq!(answered(Reply::Group(Arc::new(made)), Asked::Other), Status::ERR_PARTIAL_SUCCESS.into());
}

#[test]
fn pub_12_of_what_was_found_a_c_process_reads_nothing_but_behind_a_success() {
    let found = vec![pmix_types::Pdata::new(proc("b", 1), key("k"), 7u32.into())];
    let reply = ours::LookupReply::new(Status::ERR_PARTIAL_SUCCESS, found.clone());
    let told = answered(Reply::Lookup(reply), Asked::Other);
    assert_eq!(told, Body::Lookup(found).into());
    assert_eq!(told.status, Status::SUCCESS);
}
