//! `pmix ctrl`: controls jobs and processes.

use std::collections::BTreeSet;
use std::process::ExitCode;

use pmix_tool::{Error, Nspace, ProcId, Tool};
use rustix::process::Signal;
use serde::Serialize;

use super::selection::{Selection, finalize};
use super::target::Target;
use super::{Console, Trouble, completions};

/// Signals, pauses, resumes or ends running jobs or processes
///
/// terminate asks processes to end, and kills those that have not after the grace period of the server; kill ends them at
/// once. By default it searches for the jobs at all live servers of this user on this node. `pmix release` is for jobs that wait for a
/// debugger, `pmix dvm stop` for whole servers.
///
/// The JSON report is one object: {"schema", "action", "signal", "targets": [{"nspace", "rank"}]}; "signal" is null for other actions, and
/// the rank of a whole job "WILDCARD".
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if the servers have done it; 1 if a job or process is not running, or if a server refuses; 2 for an \
                  invalid command line."
)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Stop processes until they are resumed (SIGSTOP or SIGTSTP, as the server chooses)
    Pause(Targets),
    /// Let processes go on that were paused
    Resume(Targets),
    /// Send a signal
    Signal {
        /// Its name, such as USR1 or SIGUSR1, or its number
        #[arg(value_name = "SIGNAL", value_parser = parse_signal)]
        signal: i32,

        #[command(flatten)]
        targets: Targets,
    },
    /// Ask processes to end
    Terminate(Targets),
    /// End processes at once
    Kill(Targets),
}

#[derive(Debug, clap::Args)]
struct Targets {
    /// Jobs, by namespace, or single processes
    #[arg(value_name = "NAMESPACE[:RANK]", required = true, add = completions::jobs())]
    targets: Vec<Target>,

    /// Print one JSON object when it is done
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, Serialize)]
struct Report {
    action: &'static str,
    signal: Option<i32>,
    targets: BTreeSet<ProcId>,
}

fn parse_signal(text: &str) -> Result<i32, String> {
    if let Ok(number) = text.parse::<i32>() {
        return match Signal::from_named_raw(number) {
            Some(signal) => Ok(signal.as_raw()),
            None => Err(format!("{number} is not the number of a signal")),
        };
    }
    let upper = text.to_uppercase();
    let name = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    let signal = name.parse::<nix::sys::signal::Signal>();
    signal.map(|signal| signal as i32).map_err(|_| format!("there is no signal {text}; try USR1 or a number"))
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let (action, signal, Targets { targets, json, selection }) = match args.action {
        Action::Pause(targets) => ("pause", None, targets),
        Action::Resume(targets) => ("resume", None, targets),
        Action::Signal { signal, targets } => ("signal", Some(signal), targets),
        Action::Terminate(targets) => ("terminate", None, targets),
        Action::Kill(targets) => ("kill", None, targets),
    };
    let report = Report { action, signal, targets: targets.into_iter().map(|Target(proc)| proc).collect() };
    let mut jobs: Vec<Nspace> = report.targets.iter().map(|proc| proc.nspace.clone()).collect();
    jobs.dedup();
    let found = selection.find(&jobs, console).await?;
    // all or nothing, as far as it can be told before
    if !found.is_complete {
        return Ok(ExitCode::FAILURE);
    }
    for (tool, jobs) in found.servers {
        let here: Vec<_> =
            report.targets.iter().filter(|proc| jobs.contains(&proc.nspace)).cloned().collect();
        control(&tool, action, signal, here).await?;
        finalize(tool).await;
    }
    if json {
        console.json(&report)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn control(tool: &Tool, action: &str, signal: Option<i32>, procs: Vec<ProcId>) -> Result<(), Error> {
    let request = tool.client().job_control(procs);
    let request = match (action, signal) {
        (_, Some(signal)) => request.signal(signal),
        ("pause", _) => request.pause(),
        ("resume", _) => request.resume(),
        ("terminate", _) => request.terminate(),
        _ => request.kill(),
    };
    Ok(request.await.map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_goes_by_its_name_or_its_number() {
        for text in ["USR1", "SIGUSR1", "usr1", "10"] {
            assert_eq!(parse_signal(text), Ok(10), "{text}");
        }
        for text in ["NOPE", "-1", "4711", ""] {
            assert!(parse_signal(text).is_err(), "{text}");
        }
    }
}
