//! Jobs over two nodes of which one rank does not come, and what tools are told of it.

use std::process::Command;

use pmix_client::types::why::{LOOKS, ProcLook, WAITS, Wait};
use pmix_client::types::{Pid, ProcId, Query};
use pmix_client::{Rank, keys};
use pmix_test_wait::{until_async, within};
use pmix_tool::Tool;
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

use crate::{Running, pid_of, pmixrun};

/// Four ranks over two nodes. All but the last are in a fence.
#[derive(Debug)]
pub struct HangOnTwoNodes {
    dir: TempDir,
    run: Running,
    tool: Tool,
    wait: Wait,
}

impl HangOnTwoNodes {
    /// Each rank runs the script. A tool attaches once one of them has said this.
    ///
    /// # Panics
    /// If the ranks do not come to the fence.
    pub async fn start(script: &str, said_before: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut run = Running::start(pmixrun(dir.path(), &["--vnodes", "2", "-n", "4", "sh", "-c", script]));
        run.line_with(said_before).await;
        let tool = within(Tool::builder().session_root(dir.path()).connect()).await.unwrap();
        // nodes that have not answered in time would be among the waits
        let wait = until_async("three ranks are in the fence", async || {
            let results = tool.query([Query::new(&WAITS)]).await.unwrap();
            match &*Wait::read_all(results.get_value(WAITS).unwrap()) {
                [wait] if wait.arrived.len() == 3 => Ok(wait.clone()),
                others => Err(others.to_vec()),
            }
        });
        let wait = wait.await;
        Self { dir, run, tool, wait }
    }

    /// A look at the process that is missing, by the tool; the other node answers it although the process does not.
    ///
    /// # Panics
    /// If another one is missing, or others are looked at.
    pub async fn names_the_last(&self) -> ProcLook {
        assert_eq!((&*self.wait.operation, self.wait.expected.len()), ("fence", 4), "{:?}", self.wait);
        let missing: Vec<ProcId> = self.wait.missing.procs().collect();
        let [last] = &missing[..] else { panic!("{missing:?}") };
        assert_eq!(last.rank, Rank::from_raw(3));
        let query = || Query::new(&LOOKS).qualifier(&keys::PROCID, last.clone());
        // the others may be in the fence before its server is told that it has started
        let look = until_async("the last rank is looked at", async || {
            let results = self.tool.query([query()]).await.unwrap();
            let looks = ProcLook::read_all(results.get_value(LOOKS).unwrap());
            assert!(looks.len() < 2, "{looks:?}");
            looks.into_iter().next()
        });
        let look = look.await;
        assert_eq!((&look.proc, look.pid), (last, Pid(self.pid_of_the_last())));
        assert!(look.node.ends_with("-v1"), "{}", look.node);
        look
    }

    /// The first look at the last that shows this.
    pub async fn until(&self, what: &str, is_so: impl Fn(&ProcLook) -> bool) -> ProcLook {
        until_async(what, async || {
            let look = self.names_the_last().await;
            if is_so(&look) { Ok(look) } else { Err(look) }
        })
        .await
    }

    /// Sends a signal to the process that is missing.
    pub fn signal_the_last(&self, signal: Signal) {
        kill_process(rustix::process::Pid::from_raw(self.pid_of_the_last()).unwrap(), signal).unwrap();
    }

    fn pid_of_the_last(&self) -> i32 {
        pid_of(self.dir.path(), 3)
    }

    /// Ends the job.
    ///
    /// # Panics
    /// If it does not end as it is told.
    pub async fn end(self) {
        drop(self.tool);
        self.run.signal(Signal::TERM);
        let (status, out, err) = self.run.end().await;
        assert_eq!(status.code(), Some(143), "{out}{err}");
    }
}

/// Whether the kernel tells in which system call a child of this process sleeps: it may be built without that, or told to keep
/// it to itself.
pub fn system_calls_are_told() -> bool {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let is_told = std::fs::read_to_string(format!("/proc/{}/syscall", child.id())).is_ok();
    child.kill().unwrap();
    child.wait().unwrap();
    is_told
}
