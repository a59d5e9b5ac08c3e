//! `pmix stack` at a job of Open MPI that waits in a barrier for rank 3.

use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_test_wait::block_until;
use pmix_tests::{Peer, Running, on_path, pmixrun, processes_of, program, run};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

const RANKS: usize = 16;

/// What rank 3 does, in which functions that is, and whether it is stopped then.
const DOES: [(&str, &str, bool); 3] =
    [("sleep", "usleep", false), ("stop", "raise", true), ("spin", "compute", false)];

/// A job of 16 without rank 3.
struct Late {
    job: Running,
    dir: TempDir,
}

impl Late {
    async fn start(program: &Path, how: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut command = pmixrun(dir.path(), &["-n", &RANKS.to_string()]);
        command.arg(program).arg(how);
        let mut job = Running::start(command);
        for _ in 0..RANKS {
            job.line_with("is here").await;
        }
        Self { job, dir }
    }

    fn stack(&self, args: &[&str]) -> (Option<i32>, String, String) {
        self.pmix(&[&["stack"], args].concat())
    }

    fn pmix(&self, args: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(program("pmix"));
        command.args(args);
        command.env("PMIX_SERVER_TMPDIR", self.dir.path()).env_remove("RUST_LOG");
        run(command)
    }

    fn json(&self, args: &[&str]) -> Value {
        let (code, out, err) = self.stack(&[&["--json"], args].concat());
        assert_eq!(code, Some(0), "{out}{err}");
        let mut report: Value = serde_json::from_str(&out).unwrap();
        report["jobs"][0].take()
    }

    /// Looks until the others have come to the barrier.
    fn until_they_wait(&self, ranks: &str, args: &[&str]) -> Value {
        block_until(format!("ranks {ranks} wait for rank 3"), || {
            let job = self.json(args);
            let (most, late) = (&job["places"][0], &job["places"][1]);
            // a process is stopped for as long as it takes to copy its stack, and not while that is read
            let stopped =
                job["procs"].as_array().unwrap().iter().filter_map(|proc| proc["stopped_us"].as_u64());
            let is_soon = stopped.min().is_some_and(|least| least < 100_000);
            let is_so = most["ranks"] == ranks && late["ranks"] == "3" && is_soon;
            if is_so { Ok(job) } else { Err((job["answer"].clone(), job["procs"].clone())) }
        })
    }

    /// `pmix why` says that nobody waits in PMIx, what each rank does, and who knows more.
    fn why_points_to_stack(&self, state: &str) {
        let (code, out, err) = self.pmix(&["why", "--json"]);
        assert_eq!(code, Some(0), "{out}{err}");
        let report: Value = serde_json::from_str(&out).unwrap();
        let server = &report["servers"][0];
        assert_eq!(server["waits"].as_array().unwrap().len(), 0, "{server:#}");
        let job = server["jobs"][0].as_str().unwrap();
        let [sentence] = &server["sentences"].as_array().unwrap()[..] else { panic!("{server:#}") };
        let sentence = sentence.as_str().unwrap();
        let starts = format!(
            "{job}: no process is waiting inside PMIx (MPI collectives such as MPI_Barrier do not show up here). Of its 16 "
        );
        assert!(sentence.starts_with(&starts), "{sentence}");
        assert!(sentence.ends_with(&format!(". `pmix stack {job}` shows where.")), "{sentence}");
        let procs = server["procs"].as_array().unwrap();
        assert_eq!(procs.len(), RANKS, "{server:#}");
        for (rank, proc) in procs.iter().enumerate() {
            assert_eq!((&proc["proc"]["rank"], &proc["pmix"]), (&rank.into(), &"connected".into()), "{proc}");
            assert!(proc["cpu_time"].as_f64().unwrap() > 0.0 && proc["cpu_share"].is_f64(), "{proc}");
        }
        assert_eq!(procs[3]["state"], state, "{}", procs[3]);

        let (code, out, err) = self.pmix(&["why"]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        let said = out.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        assert!(said.starts_with(&starts) && said.contains("`pmix stack "), "{out}");
        let pid = procs[3]["pid"].to_string();
        let row =
            out.lines().find(|line| line.split_whitespace().any(|word| word == pid) && line.contains(state));
        assert!(row.is_some(), "{out}");
    }

    async fn end(self) {
        self.job.signal(Signal::TERM);
        self.job.end().await;
        assert_eq!(processes_of(self.dir.path()), []);
    }
}

/// Both programs, or `None` and a line on standard error.
fn late(peer: Peer, debugger: &str, how_to_get: &str) -> Option<PathBuf> {
    let late = peer.program("mpi_late")?;
    on_path(debugger, how_to_get).map(|_| late)
}

/// What the report says of ranks in the barrier, and of rank 3.
fn rank_3_is_elsewhere(report: &Value, others: u32, (function, is_stopped): (&str, bool), debugger: &str) {
    let (most, late) = (&report["places"][0], &report["places"][1]);
    assert_eq!((&most["function"], &most["caller"]), (&"MPI_Barrier".into(), &"main".into()), "{most}");
    assert_eq!((&most["count"], &most["stopped"]), (&others.into(), &"".into()), "{most}");
    assert_eq!((&late["function"], &late["count"]), (&function.into(), &1.into()), "{late}");
    assert_eq!(late["stopped"], if is_stopped { "3" } else { "" }, "{late}");
    assert_eq!(report["places"].as_array().unwrap().len(), 2, "{report:#}");
    for proc in report["procs"].as_array().unwrap() {
        assert_eq!((&proc["outcome"], &proc["by"]), (&"stack".into(), &debugger.into()), "{proc}");
        assert_eq!(proc["is_stopped"], is_stopped && proc["rank"] == 3, "{proc}");
    }
}

async fn eu_stack_names_rank_3(peer: Peer) {
    let Some(late) = late(peer, "eu-stack", "apt-get install elfutils") else { return };
    for (how, function, is_stopped) in DOES {
        let job = Late::start(&late, how).await;
        let report = job.until_they_wait("0-2,4-15", &[]);
        rank_3_is_elsewhere(&report, 15, (function, is_stopped), "eu-stack");

        let state = match how {
            "sleep" => "sleeps",
            "stop" => "stopped",
            _ => "runs",
        };
        job.why_points_to_stack(state);

        let (code, out, err) = job.stack(&[]);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        let sentence = out.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        assert!(
            sentence.starts_with("15 of 16 ranks are in MPI_Barrier, called from main (mpi_late.c:"),
            "{out}"
        );
        let is = if is_stopped { "is stopped in" } else { "is in" };
        assert!(sentence.contains(&format!("; rank 3 {is} {function}")), "{out}");
        assert!(sentence.rsplit(';').next().unwrap().contains(", called from "), "{out}");
        let has = |function: &str, ranks: &str| {
            out.lines().any(|line| line.contains(function) && line.ends_with(&format!("  {ranks}")))
        };
        assert!(has("compute [mpi_late.c:", "3 (1)") && has("MPI_Barrier", "0-2,4-15 (15)"), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");

        // the library has threads of its own
        let some = job.json(&["--threads", "--ranks", "2-3"]);
        assert_eq!(some["procs"].as_array().unwrap().len(), 2, "{some:#}");
        let roots = some["tree"].as_array().unwrap().iter();
        assert!(roots.map(|node| node["threads"].as_u64().unwrap()).sum::<u64>() > 2, "{some:#}");
        job.end().await;
    }
}

/// It takes a second for each rank, so only some are looked at.
async fn gdb_names_rank_3(peer: Peer) {
    let Some(late) = late(peer, "gdb", "apt-get install gdb") else { return };
    let (how, function, is_stopped) = DOES[1];
    let job = Late::start(&late, how).await;
    let report = job.until_they_wait("2,4", &["--with", "gdb", "--ranks", "2-4"]);
    rank_3_is_elsewhere(&report, 2, (function, is_stopped), "gdb");
    job.end().await;
}

#[tokio::test]
async fn eu_stack_names_the_rank_that_open_mpi_waits_for() {
    eu_stack_names_rank_3(Peer::OpenMpi).await;
}

#[tokio::test]
async fn eu_stack_names_the_rank_that_open_mpi_5_waits_for() {
    eu_stack_names_rank_3(Peer::OpenMpi5).await;
}

#[tokio::test]
async fn gdb_names_the_rank_that_open_mpi_waits_for() {
    gdb_names_rank_3(Peer::OpenMpi).await;
}

#[tokio::test]
async fn gdb_names_the_rank_that_open_mpi_5_waits_for() {
    gdb_names_rank_3(Peer::OpenMpi5).await;
}
