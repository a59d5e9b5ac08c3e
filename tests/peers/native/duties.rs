//! What a host owes its processes: its nodes are set up before they start, and it tells them who else is there.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use async_trait::async_trait;
use pmix_client::types::{App, DataType, Directives, Envar, Info, Key, Status};
use pmix_client::{Nspace, ProcId, Rank, keys};
use pmix_host::{
    BindRequest, Bound, JobReport, JobStart, LaunchError, LaunchJob, LaunchReport, Launcher, MemoryExchange,
    RunningJob, StandardHost,
};
use pmix_launch::LocalLauncher;
use pmix_server::NativeWire;
use pmix_server::host::HostResult;
use pmix_tests::{Peer, TestNode, within};
use tokio::sync::mpsc;

/// What the network of a [`Networked`] is called.
const NETWORK: Key<String> = Key::new("test.network", DataType::STRING);

/// A launcher whose nodes need something for each job.
struct Networked {
    inner: LocalLauncher,
    needs: Vec<Info>,
    collects_env: bool,
}

#[async_trait]
impl Launcher for Networked {
    fn nodes(&self) -> Vec<String> {
        self.inner.nodes()
    }

    fn collects_env(&self) -> bool {
        self.collects_env
    }

    async fn prepare(&self, nspace: &Nspace, nodes: &[String]) -> HostResult<Vec<Info>> {
        let name = format!("net-of-{nspace}-on-{}", nodes.join("-"));
        Ok([Info::new(&NETWORK, name)].into_iter().chain(self.needs.iter().cloned()).collect())
    }

    async fn bind(&self, request: &BindRequest) -> HostResult<Vec<Option<Bound>>> {
        self.inner.bind(request).await
    }

    fn takes_stdin(&self) -> bool {
        true
    }

    async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        self.inner.launch(job, reports).await
    }

    async fn signal(&self, procs: &[ProcId], signal: i32) -> Result<(), LaunchError> {
        self.inner.signal(procs, signal).await
    }

    async fn terminate(&self, procs: &[ProcId]) -> Result<(), LaunchError> {
        self.inner.terminate(procs).await
    }
}

/// A node whose jobs need these things.
async fn node(needs: impl Into<Vec<Info>>, collects_env: bool) -> (TestNode, StandardHost) {
    let inner = LocalLauncher::simulating(["n0"]);
    let launcher = Networked { inner, needs: needs.into(), collects_env };
    let host = StandardHost::new(launcher, MemoryExchange::single("n0"));
    let builder = TestNode::builder(1).hostname("n0").host(host.clone());
    // a variable that cargo gives to tests
    let builder = builder
        .server(|server| server.native_wire(NativeWire::On).tool_support(true).harvest(["CARGO_PKG_NAME"]));
    (builder.start().await, host)
}

fn envar(name: &str, value: &str) -> Envar {
    Envar { name: name.into(), value: value.into(), separator: b':' }
}

/// The next whole line that one of the processes writes.
async fn line(job: &mut RunningJob, held: &mut BTreeMap<ProcId, Vec<u8>>) -> String {
    loop {
        if let Some(text) = held.values_mut().find(|text| text.contains(&b'\n')) {
            let end = text.iter().position(|byte| *byte == b'\n').unwrap();
            let line: Vec<u8> = text.drain(..=end).collect();
            return String::from_utf8(line).unwrap().trim_end().to_owned();
        }
        match within(job.next_report()).await.unwrap() {
            JobReport::Proc(LaunchReport::Output { proc, data, .. }) => {
                held.entry(proc).or_default().extend_from_slice(&data)
            }
            JobReport::Done(outcome) => panic!("it has ended: {outcome:?}"),
            _ => {}
        }
    }
}

/// What each of the processes was told, in rank order.
async fn told(job: &mut RunningJob, ranks: usize) -> Vec<BTreeMap<String, String>> {
    let mut held = BTreeMap::new();
    let mut lines = Vec::new();
    for _ in 0..ranks {
        lines.push(line(job, &mut held).await);
    }
    lines.sort();
    // a value may have spaces in it, and goes on to the next key
    let read = |line: String| {
        let mut values: Vec<(String, String)> = Vec::new();
        for word in line.split(' ') {
            match (word.split_once('='), values.last_mut()) {
                (Some((key, value)), _) => values.push((key.to_owned(), value.to_owned())),
                (None, Some((_, value))) => *value = format!("{value} {word}"),
                (None, None) => panic!("{line}"),
            }
        }
        values.into_iter().collect()
    };
    lines.into_iter().map(read).collect()
}

/// A job whose processes say what they are told, and then wait for their end.
fn waiting(name: &str, program: &str, ranks: u32) -> JobStart {
    let app = App::new(program, ranks).args(["SET_UP", "wait"]);
    JobStart::new(name.parse().unwrap(), vec![app]).stdin(Rank::WILDCARD)
}

async fn tells_its_processes(library: Peer) {
    let Some(program) = library.program("pmix_duties") else { return };
    let program = program.to_str().unwrap();
    let needs = [
        Info::new(&keys::SET_ENVAR, envar("SET_UP", "gone")),
        Info::new(&keys::UNSET_ENVAR, "SET_UP"),
        Info::new(&keys::ADD_ENVAR, envar("SET_UP", "b")),
        Info::new(&keys::PREPEND_ENVAR, envar("SET_UP", "a")),
        Info::new(&keys::ADD_ENVAR, envar("SET_UP", "not")),
        Info::new(&keys::APPEND_ENVAR, envar("SET_UP", "c")),
    ];
    let (node, host) = node(needs, false).await;
    let mut first = within(host.start_job(waiting("first", program, 2))).await.unwrap();
    let dir = node.handle().session_dir();
    let here = std::env::current_dir().unwrap().to_str().unwrap().to_owned();
    for (rank, told) in told(&mut first, 2).await.iter().enumerate() {
        let of = |key: &str| told[key].as_str();
        assert_eq!(of("node_rank"), rank.to_string(), "{told:?}");
        assert_eq!((of("node_size"), of("local_procs")), ("2", "first.0,first.1"), "{told:?}");
        assert_eq!((of("local_size"), of("local_peers")), ("2", "0,1"), "{told:?}");
        assert_eq!(of("local_cpusets").split(':').count(), 2, "{told:?}");
        assert_eq!((of("reincarnation"), of("parent"), of("max")), ("0", "-", "2"), "{told:?}");
        assert_eq!(of("argv"), format!("{program} SET_UP wait"));
        assert_eq!(of("wdir"), here);
        assert_eq!(of("network"), "net-of-first-on-n0");
        assert_eq!(of("variable"), "a:b:c");
        let of_job = std::path::Path::new(of("procdir")).parent().unwrap();
        assert!(of("procdir").ends_with(&format!("/{rank}")) && of_job.starts_with(dir), "{told:?}");
        assert!(std::path::Path::new(of("procdir")).is_dir(), "{told:?}");
    }
    // the next to come are counted on, and start elsewhere
    let parent = node.proc(0);
    let second = waiting("second", program, 1).parent(parent.clone());
    let second = second.directives(Directives::new().with(&keys::WDIR, "/"));
    let mut second = within(host.start_job(second)).await.unwrap();
    let told_second = &told(&mut second, 1).await[0];
    let of = |key: &str| told_second[key].as_str();
    assert_eq!((of("node_rank"), of("node_size")), ("2", "3"), "{told_second:?}");
    assert_eq!(of("local_procs"), "first.0,first.1,second.0", "{told_second:?}");
    assert_eq!((of("parent"), of("spawned")), (&*format!("{}.0", parent.nspace), "true"), "{told_second:?}");
    assert_eq!(of("wdir"), "/");
    // no two processes have the same number at a time
    first.kill();
    within(first.outcome()).await.unwrap();
    let in_session = Directives::new().with(&keys::SET_SESSION_CWD, true);
    let third = waiting("third", program, 3).directives(in_session);
    let mut third = within(host.start_job(third)).await.unwrap();
    let told_third = told(&mut third, 3).await;
    let node_ranks: Vec<_> = told_third.iter().map(|told| told["node_rank"].as_str()).collect();
    assert_eq!(node_ranks, ["3", "4", "5"], "behind those that run");
    assert_eq!(told_third[0]["wdir"], dir.join("work").to_str().unwrap());
    for mut job in [second, third] {
        job.kill();
        within(job.outcome()).await.unwrap();
    }
}

#[tokio::test]
async fn reg_07b_reg_07c_set_03_a_c_program_is_told_what_the_host_of_its_job_knows() {
    tells_its_processes(Peer::Libpmix).await;
}

#[tokio::test]
async fn reg_07b_reg_07c_set_03_a_program_of_libpmix_5_is_told_what_the_host_of_its_job_knows() {
    tells_its_processes(Peer::Libpmix5).await;
}

#[tokio::test]
async fn set_03_a_job_whose_nodes_cannot_be_set_up_does_not_start() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("started");
    for (needs, key) in [
        (Info::dynamic(keys::SET_ENVAR.key_name(), 7_u32), "pmix.envar.set"),
        (Info::new(&keys::UNSET_ENVAR, ""), "pmix.envar.unset"),
        (Info::dynamic(keys::PROC_INFO_ARRAY.key_name(), "none"), "pmix.pdata"),
    ] {
        let (node, host) = node([needs], false).await;
        let app = App::new("touch", 1).args([file.to_str().unwrap()]);
        let nspace: Nspace = "refused".parse().unwrap();
        let error = within(host.start_job(JobStart::new(nspace.clone(), vec![app]))).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
        let said = error.to_string();
        assert!(said.contains("cannot set node n0 up for refused") && said.contains(key), "{said}");
        assert!(node.handle().job_data(&nspace).await.is_err(), "it is not registered any more");
        assert!(!file.exists(), "{said}");
    }
}

#[tokio::test]
async fn set_02_variables_are_collected_for_launchers_that_pass_on_none_unless_the_requester_has_them() {
    for (collects_env, harvested, due) in
        [(true, false, Some("CARGO_PKG_NAME")), (true, true, None), (false, false, None)]
    {
        let (node, host) = node([], collects_env).await;
        let start = JobStart::new("cat".parse().unwrap(), vec![App::new("cat", 1)]).stdin(Rank::WILDCARD);
        let directives = Directives::new().with(&keys::ENVARS_HARVESTED, harvested);
        let mut job = within(host.start_job(start.directives(directives))).await.unwrap();
        let proc = ProcId::new(job.nspace().clone(), Rank::from_raw(0));
        let environment = node.handle().setup_fork(&proc).await.unwrap();
        let changed = environment.changes().iter().map(|info| info.get::<Envar>().unwrap().name).next();
        assert_eq!(changed.as_deref(), due.map(OsStr::new), "{collects_env} {harvested}");
        job.kill();
        within(job.outcome()).await.unwrap();
    }
}

#[tokio::test]
async fn set_03_spn_03_an_application_overrides_what_its_node_is_set_up_with() {
    let needs = [
        Info::new(&keys::SET_ENVAR, envar("OWN", "of the set-up")),
        Info::new(&keys::SET_ENVAR, envar("ASKED", "of the set-up")),
        Info::new(&keys::SET_ENVAR, envar("OTHER", "of the set-up")),
    ];
    let (_node, host) = node(needs, false).await;
    let app = App::new("sh", 1).args(["-c", "echo $OWN, $ASKED, $OTHER"]).env("OWN", "its own");
    let start = JobStart::new("job-of-its-own".parse().unwrap(), vec![app]);
    let directives = Directives::new().with(&keys::SET_ENVAR, envar("ASKED", "asked for"));
    let mut job = within(host.start_job(start.directives(directives))).await.unwrap();
    assert_eq!(line(&mut job, &mut BTreeMap::new()).await, "its own, asked for, of the set-up");
}
