//! Launchers and other tools that a tool has started by its server.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pmix_client::types::{App, DataArray, Directives, Info, Status};
use pmix_client::{ProcId, Rank, keys};
use pmix_test_wait::{LIMIT, within};
use pmix_tests::{
    Running, Spawner, executable, next_event, pmixrun, processes_of, rank_program, term_status,
};
use pmix_tool::Tool;
use rustix::net::{AddressFamily, Ipv4Addr, SocketAddrV4, SocketType};
use rustix::process::Signal;

/// A launcher that a tool has started is found in the file that the tool has chosen, and carries out what it requests.
#[tokio::test]
async fn tol_04_pmixrun_that_a_tool_spawns_says_where_it_is_and_carries_out_directives() {
    let dir = tempfile::tempdir().unwrap();
    let mut outer = Running::start_with_input(pmixrun(
        dir.path(),
        &["--stdin", "all", "sh", "-c", "echo here; exec cat"],
    ));
    outer.line_with("here").await;
    let tool = within(Tool::builder().session_root(dir.path()).connect()).await.unwrap();
    let mut launched = within(async { tool.client().events([Status::LAUNCH_COMPLETE]).await }).await.unwrap();
    let mut ends = within(async { tool.client().events([Status::EVENT_JOB_END]).await }).await.unwrap();
    let contact = dir.path().join("launcher");
    let launcher = pmixrun(dir.path(), &["-n", "2"]);
    let app = App::new(launcher.get_program().to_str().unwrap(), 1)
        .args(launcher.get_args().map(|arg| arg.to_str().unwrap()))
        .args([rank_program().to_str().unwrap(), "fence"]);
    let directives = Directives::new()
        .require(&keys::SPAWN_TOOL, true)
        .require(&keys::LAUNCHER_RENDEZVOUS_FILE, contact.to_str().unwrap())
        .require(
            &keys::LAUNCH_DIRECTIVES,
            DataArray::Info(vec![Info::required(&keys::DEBUG_STOP_IN_INIT, true)]),
        );
    let spawn = tool.client().spawn([app]).notify_completion().directives(directives);
    let job = within(async { spawn.await }).await.unwrap();

    let pause = Duration::from_millis(20);
    let attempts = u32::try_from(LIMIT.as_millis() / pause.as_millis()).unwrap();
    let inner = Tool::builder().rendezvous_file(&contact).retry(attempts, pause);
    let inner = within(inner.connect()).await.unwrap();
    let mut ready = within(async { inner.client().events([Status::READY_FOR_DEBUG]).await }).await.unwrap();
    // the resource manager says that the launcher runs, the launcher that its job does
    let launched = loop {
        let event = next_event(&mut launched).await;
        if event.source == ProcId::new(job.clone(), Rank::from_raw(0)) {
            break event;
        }
    };
    let inner_job = launched.info.get(keys::NSPACE).unwrap().unwrap();
    let mut waiting = vec![next_event(&mut ready).await.source, next_event(&mut ready).await.source];
    waiting.sort();
    assert_eq!(waiting, [0, 1].map(|rank| ProcId::new(inner_job.clone(), Rank::from_raw(rank))));
    let release = inner.client().notify(Status::DEBUGGER_RELEASE).custom_range(waiting).non_default();
    within(async { release.await }).await.unwrap();
    let end = next_event(&mut ends).await;
    assert_eq!(end.info.get(keys::EVENT_AFFECTED_PROC).unwrap(), Some(ProcId::wildcard(job)));
    assert_eq!(term_status(&end), Status::SUCCESS);
    assert!(!contact.exists());
    let (status, out, err) = outer.end().await;
    assert!(status.success(), "{status} {out}{err}");
}

#[tokio::test]
async fn tol_04_pmixrun_does_not_start_if_it_cannot_call_back_to_the_tool_that_has_started_it() {
    let dir = tempfile::tempdir().unwrap();
    // a port at which no process can listen while this one holds it
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = SocketAddrV4::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap().port();
    let unix = format!("other.0;unix:{}/socket", dir.path().display());
    let tcp = format!("other.0;tcp4://127.0.0.1:{port}");
    for uri in [&*unix, &*tcp, "nonsense"] {
        let mut launcher = pmixrun(dir.path(), &["true"]);
        launcher.env("PMIX_LAUNCHER_RNDZ_URI", uri);
        let (status, out, err) = Running::start(launcher).end().await;
        assert_eq!((status.code(), out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains("cannot call back to the tool that started pmixrun"), "{err}");
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    // an empty variable is none
    let mut launcher = pmixrun(dir.path(), &["true"]);
    launcher.env("PMIX_LAUNCHER_RNDZ_URI", "");
    assert!(Running::start(launcher).end().await.0.success());
}

#[tokio::test]
async fn tol_04_a_launcher_ends_although_the_server_of_the_tool_that_has_started_it_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let mut outer = Running::start_with_input(pmixrun(
        dir.path(),
        &["--stdin", "all", "sh", "-c", "echo here; exec cat"],
    ));
    outer.line_with("here").await;
    let tool = within(Tool::builder().session_root(dir.path()).connect()).await.unwrap();
    let uri = tool.server().unwrap().uri().to_owned();
    within(tool.finalize()).await.unwrap();

    let own = tempfile::tempdir().unwrap();
    let mut launcher = pmixrun(own.path(), &["--stdin", "all", "sh", "-c", "echo runs; exec cat"]);
    launcher.env("PMIX_LAUNCHER_RNDZ_URI", uri);
    let mut inner = Running::start_with_input(launcher);
    inner.line_with("runs").await;
    outer.stop().await;
    let (status, out, err) = inner.end().await;
    assert!(status.success(), "{status} {out}{err}");
    assert_eq!(processes_of(own.path()), []);
    outer.signal(Signal::CONT);
    assert!(outer.end().await.0.success());
}

/// A program that says how it was started, and becomes what it was given.
fn agent(dir: &Path) -> PathBuf {
    let path = dir.join("agent");
    executable(&path, "#!/bin/sh\nexport CALLED=\"by $PMIX_LAUNCHER_RNDZ_URI\"\nexec \"$@\"\n");
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn tol_04_agents_start_programs_in_their_place_and_tools_are_told_where_to_call() {
    let mut rig = Spawner::start(&["n0"]).await;
    let agent = agent(rig.out()).to_str().unwrap().to_owned();
    let script =
        || rig.script("echo \"$CALLED $0 $1; $PMIX_LAUNCHER_RNDZ_URI\" > $OUT", 1).arg("name").arg("first");
    let (with_agent, plain) = (script(), script());
    let mut own = with_agent.clone();
    own.info.push(Info::required(&keys::EXEC_AGENT, &*agent));
    let mut forked = with_agent.clone();
    forked.info.push(Info::required(&keys::FORKEXEC_AGENT, &*agent));
    let written = rig.output(vec![own, plain, forked], Directives::new()).await;
    assert_eq!(written[..2], ["by  name first;", " name first;"]);
    assert!(written[2].starts_with("by ") && written[2].contains(";tcp4://127.0.0.1:"), "{written:?}");

    let of_job = Directives::new().require(&keys::EXEC_AGENT, &*agent).require(&keys::SPAWN_TOOL, true);
    let written = rig.output(vec![with_agent.clone()], of_job).await;
    assert!(written[0].starts_with("by ") && written[0].contains(" name first; "), "{written:?}");

    let both = Directives::new().require(&keys::EXEC_AGENT, "a").require(&keys::FORKEXEC_AGENT, "b");
    assert_eq!(rig.refused(vec![with_agent.clone()], both).await.status(), Status::ERR_BAD_PARAM);
    let missing = rig.out().join("missing").to_str().unwrap().to_owned();
    let missing = Directives::new().require(&keys::EXEC_AGENT, missing);
    let error = rig.refused(vec![with_agent], missing).await;
    assert_eq!(error.status(), Status::ERR_JOB_EXE_NOT_FOUND, "{error}");
}
