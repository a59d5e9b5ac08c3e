//! The programs of a resource manager for one or several nodes, built on `pmix-host` and `pmix-launch`: `pmixrun` runs jobs, `pmixd` is the
//! daemon of a node or the head of a DVM, and `pmix-check` checks whether a resource manager, this one or another, follows the rules of the
//! Standard.
//!
//! ```text
//! pmixrun -n 4 ./app args
//! pmixrun -np 2 ./a : -np 2 -x ROLE=io ./b
//! pmixrun -n 8 --vnodes 3 ./app
//! pmixrun --host n0:4,n1:4 ./app
//! ```
//!
//! `docs/pmixrun.md` compares the options with those of other launchers.
//!
//! # What `pmixrun` promises
//! - *Namespace*: `run.<hostname>.<pid>`, unique on the node while it runs.
//! - *Output* of the ranks is complete, and lines of different ranks never mix; lines longer than 64 KiB are written in
//!   pieces. `--tag-output` prefixes each line with `[<rank>]<stdout>: `, or `stderr`, and terminates the last one. The
//!   output of a single process is not buffered.
//! - *Files*: `--output dir=DIR` and `file=NAME` write the output of each rank to its own files, in a separate thread.
//!   If a file cannot be written, its output is printed instead, and the job continues.
//! - *Standard input* goes to rank 0, or to the ranks that `--stdin` selects.
//! - *Exit code*: 0, or that of the first rank that failed: its exit code, or 128 plus the number of the signal that
//!   ended it. 124 after `--timeout`, 130 or 143 if SIGINT or SIGTERM came before the job had started, 141 if the
//!   reader of the output has gone away, 1 if the job could not be started for another reason, 2 for an invalid command
//!   line.
//! - *Signals*: SIGINT and SIGTERM are passed on (SIGHUP as SIGTERM), and the ranks are killed after the grace
//!   period; a second SIGINT kills them at once. SIGHUP stays ignored if it is when the run starts, as under
//!   `nohup`. SIGUSR1 and SIGUSR2 are passed on.
//! - *Failure* of a rank: the others are notified through PMIx and have the reaction time (`--reaction`, 0.3 seconds)
//!   to end by themselves; then they get SIGTERM, and SIGKILL after the grace period (`--grace`, 5 seconds).
//! - *Simulated nodes*: `--vnodes K` divides the ranks in even blocks over `<hostname>-v0`, `<hostname>-v1` and so on.
//!   Each node has a server with its own socket and port; operations across nodes go through an exchange, as between real
//!   nodes. Tools find the first server, which knows all processes.
//! - *Several nodes*: `--host` and `--hostfile` start a daemon, [`pmixd`], on each other host by ssh. Inside an allocation of Slurm,
//!   `srun` starts the daemons, on all its nodes if none are named. A node that is lost ends the
//!   job and is named. Daemons end their ranks and themselves when `pmixrun` is gone.
//! - *Programs linked with the C library* of PMIx are served, and those of Open MPI 4, which recognize their launcher by a
//!   variable. `--native without-open-mpi-4` omits the variable, `--native off` serves none of these programs.
//! - *Programs of MPICH* and its relatives are served through PMI-1, by a socket that each rank inherits. `--pmi1 off` does not
//!   serve them.
//! - *Nothing is left behind*: ranks descend from a [`Guardian`], which ends them and all their descendants, including
//!   daemons, and removes the session directory, both at a regular end and if `pmixrun` itself is killed. A guardian that is
//!   killed is replaced, and the job continues. Where cgroup v2 is delegated, each job has its own cgroup. One kind of
//!   process survives a killed `pmixrun`: without cgroups, a daemon that has left its process group and cleared its
//!   environment, if the leader of its job was killed before, and the guardian too.
//! - `--json` prints one object as the last line of standard output: `schema`, `nspace`, `ranks`, `ok`,
//!   `exit_code`, `seconds`, `ended_by`, `error`, `first_failure` (`rank`, `exit`: `code` or `signal`), `procs`
//!   (`rank`, `node`, `executable`, `pid`, `exit_code`, `state`), `server` (counters).
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`pmix_types::rules`].

#![cfg_attr(docsrs, feature(doc_cfg))]

mod aborts;
mod causes;
mod check;
mod claim;
mod cli;
mod console;
mod debugger;
mod dvm;
mod ending;
#[cfg(feature = "etcd")]
mod etcd;
mod exit_code;
mod files;
mod head;
mod http2;
mod in_dvm;
mod job;
mod map;
mod metrics;
mod multi_user;
mod nodes;
mod output;
mod pool;
mod records;
mod report;
mod report_file;
mod run;
mod starter;
mod stdin;
mod traces;
mod watch;

use std::ffi::OsString;
use std::future::Future;
use std::io;
use std::process::ExitCode;

use pmix_launch::{GUARDIAN_COMMAND, Guardian, adopt_orphans, run_guardian};
use pmix_program::log::to_stderr;

use crate::cli::{MAN, Pmixd, Setup, Talk, pmixd_command, pmixrun_command};
use crate::traces::Log;

/// Runs the command `pmixrun` with these arguments, starting with the name of the command, and returns its exit code.
///
/// Only for `main`: it takes over the standard streams, signals and children of the process, and may end the process instead
/// of returning.
pub fn pmixrun(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    pmixrun_with(args.into_iter().collect())
}

/// Not generic, so that it is compiled with this crate, and all that it awaits, not again with each program.
fn pmixrun_with(args: Vec<OsString>) -> ExitCode {
    if args.get(1).is_some_and(|arg| arg == GUARDIAN_COMMAND) {
        to_stderr("warn");
        return run_guardian();
    }
    pmix_program::man::complete(pmixrun_command);
    if args.len() == 2 && args[1] == MAN {
        return print_man(pmixrun_command());
    }
    let mut plan = match cli::parse(args) {
        Ok(plan) => plan,
        Err(error) => {
            // there is nowhere to report a failure
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    Guardian::warm_up();
    let code = match start_log("pmixrun", &plan.talk, &mut plan.setup) {
        Ok(_sends_at_its_end) => take_over(run::run(plan)),
        Err(problem) => {
            tracing::error!("--trace-to: {problem}");
            return ExitCode::FAILURE;
        }
    };
    // threads that read standard input or write output may be blocked for ever
    std::process::exit(code)
}

fn start_log(program: &str, talk: &Talk, setup: &mut Setup) -> Result<Log, String> {
    Log::of_run(talk.log(), program, &mut setup.traces, setup.untraced.as_deref())
}

fn print_man(command: clap::Command) -> ExitCode {
    match cli::print_page(command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            to_stderr("warn");
            tracing::error!(%error, "cannot write to standard output");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command to its end, which looks after all processes of this one, and returns its exit code.
fn take_over(command: impl Future<Output = io::Result<i32>>) -> i32 {
    adopt_orphans();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot create the async runtime");
            return exit_code::NOT_STARTED;
        }
    };
    runtime.block_on(command).unwrap_or_else(|error| {
        tracing::error!(%error, "cannot set up standard streams and signals");
        exit_code::NOT_STARTED
    })
}

/// Runs the command `pmixd`, the daemon of a node, with these arguments, starting with the name of the command, and returns its
/// exit code. Only for `main`.
///
/// `pmixrun` starts it on other nodes. It reads one line from standard input, or from a file: where its head is and how to prove its
/// identity. With `--head` it is the head of a DVM itself.
pub fn pmixd(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    pmixd_with(args.into_iter().skip(1).collect())
}

fn pmixd_with(args: Vec<OsString>) -> ExitCode {
    if args.first().is_some_and(|arg| arg == GUARDIAN_COMMAND) {
        to_stderr("warn");
        return run_guardian();
    }
    pmix_program::man::complete(pmixd_command);
    if args == [MAN] {
        return print_man(pmixd_command());
    }
    match cli::pmixd(args) {
        Ok(Pmixd::Daemon { node_from, join }) => nodes::run_daemon(node_from.as_deref(), join.as_deref()),
        Ok(Pmixd::Head(mut plan)) => {
            Guardian::warm_up();
            let code = match start_log("pmixd", &plan.talk, &mut plan.setup) {
                Ok(_sends_at_its_end) => take_over(head::run(*plan)),
                Err(problem) => {
                    tracing::error!("--trace-to: {problem}");
                    return ExitCode::FAILURE;
                }
            };
            // a thread that writes to standard error may be blocked for ever
            std::process::exit(code)
        }
        Err(error) => {
            // there is nowhere to report a failure
            let _ = error.print();
            u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}

/// Runs the command `pmix-check`, which checks a resource manager, with these arguments, starting with the name of the
/// command, and returns its exit code. Only for `main`.
pub fn check(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    to_stderr("warn");
    check::run(args.into_iter().collect())
}
