//! `pmix stack` at a job of Open MPI that waits in a barrier for rank 3.

use std::path::Path;
use std::process::Command;

use pmix_tests::{DEADLINE, Peer, Running, on_path, pmixrun, processes_of, program, run};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

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
        let mut command = Command::new(program("pmix-tool", "pmix"));
        run({
            command.arg("stack").args(args).env("PMIX_SERVER_TMPDIR", self.dir.path()).env_remove("RUST_LOG");
            command
        })
    }

    fn json(&self, args: &[&str]) -> Value {
        let (code, out, err) = self.stack(&[&["--json"], args].concat());
        assert_eq!(code, Some(0), "{out}{err}");
        let mut report: Value = serde_json::from_str(&out).unwrap();
        report["jobs"][0].take()
    }

    /// Looks until the others have come to the barrier.
    fn until_all_are_there(&self, how: &str, args: &[&str]) -> Value {
        let started = Instant::now();
        loop {
            let job = self.json(args);
            let (most, late) = (&job["places"][0], &job["places"][1]);
            if most["ranks"] == "0-2,4-15" && late["ranks"] == "3" {
                return job;
            }
            assert!(started.elapsed() < 2 * DEADLINE, "{how}: {}\n{:#}", job["answer"], job["procs"]);
        }
    }

    async fn end(self) {
        self.job.signal(Signal::TERM);
        self.job.end().await;
        assert_eq!(processes_of(self.dir.path()), []);
    }
}

/// In each of the debuggers that are installed; at least one has to be.
async fn rank_3_is_named(peer: Peer, debugger: &str, how_to_get: &str) {
    let (Some(late), Some(_)) = (peer.program("mpi_late"), on_path(debugger, how_to_get)) else { return };
    for (how, function, is_stopped) in DOES {
        let job = Late::start(&late, how).await;
        let with = ["--with", debugger];
        let report = job.until_all_are_there(how, &with);
        let (most, late) = (&report["places"][0], &report["places"][1]);
        assert_eq!((&most["function"], &most["caller"]), (&"MPI_Barrier".into(), &"main".into()), "{most}");
        assert_eq!((&most["count"], &most["stopped"]), (&15.into(), &"".into()), "{most}");
        assert_eq!((&late["function"], &late["count"]), (&function.into(), &1.into()), "{late}");
        assert_eq!(late["stopped"], if is_stopped { "3" } else { "" }, "{late}");
        assert_eq!(report["places"].as_array().unwrap().len(), 2, "{report:#}");
        for proc in report["procs"].as_array().unwrap() {
            assert_eq!((&proc["outcome"], &proc["by"]), (&"stack".into(), &debugger.into()), "{proc}");
            assert_eq!(proc["is_stopped"], is_stopped && proc["rank"] == 3, "{proc}");
            assert!(proc["stopped_us"].as_u64().unwrap() < 100_000, "{proc}");
        }

        let (code, out, err) = job.stack(&with);
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        let sentence: String = out.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
        assert!(
            sentence.starts_with("15 of 16 ranks are in MPI_Barrier, called from main (mpi_late.c:"),
            "{out}"
        );
        let is = if is_stopped { "is stopped in" } else { "is in" };
        assert!(sentence.contains(&format!("; rank 3 {is} {function}")), "{out}");
        assert!(sentence.contains(", called from "), "{out}");
        assert!(
            out.lines().any(|line| line.contains("compute [mpi_late.c:") && line.ends_with("  3 (1)")),
            "{out}"
        );
        assert!(
            out.lines().any(|line| line.contains("MPI_Barrier") && line.ends_with("  0-2,4-15 (15)")),
            "{out}"
        );
        assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");

        // all threads of the library, and only some ranks
        let some = job.json(&["--threads", "--ranks", "2-3", "--with", debugger]);
        assert_eq!(some["procs"].as_array().unwrap().len(), 2, "{some:#}");
        let stacks: u64 =
            some["tree"].as_array().unwrap().iter().map(|node| node["threads"].as_u64().unwrap()).sum();
        assert!(stacks > 2, "{some:#}");
        job.end().await;
    }
}

#[tokio::test]
async fn eu_stack_names_the_rank_that_open_mpi_waits_for() {
    rank_3_is_named(Peer::OpenMpi, "eu-stack", "apt-get install elfutils").await;
}

#[tokio::test]
async fn eu_stack_names_the_rank_that_open_mpi_5_waits_for() {
    rank_3_is_named(Peer::OpenMpi5, "eu-stack", "apt-get install elfutils").await;
}

#[tokio::test]
async fn gdb_names_the_rank_that_open_mpi_waits_for() {
    rank_3_is_named(Peer::OpenMpi, "gdb", "apt-get install gdb").await;
}

#[tokio::test]
async fn gdb_names_the_rank_that_open_mpi_5_waits_for() {
    rank_3_is_named(Peer::OpenMpi5, "gdb", "apt-get install gdb").await;
}
