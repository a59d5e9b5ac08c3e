//! The system-level server of a node beside session-level ones, started by `pmixrun`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use pmix_test_wait::within;
use pmix_tests::{Place, Running, long_enough, run};
use pmix_tool::Tool;
use rustix::process::Signal;

fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The name of the job that a launcher with this process id has started.
fn job_of(running: &Running) -> String {
    format!(".{}", running.pid())
}

#[tokio::test]
async fn tol_02_tol_06e_tol_07a_qry_15b_tools_find_the_system_server_first_and_each_by_its_selection() {
    let place = Place::new();
    let session = place.runs(place.pmixrun(), &[]).await;
    let (ok, said) = place.ps(place.pmix(), &["--system"]).await;
    assert!(!ok && said.contains("pmix.sys."), "{said}");
    let system = place.runs(place.pmixrun(), &["--system-server"]).await;
    assert_eq!(fs::metadata(place.file()).unwrap().permissions().mode() & 0o777, 0o600);
    let (of_session, of_system) = (job_of(&session), job_of(&system));
    let (own, all) = (session.pid().to_string(), system.pid().to_string());
    for (selection, shown, hidden) in [
        (&["--system"][..], &of_system, &of_session),
        (&["--pid", &all], &of_system, &of_session),
        (&["--pid", &own], &of_session, &of_system),
        (&["--file", place.file().to_str().unwrap()], &of_system, &of_session),
    ] {
        let (ok, said) = place.ps(place.pmix(), selection).await;
        assert!(ok && said.contains(&**shown) && !said.contains(&**hidden), "{selection:?}: {said}");
    }
    // the library of the tool knows the servers, whichever it asks
    let mut command = place.pmix();
    command.args(["query", "--pid", &own, "PMIX_QUERY_AVAIL_SERVERS", "PMIX_QUERY_NAMESPACES"]);
    let (status, out, err) = Running::start(command).end().await;
    assert!(status.success() && out.contains(&of_session), "{out}{err}");
    for pid in [&own, &all] {
        assert!(out.contains(&format!("server.{}.{pid}", node())), "{out}{err}");
    }
    // without selection all servers are shown, each once
    let (ok, said) = place.ps(place.pmix(), &[]).await;
    assert!(ok && said.contains(&of_session) && said.contains(&of_system), "{said}");

    // there is one at a time
    let mut command = place.pmixrun();
    command.args(["--system-server", "true"]);
    let (status, _, err) = run(command);
    assert!(status != Some(0) && err.contains(&format!("pid {all} is the system-level server")), "{err}");
    // a killed one leaves its file, which the next one takes over
    system.kill();
    system.end().await;
    assert!(place.file().exists());
    let (ok, said) = place.ps(place.pmix(), &["--system"]).await;
    assert!(!ok, "{said}");
    let next = place.runs(place.pmixrun(), &["--system-server"]).await;
    let (ok, said) = place.ps(place.pmix(), &["--system"]).await;
    assert!(ok && said.contains(&job_of(&next)), "{said}");
    next.signal(Signal::INT);
    next.end().await;
    assert!(!place.file().exists());
    session.kill();
}

#[tokio::test]
async fn tol_06e_a_tool_that_wants_the_system_server_first_takes_another_if_there_is_none() {
    let place = Place::new();
    let session = place.runs(place.pmixrun(), &[]).await;
    let attach = async || {
        let tool = Tool::builder().session_root(place.session()).system_tmpdir(place.system());
        let tool = within(tool.system_first().connect()).await.unwrap();
        let jobs = within(tool.namespaces()).await.unwrap();
        within(tool.finalize()).await.unwrap();
        jobs[0].to_string()
    };
    assert!(attach().await.ends_with(&job_of(&session)));
    let system = place.runs(place.pmixrun(), &["--system-server"]).await;
    assert!(attach().await.ends_with(&job_of(&system)));
    for launcher in [system, session] {
        launcher.signal(Signal::INT);
        launcher.end().await;
    }
}

#[tokio::test]
async fn tol_07a_a_system_server_that_hangs_leaves_time_for_another_and_both_failures_are_told() {
    let place = Place::new();
    let session = place.runs(place.pmixrun(), &[]).await;
    let system = place.runs(place.pmixrun(), &["--system-server"]).await;
    system.stop().await;
    let connect = async |seconds| {
        let tool = Tool::builder().session_root(place.session()).system_tmpdir(place.system());
        within(tool.system_first().timeout(Duration::from_secs(seconds)).connect()).await
    };
    // half of the time is left for the other one
    let tool = long_enough(connect).await;
    let jobs = within(tool.namespaces()).await.unwrap();
    assert!(jobs[0].ends_with(&job_of(&session)), "{jobs:?}");
    within(tool.finalize()).await.unwrap();
    session.stop().await;
    // nothing comes from either of them, so that nothing but limits takes time
    tokio::time::pause();
    let error = connect(4).await.unwrap_err();
    tokio::time::resume();
    assert!(error.is_timeout(), "{error}");
    for launcher in [&system, &session] {
        assert!(error.to_string().contains(&format!(".{}", launcher.pid())), "{error}");
    }
    let end = async |launcher: Running| {
        launcher.signal(Signal::CONT);
        launcher.signal(Signal::INT);
        launcher.end().await;
    };
    end(session).await;
    // without another one, that it hangs is all there is to say
    tokio::time::pause();
    let error = connect(2).await.unwrap_err();
    tokio::time::resume();
    assert!(error.is_timeout() && !error.to_string().contains("before that"), "{error}");
    end(system).await;
}

#[tokio::test]
async fn tol_02_what_else_is_in_its_place_is_no_server() {
    let place = Place::new();
    let garbage = |path: &Path| fs::write(path, "no such server\n").unwrap();
    let fifo = |path: &Path| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
    };
    let link = |path: &Path| symlink(place.system().join("nowhere"), path).unwrap();
    let making: [&dyn Fn(&Path); 3] = [&garbage, &fifo, &link];
    for make in making {
        make(&place.file());
        let (ok, said) = place.ps(place.pmix(), &["--system"]).await;
        assert!(!ok && said.contains("pmix.sys."), "{said}");
        // others do without it
        let session = place.runs(place.pmixrun(), &[]).await;
        let (ok, said) = place.ps(place.pmix(), &[]).await;
        assert!(ok && said.contains(&job_of(&session)), "{said}");
        session.signal(Signal::INT);
        session.end().await;
        let system = place.runs(place.pmixrun(), &["--system-server"]).await;
        system.signal(Signal::INT);
        system.end().await;
        assert!(fs::symlink_metadata(place.file()).is_err());
    }
}
