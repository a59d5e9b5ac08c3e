use pmix_types::job::JobSpec;
use pmix_types::message::ProcData;
use pmix_types::{DataArray, Directives, Info, InfoFlags, QualifiedValue, Status};

use super::*;

mod collected;

fn nspace(name: &str) -> Nspace {
    name.parse().unwrap()
}

fn proc(name: &str, rank: u32) -> ProcId {
    ProcId::new(nspace(name), Rank::from_raw(rank))
}

fn job(name: &str) -> Arc<JobData> {
    let spec = JobSpec::new(nspace(name)).node_map(["n0", "n1"]).unwrap().ranks_block(2, 2).unwrap();
    let spec = spec.session(7).session_info(&keys::UNIV_SIZE, 64u32).info(&keys::MAX_PROCS, 9u32);
    let spec = spec.app_ranks(0, "0-2".parse().unwrap()).app_ranks(1, "3".parse().unwrap());
    let spec = spec.app_info(1, &keys::WDIR, "/tmp").node_info("n1", &keys::NODE_SIZE, 6u32);
    let mut job = JobData::new(nspace(name));
    job.register(&spec.into_infos(), "n0").unwrap();
    Arc::new(job)
}

/// The store of rank 1 (node n0) of job `a`, which has two nodes with two ranks each.
fn store() -> Store {
    Store::new(proc("a", 1), "n0".into(), Some(job("a")))
}

fn entry(scope: Scope, key: &str, value: i32) -> PutEntry {
    PutEntry::new(scope, key.parse().unwrap(), value)
}

fn modex(proc: ProcId, entries: Vec<PutEntry>) -> Modex {
    Modex::new(vec![ProcData::new(proc, entries)])
}

fn ask(proc: impl Into<Option<ProcId>>, key: &str, directives: Directives) -> Lookup {
    Lookup::new(proc.into(), Some(key.parse().unwrap()), directives).unwrap()
}

fn find(store: &Store, proc: impl Into<Option<ProcId>>, key: &str) -> Resolution {
    find_with(store, proc, key, Directives::new())
}

fn find_with(
    store: &Store,
    proc: impl Into<Option<ProcId>>,
    key: &str,
    directives: Directives,
) -> Resolution {
    store.find(&ask(proc, key, directives)).unwrap()
}

fn optional() -> Directives {
    Directives::new().with(&keys::OPTIONAL, true)
}

fn value(value: impl Into<Value>) -> Resolution {
    Resolution::Value(value.into())
}

/// The question for the server, without directives.
fn asks(proc: ProcId, key: &str) -> Resolution {
    Resolution::Remote(Get::new(proc, Some(key.parse().unwrap())))
}

#[test]
fn put_01_put_05_own_puts_are_seen_at_once() {
    let mut store = store();
    store.put(entry(Scope::REMOTE, "k", 1));
    assert_eq!(find(&store, None, "k"), value(1));
    assert_eq!(find(&store, proc("a", 1), "k"), value(1));
    assert_eq!(find(&store, proc("a", 0), "k"), asks(proc("a", 0), "k"));
    assert_eq!(find(&store, proc("b", 1), "k"), asks(proc("b", 1), "k"));
}

#[test]
fn put_03_internal_scope_is_never_sent() {
    let mut store = store();
    store.put(entry(Scope::INTERNAL, "k", 1));
    assert!(!store.has_staged());
    assert_eq!(store.staged().entries, []);
    assert_eq!(find(&store, None, "k"), value(1));
    // nor is what was staged for others before
    store.put(entry(Scope::GLOBAL, "l", 1));
    store.put(entry(Scope::INTERNAL, "l", 2));
    assert_eq!(store.staged().entries, []);
    assert_eq!(find(&store, None, "l"), value(2));
}

#[test]
fn put_04_putting_again_replaces_value_and_scope() {
    let mut store = store();
    store.put(entry(Scope::GLOBAL, "k", 1));
    store.put(entry(Scope::LOCAL, "k", 2));
    assert_eq!(store.staged().entries, [entry(Scope::LOCAL, "k", 2)]);
    assert_eq!(find(&store, None, "k"), value(2));
}

#[test]
fn put_06_commit_sends_what_changed_since_the_last_one() {
    let mut store = store();
    store.put(entry(Scope::GLOBAL, "a", 1));
    store.put(entry(Scope::GLOBAL, "b", 1));
    let first = store.staged();
    assert_eq!(first.entries.len(), 2);
    store.committed(&first);
    assert!(!store.has_staged());
    store.put(entry(Scope::GLOBAL, "b", 2));
    assert_eq!(store.staged().entries, [entry(Scope::GLOBAL, "b", 2)]);
    assert_eq!(find(&store, None, "a"), value(1));
}

#[test]
fn put_06_a_failed_commit_loses_nothing_and_a_put_meanwhile_stays_staged() {
    let mut store = store();
    store.put(entry(Scope::GLOBAL, "k", 1));
    let failed = store.staged();
    assert_eq!(store.staged(), failed);
    let sent = store.staged();
    store.put(entry(Scope::GLOBAL, "k", 2));
    store.committed(&sent);
    assert_eq!(store.staged().entries, [entry(Scope::GLOBAL, "k", 2)]);
}

#[test]
fn put_09_store_internal_files_for_any_process_and_sends_nothing() {
    let mut store = store();
    store.store_internal(proc("far", 9), "k".parse().unwrap(), 5.into());
    assert_eq!(find(&store, proc("far", 9), "k"), value(5));
    assert_eq!(find(&store, proc("far", 8), "k"), asks(proc("far", 8), "k"));
    assert!(!store.has_staged());
}

#[test]
fn put_10_store_internal_takes_reserved_keys() {
    let mut store = store();
    let far = ProcId::wildcard(nspace("far"));
    store.store_internal(far.clone(), keys::JOB_SIZE.key_name(), 12u32.into());
    assert_eq!(find(&store, far, keys::JOB_SIZE.name()), value(12u32));
}

#[test]
fn put_02_values_with_qualifiers_and_reserved_keys_of_c_programs_are_found() {
    let mut store = store();
    let of = |group: u64| Info::new(&keys::GROUP_CONTEXT_ID, group).with_flags(InfoFlags::QUALIFIER);
    let put = |value: u32, group| {
        let value = QualifiedValue::new("k".parse().unwrap(), value, [of(group)]);
        PutEntry::new(Scope::GLOBAL, value.name().unwrap(), value)
    };
    let claim = PutEntry::new(Scope::GLOBAL, "!pmix.mine".parse().unwrap(), 7u32);
    store.keep(Modex::new(vec![ProcData::new(proc("a", 3), vec![put(1, 1), put(2, 2), claim])]));
    let with = |groups: &[u64]| {
        let mut directives = Directives::new();
        groups.iter().for_each(|group| directives.push(of(*group)));
        ask(proc("a", 3), "k", directives)
    };
    assert_eq!(store.find(&with(&[1])), Ok(value(1u32)));
    assert_eq!(store.find(&with(&[2])), Ok(value(2u32)));
    for missing in [&[][..], &[3], &[1, 2]] {
        let asked = with(missing);
        let mut request = Get::new(proc("a", 3), Some("k".parse().unwrap()));
        request.directives = asked.directives.clone();
        assert_eq!(store.find(&asked), Ok(Resolution::Remote(request)));
        assert_eq!(store.find(&asked.local()), Ok(Resolution::Nothing));
    }
    assert_eq!(find(&store, proc("a", 3), "pmix.mine"), value(7u32));
    let all = Lookup::new(proc("a", 3).into(), None, optional()).unwrap();
    let Ok(Resolution::All(all)) = store.find(&all) else { panic!("all that it has put") };
    let keys: Vec<_> = all.iter().map(|info| info.key.as_str()).collect();
    assert_eq!(keys, ["pmix.mine", "pmix.qual.val", "pmix.qual.val"]);
}

#[test]
fn get_01_no_process_means_the_caller_and_wildcard_the_job() {
    let store = store();
    assert_eq!(find(&store, None, keys::LOCAL_RANK.name()), value(1u16));
    assert_eq!(find(&store, ProcId::wildcard(nspace("a")), keys::JOB_SIZE.name()), value(4u32));
    assert_eq!(find(&store, None, "k"), asks(proc("a", 1), "k"));
}

#[test]
fn get_02_values_of_a_process_need_its_rank() {
    let store = store();
    assert_eq!(find(&store, proc("a", 3), keys::LOCAL_RANK.name()), value(1u16));
    assert_eq!(find(&store, proc("a", 2), keys::HOSTNAME.name()), value("n1"));
    assert_eq!(find(&store, ProcId::wildcard(nspace("a")), keys::LOCAL_RANK.name()), Resolution::Nothing);
}

#[test]
fn get_03_optional_never_asks_the_server() {
    let store = store();
    for target in [proc("a", 0), proc("a", 1), proc("b", 0), ProcId::wildcard(nspace("b"))] {
        assert_eq!(find_with(&store, target, "k", optional()), Resolution::Nothing);
    }
    assert_eq!(find_with(&store, proc("b", 0), keys::JOB_SIZE.name(), optional()), Resolution::Nothing);
}

#[test]
fn get_04_get_07_what_is_for_the_server_goes_with_the_question() {
    let directives = Directives::new().with(&keys::IMMEDIATE, true).with(&keys::TIMEOUT, 3);
    let mut get = Get::new(proc("a", 0), Some("k".parse().unwrap()));
    get.directives = directives.clone();
    assert_eq!(find_with(&store(), proc("a", 0), "k", directives), Resolution::Remote(get));
}

#[test]
fn get_05_a_scope_limits_the_search() {
    let mut store = store();
    store.put(entry(Scope::LOCAL, "k", 1));
    store.keep(modex(proc("a", 0), vec![entry(Scope::GLOBAL, "k", 2)]));
    let scoped = |scope| optional().with(&keys::DATA_SCOPE, scope);
    assert_eq!(find_with(&store, None, "k", scoped(Scope::LOCAL)), value(1));
    assert_eq!(find_with(&store, None, "k", scoped(Scope::GLOBAL)), Resolution::Nothing);
    assert_eq!(find_with(&store, proc("a", 0), "k", scoped(Scope::GLOBAL)), value(2));
    let internal = Directives::new().with(&keys::DATA_SCOPE, Scope::INTERNAL);
    assert_eq!(find_with(&store, proc("a", 0), "k", internal), Resolution::Nothing);
    // nobody has put what the host provides
    let size = keys::JOB_SIZE.name();
    assert_eq!(find(&store, proc("a", 0).with_rank(Rank::WILDCARD), size), value(4u32));
    let scoped = scoped(Scope::GLOBAL);
    assert_eq!(find_with(&store, proc("a", 0).with_rank(Rank::WILDCARD), size, scoped), Resolution::Nothing);
}

#[test]
fn get_08_refresh_asks_first_and_then_searches_only_the_cache() {
    let mut store = store();
    store.keep(modex(proc("a", 0), vec![entry(Scope::GLOBAL, "k", 1), entry(Scope::GLOBAL, "j", 1)]));
    let refresh = Directives::new().with(&keys::GET_REFRESH_CACHE, true);
    let asked = ask(proc("a", 0), "k", refresh.clone());
    let mut get = Get::new(proc("a", 0), Some("k".parse().unwrap()));
    get.directives = refresh;
    assert_eq!(store.find(&asked).unwrap(), Resolution::Remote(get));
    store.keep(modex(proc("a", 0), vec![entry(Scope::GLOBAL, "k", 2)]));
    assert_eq!(store.find(&asked.local()).unwrap(), value(2));
    let refresh = Directives::new().with(&keys::GET_REFRESH_CACHE, true);
    assert_eq!(store.find(&ask(proc("a", 0), "absent", refresh).local()).unwrap(), Resolution::Nothing);
    assert_eq!(find(&store, proc("a", 0), "j"), value(1));
}

#[test]
fn get_08_gen_07b_refresh_and_optional_exclude_each_other() {
    let both = optional().with(&keys::GET_REFRESH_CACHE, true);
    let error = Lookup::new(None, Some("k".parse().unwrap()), both).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn get_09_c_memory_notions_are_ignored_unless_required() {
    for key in [&keys::GET_STATIC_VALUES, &keys::GET_POINTER_VALUES] {
        let directives = Directives::new().with(key, true);
        assert_eq!(find_with(&store(), proc("a", 0), "k", directives), asks(proc("a", 0), "k"));
        let demand = Directives::new().require(key, true);
        let error = Lookup::new(None, Some("k".parse().unwrap()), demand).unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
    }
}

#[test]
fn gen_05_a_required_directive_unknown_here_goes_to_the_server() {
    let mut store = store();
    store.put(entry(Scope::GLOBAL, "k", 1));
    let mut demand = Directives::new();
    demand.push(Info::dynamic("new".parse().unwrap(), 1).with_flags(InfoFlags::REQUIRED));
    assert!(
        matches!(find_with(&store, None, "k", demand.clone()), Resolution::Remote(get) if get.directives == demand)
    );
    demand.push(Info::new(&keys::OPTIONAL, true));
    let error = store.find(&ask(None, "k", demand)).unwrap_err();
    assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
}

#[test]
fn get_20_cache_comes_before_the_server_and_a_missing_key_is_asked_for() {
    let mut store = store();
    store.keep(modex(proc("a", 0), vec![entry(Scope::GLOBAL, "k", 1)]));
    assert_eq!(find(&store, proc("a", 0), "k"), value(1));
    // it may have been committed since
    assert_eq!(find(&store, proc("a", 0), "later"), asks(proc("a", 0), "later"));
}

#[test]
fn get_21a_an_unknown_poster_is_any_process_of_the_nspace() {
    let mut store = store();
    let anyone = proc("a", Rank::UNDEF.to_raw());
    assert_eq!(find(&store, anyone.clone(), "k"), asks(anyone.clone(), "k"));
    store.keep(modex(proc("b", 3), vec![entry(Scope::GLOBAL, "k", 1)]));
    assert_eq!(find(&store, anyone.clone(), "k"), asks(anyone.clone(), "k"));
    store.keep(modex(proc("a", 3), vec![entry(Scope::GLOBAL, "k", 2)]));
    assert_eq!(find(&store, anyone.clone(), "k"), value(2));
    store.put(entry(Scope::GLOBAL, "mine", 3));
    assert_eq!(find(&store, anyone, "mine"), value(3));
}

#[test]
fn get_30_reserved_keys_of_the_own_nspace_are_there_or_nowhere() {
    let store = store();
    let job = ProcId::wildcard(nspace("a"));
    assert_eq!(find(&store, job.clone(), keys::JOB_SIZE.name()), value(4u32));
    assert_eq!(find(&store, job.clone(), keys::NSDIR.name()), Resolution::Nothing);
    assert_eq!(find(&store, job, "pmix.never.heard"), Resolution::Nothing);
    assert_eq!(find(&store, proc("a", 0), keys::CPUSET.name()), Resolution::Nothing);
}

#[test]
fn get_31_reserved_keys_of_another_nspace_are_asked_for() {
    let job = ProcId::wildcard(nspace("b"));
    assert_eq!(find(&store(), job.clone(), keys::JOB_SIZE.name()), asks(job, keys::JOB_SIZE.name()));
}

#[test]
fn get_33_job_data_of_another_nspace_is_kept() {
    let mut store = store();
    store.keep_job(job("b"));
    assert_eq!(find(&store, ProcId::wildcard(nspace("b")), keys::JOB_SIZE.name()), value(4u32));
    assert_eq!(find(&store, proc("b", 2), keys::HOSTNAME.name()), value("n1"));
    // what is not in it may have come since
    assert_eq!(find(&store, proc("b", 2), keys::CPUSET.name()), asks(proc("b", 2), keys::CPUSET.name()));
}

#[test]
fn get_33_job_data_of_another_nspace_is_forgotten_and_asked_for_again() {
    let mut store = store();
    store.keep_job(job("b"));
    store.forget_job(&nspace("b"));
    let other = ProcId::wildcard(nspace("b"));
    assert_eq!(find(&store, other.clone(), keys::JOB_SIZE.name()), asks(other, keys::JOB_SIZE.name()));
    // that of its own stays
    store.forget_job(&nspace("a"));
    assert_eq!(find(&store, ProcId::wildcard(nspace("a")), keys::JOB_SIZE.name()), value(4u32));
}

#[test]
fn get_40_get_48_without_a_directive_a_key_has_its_own_realm() {
    let store = store();
    for target in [proc("a", 3), ProcId::wildcard(nspace("a"))] {
        assert_eq!(find(&store, target.clone(), keys::JOB_SIZE.name()), value(4u32));
        assert_eq!(find(&store, target, keys::UNIV_SIZE.name()), value(64u32));
    }
    assert_eq!(find(&store, proc("a", 3), keys::APPNUM.name()), value(1u32));
    assert_eq!(find(&store, proc("a", 3), keys::APP_SIZE.name()), value(1u32));
    assert_eq!(find(&store, proc("a", 3), keys::HOSTNAME.name()), value("n1"));
    assert_eq!(find(&store, ProcId::wildcard(nspace("a")), keys::HOSTNAME.name()), value("n0"));
}

#[test]
fn get_41a_get_41b_get_41c_session_info_ignores_the_process() {
    let store = store();
    let session = Directives::new().with(&keys::SESSION_INFO, true);
    let size = keys::UNIV_SIZE.name();
    assert_eq!(find_with(&store, proc("b", 0), size, session.clone()), value(64u32));
    let own = session.clone().with(&keys::SESSION_ID, 7u32);
    assert_eq!(find_with(&store, None, size, own), value(64u32));
    let other = session.with(&keys::SESSION_ID, 8u32);
    assert!(matches!(find_with(&store, None, size, other), Resolution::Remote(_)));
}

#[test]
fn get_42_get_45_job_info_takes_the_job() {
    let info = Directives::new().with(&keys::JOB_INFO, true);
    assert_eq!(find_with(&store(), proc("a", 3), keys::MAX_PROCS.name(), info.clone()), value(9u32));
    // not what the process itself has filed there
    let mut store = store();
    store.store_internal(proc("a", 3), keys::MAX_PROCS.key_name(), 1u32.into());
    assert_eq!(find(&store, proc("a", 3), keys::MAX_PROCS.name()), value(1u32));
    assert_eq!(find_with(&store, proc("a", 3), keys::MAX_PROCS.name(), info), value(9u32));
}

#[test]
fn get_43_app_info_takes_an_app() {
    let store = store();
    let info = || Directives::new().with(&keys::APP_INFO, true);
    let dir = keys::WDIR.name();
    assert_eq!(find_with(&store, None, dir, info().with(&keys::APPNUM, 1u32)), value("/tmp"));
    assert_eq!(find_with(&store, proc("a", 3), dir, info()), value("/tmp"));
    assert_eq!(find_with(&store, ProcId::wildcard(nspace("a")), dir, info()), Resolution::Nothing);
    // the caller's own app of its own job; of another job the first, which has none
    let mut store = Store::new(proc("a", 3), "n0".into(), Some(job("a")));
    store.keep_job(job("b"));
    assert_eq!(find_with(&store, ProcId::wildcard(nspace("a")), dir, info()), value("/tmp"));
    assert!(matches!(find_with(&store, ProcId::wildcard(nspace("b")), dir, info()), Resolution::Remote(_)));
}

#[test]
fn get_44_get_49_node_info_takes_a_node_by_any_name() {
    let store = store();
    let info = || Directives::new().with(&keys::NODE_INFO, true);
    let size = keys::NODE_SIZE.name();
    assert_eq!(find_with(&store, None, size, info().with(&keys::HOSTNAME, "n1")), value(6u32));
    assert_eq!(find_with(&store, None, size, info().with(&keys::NODEID, 1u32)), value(6u32));
    // without a name it is the local node, which has no such value
    assert_eq!(find_with(&store, proc("a", 3), size, info()), Resolution::Nothing);
}

#[test]
fn gen_07b_two_realms_are_one_too_many() {
    let both = Directives::new().with(&keys::NODE_INFO, true).with(&keys::APP_INFO, true);
    let error = store().find(&ask(None, keys::NODE_SIZE.name(), both)).unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
}

#[test]
fn get_46_procid_and_nspace_are_the_callers() {
    let store = store();
    assert_eq!(find(&store, proc("b", 5), keys::PROCID.name()), value(proc("a", 1)));
    assert_eq!(find(&store, None, keys::NSPACE.name()), value("a"));
    assert!(
        matches!(find(&store, proc("b", 5), keys::NSPACE.name()), Resolution::Remote(_)),
        "that of the process"
    );
}

#[test]
fn get_47a_spawned_is_false_if_nothing_was_said() {
    let store = store();
    assert_eq!(find(&store, None, keys::SPAWNED.name()), value(false));
    assert!(matches!(find(&store, proc("b", 0), keys::SPAWNED.name()), Resolution::Remote(_)));
    let mut store = store;
    store.keep_job(job("b"));
    assert_eq!(find(&store, proc("b", 0), keys::SPAWNED.name()), value(false));
}

#[test]
fn a_process_of_no_job_asks_the_server_for_everything() {
    let store = Store::new(proc("tool", 0), "n0".into(), None);
    assert_eq!(find(&store, None, keys::JOB_SIZE.name()), asks(proc("tool", 0), keys::JOB_SIZE.name()));
}

#[test]
fn all_keys_of_the_caller_are_here_and_those_of_others_are_asked_for() {
    let all = |proc: Option<ProcId>, directives| Lookup::new(proc, None, directives).unwrap();
    let mut store = store();
    store.put(entry(Scope::GLOBAL, "k", 1));
    store.put(entry(Scope::LOCAL, "l", 1));
    store.store_internal(proc("a", 1), "k".parse().unwrap(), 2.into());
    let Resolution::All(infos) = store.find(&all(None, Directives::new())).unwrap() else {
        panic!("not here")
    };
    let found: Vec<_> = infos.iter().map(ToString::to_string).collect();
    assert_eq!(found, ["k=2", "l=1"]);
    let local = Directives::new().with(&keys::DATA_SCOPE, Scope::LOCAL);
    let Resolution::All(infos) = store.find(&all(None, local)).unwrap() else { panic!("not here") };
    assert_eq!(infos.len(), 1);
    let peer = all(Some(proc("a", 0)), Directives::new());
    assert_eq!(store.find(&peer).unwrap(), Resolution::Remote(Get::new(proc("a", 0), None)));
    assert_eq!(store.find(&peer.clone().local()).unwrap(), Resolution::Nothing);
    store.keep(modex(proc("a", 0), vec![entry(Scope::GLOBAL, "k", 1)]));
    assert!(matches!(store.find(&peer.local()).unwrap(), Resolution::All(infos) if infos.len() == 1));
}

#[test]
fn pst_03_names_of_process_sets_are_asked_for_as_sets_come_and_go() {
    let given = DataArray::String(vec!["launched".into()]);
    let spec = JobSpec::new(nspace("a")).node_map(["n0", "n1"]).unwrap().ranks_block(2, 2).unwrap();
    let spec = spec.proc_info(Rank::from_raw(0), &keys::PSET_NAMES, given.clone());
    let mut job = JobData::new(nspace("a"));
    job.register(&spec.into_infos(), "n0").unwrap();
    let store = Store::new(proc("a", 1), "n0".into(), Some(Arc::new(job)));
    let key = keys::PSET_NAMES.name();
    // neither what the job had at its start nor that it had nothing is the answer
    for rank in [0, 1] {
        assert_eq!(find(&store, proc("a", rank), key), asks(proc("a", rank), key));
    }
    // but it is all that can be had without asking
    assert_eq!(find_with(&store, proc("a", 0), key, optional()), value(given));
    assert_eq!(find_with(&store, proc("a", 1), key, optional()), Resolution::Nothing);
}
