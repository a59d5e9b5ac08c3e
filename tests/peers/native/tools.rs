//! Tools linked with the C library find a server, and ask it.

use std::path::Path;
use std::process::Command;

use pmix_client::types::App;
use pmix_client::{Rank, keys};
use pmix_host::{JobStart, MemoryExchange, RunningJob, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::{NativeWire, Server};
use pmix_tests::{ECHO, Peer, Running, TestNode, beside, echoing_node, on_path, plain_environment, within};

/// Finds the server in each way that there is, and does all that the program can do.
async fn attaches(library: Peer) {
    let Some(tool) = library.program("pmix_tool") else { return };
    let (node, _job) = echoing_node().await;
    let (dir, pid) = (node.handle().session_dir(), std::process::id().to_string());
    let file = dir.join(format!("pmix.{}.tool", node.handle().hostname()));
    let text = std::fs::read_to_string(&file).unwrap();
    let uri = text.lines().next().unwrap();
    let server = node.handle().proc_id().nspace.to_string();
    let ways: [&[&str]; 5] =
        [&[], &["uri", uri], &["file", file.to_str().unwrap()], &["pid", &pid], &["nspace", &server]];
    for way in ways {
        let mut command = beside(&node, Command::new(&tool));
        command.arg("echo").args(way);
        let (status, out, err) = Running::start(command).end().await;
        assert!(status.success(), "{way:?}: {status} {out}{err}");
        assert!(out.contains(&format!("attached as {server}.tool.")), "{way:?}: {out}{err}");
        let namespaces = out.lines().find_map(|line| line.strip_prefix("namespaces ")).unwrap();
        assert!(namespaces.split(',').any(|name| name == "echo"), "{way:?}: {out}{err}");
        for rank in 0..2 {
            assert!(out.lines().any(|line| line == format!("local echo:{rank}")), "{way:?}: {out}{err}");
            let row = out.lines().find(|line| line.starts_with(&format!("process echo:{rank} pid ")));
            assert!(row.is_some_and(|row| row.contains("EXECUTING") && row.contains("sh")), "{out}{err}");
        }
        // the request is read in each way, but the host writes to the output of its own processes alone
        for due in ["pushed: 0", "on 2: heard a line", "log: -47", "left"] {
            assert!(out.contains(due), "{way:?}, {due}: {out}{err}");
        }
    }
}

/// A system-level and a session-level server side by side, each with a job.
struct SideBySide {
    dir: tempfile::TempDir,
    system: Server,
    session: Server,
    _jobs: [RunningJob; 2],
}

impl SideBySide {
    async fn start() -> Self {
        let name = rustix::system::uname().nodename().to_str().unwrap().to_owned();
        let dir = tempfile::tempdir().unwrap();
        let start = async |job: &str, is_system: bool| {
            let host = StandardHost::new(LocalLauncher::new(&name), MemoryExchange::single(&name));
            let mut server = Server::builder().host(host.clone()).hostname(&name).session_root(dir.path());
            server = server.nspace(format!("of-{job}")).native_wire(NativeWire::On).tool_support(true);
            if is_system {
                server = server.system_tmpdir(dir.path());
            }
            let server = server.start().await.unwrap();
            let apps = vec![App::new("sh", 1).args(["-c", ECHO])];
            let echo = JobStart::new(job.parse().unwrap(), apps).stdin(Rank::WILDCARD);
            (within(host.start_job(echo)).await.unwrap(), server)
        };
        let (all, system) = start("all", true).await;
        let (own, session) = start("own", false).await;
        Self { dir, system, session, _jobs: [all, own] }
    }

    /// A tool that has only the directories to go by.
    fn tool(&self, tool: &Path) -> Command {
        let mut command = Command::new(tool);
        plain_environment(&mut command);
        for name in ["PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR", "TMPDIR"] {
            command.env(name, self.dir.path());
        }
        command
    }

    async fn stop(self) {
        self.system.stop().await;
        self.session.stop().await;
    }
}

/// The library lists the servers by their files, also for a tool that is attached to none.
async fn lists_the_servers(library: Peer) {
    let Some(tool) = library.program("pmix_avail") else { return };
    let servers = SideBySide::start().await;
    let handle = servers.session.handle();
    let file = handle.session_dir().join(format!("pmix.{}.tool", handle.hostname()));
    let text = std::fs::read_to_string(file).unwrap();
    let (pid, uid) = (std::process::id(), rustix::process::geteuid().as_raw());
    for uri in [None, text.lines().next()] {
        let mut command = servers.tool(&tool);
        command.args(uri);
        let (status, out, err) = Running::start(command).end().await;
        assert!(status.success() && out.contains("finalize: 0"), "{uri:?}: {status} {out}{err}");
        let mut listed: Vec<_> = out.lines().filter_map(|line| line.strip_prefix("server ")).collect();
        listed.sort_unstable();
        assert_eq!(listed.len(), 2, "{uri:?}: {out}{err}");
        for (server, line) in [&servers.system, &servers.session].into_iter().zip(listed) {
            let nspace = &server.handle().proc_id().nspace;
            for due in [
                format!("{}={nspace}", keys::SERVER_NSPACE.name()),
                format!("{}=0", keys::SERVER_RANK.name()),
                format!("{}={pid}", keys::SERVER_PIDINFO.name()),
                format!("{}={uid}", keys::USERID.name()),
            ] {
                assert!(line.split(' ').any(|word| word == due), "{due} of {line:?}");
            }
        }
    }
    servers.stop().await;
}

#[tokio::test]
async fn tol_02_qry_15b_a_c_tool_lists_the_system_server_and_that_of_the_session() {
    lists_the_servers(Peer::Libpmix).await;
}

#[tokio::test]
async fn tol_02_qry_15b_a_tool_of_libpmix_5_lists_the_system_server_and_that_of_the_session() {
    lists_the_servers(Peer::Libpmix5).await;
}

/// Finds each of a system-level and a session-level server that run side by side.
async fn chooses(library: Peer) {
    let Some(tool) = library.program("pmix_tool") else { return };
    let servers = SideBySide::start().await;
    let [own, all] =
        [&servers.session, &servers.system].map(|server| server.handle().proc_id().nspace.to_string());
    // without selection the C library counts both, and asks for one
    let ways: [(&str, &[&str]); 4] = [
        ("all", &["system", "-"]),
        ("all", &["first", "-"]),
        ("own", &["nspace", &own]),
        ("all", &["nspace", &all]),
    ];
    for (job, way) in ways {
        let mut command = servers.tool(&tool);
        command.arg(job).args(way);
        let (status, out, err) = Running::start(command).end().await;
        assert!(status.success(), "{way:?}: {status} {out}{err}");
        assert!(out.contains(&format!("attached as of-{job}.tool.")), "{way:?}: {out}{err}");
    }
    servers.stop().await;
}

#[tokio::test]
async fn tol_02_tol_06d_tol_06e_tol_06f_a_c_tool_finds_the_system_server_and_that_of_the_session() {
    chooses(Peer::Libpmix).await;
}

#[tokio::test]
async fn tol_02_tol_06d_tol_06e_tol_06f_a_tool_of_libpmix_5_finds_the_system_server_and_that_of_the_session()
{
    chooses(Peer::Libpmix5).await;
}

#[tokio::test]
async fn tol_03a_iof_09_iof_10_a_c_tool_finds_the_server_asks_and_forwards() {
    attaches(Peer::Libpmix).await;
}

#[tokio::test]
async fn tol_03a_iof_09_iof_10_a_tool_of_libpmix_5_finds_the_server_asks_and_forwards() {
    attaches(Peer::Libpmix5).await;
}

/// The environment of a process tells its tools who they are; the server checks them as that process.
async fn is_started_as_a_process(library: Peer) {
    let Some(tool) = library.program("pmix_tool") else { return };
    let (node, _job) = echoing_node().await;
    let mut command = Command::new(tool);
    node.handle().setup_fork(&node.proc(0)).await.unwrap().apply(&mut command);
    command.arg("echo");
    let (status, out, err) = Running::start(command).end().await;
    assert!(status.success(), "{status} {out}{err}");
    for due in ["attached as job:0", "pushed: 0", "left"] {
        assert!(out.contains(due), "{due}: {out}{err}");
    }
    assert_eq!(node.stats().await.refused, 0);
}

#[tokio::test]
async fn tol_16_a_c_tool_that_is_a_process_of_a_job_is_a_client() {
    is_started_as_a_process(Peer::Libpmix).await;
}

#[tokio::test]
async fn tol_16_a_tool_of_libpmix_5_that_is_a_process_of_a_job_is_a_client() {
    is_started_as_a_process(Peer::Libpmix5).await;
}

/// A server on this node that knows one job, and the address for C programs. The library of release 4.2.2 reads the namespace
/// of a server up to its first dot only.
pub(super) async fn with_job(server: &'static str, job: &str) -> (TestNode, String) {
    let name = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let host = StandardHost::new(LocalLauncher::new(&name), MemoryExchange::single(&name));
    let node = TestNode::builder(1).nspace(job).hostname(&name).host(host);
    let node =
        node.server(move |builder| builder.nspace(server).native_wire(NativeWire::On).tool_support(true));
    let node = node.start().await;
    let file = node.handle().session_dir().join(format!("pmix.{name}.tool"));
    let text = std::fs::read_to_string(file).unwrap();
    let uri = text.lines().next().unwrap().to_owned();
    (node, uri)
}

/// The C library chooses between servers on its own; each of ours has to admit it under the same identity, and to let it go.
async fn has_two_servers(library: Peer) {
    let Some(tool) = library.program("pmix_tool_servers") else { return };
    let ((a, first), (b, second)) = (with_job("first", "job-a").await, with_job("second", "job-b").await);
    let mut command = beside(&a, Command::new(tool));
    command.args([&first, &second]);
    let (status, out, err) = Running::start(command).end().await;
    assert!(status.success(), "{status} {out}{err}");
    let (a_id, b_id) = (a.handle().proc_id(), b.handle().proc_id());
    let me = out.lines().find_map(|line| line.strip_prefix("attached as ")).unwrap();
    for due in [
        format!("one: servers {a_id}"),
        "one: namespaces job-a".to_owned(),
        format!("again as {me} at {b_id}"),
        format!("two: servers {a_id} {b_id}"),
        "two: namespaces job-a".to_owned(),
        format!("second: servers {b_id} {a_id}"),
        "second: namespaces job-b".to_owned(),
        "first: namespaces job-a".to_owned(),
        format!("left: servers {a_id}"),
        "left: namespaces job-a".to_owned(),
        "done".to_owned(),
    ] {
        assert!(out.lines().any(|line| line == due), "{due}: {out}{err}");
    }
}

#[tokio::test]
async fn tol_11_tol_14_a_c_tool_has_two_servers() {
    has_two_servers(Peer::Libpmix).await;
}

#[tokio::test]
async fn tol_11_tol_14_a_tool_of_libpmix_5_has_two_servers() {
    has_two_servers(Peer::Libpmix5).await;
}

/// Of the tools that come with the C library of release 4.2.2 this is the one that does not crash by itself.
#[tokio::test]
async fn the_c_librarys_own_pps_lists_the_jobs() {
    let Some(pps) = on_path("pps", "apt-get install libpmix-bin") else { return };
    let (node, _job) = echoing_node().await;
    let (status, out, err) = Running::start(beside(&node, Command::new(pps))).end().await;
    assert!(status.success(), "{out}{err}");
    assert!(format!("{out}{err}").contains("echo"), "{out}{err}");
}
