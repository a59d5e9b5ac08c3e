//! The command `pmix-check`: checks whether a running resource manager follows the rules of the Standard.
//!
//! Each check is a separate job: the launcher starts this program once per rank, with the name of the check. Each rank prints its
//! verdict as a line of output; the first verdict that is not a pass counts.

mod client;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use pmix_client::Client;
use pmix_conformance::{Check, Report, SecondJob, Verdict, checks, run_rank};
use pmix_types::{App, escaped};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, timeout, timeout_at};

use client::ClientRank;

const AFTER_HELP: &str = "Examples:\n  pmix-check\n  pmix-check --wire native -- mpirun -n 4";

/// Checks whether a running resource manager follows the rules of the PMIx Standard.
///
/// Runs small parallel programs under its launcher, one after the other, and reports each as it ends, which takes at most one
/// minute plus twice --patience. Exit code: 0 if no violation was found, 1 if one was found, 2 for an invalid command line or
/// a launcher that starts no processes.
#[derive(Debug, Parser)]
#[command(name = "pmix-check", version, after_help = AFTER_HELP)]
struct Args {
    /// How ranks speak to their server. grpc: by our own protocol if the launcher announces it, otherwise by that of
    /// the C library. native: always by that of the C library
    #[arg(long, value_enum, default_value = "grpc")]
    wire: Wire,

    /// Run only this check; may be given several times
    #[arg(long, value_name = "CHECK")]
    only: Vec<String>,

    /// Print the report as one JSON object
    #[arg(long)]
    json: bool,

    /// Print the names of all checks, with their rules
    #[arg(long)]
    list: bool,

    /// Seconds after which a request counts as never answered
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = clap::value_parser!(u64).range(2..))]
    patience: u64,

    /// Run as a rank of a check
    #[arg(long, value_name = "CHECK", hide = true)]
    rank_of: Option<String>,

    /// Run as a rank of the second job, which the first one has spawned
    #[arg(long, hide = true)]
    spawned: bool,

    /// The launcher with its options, to which this program is appended; `pmixrun -n 4` by default
    #[arg(last = true, value_name = "LAUNCHER")]
    launcher: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wire {
    Grpc,
    Native,
}

/// Exit code for mistakes of the caller.
const USAGE: u8 = 2;
/// Prefix of the line of output with a rank's verdict.
const VERDICT: &str = "pmix-check-verdict ";
/// Time for the job of a check, in addition to the time for its requests.
const JOB_WITHIN: Duration = Duration::from_secs(60);
/// Most bytes of a launcher's error output that are reported.
const WORDS: u64 = 1000;
/// Most bytes of a line of output; no verdict is that long.
const LINE: u64 = 64 * 1024;

/// Runs the command with these arguments, starting with its name, and returns the exit code.
pub(crate) fn run(args: Vec<OsString>) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(mut error) => {
            // clap's suggestion would start the option as a launcher
            error.remove(clap::error::ContextKind::Suggested);
            // there is nowhere to report a failure
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    if let Some(unknown) = args.only.iter().chain(&args.rank_of).find(|name| find(name).is_none()) {
        complain(&format!("unknown check {unknown}; --list prints all checks"));
        return ExitCode::from(USAGE);
    }
    if args.list {
        let lines = checks().iter().map(|check| format!("{:<44} {}", check.name, check.rules.join(" ")));
        return print(&lines.collect::<Vec<_>>().join("\n"));
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "cannot create the async runtime");
            return ExitCode::FAILURE;
        }
    };
    if let Some(check) = args.rank_of.as_deref().and_then(find) {
        return runtime.block_on(run_as_rank(check, &args));
    }
    match runtime.block_on(run_all(&args)) {
        Ok(report) => conclude(&report, args.json),
        Err(error) => {
            complain(&format!("nothing was checked: {error}"));
            ExitCode::from(USAGE)
        }
    }
}

/// Prints a message whatever the level of the log.
fn complain(message: &str) {
    // there is nowhere to report a failure
    let _ = writeln!(io::stderr(), "pmix-check: {}", escaped(message));
}

fn find(name: &str) -> Option<&'static Check> {
    checks().iter().find(|check| check.name == name)
}

fn conclude(report: &Report, json: bool) -> ExitCode {
    let differences = report.differences();
    let text = match (json, differences.is_empty()) {
        (true, _) => report.to_json().unwrap_or_default(),
        (false, true) => report.summary(),
        (false, false) => format!("\nIt differs from the texts:\n{differences}\n\n{}", report.summary()),
    };
    let printed = print(&text);
    if report.passed() { printed } else { ExitCode::FAILURE }
}

fn print(text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn run_as_rank(check: &Check, args: &Args) -> ExitCode {
    let patience = Duration::from_secs(args.patience);
    let failed = |reason| print_verdict(&Verdict::Failed(reason));
    let second = match second_job(check, args) {
        Ok(second) => second,
        Err(error) => return failed(format!("a rank cannot find its own program: {error}")),
    };
    let settings = match args.wire {
        Wire::Grpc => Client::from_env(),
        Wire::Native => Client::from_env().native_wire(),
    };
    match answered(patience, settings.init()).await {
        Ok(client) => {
            let verdict = run_rank(check, ClientRank::new(client.clone()), second, patience).await;
            end(verdict, answered(patience, client.finalize())).await
        }
        Err(reason) => failed(format!("a rank cannot connect: {reason}")),
    }
}

/// Awaits an answer with a time limit, as servers that do not answer are a finding.
async fn answered<T, E: Display>(
    patience: Duration,
    answer: impl IntoFuture<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(patience, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {patience:?}")),
    }
}

fn second_job(check: &Check, args: &Args) -> io::Result<SecondJob> {
    if args.spawned {
        return Ok(SecondJob::Parent);
    }
    let own = std::env::current_exe()?;
    let app = App::new(own, 1).args(rank_args(check, args)).arg("--spawned");
    Ok(SecondJob::Spawned(app))
}

/// The arguments that make this program a rank of a check.
fn rank_args(check: &Check, args: &Args) -> Vec<String> {
    let wire = args.wire.to_possible_value();
    let wire = wire.as_ref().map_or("grpc", |wire| wire.get_name());
    let words = ["--rank-of", check.name, "--patience", &args.patience.to_string(), "--wire", wire];
    words.map(str::to_owned).into()
}

/// Tells the verdict of a rank and finalizes, which a rank that passes must also be able to do. One that does not pass
/// tells so first: once it has finalized, the others fail because of it.
async fn end(verdict: Verdict, finalize: impl Future<Output = Result<(), String>>) -> ExitCode {
    let told = (verdict != Verdict::Passed).then(|| print_verdict(&verdict));
    let left = finalize.await;
    told.unwrap_or_else(|| {
        print_verdict(&match left {
            Ok(()) => verdict,
            Err(reason) => Verdict::Failed(format!("finalize: {reason}")),
        })
    })
}

/// Prints the verdict of a rank for the process that has started the job.
fn print_verdict(verdict: &Verdict) -> ExitCode {
    match serde_json::to_string(verdict) {
        Ok(line) => print(&format!("{VERDICT}{line}")),
        Err(_) => ExitCode::FAILURE,
    }
}

async fn run_all(args: &Args) -> io::Result<Report> {
    let own = std::env::current_exe()?;
    let launcher = match args.launcher.is_empty() {
        true => vec![own.with_file_name("pmixrun").into(), "-n".into(), "4".into()],
        false => args.launcher.clone(),
    };
    let mut report = Report::default();
    for check in checks() {
        if args.only.is_empty() || args.only.iter().any(|name| name == check.name) {
            let verdict = match run_job(check, args, &launcher, &own).await? {
                Ended::With(verdict) => verdict,
                Ended::Silent(words) if report.outcomes.is_empty() => return Err(io::Error::other(words)),
                Ended::Silent(words) => Verdict::Failed(words),
            };
            let outcome = check.outcome(verdict);
            if !args.json {
                // at once, as the next check may take long and the reader may have seen enough
                print(&outcome.to_string());
            }
            report.outcomes.push(outcome);
        }
    }
    Ok(report)
}

/// The outcome of the job of a check.
enum Ended {
    With(Verdict),
    /// No rank printed a verdict; has the launcher's messages. If this is the first check, the launcher starts no processes.
    Silent(String),
}

/// Runs the job of a check.
async fn run_job(check: &Check, args: &Args, launcher: &[OsString], own: &PathBuf) -> io::Result<Ended> {
    let Some((program, options)) = launcher.split_first() else {
        return Err(io::Error::other("no launcher given"));
    };
    let mut command = Command::new(program);
    command.args(options).arg(own).args(rank_args(check, args));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut job = command
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.to_string_lossy())))?;
    let (Some(output), Some(mut words)) = (job.stdout.take(), job.stderr.take()) else {
        return Err(io::Error::other("cannot read the output of the launcher"));
    };
    let words = tokio::spawn(async move {
        let mut text = Vec::new();
        let _ = (&mut words).take(WORDS).read_to_end(&mut text).await;
        let _ = tokio::io::copy(&mut words, &mut tokio::io::sink()).await;
        text
    });
    let patience = Duration::from_secs(args.patience);
    // a job that has not ended by then is killed when `job` is dropped
    let (found, ended) = watch(&mut job, output, patience).await?;
    let (status, has_verdict) = match (found, ended) {
        (Some(Verdict::Passed), Some(status)) if status.success() => {
            return Ok(Ended::With(Verdict::Passed));
        }
        (Some(verdict), _) if verdict != Verdict::Passed => return Ok(Ended::With(verdict)),
        (found, Some(status)) => (status, found.is_some()),
        (_, None) => {
            let reason = format!("the job did not end within {:?}", JOB_WITHIN + patience);
            return Ok(Ended::With(Verdict::Failed(reason)));
        }
    };
    // another process may keep the stream open
    let words = timeout(patience, words).await.unwrap_or(Ok(Vec::new())).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let reason = format!("the launcher ended with {status}: {}", words.trim());
    Ok(if has_verdict { Ended::With(Verdict::Failed(reason)) } else { Ended::Silent(reason) })
}

/// Returns the verdict of all ranks, as [`together`], and the exit status of the launcher. If it
/// does not end in time, which happens after some violations, it is asked to end.
async fn watch(
    job: &mut Child,
    output: ChildStdout,
    patience: Duration,
) -> io::Result<(Option<Verdict>, Option<ExitStatus>)> {
    let mut deadline = Instant::now() + JOB_WITHIN + patience;
    let mut output = BufReader::new(output);
    let (mut line, mut found) = (Vec::new(), None);
    loop {
        let mut bounded = (&mut output).take(LINE);
        let Ok(length) = timeout_at(deadline, bounded.read_until(b'\n', &mut line)).await else { break };
        if length? == 0 {
            match timeout_at(deadline, job.wait()).await {
                Ok(status) => return Ok((found, Some(status?))),
                Err(_) => break,
            }
        }
        // the ranks' output may contain bytes that are not UTF-8
        if let Some(verdict) = verdict_in(&String::from_utf8_lossy(&line)) {
            if matches!(verdict, Verdict::Failed(_)) {
                deadline = deadline.min(Instant::now() + patience);
            }
            found = Some(match found {
                Some(found) => together(found, verdict),
                None => verdict,
            });
        }
        line.clear();
    }
    dismiss(job, output, patience).await;
    Ok((found, None))
}

/// The verdict of two ranks. One that skips the check leaves it, and others may fail because of that: launchers do not keep the
/// order in which ranks say so.
fn together(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (skipped @ Verdict::Skipped(_), _) | (_, skipped @ Verdict::Skipped(_)) => skipped,
        (failed @ Verdict::Failed(_), _) | (_, failed @ Verdict::Failed(_)) => failed,
        (passed, _) => passed,
    }
}

/// Asks a launcher to end, so that it can clean up. Otherwise it is killed when `job` is dropped.
async fn dismiss(job: &mut Child, mut output: BufReader<ChildStdout>, patience: Duration) {
    let pid = job.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    if pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok()) {
        // it may print a lot before it ends, and other processes may keep the stream open
        let listen = async {
            let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = timeout(patience, job.wait()) => {}
            () = listen => {}
        }
    }
}

/// The verdict in a line of output, if any; launchers may prefix a tag.
fn verdict_in(line: &str) -> Option<Verdict> {
    serde_json::from_str(line.split_once(VERDICT)?.1).ok()
}
