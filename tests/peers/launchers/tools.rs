//! Our tool at servers of others.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use pmix_client::{Nspace, ProcId, Rank, Status};
use pmix_test_wait::{LIMIT, until, until_async};
use pmix_tests::{Dvm, Hosts, Launches, on_path, program, run, within};
use pmix_tool::{Error, Tool, ToolBuilder, discover_in};
use pmix_types::{DataRange, Event, ProcInfo, ProcState};
use rustix::process::{Pid, Signal, kill_process};

/// Ranks of each job.
const RANKS: usize = 2;
/// How long a job may take, in seconds.
const LONG: u32 = 600;

/// A job whose ranks write lines until it is told to end.
struct Job {
    launcher: Child,
    /// Whose existence ends it.
    end: PathBuf,
}

impl Job {
    fn start(launcher: Launches<'_>, dir: &Path) -> Option<Self> {
        let end = dir.join("end");
        let mut command = launcher.command(dir, RANKS, LONG)?;
        let script = format!("while [ ! -e '{}' ]; do echo tick; sleep 0.1; done", end.display());
        command.args(["sh", "-c", &script]).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Self { launcher: command.spawn().unwrap(), end })
    }

    fn end(&self) {
        fs::write(&self.end, "").unwrap();
    }

    /// Ends it, and says with which code its launcher has ended.
    fn code(&mut self) -> Option<i32> {
        self.end();
        self.launcher.wait().unwrap().code()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = fs::write(&self.end, "");
        if let (Ok(None), Some(pid)) = (self.launcher.try_wait(), Pid::from_raw(self.launcher.id() as i32)) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.launcher.wait();
    }
}

fn at(dir: &Path) -> ToolBuilder {
    Tool::builder().session_root(dir).timeout(LIMIT)
}

/// Whether the process of that number is one of the job. A server tells of it before it has become the program.
fn is_begun(row: &ProcInfo) -> bool {
    let words = fs::read_to_string(format!("/proc/{}/cmdline", row.pid.0));
    row.state == ProcState::RUNNING && words.is_ok_and(|words| words.contains("tick"))
}

/// Waits until so many servers of these are there.
async fn servers(dir: &Path, count: usize) {
    until(format!("{count} servers are there"), || {
        let found = discover_in(dir).unwrap();
        let are_there = found.iter().filter(|server| server.is_alive).count() >= count;
        if are_there { Ok(()) } else { Err(found) }
    })
    .await;
}

/// The job of the shell and its processes, once they run. The tools of a server are jobs, too.
async fn job_at(tool: &Tool) -> (Nspace, Vec<ProcInfo>) {
    until_async("a job starts", async || {
        let mut seen = Vec::new();
        for nspace in tool.namespaces().await.unwrap() {
            let rows = tool.proc_table(&nspace).await.unwrap_or_default();
            let is_shell =
                |row: &ProcInfo| row.executable.as_deref().is_some_and(|program| program.ends_with("/sh"));
            if rows.len() == RANKS && rows.iter().all(is_shell) && rows.iter().all(is_begun) {
                return Ok((nspace, rows));
            }
            seen.push((nspace, rows));
        }
        Err(seen)
    })
    .await
}

/// All that the library can do at the only server whose files are there.
async fn attaches(dir: &Path) {
    servers(dir, 1).await;
    let found = discover_in(dir).unwrap().remove(0);
    assert!(found.is_of_openpmix() && found.version.as_deref().unwrap().starts_with("5."), "{found:?}");
    let tool = at(dir).connect().await.unwrap();
    let (job, rows) = job_at(&tool).await;
    assert_eq!(rows.iter().map(|row| row.proc.rank).collect::<Vec<_>>(), [0, 1].map(Rank::from_raw));
    assert_eq!(tool.local_proc_table(&job).await.unwrap(), rows);

    let file = found.dir.join(format!("pmix.{}.tool", found.host.as_deref().unwrap()));
    let ways = [
        at(dir).pid(found.pid),
        at(dir).nspace(found.nspace().clone()),
        at(dir).uri(&found.uri),
        at(dir).rendezvous_file(file),
        at(dir).server(found.clone()),
    ];
    for way in ways {
        let other = way.clone().connect().await.unwrap();
        assert_ne!(other.proc_id(), tool.proc_id(), "{way:?}");
        let server = other.server().unwrap();
        assert_eq!((server.proc_id(), server.is_of_openpmix()), (&found.proc, true), "{way:?}");
        assert!(other.namespaces().await.unwrap().contains(&job), "{way:?}");
        other.finalize().await.unwrap();
    }

    let mut output = tool.pull_output(ProcId::wildcard(job.clone())).copy().await.unwrap();
    let chunk = within(output.recv()).await.unwrap().unwrap();
    assert_eq!((&chunk.source.nspace, &chunk.data[..5]), (&job, &b"tick\n"[..]));

    let code = Status::from_raw(77);
    let mut events = tool.client().events([code]).await.unwrap();
    let other = at(dir).connect().await.unwrap();
    other.client().notify(code).range(DataRange::SESSION).await.unwrap();
    let event: Event = within(events.recv()).await.unwrap().unwrap();
    assert_eq!((event.code, &event.source), (code, other.proc_id()));

    // what only servers of ours know
    let refused = tool.record().await.unwrap_err();
    assert!(
        matches!(&refused, Error::Unsupported(unsupported) if unsupported.server == found.proc),
        "{refused}"
    );
    let unknown = tool.proc_table("nobody").await.unwrap_err();
    assert!(unknown.is_not_found() || unknown.status() == Status::ERR_INVALID_NAMESPACE, "{unknown}");
    tool.finalize().await.unwrap();
}

fn pmix(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program("pmix"));
    command.args(args).env("TMPDIR", dir).env_remove("RUST_LOG");
    for name in ["PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR", "XDG_RUNTIME_DIR"] {
        command.env_remove(name);
    }
    command
}

/// The program at the only server; the job ends meanwhile.
async fn looks(dir: &Path, job: &Job) {
    servers(dir, 1).await;
    let tool = at(dir).connect().await.unwrap();
    let (nspace, rows) = job_at(&tool).await;
    let said = |args: &[&str]| {
        let (code, out, err) = run(pmix(dir, args));
        assert_eq!(code, Some(0), "{args:?}: {out}{err}");
        out
    };
    let table = said(&["ps", "--ranks", &nspace]);
    for row in &rows {
        let pid = row.pid.0.to_string();
        let is_it =
            |line: &str| line.starts_with(&*nspace) && line.split_whitespace().any(|word| word == pid);
        assert!(table.lines().any(is_it), "{table}");
    }
    assert!(said(&["query", "QUERY_NAMESPACES"]).contains(&*nspace));
    let refused = run(pmix(dir, &["attrs", "PMIx_Get"]));
    let named = "query of the attributes of functions: servers of OpenPMIx 5.0.11";
    assert!(refused.0 == Some(1) && refused.2.contains(named), "{refused:?}");
    assert!(said(&["attrs"]).lines().any(|line| line.starts_with("PMIx_Spawn ") && line.ends_with("host")));
    let (code, out, err) = run(pmix(dir, &["why", &nspace]));
    let server = tool.server().unwrap().proc_id().clone();
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(err.contains(&format!("server {server} does not support queries of rs.pmix.waits")), "{err}");

    let mut command = pmix(dir, &["output", "--tag", &format!("{nspace}:1")]);
    let mut follows = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follows.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), format!("[{nspace},1]<stdout>: tick"));
    drop(tool);
    job.end();
    let rest: Vec<_> = lines.map(Result::unwrap).collect();
    assert!(rest.iter().all(|line| line.ends_with("<stdout>: tick")), "{rest:?}");
    let ended = follows.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr));
}

#[tokio::test]
async fn tol_07c_a_tool_attaches_to_mpirun_of_open_mpi_5() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_job) = Job::start(Launches::Mpirun5, dir.path()) else { return };
    // after two tools, which it keeps among its jobs, mpirun has to be told to end, also with tools of the C library
    attaches(dir.path()).await;
}

#[tokio::test]
async fn tol_07c_a_tool_attaches_to_a_prte_server() {
    let Some(mut dvm) = Dvm::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(mut job) = Job::start(Launches::Dvm(&dvm), dir.path()) else { return };
    attaches(dvm.dir()).await;
    assert_eq!(job.code(), Some(0));
    assert!(dvm.is_running());
}

#[tokio::test]
async fn pmix_looks_into_a_job_of_mpirun_of_open_mpi_5() {
    let dir = tempfile::tempdir().unwrap();
    let Some(job) = Job::start(Launches::Mpirun5, dir.path()) else { return };
    looks(dir.path(), &job).await;
}

#[tokio::test]
async fn pmix_looks_into_a_job_of_a_prte_server() {
    let Some(dvm) = Dvm::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let Some(job) = Job::start(Launches::Dvm(&dvm), dir.path()) else { return };
    looks(dvm.dir(), &job).await;
}

#[tokio::test]
async fn tol_07b_servers_of_both_kinds_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_theirs) = Job::start(Launches::Mpirun5, dir.path()) else { return };
    let _ours = Job::start(Launches::Pmixrun, dir.path()).unwrap();
    servers(dir.path(), 2).await;
    let error = at(dir.path()).connect().await.unwrap_err();
    let Error::Ambiguous(ambiguous) = &error else { panic!("{error}") };
    let (theirs, ours): (Vec<_>, Vec<_>) =
        ambiguous.candidates.iter().partition(|server| server.is_of_openpmix());
    let ([theirs], [ours]) = (&*theirs, &*ours) else { panic!("{error}") };
    assert!(error.to_string().contains(&theirs.to_string()), "{error}");
    // one tool at both, under one name
    let tool = at(dir.path()).server((*ours).clone()).connect().await.unwrap();
    tool.servers().attach(at(dir.path()).server((*theirs).clone())).primary().await.unwrap();
    assert_eq!(tool.server().unwrap().proc_id(), &theirs.proc);
    let (nspace, _) = job_at(&tool).await;
    let (_, all, _) = run(pmix(dir.path(), &["ps"]));
    assert!(
        all.contains(&*nspace) && all.contains(&format!("server {}, pid {}:", ours.nspace(), ours.pid)),
        "{all}"
    );
    tool.finalize().await.unwrap();
}

#[tokio::test]
async fn tol_07c_what_a_killed_mpirun_leaves_is_the_file_of_a_dead_server() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut job) = Job::start(Launches::Mpirun5, dir.path()) else { return };
    servers(dir.path(), 1).await;
    let server = discover_in(dir.path()).unwrap().remove(0);
    job_at(&at(dir.path()).connect().await.unwrap()).await;
    kill_process(Pid::from_raw(server.pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
    job.end();
    job.launcher.wait().unwrap();
    let error = at(dir.path()).connect().await.unwrap_err();
    assert!(
        error.is_no_server() && error.to_string().contains(&format!("dead servers: {server}")),
        "{error}"
    );
}

#[tokio::test]
async fn tools_keep_away_from_mpirun_of_open_mpi_4() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut command) = Launches::Mpirun4.command(dir.path(), 1, LONG) else { return };
    let end = dir.path().join("end");
    let script = format!(
        "echo \"$PMIX_SERVER_URI41\"; while [ ! -e '{}' ]; do sleep 0.1; done; echo done",
        end.display()
    );
    command.args(["sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut job = Job { launcher: command.spawn().unwrap(), end };
    let mut lines = BufReader::new(job.launcher.stdout.take().unwrap()).lines();
    let uri = lines.next().unwrap().unwrap();
    let refused = at(dir.path()).uri(&uri).connect().await.unwrap_err();
    assert!(refused.is_not_supported() && refused.to_string().contains("crashes"), "{refused}");
    // it lives on
    assert_eq!(job.code(), Some(0));
    assert_eq!(lines.next().unwrap().unwrap(), "done");
}

#[test]
fn tools_are_turned_away_by_slurm_and_its_job_goes_on() {
    let Some(hosts) = Hosts::with_slurm(1) else { return };
    let Some(mut command) = Launches::Srun(&hosts).command(hosts.shared(), 1, LONG) else { return };
    let end = hosts.shared().join("end");
    let script = format!(
        "echo \"$PMIX_SERVER_URI41\"; echo \"$PMIX_SERVER_TMPDIR\"; while [ ! -e '{}' ]; do sleep 0.1; done; echo done",
        end.display()
    );
    command.args(["sh", "-c", &script]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut job = Job { launcher: command.spawn().unwrap(), end };
    let mut lines = BufReader::new(job.launcher.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    let (uri, dir) = (next(), next());
    let tool = |program: &Path, args: &[&str]| {
        let mut command = hosts.command(0, program);
        command.args(args).env("PMIX_SERVER_TMPDIR", &dir).env_remove("RUST_LOG");
        run(command)
    };
    let pmix = program("pmix");
    let (code, out, err) = tool(&pmix, &["ps"]);
    assert!(
        code == Some(1) && err.contains("no PMIx server of this user is running on this node"),
        "{out}{err}"
    );
    let (code, out, err) = tool(&pmix, &["ps", "--uri", &uri]);
    assert!(code == Some(1) && err.contains("it closed the connection without an answer"), "{out}{err}");
    // a tool of the C library, if it is there, fares no better
    if let Some(pps) = on_path("pps", "apt-get install libpmix-bin") {
        let (code, out, err) = tool(&pps, &["--uri", &uri]);
        assert_ne!(code, Some(0), "{out}{err}");
    }
    assert_eq!(job.code(), Some(0));
    assert_eq!(next(), "done");
}
