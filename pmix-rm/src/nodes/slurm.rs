//! Starts all daemons by one `srun`, inside an allocation of Slurm.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::allocation::hostnames;
use super::start::Said;
use pmix_launch::base_env;

/// The variable in which a daemon finds the name of its node.
const NODE: &str = "SLURMD_NODENAME";

/// A step with the daemon on each of these nodes. They all read the same input, and what they write is labelled with their
/// numbers in the step. It ends with its last daemon, and when `srun` is killed.
pub(super) fn command(daemon: &Path, nodes: &[String], within: Duration) -> Command {
    let mut command = Command::new("srun");
    let count = nodes.len();
    // daemons get what their ranks are to inherit. Other variables would set options of srun, for ranks of users who start them by
    // srun, or have places on this node
    command.env_clear().envs(base_env());
    command.arg(format!("--nodes={count}")).arg(format!("--ntasks={count}")).arg("--ntasks-per-node=1");
    command.arg(format!("--nodelist={}", nodes.join(","))).arg("--distribution=block");
    // beside other steps, with all processors of the allocation; nobody is there for a step that has to wait any longer
    command.args(["--overlap", "--cpu-bind=none", "--mpi=none"]);
    command.arg(format!("--immediate={}", within.as_secs().saturating_add(1)));
    // the head decides what the loss of a daemon means
    command.args(["--kill-on-bad-exit=0", "--wait=0"]);
    command.args(["--input=all", "--label"]);
    command.args(["--export=ALL", "--chdir=/", "--job-name=pmixd"]);
    command.arg(daemon).args(["--node-from", NODE]);
    command
}

/// What a line of `srun` says of these nodes, which are in the order of the allocation, as the tasks of a step are.
pub(super) fn heard(nodes: &[String], line: &str) -> Said {
    if let Some(why) = cancelled(line) {
        return Said::Cancelled(why);
    }
    let labelled = line.trim_start().split_once(": ").and_then(|(label, text)| {
        let node = nodes.get(label.parse::<usize>().ok()?)?;
        Some(Said::Line { node: Some(node.clone()), line: text.to_owned() })
    });
    if let Some(said) = labelled {
        return said;
    }
    // `srun: error: n[1-2]: tasks 1-2: Exited with exit code 1`
    let ended = line.strip_prefix("srun: error: ").and_then(|text| text.split_once(": "));
    if let Some((list, how)) = ended
        && how.starts_with("task")
        && let Ok(ended) = hostnames(list)
        && ended.iter().all(|node| nodes.contains(node))
    {
        return Said::Failed { nodes: ended, how: format!("its daemon has ended ({how})") };
    }
    Said::Line { node: None, line: line.to_owned() }
}

/// Why Slurm ends the job, if a line says so: `slurmstepd-n1: error: *** STEP 2.0 ON n1 CANCELLED AT 2026-11-29T22:15:58 DUE TO TIME LIMIT ***`.
fn cancelled(line: &str) -> Option<String> {
    let (_, what) = line.split_once("slurmstepd")?.1.split_once("*** ")?;
    let (of, how) = what.strip_suffix(" ***")?.split_once(" CANCELLED")?;
    if !of.starts_with("STEP ") && !of.starts_with("JOB ") {
        return None;
    }
    let why = how
        .split_once(" DUE TO ")
        .map_or_else(|| "it was cancelled".to_owned(), |(_, why)| why.to_lowercase());
    Some(format!("Slurm ends the job: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_srun_are_those_of_the_task_that_they_name() {
        let nodes = ["n1", "n3", "n4"].map(str::to_owned);
        let line = |node: Option<&str>, line: &str| Said::Line {
            node: node.map(str::to_owned),
            line: line.to_owned(),
        };
        assert_eq!(heard(&nodes, "1: no: disk"), line(Some("n3"), "no: disk"));
        assert_eq!(heard(&nodes, " 2: x"), line(Some("n4"), "x"));
        for own in ["3: x", "srun: error: n1: no such thing", "srun: error: n9: task 0: Killed", ""] {
            assert_eq!(heard(&nodes, own), line(None, own));
        }
        for (line, why) in [
            (
                "1: slurmstepd-n3: error: *** STEP 2.0 ON n3 CANCELLED AT 2026-11-29T22:15:58 ***",
                "it was cancelled",
            ),
            (
                "slurmstepd: error: *** JOB 2 ON n1 CANCELLED AT 2026-11-29T22:15:58 DUE TO TIME LIMIT ***",
                "time limit",
            ),
        ] {
            assert_eq!(heard(&nodes, line), Said::Cancelled(format!("Slurm ends the job: {why}")));
        }
        let own = "srun: error: n[3-4]: tasks 1-2: Exited with exit code 1";
        let failed = Said::Failed {
            nodes: nodes[1..].to_vec(),
            how: "its daemon has ended (tasks 1-2: Exited with exit code 1)".into(),
        };
        assert_eq!(heard(&nodes, own), failed);
    }
}
