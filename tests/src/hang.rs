//! Jobs of which one rank does not come, and what `pmix why` says of them.

use std::path::Path;
use std::process::Command;

use pmix_test_wait::until_async;
use serde_json::Value;
use tempfile::TempDir;

use crate::{Running, pid_of, pmix, pmixrun, program, run};

/// A job under `pmixrun` that hangs: all of its ranks but one wait in a fence.
#[derive(Debug)]
pub struct Hang {
    job: Running,
    dir: TempDir,
    ranks: u32,
    missing: u32,
}

/// What the missing rank does instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Sleeps in a system call.
    Sleep,
    /// Is stopped by a signal.
    Stop,
    /// Uses a processor.
    Spin,
}

impl Instead {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sleep, Self::Stop, Self::Spin];

    /// In a word that programs understand.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Stop => "stop",
            Self::Spin => "spin",
        }
    }

    /// What `pmix why` calls it.
    const fn state(self) -> &'static str {
        match self {
            Self::Sleep => "sleeps",
            Self::Stop => "stopped",
            Self::Spin => "runs",
        }
    }

    const fn shell(self) -> &'static str {
        match self {
            Self::Sleep => "exec sleep 1000",
            Self::Stop => "kill -STOP $$",
            Self::Spin => "while :; do :; done",
        }
    }
}

impl Hang {
    /// Starts ranks of a program that knows by itself which of them does not come.
    pub fn start(ranks: u32, missing: u32, options: &[&str], program: &Path, args: &[&str]) -> Self {
        let mut words = vec![program.to_str().unwrap()];
        words.extend(args);
        Self::run(ranks, missing, options, &words)
    }

    /// Starts ranks of a program, but one of them does something else and never calls its init.
    pub fn before_init(ranks: u32, missing: u32, instead: Instead, program: &Path, args: &[&str]) -> Self {
        let act = instead.shell();
        let script = format!("if [ \"$PMIX_RANK\" = {missing} ]; then {act}; fi; exec \"$@\"");
        let mut words = vec!["sh", "-c", &script, "sh", program.to_str().unwrap()];
        words.extend(args);
        Self::run(ranks, missing, &[], &words)
    }

    fn run(ranks: u32, missing: u32, options: &[&str], words: &[&str]) -> Self {
        // built before the job waits
        program("pmix");
        let dir = tempfile::tempdir().unwrap();
        let count = ranks.to_string();
        let mut command = pmixrun(dir.path(), &[options, &["-n", &count]].concat());
        command.args(words);
        Self { job: Running::start(command), dir, ranks, missing }
    }

    /// The command `pmix` for the servers of this job alone.
    pub fn pmix(&self, args: &[&str]) -> Command {
        pmix(self.dir.path(), args)
    }

    /// The process id of the missing rank.
    pub fn pid(&self) -> i32 {
        pid_of(self.dir.path(), self.missing)
    }

    /// What `pmix why --json` says.
    async fn why(&self) -> Value {
        let command = self.pmix(&["why", "--json"]);
        let (_, out, _) = tokio::task::spawn_blocking(move || run(command)).await.unwrap();
        // nothing before there is a server
        serde_json::from_str(&out).unwrap_or_default()
    }

    /// The fence that all have entered but the missing rank, when it is so far, and that rank does this.
    async fn fence(&self, state: &str) -> Value {
        let all = self.ranks - 1;
        let look = async || {
            let report = self.why().await;
            let waits = report["servers"][0]["waits"].as_array().cloned().unwrap_or_default();
            let is_full = |wait: &Value| wait["operation"] == "fence" && count(&wait["arrived"]) == all;
            let is_so = |wait: &Value| is_full(wait) && wait["missing_procs"][0]["state"] == state;
            waits.into_iter().find(is_so).ok_or(report)
        };
        until_async(format!("all have entered the fence but one, which {state}"), look).await
    }

    /// `pmix why` names exactly the missing rank, with its node, pid and state, although that one answers nothing.
    ///
    /// # Panics
    /// If it does not.
    pub async fn is_explained(&self, instead: Instead) {
        let fence = self.fence(instead.state()).await;
        let missing = fence["missing"].as_object().unwrap();
        assert_eq!(missing.values().collect::<Vec<_>>(), [&self.missing.to_string()], "{fence}");
        let [proc] = &fence["missing_procs"].as_array().unwrap()[..] else { panic!("{fence}") };
        assert_eq!(proc["proc"]["rank"], self.missing, "{fence}");
        assert_eq!(proc["pid"], self.pid(), "{fence}");
        let node = proc["node"].as_str().unwrap();
        assert!(!node.is_empty());
        let report = self.why().await;
        let sentences = report["servers"][0]["sentences"].to_string();
        let told = format!("for rank {} on {node}, pid {}, which ", self.missing, self.pid());
        assert!(sentences.contains(&told), "{sentences}");
    }

    /// Asks the job to end.
    pub fn terminate(&self) {
        self.job.signal(rustix::process::Signal::TERM);
    }

    /// Ends the job, whatever its ranks do.
    ///
    /// # Panics
    /// If it does not end.
    pub async fn end(self) {
        self.terminate();
        self.job.end().await;
        assert_eq!(crate::processes_of(self.dir.path()), []);
    }
}

/// Number of ranks in an object of ranges.
fn count(procs: &Value) -> u32 {
    let ranges = procs.as_object().into_iter().flat_map(|procs| procs.values()).filter_map(Value::as_str);
    let ranks = ranges.map(|ranks| ranks.parse::<pmix_client::types::RankSet>().unwrap().len());
    u32::try_from(ranks.sum::<u64>()).unwrap()
}
