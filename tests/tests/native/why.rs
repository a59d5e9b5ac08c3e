//! Why a job over two nodes hangs, for programs of both kinds: a tool is told who is missing, and what that one does.

use std::time::{Duration, Instant};

use pmix_client::types::why::{Activity, LOOKS, ProcLook, WAITS, Wait};
use pmix_client::types::{Pid, ProcId, Query};
use pmix_client::{Rank, keys};
use pmix_tests::{Peer, Running, pid_of, pmixrun, rank_program, within};
use pmix_tool::Tool;
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

/// Four ranks over two nodes. All but the last are in a fence.
struct Hanging {
    dir: TempDir,
    run: Running,
    tool: Tool,
    wait: Wait,
}

impl Hanging {
    /// Each rank runs the script.
    async fn start(dir: TempDir, script: &str, said_before: &str) -> Self {
        let mut run = Running::start(pmixrun(dir.path(), &["--vnodes", "2", "-n", "4", "sh", "-c", script]));
        run.line_with(said_before).await;
        let tool = within(Tool::builder().session_root(dir.path()).connect()).await.unwrap();
        let wait = within(async {
            loop {
                if let [wait] = &waits(&tool).await[..]
                    && wait.arrived.len() == 3
                {
                    break wait.clone();
                }
            }
        })
        .await;
        Self { dir, run, tool, wait }
    }

    /// The process that is missing, and all looks at it.
    async fn names_the_last(&self) -> ProcLook {
        assert_eq!((&*self.wait.operation, self.wait.expected.len()), ("fence", 4), "{:?}", self.wait);
        let missing: Vec<ProcId> = self.wait.missing.procs().collect();
        let [last] = &missing[..] else { panic!("{missing:?}") };
        assert_eq!(last.rank, Rank::from_raw(3));
        let query = || Query::new(&LOOKS).qualifier(&keys::PROCID, last.clone());
        // the others may be in the fence before its server is told that it has started
        let look = within(async {
            loop {
                let asked = Instant::now();
                let results = self.tool.query([query()]).await.unwrap();
                assert!(asked.elapsed() < Duration::from_secs(1));
                let looks = ProcLook::read_all(results.get_value(LOOKS).unwrap());
                assert!(looks.len() < 2, "{looks:?}");
                if let Some(look) = looks.into_iter().next() {
                    break look;
                }
            }
        })
        .await;
        assert_eq!((&look.proc, look.pid), (last, Pid(pid_of(self.dir.path(), 3))));
        assert!(look.node.ends_with("-v1"), "{}", look.node);
        look
    }

    /// The first look at the last that shows this.
    async fn until(&self, is_so: impl Fn(&ProcLook) -> bool) -> ProcLook {
        within(async {
            loop {
                let look = self.names_the_last().await;
                if is_so(&look) {
                    break look;
                }
            }
        })
        .await
    }

    fn signal_the_last(&self, signal: Signal) {
        kill_process(rustix::process::Pid::from_raw(pid_of(self.dir.path(), 3)).unwrap(), signal).unwrap();
    }

    async fn end(self) {
        drop(self.tool);
        self.run.signal(Signal::TERM);
        let (status, out, err) = self.run.end().await;
        assert_eq!(status.code(), Some(143), "{out}{err}");
    }
}

async fn waits(tool: &Tool) -> Vec<Wait> {
    let asked = Instant::now();
    let results = tool.query([Query::new(&WAITS)]).await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(1));
    Wait::read_all(results.get_value(WAITS).unwrap())
}

#[tokio::test]
async fn a_rank_that_sleeps_or_is_stopped_on_another_node_is_named() {
    let script = format!("exec {} fence-without 3", rank_program().display());
    let job = Hanging::start(tempfile::tempdir().unwrap(), &script, "fencing").await;
    let sleeps = job.until(|look| look.activity == Activity::Sleeps).await;
    assert_eq!(sleeps.syscall.as_deref(), Some("epoll_wait"), "{sleeps:?}");
    job.signal_the_last(Signal::STOP);
    job.until(|look| look.activity == Activity::Stopped).await;
    job.signal_the_last(Signal::CONT);
    job.end().await;
}

#[tokio::test]
async fn a_rank_that_spins_before_it_connects_is_named() {
    let rank = rank_program();
    let script = format!("[ $PMIX_RANK = 3 ] && while :; do :; done; exec {} fence", rank.display());
    let job = Hanging::start(tempfile::tempdir().unwrap(), &script, "fencing").await;
    let before = job.names_the_last().await;
    let spins = job.until(|look| look.cpu_time > before.cpu_time).await;
    assert_eq!((spins.activity, spins.syscall), (Activity::Runs, None));
    job.end().await;
}

async fn a_c_client_is_named(library: Peer) {
    let Some(program) = library.program("pmix_peers") else { return };
    let dir = tempfile::tempdir().unwrap();
    let place = tempfile::tempdir().unwrap();
    let pipe = place.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (program, pipe) = (program.display(), pipe.display());
    let script = format!("[ $PMIX_RANK = 3 ] && exec {program} {pipe}; exec {program}");
    let job = Hanging::start(dir, &script, "connected to its server").await;
    // the C library has threads of its own: this is the one of the program
    let opens = |look: &ProcLook| look.syscall.as_deref().is_some_and(|call| call.starts_with("open"));
    let sleeps = job.until(|look| look.threads > 1 && opens(look)).await;
    assert_eq!(sleeps.activity, Activity::Sleeps);
    assert!(sleeps.rss > 1_000_000, "{sleeps:?}");
    job.end().await;
}

#[tokio::test]
async fn a_c_client_that_waits_for_a_pipe_is_named() {
    a_c_client_is_named(Peer::Libpmix).await;
}

#[tokio::test]
async fn a_client_of_libpmix_5_that_waits_for_a_pipe_is_named() {
    a_c_client_is_named(Peer::Libpmix5).await;
}
