//! The reference resource manager for one node: [`LocalLauncher`], which makes a
//! [`StandardHost`](pmix_server::standard::StandardHost) start processes where it runs itself, and the command `pmixrun`
//! around it; `pmix-check` tells whether a resource manager, this one or another, keeps the
//! Standard's rules.
//!
//! ```text
//! pmixrun -n 4 ./app args
//! pmixrun -np 2 ./a : -np 2 -x ROLE=io ./b
//! pmixrun -n 8 --vnodes 3 ./app
//! ```
//!
//! `docs/pmixrun.md` compares its options with those of other launchers.
//!
//! # What `pmixrun` promises
//! - *Namespace*: `run.<hostname>.<pid>`, unique on the node as long as it runs.
//! - *Output* of the ranks comes out whole, in lines that are never mixed; lines longer than 64 KiB pass in
//!   pieces. `--tag-output` begins each with `[<rank>] `, or `[<rank>]<stderr> `, and ends the last one. A single
//!   process's output passes as it comes.
//! - *Files*: `--output dir=DIR` and `file=NAME` keep the output of each rank in files of its own, written by a thread.
//!   What one does not take is shown on the console, and the job goes on.
//! - *Standard input* goes to rank 0, or to whom `--stdin` names.
//! - *Exit code*: 0, or that of the first rank that failed, 128 and the number for a signal; 124 after
//!   `--timeout`, 141 when the reader of the output has left, 1 if the job could not be started, 2 for a wrong
//!   command line.
//! - *Signals*: SIGINT and SIGTERM are passed on (SIGHUP as SIGTERM), and the ranks killed when the grace
//!   period is over; a second SIGINT kills them at once. SIGUSR1 and SIGUSR2 are passed on.
//! - *Failure* of one rank: the others are told through PMIx, and have the reaction time (`--reaction`, 0.3 seconds)
//!   to end by themselves; then they get SIGTERM, and when the grace period (`--grace`, 5 seconds) is over SIGKILL.
//! - *Simulated nodes*: `--vnodes K` divides the ranks in even blocks over `<hostname>-v0`, `<hostname>-v1` and so on.
//!   Each of these has a server with a socket and port of its own; what concerns several of them goes over an
//!   exchange, as between real nodes. Tools find the first one, which knows all processes.
//! - *Programs of the C library* of PMIx are served, those of Open MPI 4 too, which find a mark of it in their
//!   environment. `--native on` leaves out the mark, `--native off` all of it.
//! - *Nothing is left*: ranks descend from a [`Guardian`], which ends them and what they have left behind, daemons too,
//!   and removes the session directory, in an orderly end and if `pmixrun` itself is killed. A guardian that is killed is
//!   replaced, and the job goes on. Where cgroup v2 is delegated, each job has a cgroup of its own. Only a daemon that
//!   has left its process group and cleared its environment, of a job whose guardian was killed, without cgroups,
//!   survives if `pmixrun` is then killed too.
//! - `--json` prints one object as the last line of standard output: `nspace`, `ranks`, `ok`, `exit_code`,
//!   `duration_seconds`, `ended_by`, `error`, `first_failure` (`rank`, `exit`: `code` or `signal`), `procs`
//!   (`rank`, `node`, `executable`, `pid`, `exit_code`, `state`), `server` (counters).

#![cfg_attr(docsrs, feature(doc_cfg))]

mod binding;
mod check;
mod child;
mod cli;
mod console;
mod files;
mod guardian;
mod input;
mod launcher;
mod limit;
mod map;
mod orphans;
mod output;
mod pid_file;
mod program;
mod recipe;
mod report;
mod session;
mod signals;
mod stdin;
mod supervise;
mod tree;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

pub use guardian::{Guardian, run as run_guardian};
pub use launcher::LocalLauncher;
use pmix_tool::log::to_stderr;

/// First argument that makes `pmixrun` a guardian.
const GUARDIAN_COMMAND: &str = "__guardian";

/// The command `pmixrun`: does what the arguments say, the command's name first, and returns its exit code.
///
/// Takes over standard streams, signals and children of the process, so it is for `main` only. May end the
/// process instead of returning.
pub fn pmixrun(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args: Vec<OsString> = args.into_iter().collect();
    if args.get(1).is_some_and(|arg| arg == GUARDIAN_COMMAND) {
        to_stderr("warn");
        return run_guardian();
    }
    let plan = match cli::parse(args) {
        Ok(plan) => plan,
        Err(error) => {
            // nothing to be done if it cannot be printed
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    to_stderr(match plan.talk {
        cli::Talk::Little => "error",
        cli::Talk::Usual => "warn",
        cli::Talk::Much => "warn,pmix_rm=debug,pmix_server=debug",
    });
    orphans::adopt();
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "runtime");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(session::run(plan)).unwrap_or_else(|error| {
        tracing::error!(%error, "standard streams and signals");
        session::NOT_STARTED
    });
    // threads that read standard input or write output may never come back
    std::process::exit(code)
}

/// The command `pmix-check`: checks a running resource manager, the command's name first in the arguments, and returns
/// its exit code. For `main` only.
pub fn check(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    to_stderr("warn");
    check::run(args.into_iter().collect())
}
