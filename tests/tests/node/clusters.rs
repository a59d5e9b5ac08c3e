//! Processes of one's own cluster under its name, and values of other sessions.

use std::future::IntoFuture;

use futures::future::join_all;
use pmix_client::types::job::JobSpec;
use pmix_client::types::{Info, Query, Scope, Status};
use pmix_client::{Client, ProcId, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_tests::{NullLauncher, TestNode, all_of, nspace, on_both_runtimes, proc, within};
use pmix_tool::Tool;

/// Jobs `a` and `b` of one process each, and `c1:b`, on the cluster `c1`.
async fn rig() -> (TestNode, Vec<Client>) {
    let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
    let node = TestNode::builder(0).hostname("n0").host(host).start().await;
    node.handle().register_resources([Info::new(&keys::CLUSTER_ID, "c1")]).await.unwrap();
    let mut clients = Vec::new();
    for name in ["a", "b"] {
        node.add_job(JobSpec::new(nspace(name)).node_map(["n0"]).unwrap().ranks_block(1, 1).unwrap(), [0])
            .await;
        clients.push(node.connect(&proc(name, 0)).await.unwrap());
    }
    (node, clients)
}

#[test]
fn idn_05a_idn_05c_processes_of_ones_own_cluster_may_be_named_with_it() {
    on_both_runtimes(async || {
        let (node, clients) = rig().await;
        let (a, b) = (&clients[0], &clients[1]);
        let far = |rank: ProcId| ProcId::new(rank.nspace.qualified("c1").unwrap(), rank.rank);
        a.put(Scope::GLOBAL, "card", "of a").unwrap();
        within(a.commit()).await.unwrap();
        let card: String = within(b.get(far(proc("a", 0)), "card")).await.unwrap();
        assert_eq!(card, "of a");
        assert_eq!(within(b.get(far(all_of("a")), keys::JOB_SIZE)).await.unwrap(), 1);

        // one says it, the other does not: it is the same operation
        let sets = [vec![far(all_of("a")), all_of("b")], vec![all_of("a"), far(all_of("b"))]];
        let connecting =
            clients.iter().zip(&sets).map(|(client, set)| client.connect(&set[..]).into_future());
        let connected: Vec<_> =
            within(join_all(connecting)).await.into_iter().map(|set| set.unwrap()).collect();
        assert_eq!(connected[0].nspace, connected[1].nspace);
        let fences = clients.iter().zip(&sets).map(|(client, set)| client.fence(&set[..]).into_future());
        within(join_all(fences)).await.into_iter().for_each(|done| done.unwrap());
        let groups = clients
            .iter()
            .zip(&sets)
            .map(|(client, set)| client.group_construct("g", &set[..]).into_future());
        for group in within(join_all(groups)).await {
            assert_eq!(group.unwrap().members, [proc("a", 0), proc("b", 0)]);
        }
        let leaving =
            clients.iter().zip(&sets).map(|(client, set)| client.disconnect(&set[..]).into_future());
        within(join_all(leaving)).await.into_iter().for_each(|done| done.unwrap());

        let name = nspace("a").qualified("c1").unwrap();
        assert_eq!(within(b.resolve_peers(None, Some(&name))).await.unwrap(), [proc("a", 0)]);
        assert_eq!(within(b.resolve_nodes(Some(&name))).await.unwrap(), ["n0"]);
        for query in [
            Query::new(keys::JOB_SIZE).qualifier(&keys::NSPACE.text(), name.as_str()),
            Query::new(keys::JOB_SIZE).qualifier(&keys::PROCID, far(all_of("a"))),
        ] {
            assert_eq!(within(b.query([query])).await.unwrap().get(keys::JOB_SIZE).unwrap(), Some(1));
        }
        let code = Status::from_raw(-4711);
        let mut heard = within(b.events([code])).await.unwrap();
        within(a.notify(code).custom_range([far(proc("b", 0))])).await.unwrap();
        assert_eq!(within(heard.recv()).await.unwrap().unwrap().source, proc("a", 0));

        // another cluster is another cluster, and a colon may be part of a name
        let other = ProcId::wildcard(nspace("a").qualified("c2").unwrap());
        let error = within(b.get(other, keys::JOB_SIZE).immediate()).await.unwrap_err();
        assert!(error.is_not_found(), "{error}");
        let odd = JobSpec::new(nspace("c1:a")).node_map(["n0"]).unwrap().ranks_block(1, 3).unwrap();
        node.add_job(odd, [0]).await;
        assert_eq!(within(b.get(far(all_of("a")), keys::JOB_SIZE)).await.unwrap(), 3);
    });
}

#[test]
fn get_41c_idn_04_values_of_another_session_are_those_of_its_jobs() {
    on_both_runtimes(async || {
        let host = StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
        let builder = TestNode::builder(0).hostname("n0").host(host);
        let node = builder.server(|server| server.tool_support(true)).start().await;
        for (name, session, size) in [("a", 1u32, 10u32), ("b", 2, 20)] {
            let spec = JobSpec::new(nspace(name)).session_info(&keys::SESSION_ID, session);
            node.add_job(spec.session_info(&keys::UNIV_SIZE, size), [0]).await;
        }
        let client = node.connect(&proc("a", 0)).await.unwrap();
        let tool = within(Tool::builder().session_root(node.root()).connect()).await.unwrap();
        for (session, size) in [(Some(1), Some(10)), (Some(2), Some(20)), (None, Some(10)), (Some(3), None)] {
            let got = within(client.get(None, keys::UNIV_SIZE).session_info(session)).await;
            match size {
                Some(size) => assert_eq!(got.unwrap(), size),
                None => assert!(got.unwrap_err().is_not_found()),
            }
            let mut query = Query::new(keys::UNIV_SIZE).qualifier(&keys::SESSION_INFO, true);
            query.qualifiers.extend(session.map(|id| Info::new(&keys::SESSION_ID, id)));
            let found = within(client.query([query.clone()])).await;
            assert_eq!(found.ok().and_then(|found| found.get(keys::UNIV_SIZE).unwrap()), size);
            // a tool is in no session
            let found = within(tool.client().query([query])).await;
            let of_tool = size.filter(|_| session.is_some());
            assert_eq!(found.ok().and_then(|found| found.get(keys::UNIV_SIZE).unwrap()), of_tool);
        }
    });
}
