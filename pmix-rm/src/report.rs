//! The report of `--json`.

use std::time::Duration;

use pmix_host::{JobOutcome, ProcExit};
use pmix_server::ServerStats;
use pmix_types::{Nspace, ProcInfo, escaped_json, without_os_codes};
use serde::Serialize;

use crate::exit_code::NOT_STARTED;

/// The report on a job. Fields that do not apply are omitted.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The form of the report: a field that is gone or means something else changes it.
    schema: u32,
    nspace: String,
    /// Number of processes requested.
    ranks: usize,
    ok: bool,
    exit_code: i32,
    seconds: f64,
    /// The reason for ending the job early: `SIGINT`, `SIGTERM`, `timeout` or `output`.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_by: Option<&'static str>,
    /// The reason why it could not be started.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_failure: Option<Failure>,
    procs: Vec<Proc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<Server>,
}

#[derive(Debug, Serialize)]
struct Failure {
    rank: u32,
    exit: Exit,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Exit {
    Code(i32),
    Signal(i32),
}

#[derive(Debug, Serialize)]
struct Proc {
    rank: u32,
    node: Option<String>,
    executable: Option<String>,
    pid: i32,
    exit_code: i32,
    state: String,
}

#[derive(Debug, Serialize)]
struct Server {
    connections: u64,
    refused: u64,
    fences: u64,
    gets: u64,
    commits: u64,
    bytes_committed: u64,
    upcalls: u64,
}

impl Report {
    /// The report on a job that has not started.
    pub(crate) fn new(nspace: &Nspace, ranks: usize) -> Self {
        Self {
            schema: 1,
            nspace: nspace.to_string(),
            ranks,
            ok: false,
            exit_code: NOT_STARTED,
            seconds: 0.0,
            ended_by: None,
            error: None,
            first_failure: None,
            procs: Vec::new(),
            server: None,
        }
    }

    /// Notes that it could not be started; `exit_code` is that of `pmixrun`.
    pub(crate) fn error(&mut self, error: &str, exit_code: i32, ended_by: Option<&'static str>) {
        self.error = Some(without_os_codes(error).into_owned());
        self.exit_code = exit_code;
        self.ended_by = ended_by;
    }

    /// The job has another name.
    pub(crate) fn names(&mut self, nspace: &Nspace) {
        nspace.as_str().clone_into(&mut self.nspace);
    }

    /// Notes the end of the job; `exit_code` is that of `pmixrun`.
    pub(crate) fn ended(&mut self, outcome: &JobOutcome, exit_code: i32, ended_by: Option<&'static str>) {
        self.exit_code = exit_code;
        self.ok = exit_code == 0;
        self.ended_by = ended_by;
        self.first_failure = outcome.first_failure.as_ref().map(|(proc, exit)| Failure {
            rank: proc.rank.to_raw(),
            exit: match *exit {
                ProcExit::Code(code) => Exit::Code(code),
                ProcExit::Signal(signal) => Exit::Signal(signal),
            },
        });
        self.procs = outcome.procs.iter().map(Proc::new).collect();
    }

    pub(crate) fn duration(&mut self, duration: Duration) {
        self.seconds = duration.as_secs_f64();
    }

    /// Counters of the servers of all nodes.
    pub(crate) fn servers(&mut self, stats: &[ServerStats]) {
        let sum = |counter: fn(&ServerStats) -> u64| stats.iter().map(counter).sum();
        self.server = Some(Server {
            connections: sum(|stats| stats.connections),
            refused: sum(|stats| stats.refused),
            fences: sum(|stats| stats.fences),
            gets: sum(|stats| stats.gets),
            commits: sum(|stats| stats.commits),
            bytes_committed: sum(|stats| stats.bytes_committed),
            upcalls: sum(|stats| stats.upcalls),
        });
    }

    /// One line of JSON.
    pub(crate) fn to_line(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_else(|error| {
            tracing::error!(%error, "report");
            String::from("{}")
        });
        escaped_json(&json)
    }
}

impl Proc {
    fn new(row: &ProcInfo) -> Self {
        Self {
            rank: row.proc.rank.to_raw(),
            node: row.hostname.clone(),
            executable: row.executable.clone(),
            pid: row.pid.0,
            exit_code: row.exit_code,
            state: row.state.to_string(),
        }
    }
}
