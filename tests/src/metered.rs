use std::path::Path;
use std::process::Command;

use crate::peers::pmixrun;
use crate::programs::Running;

/// A job of two ranks that goes on, whose numbers are at this place, which all users may read; also the place as it has told it.
pub async fn metered_run(dir: &Path, place: &str) -> (Running, String) {
    let script = "echo started; exec sleep 1000";
    let run = pmixrun(dir, &["--metrics", place, "-n", "2", "sh", "-c", script]);
    // what it tells can be read while it runs
    let mut command = Command::new("sh");
    command.args(["-c", "umask 0; exec \"$@\" 2>&1", "sh"]).arg(run.get_program()).args(run.get_args());
    for (name, value) in run.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut job = Running::start(command);
    let told = job.line_with("metrics: ").await;
    let (_, told) = told.split_once("metrics: ").unwrap();
    let told = told.to_owned();
    job.line_with("started").await;
    job.line_with("started").await;
    (job, told)
}
