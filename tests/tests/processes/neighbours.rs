//! What processes of real jobs are told of those of all jobs beside them, and of what they run.

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt;
use pmix_client::types::job::{JobData, NodeRef, Target};
use pmix_client::types::{App, DataArray, Directives, Key, Procs, Query, Status, Value, ValueType, keys};
use pmix_client::{Nspace, ProcId, Rank};
use pmix_test_wait::within;
use pmix_tests::{Spawner, all_of};
use pmix_tool::Tool;

const RANK_0: Rank = Rank::from_raw(0);

fn of<T: ValueType>(data: &JobData, rank: u32, key: &Key<T>) -> Option<T> {
    data.lookup(key.name(), &Target::Proc(Rank::from_raw(rank))).map(|value| value.get().unwrap())
}

fn on<T: ValueType>(data: &JobData, node: &str, key: &Key<T>) -> Option<T> {
    data.lookup(key.name(), &Target::Node(NodeRef::Name(node))).map(|value| value.get().unwrap())
}

/// The data of a job at the server of each node.
async fn at_nodes(rig: &Spawner, job: &Nspace) -> Vec<Arc<JobData>> {
    let mut all = Vec::new();
    for node in rig.nodes() {
        all.push(node.handle().job_data(job).await.unwrap());
    }
    all
}

async fn starts(rig: &Spawner, ranks: u32) -> Nspace {
    rig.spawn(vec![rig.script("sleep 1000", ranks)], Directives::new()).await
}

async fn ends(rig: &mut Spawner, job: &Nspace) {
    let procs: Procs = all_of(job.as_str()).into();
    within(async { rig.client.job_control(procs).kill().await }).await.unwrap();
    rig.next_end().await;
}

#[tokio::test]
async fn reg_07b_reg_07c_processes_are_numbered_and_counted_on_their_node_among_those_of_all_jobs() {
    let mut rig = Spawner::start(&["n0", "n1"]).await;
    let first = starts(&rig, 4).await;
    let second = starts(&rig, 2).await;
    let [of_first, of_second] = [at_nodes(&rig, &first).await, at_nodes(&rig, &second).await];
    for (node, name) in ["n0", "n1"].into_iter().enumerate() {
        // ranks of a job are on nodes in blocks
        let own = [2 * node as u32, 2 * node as u32 + 1];
        assert_eq!(own.map(|rank| of(&of_first[node], rank, &keys::NODE_RANK)), [Some(0), Some(1)]);
        assert_eq!(of(&of_second[node], node as u32, &keys::NODE_RANK), Some(2));
        assert_eq!(on(&of_first[node], name, &keys::NODE_SIZE), Some(2));
        assert_eq!(on(&of_second[node], name, &keys::NODE_SIZE), Some(3));
        let procs = own.map(|rank| ProcId::new(first.clone(), Rank::from_raw(rank)));
        assert_eq!(on(&of_first[node], name, &keys::LOCAL_PROCS), Some(DataArray::Proc(procs.to_vec())));
        // of an entry for each process, those of this node
        let cpusets: Option<String> = on(&of_first[node], name, &keys::LOCAL_CPUSETS);
        assert_eq!(cpusets.unwrap().split(':').count(), 2);
        // made when the first of them connects; the others are not told
        let dirs = own.map(|rank| of(&of_first[node], rank, &keys::PROCDIR).unwrap());
        assert!(!dirs.iter().any(|dir| Path::new(dir).exists()), "{dirs:?}");
        let server = rig.nodes()[node].handle();
        // a process whose directory cannot be made is refused, and its job goes on
        let of_job = Path::new(&dirs[0]).parent().unwrap();
        std::fs::write(of_job, "in the way").unwrap();
        let refused = server.connect_in_process(procs[1].clone()).await.unwrap_err();
        let reason = format!("cannot make directory {}", of_job.display());
        assert!(refused.to_string().contains(&reason), "{refused}");
        assert_eq!(std::fs::read_to_string(of_job).unwrap(), "in the way");
        std::fs::remove_file(of_job).unwrap();
        let _process = server.connect_in_process(procs[1].clone()).await.unwrap();
        assert!(dirs.iter().all(|dir| Path::new(dir).is_dir()), "{dirs:?}");
        for rank in 0..4 {
            assert_eq!(of(&of_first[node], rank, &keys::REINCARNATION), Some(0));
        }
    }
    // numbers are free again when the job has ended that has them
    ends(&mut rig, &first).await;
    let third = starts(&rig, 2).await;
    assert_eq!(of(&at_nodes(&rig, &third).await[0], 0, &keys::NODE_RANK), Some(0));
    ends(&mut rig, &second).await;
    ends(&mut rig, &third).await;
    let fourth = starts(&rig, 2).await;
    assert_eq!(of(&at_nodes(&rig, &fourth).await[1], 1, &keys::NODE_RANK), Some(0));
}

#[tokio::test]
async fn reg_07d_applications_are_described_with_what_they_run_and_where() {
    let rig = Spawner::start(&["n0"]).await;
    let other = App::new("sleep", 1).args(["1000"]);
    let elsewhere = rig.out().to_str().unwrap();
    let first = rig.script("sleep 1000", 1).cwd(elsewhere);
    let job = within(async { rig.client.spawn([other, first]).await }).await.unwrap();
    let data = &at_nodes(&rig, &job).await[0];
    let of_app = |number, key: &Key<String>| data.lookup(key.name(), &Target::App(number));
    assert_eq!(of_app(0, &keys::APP_ARGV), Some(Value::from("sleep 1000")));
    let here = std::env::current_dir().unwrap().to_str().unwrap().into();
    assert_eq!((of_app(0, &keys::WDIR), of_app(1, &keys::WDIR)), (Some(here), Some(elsewhere.into())));
    assert_eq!(data.lookup(keys::APP_ARGV.name(), &Target::AppOf(RANK_0)), Some("sleep 1000".into()));
}

#[tokio::test]
async fn spn_05_the_parent_hears_of_the_ends_of_processes_that_it_has_asked_for() {
    let rig = Spawner::start(&["n0"]).await;
    let mut ends = within(async { rig.client.events([Status::EVENT_PROC_TERMINATED]).await }).await.unwrap();
    let ranks = || rig.script("exit $PMIX_RANK", 2);
    let silent = within(async { rig.client.spawn([ranks()]).notify_completion().await }).await.unwrap();
    let abnormal = rig.client.spawn([ranks()]).notify_proc_abnormal_termination();
    let abnormal = within(async { abnormal.await }).await.unwrap();
    let all = within(async { rig.client.spawn([ranks()]).notify_proc_termination().await }).await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < 3 {
        let event = within(ends.next()).await.unwrap().unwrap();
        let proc = event.info.get(&keys::EVENT_AFFECTED_PROC).unwrap().unwrap();
        let code = event.info.get(&keys::EXIT_CODE).unwrap().unwrap();
        assert_ne!(proc.nspace, silent);
        heard.push((proc.nspace.clone(), proc.rank.to_raw(), code));
    }
    heard.sort();
    let mut expected = vec![(abnormal, 1, 1), (all.clone(), 0, 0), (all, 1, 1)];
    expected.sort();
    assert_eq!(heard, expected);
}

#[tokio::test]
async fn spn_04_a_tool_starts_jobs_in_the_name_of_processes_that_run() {
    let rig = Spawner::start(&["n0"]).await;
    let job = starts(&rig, 1).await;
    let tool = Tool::builder().uri(rig.nodes()[0].handle().uri());
    let tool = within(async { tool.connect().await }).await.unwrap();
    let parent = ProcId::new(job.clone(), RANK_0);
    let app = || App::new("sleep", 1).args(["1000"]);
    let child = tool.client().spawn([app()]).directive(keys::PARENT_ID, parent.clone());
    let child = within(async { child.await }).await.unwrap();
    let data = rig.nodes()[0].handle().job_data(&child).await.unwrap();
    assert_eq!(of(&data, 0, &keys::PARENT_ID), Some(parent.clone()));
    for unknown in [parent.with_rank(Rank::from_raw(7)), ProcId::new("nobodys".parse().unwrap(), RANK_0)] {
        let refused = tool.client().spawn([app()]).directive(keys::PARENT_ID, unknown);
        let refused = within(async { refused.await }).await.unwrap_err();
        assert_eq!(refused.status(), Status::ERR_NOT_FOUND);
    }
}

/// The only sample of the text on tools: who of a job is here, and then what each of them is.
#[tokio::test]
async fn dbg_01_qry_11_a_tool_asks_for_the_processes_of_its_node_and_then_for_their_table() {
    let rig = Spawner::start(&["n0", "n1"]).await;
    let job = starts(&rig, 4).await;
    for (node, ranks) in [(0, [0, 1]), (1, [2, 3])] {
        let handle = rig.nodes()[node].handle();
        let tool = within(Tool::builder().uri(handle.uri()).connect()).await.unwrap();
        let of_job = |key: &Key<DataArray>| Query::new(key).qualifier(&keys::NSPACE.text(), job.as_str());
        let found = within(tool.query([of_job(&keys::LOCAL_PROCS)])).await.unwrap();
        let local = found.get(&keys::LOCAL_PROCS).unwrap().unwrap();
        let due = ranks.map(|rank| ProcId::new(job.clone(), Rank::from_raw(rank)));
        assert_eq!(local, DataArray::Proc(due.to_vec()));
        let found = within(tool.query([of_job(&keys::QUERY_PROC_TABLE)])).await.unwrap();
        let Some(DataArray::ProcInfo(table)) = found.get(&keys::QUERY_PROC_TABLE).unwrap() else { panic!() };
        for proc in due {
            let row = table.iter().find(|row| row.proc == proc).unwrap();
            assert!(
                row.pid.0 > 0 && row.executable.as_ref().is_some_and(|path| path.ends_with("/sh")),
                "{row:?}"
            );
        }
        within(tool.finalize()).await.unwrap();
    }
}
