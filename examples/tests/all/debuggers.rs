//! Runs the debuggers among the examples beside `pmixrun`, as a user would.

use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_test_wait::within;
use pmix_tests::{Peer, Running, on_path, pmixrun, processes_of};
use pmix_tool::types::{App, DataArray};
use pmix_tool::{Directives, Info, ProcId, Status, Tool, keys};

/// An example that finds servers in this directory.
fn example(name: &str, dir: &Path) -> Command {
    let mut command = crate::example(name, dir);
    command.env("PMIX_SERVER_TMPDIR", dir);
    command
}

/// A job that runs until its input ends, on as many simulated nodes.
async fn job(dir: &Path, vnodes: &str) -> Running {
    let job = ["--vnodes", vnodes, "-n", "2", "sh", "-c", "echo here; read line; exec cat"];
    let mut job = Running::start_with_input(pmixrun(dir, &[&["--stdin", "all"], &job[..]].concat()));
    for _ in 0..2 {
        job.line_with("here").await;
    }
    job
}

/// What a debugger prints when all goes well.
async fn printed(debugger: Command) -> Vec<String> {
    let (status, out, err) = Running::start(debugger).end().await;
    assert!(status.success(), "{status} {out}{err}");
    out.lines().map(str::to_owned).collect()
}

/// What gdb has seen in each rank; a function that must be among it.
fn seen(lines: &[String], ranks: usize, function: &str) {
    let mut seen: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("rank ") && line.contains(": ") && !line.contains(" of "))
        .collect();
    seen.sort();
    assert_eq!(seen.len(), ranks, "{lines:?}");
    let has_gdb = on_path("gdb", "apt-get install gdb").is_some();
    for (rank, line) in seen.into_iter().enumerate() {
        assert!(line.starts_with(&format!("rank {rank}: ")), "{lines:?}");
        assert!(line.contains(if has_gdb { function } else { "gdb is not installed" }), "{line}");
    }
}

/// Launches this program stopped in init, looks at it, lets it run to its end.
async fn launches(program: PathBuf, ranks: usize, vnodes: &str, function: &str) {
    let dir = tempfile::tempdir().unwrap();
    let holder = job(dir.path(), vnodes).await;
    let mut debugger = example("debugger_launch", dir.path());
    // the suite of MPI is told how many it has
    debugger.arg(ranks.to_string()).arg(program).arg(ranks.to_string());
    let lines = printed(debugger).await;
    assert!(lines[0].ends_with(&format!(": {ranks} processes wait in init")), "{lines:?}");
    let rows = lines.iter().filter(|line| line.contains(" is process ")).count();
    assert_eq!(rows, ranks, "{lines:?}");
    seen(&lines, ranks, function);
    assert!(lines.last().unwrap().ends_with(": released, and ended with SUCCESS"), "{lines:?}");
    let (status, out, err) = holder.end().await;
    assert!(status.success(), "{status} {out}{err}");
    assert_eq!(processes_of(dir.path()), []);
}

#[tokio::test]
async fn dbg_01_ini_09_debugger_launch_looks_at_processes_that_wait_in_init() {
    let hello = PathBuf::from(example("hello", Path::new("/")).get_program());
    launches(hello, 3, "2", "epoll_wait").await;
}

#[tokio::test]
async fn dbg_01_ini_09_debugger_launch_stops_and_releases_eight_ranks_of_an_open_mpi_program() {
    for peer in [Peer::OpenMpi, Peer::OpenMpi5] {
        if let Some(program) = peer.program("mpi_suite") {
            launches(program, 8, "1", "PMIx_Init").await;
        }
    }
}

#[tokio::test]
async fn dbg_01_debugger_attach_looks_at_a_job_that_runs_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let job = job(dir.path(), "2").await;
    let lines = printed(example("debugger_attach", dir.path())).await;
    let rows: Vec<_> = lines.iter().filter(|line| line.contains(" is process ")).collect();
    assert_eq!(rows.len(), 2, "{lines:?}");
    assert!(rows.iter().all(|row| row.contains(", RUNNING: ") && row.ends_with("/sh")), "{lines:?}");
    seen(&lines, 2, "read");
    let (status, out, err) = job.end().await;
    assert!(status.success(), "{status} {out}{err}");

    let mut nobody = example("debugger_attach", dir.path());
    nobody.arg("no-such-job");
    let (status, out, err) = Running::start(nobody).end().await;
    assert!(!status.success() && out.is_empty() && err.contains("no PMIx server"), "{out}{err}");
}

#[tokio::test]
async fn tol_04_dbg_01_debugger_indirect_finds_the_launcher_that_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let launcher = pmixrun(dir.path(), &["--stop-in-init", "-n", "3"]);
    let mut debugger = example("debugger_indirect", dir.path());
    debugger
        .arg(launcher.get_program())
        .args(launcher.get_args())
        .arg(example("hello", dir.path()).get_program());
    let lines = printed(debugger).await;
    assert!(lines[0].ends_with(": 3 processes wait in init"), "{lines:?}");
    seen(&lines, 3, "epoll_wait");
    // the ranks share the debugger's standard output
    assert!(lines.iter().any(|line| line.ends_with(": released")), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.contains(" of 3 on ")).count(), 3, "{lines:?}");
    assert_eq!(lines.last().unwrap(), "the launcher has ended with exit status: 0");
    assert_eq!(processes_of(dir.path()), []);
    assert_eq!(dir.path().read_dir().unwrap().count(), 0, "the file has gone with the launcher");

    let mut debugger = example("debugger_indirect", dir.path());
    debugger.args(["false", "--stop-in-init"]);
    let (status, out, err) = Running::start(debugger).end().await;
    assert!(!status.success() && out.is_empty(), "{out}{err}");
    assert!(err.contains("the launcher has ended with exit status: 1"), "{err}");
}

#[test]
fn tol_04_a_launcher_that_cannot_say_where_it_is_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut launcher = pmixrun(dir.path(), &["true"]);
    launcher.env("PMIX_LAUNCHER_RNDZ_FILE", dir.path());
    let (code, out, err) = pmix_tests::run(launcher);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(
        err.contains(
            "cannot write the copy of the rendezvous file: something that is not a regular file is there"
        ),
        "{err}"
    );
    assert_eq!(dir.path().read_dir().unwrap().count(), 0);
}

/// The launcher among the examples, with these arguments.
fn generic_launcher(dir: &Path, args: &[&str]) -> Command {
    let mut launcher = example("generic_launcher", dir);
    launcher.args(args);
    launcher
}

#[tokio::test]
async fn iof_04_iof_10_generic_launcher_passes_input_and_output_and_ends_as_its_job_does() {
    let dir = tempfile::tempdir().unwrap();
    let holder = job(dir.path(), "1").await;
    let hello = PathBuf::from(example("hello", Path::new("/")).get_program());
    let lines = printed(generic_launcher(dir.path(), &["3", hello.to_str().unwrap()])).await;
    assert_eq!(lines.iter().filter(|line| line.contains(" of 3 on ")).count(), 3, "{lines:?}");
    // jobs that are over at once lose nothing
    for _ in 0..10 {
        assert_eq!(printed(generic_launcher(dir.path(), &["1", "echo", "at once"])).await, ["at once"]);
    }

    let script = "read line; echo \"$line\"; echo why >&2; exit 3";
    let launcher = generic_launcher(dir.path(), &["1", "sh", "-c", script]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "echo hello | \"$0\" \"$@\""]).arg(launcher.get_program()).args(launcher.get_args());
    shell.env("PMIX_SERVER_TMPDIR", dir.path()).env("TMPDIR", dir.path());
    let (status, out, err) = Running::start(shell).end().await;
    assert_eq!((status.code(), out.as_str()), (Some(1), "hello\n"), "{err}");
    assert!(err.contains("why\n") && err.contains("the job has ended with ERR_JOB_NON_ZERO_TERM"), "{err}");

    let (status, out, err) =
        Running::start(generic_launcher(dir.path(), &["1", "no-such-program"])).end().await;
    assert!(!status.success() && out.is_empty() && err.contains("no-such-program"), "{out}{err}");
    let (status, out, err) = holder.end().await;
    assert!(status.success(), "{status} {out}{err}");
    assert_eq!(processes_of(dir.path()), []);
}

#[tokio::test]
async fn tol_04_dbg_01_a_launcher_that_a_tool_spawns_carries_out_its_directives() {
    let dir = tempfile::tempdir().unwrap();
    let holder = job(dir.path(), "1").await;
    let tool = within(Tool::builder().session_root(dir.path()).connect()).await.unwrap();
    let mut ready = within(async { tool.client().events([Status::READY_FOR_DEBUG]).await }).await.unwrap();
    let hello = PathBuf::from(example("hello", Path::new("/")).get_program());
    let app = App::new(example("generic_launcher", dir.path()).get_program().to_str().unwrap(), 1)
        .args(["2", hello.to_str().unwrap()]);
    let stop = Info::required(&keys::DEBUG_STOP_IN_INIT, true);
    let directives = Directives::new()
        .require(&keys::SPAWN_TOOL, true)
        .require(&keys::LAUNCH_DIRECTIVES, DataArray::Info(vec![stop]));
    let spawn = tool.client().spawn([app]).forward_output().directives(directives);
    let launcher = within(async { spawn.await }).await.unwrap();
    let mut output = within(tool.pull_output([ProcId::wildcard(launcher.clone())])).await.unwrap();
    let mut waiting = Vec::new();
    while waiting.len() < 2 {
        let event = within(ready.recv()).await.unwrap().unwrap();
        assert!(event.source.nspace.as_str().starts_with(launcher.as_str()), "{event:?}");
        waiting.push(event.source);
    }
    let release = tool.client().notify(Status::DEBUGGER_RELEASE).custom_range(waiting).non_default();
    within(async { release.await }).await.unwrap();
    let mut text = Vec::new();
    loop {
        let chunk = within(output.recv()).await.unwrap().unwrap();
        if chunk.source.rank.is_wildcard() {
            break;
        }
        text.extend_from_slice(&chunk.data);
    }
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains(" of 2 on ")).count(), 2, "{text}");
    within(tool.finalize()).await.unwrap();
    let (status, out, err) = holder.end().await;
    assert!(status.success(), "{status} {out}{err}");
}
