//! The namespace of processes that have connected, in every call that names processes.

use std::future::IntoFuture;

use futures::future::join_all;
use pmix_client::types::{DataArray, DataRange, Event, Info, IofChannels, Query, Status};
use pmix_client::{Client, Nspace, ProcId, Rank, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_tests::{Asked, TestLauncher, TestNode, all_of, on_both_runtimes, proc, within};

/// Jobs `a` of two and `b` of three, of which all of `a` and rank 2 of `b` are connected.
struct Rig {
    node: TestNode,
    launcher: TestLauncher,
    members: Vec<Client>,
    stranger: Client,
    set: Nspace,
}

impl Rig {
    async fn start() -> Self {
        let launcher = TestLauncher::new("n0");
        let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
        let node = launcher.node_of(host.clone()).await;
        let (_, _) = (launcher.start(&host, "a", 2).await, launcher.start(&host, "b", 3).await);
        let mut members = Vec::new();
        for member in [proc("a", 0), proc("a", 1), proc("b", 2)] {
            members.push(node.connect(&member).await.unwrap());
        }
        let stranger = node.connect(&proc("b", 0)).await.unwrap();
        let procs = [all_of("a"), proc("b", 2)];
        let connecting = members.iter().map(|client| client.connect(&procs[..]).into_future());
        let set = within(join_all(connecting)).await.remove(0).unwrap().nspace.unwrap();
        Self { node, launcher, members, stranger, set }
    }

    fn all(&self) -> ProcId {
        ProcId::wildcard(self.set.clone())
    }

    fn member(&self, rank: u32) -> ProcId {
        ProcId::new(self.set.clone(), Rank::from_raw(rank))
    }
}

#[test]
fn con_07_res_01_the_members_of_a_connected_set_are_resolved_counted_and_queried() {
    on_both_runtimes(async || {
        let rig = Rig::start().await;
        let due = [0, 1, 2].map(|rank| rig.member(rank));
        // who is no member may know it too, as it is of the same user
        for client in [&rig.members[2], &rig.stranger] {
            assert_eq!(within(client.resolve_peers(None, Some(&rig.set))).await.unwrap(), due);
            assert_eq!(within(client.resolve_nodes(Some(&rig.set))).await.unwrap(), ["n0"]);
            assert_eq!(within(client.get(rig.all(), keys::JOB_SIZE)).await.unwrap(), 3);
            let table = Query::new(keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), rig.set.as_str());
            let found = within(client.query([table])).await.unwrap();
            let Some(DataArray::ProcInfo(rows)) = found.get(keys::QUERY_PROC_TABLE).unwrap() else {
                panic!()
            };
            let procs: Vec<_> = rows.iter().map(|row| row.proc.clone()).collect();
            assert_eq!(procs, [proc("a", 0), proc("a", 1), proc("b", 2)]);
            assert!(found.missing().is_empty());
        }
    });
}

#[test]
fn con_07_members_of_a_connected_set_are_controlled_by_their_names_there() {
    on_both_runtimes(async || {
        let rig = Rig::start().await;
        let client = &rig.members[0];
        within(client.job_control([rig.member(2)]).signal(10)).await.unwrap();
        within(client.job_control([rig.all()]).signal(12)).await.unwrap();
        let error = within(client.job_control([rig.member(3)]).signal(10)).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        let (of_a, of_b) = (vec![proc("a", 0), proc("a", 1)], vec![proc("b", 2)]);
        let due = [Asked::Signal(of_b.clone(), 10), Asked::Signal(of_a, 12), Asked::Signal(of_b, 12)];
        assert_eq!(rig.launcher.asked(), due);
        // also of a job that is not in it as a whole
        let mut abort = client.abort(3, "enough").procs([rig.all()]).into_future();
        within(&mut abort).await.unwrap();
    });
}

#[test]
fn con_07_output_events_and_groups_of_a_connected_set() {
    on_both_runtimes(async || {
        let rig = Rig::start().await;
        let (first, last) = (&rig.members[0], &rig.members[2]);
        let mut output =
            within(first.pull_output([rig.member(2)]).channels(IofChannels::STDOUT)).await.unwrap();
        for rank in [0, 2] {
            let text = format!("{rank}\n").into_bytes().into();
            let handle = rig.node.handle();
            within(handle.iof_deliver(&proc("b", rank), IofChannels::STDOUT, text, Default::default()))
                .await
                .unwrap();
        }
        let chunk = within(output.recv()).await.unwrap().unwrap();
        assert_eq!((chunk.source, &chunk.data[..]), (proc("b", 2), &b"2\n"[..]));

        let code = Status::from_raw(-4711);
        let mut about = within(first.events([code]).affected_procs([rig.member(2)])).await.unwrap();
        let mut there = within(last.events([code])).await.unwrap();
        let mut elsewhere = within(rig.stranger.events([code])).await.unwrap();
        for rank in [0, 2] {
            let event = Event::new(code, ProcId::none()).with_range(DataRange::LOCAL);
            let event = event.with_info(Info::new(&keys::EVENT_AFFECTED_PROC, proc("b", rank)));
            within(rig.node.handle().notify_event(event)).await.unwrap();
        }
        assert_eq!(within(about.recv()).await.unwrap().unwrap().affected_procs(), [proc("b", 2)]);
        for _ in 0..2 {
            assert!(within(there.recv()).await.unwrap().unwrap().source.nspace.is_empty());
            assert!(within(elsewhere.recv()).await.unwrap().unwrap().source.nspace.is_empty());
        }
        within(first.notify(code).custom_range([rig.all()]).affected_procs([rig.member(1)])).await.unwrap();
        let heard = within(there.recv()).await.unwrap().unwrap();
        assert_eq!((heard.source.clone(), heard.affected_procs()), (proc("a", 0), vec![proc("a", 1)]));
        within(first.notify(code).range(DataRange::LOCAL)).await.unwrap();
        assert_eq!(
            within(elsewhere.recv()).await.unwrap().unwrap().range,
            DataRange::LOCAL,
            "it was not meant before"
        );

        let making = rig.members.iter().map(|client| client.group_construct("g", [rig.all()]).into_future());
        for group in within(join_all(making)).await {
            assert_eq!(group.unwrap().members, [proc("a", 0), proc("a", 1), proc("b", 2)]);
        }
        let fences = rig.members.iter().map(|client| client.fence([rig.all()]).into_future());
        within(join_all(fences)).await.into_iter().for_each(|fence| fence.unwrap());
    });
}
