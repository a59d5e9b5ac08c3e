//! Peers and nodes.

use pmix_types::job::JobSpec;
use pmix_types::message::{Reply, Request, ResolveNodes, ResolvePeers};
use pmix_types::{DataArray, Directives, Info, Query, Status, Value, keys};

use super::super::ids::ReplyTo;
use super::super::upcall::{QueryRequest, QueryResults, Upcall};
use super::super::{Answer, Caller, UpcallRequest};
use super::harness::*;

fn peers_on(node: Option<&str>, name: Option<&str>) -> Request {
    Request::ResolvePeers(ResolvePeers::new(node.map(Into::into), name.map(nspace)))
}

fn nodes_of(name: Option<&str>) -> Request {
    Request::ResolveNodes(ResolveNodes::new(name.map(nspace)))
}

#[track_caller]
fn are(t: &mut Harness, to: ReplyTo, expected: &[(&str, u32)]) {
    let expected = expected.iter().map(|(name, rank)| proc(name, *rank)).collect();
    assert_same(&t.ok(to), &Reply::Procs(expected));
}

#[track_caller]
fn nodes_are(t: &mut Harness, to: ReplyTo, expected: &[&str]) {
    let expected = expected.iter().map(|&name| name.to_owned()).collect();
    assert_same(&t.ok(to), &Reply::Nodes(expected));
}

/// Job `job` on n0 and n1, job `bare` without anything, job `lists` whose host gave lists of peers.
fn three_jobs() -> (Harness, Peer) {
    let (mut t, peer, _) = Harness::two_nodes([]);
    t.register(JobSpec::new(nspace("bare")), None);
    let lists = JobSpec::new(nspace("lists")).node_map(["n0", "n2", "n3"]).unwrap();
    let lists = lists.node_info("n0", &keys::LOCAL_PEERS, "5,7").node_info("n2", &keys::LOCAL_PEERS, "");
    t.register(lists, None);
    (t, peer)
}

#[test]
fn res_01_res_03_res_04_without_a_host_the_servers_own_data_answers() {
    let (mut t, peer) = three_jobs();
    let to = t.ask(&peer, peers_on(Some("n1"), Some("job")));
    are(&mut t, to, &[("job", 2), ("job", 3)]);
    let to = t.ask(&peer, nodes_of(Some("job")));
    nodes_are(&mut t, to, &["n0", "n1"]);
    t.finish();
}

#[test]
fn res_06_an_unknown_namespace_is_invalid() {
    let (mut t, peer) = three_jobs();
    for request in [peers_on(None, Some("other")), nodes_of(Some("other"))] {
        let to = t.ask(&peer, request);
        t.fails(to, Status::ERR_INVALID_NAMESPACE);
    }
    t.finish();
}

#[test]
fn res_07_res_08_nothing_to_be_found_is_an_empty_success() {
    let (mut t, peer) = three_jobs();
    let to = t.ask(&peer, nodes_of(Some("bare")));
    nodes_are(&mut t, to, &[]);
    for (node, name) in [("n2", "job"), ("misspelt", "job"), ("n0", "bare")] {
        let to = t.ask(&peer, peers_on(Some(node), Some(name)));
        are(&mut t, to, &[]);
    }
    t.finish();
}

#[test]
fn res_09a_res_10_the_list_of_peers_is_what_the_host_gave_or_an_error() {
    let (mut t, peer) = three_jobs();
    let to = t.ask(&peer, peers_on(Some("n0"), Some("lists")));
    are(&mut t, to, &[("lists", 5), ("lists", 7)]);
    let to = t.ask(&peer, peers_on(Some("n2"), Some("lists")));
    are(&mut t, to, &[]);
    let to = t.ask(&peer, peers_on(Some("n3"), Some("lists")));
    t.fails(to, Status::ERR_DATA_VALUE_NOT_FOUND);
    t.finish();
}

#[test]
fn res_11_absent_names_mean_the_local_node_and_all_namespaces() {
    let (mut t, peer) = three_jobs();
    let to = t.ask(&peer, peers_on(None, Some("job")));
    are(&mut t, to, &[("job", 0), ("job", 1)]);
    let to = t.ask(&peer, peers_on(None, None));
    are(&mut t, to, &[("job", 0), ("job", 1), ("lists", 5), ("lists", 7)]);
    let to = t.ask(&peer, nodes_of(None));
    nodes_are(&mut t, to, &["n0", "n1", "n2", "n3"]);
    t.finish();
}

fn with_host() -> (Harness, Peer) {
    let (t, peer, _) = Harness::two_nodes([Upcall::Query]);
    (t, peer)
}

#[test]
fn res_04_qry_10_the_host_is_asked_first_with_the_askers_identity() {
    let (mut t, peer) = with_host();
    for (request, query) in [
        (
            peers_on(None, Some("job")),
            Query::new(&keys::QUERY_RESOLVE_PEERS)
                .qualifier(&keys::HOSTNAME, NODE)
                .qualifier(&keys::NSPACE.text(), "job"),
        ),
        (peers_on(Some("n7"), None), Query::new(&keys::QUERY_RESOLVE_PEERS).qualifier(&keys::HOSTNAME, "n7")),
        (nodes_of(Some("far")), Query::new(&keys::QUERY_RESOLVE_NODE).qualifier(&keys::NSPACE.text(), "far")),
        (nodes_of(None), Query::new(&keys::QUERY_RESOLVE_NODE)),
    ] {
        t.ask(&peer, request);
        let (id, caller, request) = t.upcall();
        assert_same(
            &caller,
            &Caller { proc: peer.proc.clone(), uid: USER.0, gid: Some(USER.1), object: None, trace: None },
        );
        let identity = Directives::new().with(&keys::USERID, USER.0).with(&keys::GRPID, USER.1);
        assert_eq!(request, UpcallRequest::Query(QueryRequest::new(vec![query]).with_directives(identity)));
        t.answer(id, Ok(Answer::Query(QueryResults::complete(vec![]))));
        t.next();
    }
    t.finish();
}

#[track_caller]
fn host_says(t: &mut Harness, found: impl IntoIterator<Item = Info>) {
    let (id, ..) = t.upcall();
    t.answer(id, Ok(Answer::Query(QueryResults::complete(found.into_iter().collect()))));
}

#[test]
fn res_04_res_05_what_the_host_finds_is_the_answer_even_if_it_is_nothing() {
    let (mut t, peer) = with_host();
    let procs = || DataArray::Proc(vec![proc("far", 4)]);
    let results = |info| Info::new(&keys::QUERY_RESULTS, DataArray::Info(vec![info]));
    for (found, expected) in [
        (vec![results(Info::new(&keys::QUERY_RESOLVE_PEERS, procs()))], &[("far", 4)][..]),
        (vec![Info::new(&keys::QUERY_RESOLVE_PEERS, procs())], &[("far", 4)]),
        (vec![Info::dynamic(keys::QUERY_RESOLVE_PEERS.key_name(), proc("far", 4))], &[("far", 4)]),
        (vec![results(Info::new(&keys::QUERY_RESOLVE_PEERS, DataArray::Undef))], &[]),
        (vec![Info::dynamic(keys::QUERY_RESOLVE_PEERS.key_name(), Value::Undef)], &[]),
        (vec![], &[]),
    ] {
        let to = t.ask(&peer, peers_on(None, Some("job")));
        host_says(&mut t, found);
        are(&mut t, to, expected);
    }
    for (found, expected) in [
        (vec![results(Info::new(&keys::QUERY_RESOLVE_NODE, "a, b"))], &["a", "b"][..]),
        (vec![Info::new(&keys::QUERY_RESOLVE_NODE, "")], &[]),
        (vec![Info::dynamic(keys::QUERY_RESOLVE_NODE.key_name(), Value::Undef)], &[]),
        (vec![], &[]),
    ] {
        let to = t.ask(&peer, nodes_of(Some("job")));
        host_says(&mut t, found);
        nodes_are(&mut t, to, expected);
    }
    t.finish();
}

#[test]
fn res_04_res_05_only_a_host_that_does_not_support_it_leaves_it_to_the_server() {
    let (mut t, peer) = with_host();
    let to = t.ask(&peer, peers_on(Some("n1"), Some("job")));
    let (id, ..) = t.upcall();
    t.answer(id, Err(failure(Status::ERR_NOT_SUPPORTED)));
    are(&mut t, to, &[("job", 2), ("job", 3)]);
    for status in [Status::ERR_NOT_FOUND, Status::ERR_NO_PERMISSIONS, Status::from_raw(-3001)] {
        let to = t.ask(&peer, nodes_of(Some("job")));
        let (id, ..) = t.upcall();
        t.answer(id, Err(failure(status)));
        t.fails(to, status);
    }
    t.finish();
}

#[test]
fn a_host_that_answers_nonsense_fails_the_request() {
    let (mut t, peer) = with_host();
    let wrong = || Info::dynamic(keys::QUERY_RESOLVE_PEERS.key_name(), "n0");
    let other = || Info::dynamic(keys::QUERY_RESOLVE_NODE.key_name(), 3u32);
    let names = || Info::new(&keys::QUERY_RESOLVE_PEERS, DataArray::String(vec!["a".into()]));
    for (request, found) in
        [(peers_on(None, None), wrong()), (peers_on(None, None), names()), (nodes_of(None), other())]
    {
        let to = t.ask(&peer, request);
        host_says(&mut t, [found]);
        t.fails(to, Status::ERROR);
    }
    t.ask(&peer, nodes_of(None));
    let (id, ..) = t.upcall();
    t.lose(&peer);
    t.cancelled(id);
    t.finish();
}
