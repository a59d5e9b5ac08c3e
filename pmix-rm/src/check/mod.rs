//! The command `pmix-check`: whether a running resource manager keeps the Standard's rules.
//!
//! Every check is a job of its own: the launcher starts this very program once a rank, told which check it is. Each
//! rank prints its verdict as a line of output; the first one that is not a pass counts.

mod grpc;
mod native;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use pmix_client::Client;
use pmix_server::testing::conformance::{Check, Report, SecondJob, Verdict, checks, run_rank};
use pmix_types::{App, escaped};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::{Instant, timeout, timeout_at};

use grpc::GrpcSession;
use native::NativeSession;

const AFTER_HELP: &str = "Examples:\n  pmix-check\n  pmix-check --wire native -- mpirun -n 4";

/// Checks whether a running resource manager keeps the rules of the PMIx Standard.
///
/// Runs small parallel programs under its launcher, one after the other, and reports by rule as they end: each within a
/// minute more than twice --patience. Exit code: 0 if no rule was found broken, 1 if one was, 2 for a wrong command line
/// or a launcher that starts nothing.
#[derive(Debug, Parser)]
#[command(name = "pmix-check", version, after_help = AFTER_HELP)]
struct Args {
    /// How the processes speak with their server: this library's gRPC, or the C library's own protocol
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

    /// Be one rank of a check
    #[arg(long, value_name = "CHECK", hide = true)]
    rank_of: Option<String>,

    /// Be one of the second job, which the first has spawned
    #[arg(long, hide = true)]
    spawned: bool,

    /// The launcher with its options, to which this program is added; `pmixrun -n 4` if not given
    #[arg(last = true, value_name = "LAUNCHER")]
    launcher: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Wire {
    Grpc,
    Native,
}

/// Exit code for what the caller has got wrong.
const USAGE: u8 = 2;
/// Starts the line of output that holds a rank's verdict.
const VERDICT: &str = "pmix-check-verdict ";
/// Time for a job of a check beyond what its requests may take.
const JOB_WITHIN: Duration = Duration::from_secs(60);
/// Bytes of a launcher's words that are repeated.
const WORDS: u64 = 1000;
/// Bytes of a line of output that are looked at together; no verdict is as long.
const LINE: u64 = 64 * 1024;

/// Does what the arguments say, the command's name first, and returns its exit code.
pub(crate) fn run(args: Vec<OsString>) -> ExitCode {
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(mut error) => {
            // what it says on how to make an argument of it would start it as a launcher
            error.remove(clap::error::ContextKind::Suggested);
            // nothing to be done if it cannot be printed
            let _ = error.print();
            return u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from);
        }
    };
    if let Some(unknown) = args.only.iter().chain(&args.rank_of).find(|name| find(name).is_none()) {
        complain(&format!("there is no check {unknown}; --list prints them"));
        return ExitCode::from(USAGE);
    }
    if args.list {
        let lines = checks().iter().map(|check| format!("{:<44} {}", check.name, check.rules.join(" ")));
        return print(&lines.collect::<Vec<_>>().join("\n"));
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "runtime");
            return ExitCode::FAILURE;
        }
    };
    if let Some(check) = args.rank_of.as_deref().and_then(find) {
        let verdict = runtime.block_on(be_a_rank(check, &args));
        return match serde_json::to_string(&verdict) {
            Ok(line) => print(&format!("{VERDICT}{line}")),
            Err(_) => ExitCode::FAILURE,
        };
    }
    match runtime.block_on(run_all(&args)) {
        Ok(report) => conclude(&report, args.json),
        Err(error) => {
            complain(&format!("nothing was checked: {error}"));
            ExitCode::from(USAGE)
        }
    }
}

/// Whatever the log is to show.
fn complain(message: &str) {
    // nothing to be done if it cannot be printed
    let _ = writeln!(io::stderr(), "pmix-check: {}", escaped(message));
}

fn find(name: &str) -> Option<&'static Check> {
    checks().iter().find(|check| check.name == name)
}

fn conclude(report: &Report, json: bool) -> ExitCode {
    let text = if json { report.to_json().unwrap_or_default() } else { report.summary() };
    let printed = print(&text);
    if report.passed() { printed } else { ExitCode::FAILURE }
}

fn print(text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

async fn be_a_rank(check: &Check, args: &Args) -> Verdict {
    let patience = Duration::from_secs(args.patience);
    let second = match second_job(check, args) {
        Ok(second) => second,
        Err(error) => return Verdict::Failed(format!("a rank does not know its own program: {error}")),
    };
    match args.wire {
        Wire::Grpc => match answered(patience, Client::from_env().init()).await {
            Ok(client) => {
                let verdict = run_rank(check, GrpcSession::new(client.clone()), second, patience).await;
                end(verdict, answered(patience, client.finalize()).await)
            }
            Err(reason) => Verdict::Failed(format!("a rank cannot connect: {reason}")),
        },
        Wire::Native => match answered(patience, NativeSession::connect()).await {
            Ok(session) => {
                let session = std::sync::Arc::new(session);
                let verdict = run_rank(check, session.clone(), second, patience).await;
                end(verdict, answered(patience, session.finalize()).await)
            }
            Err(reason) => Verdict::Failed(format!("a rank cannot connect: {reason}")),
        },
    }
}

/// Servers that do not answer are what this program is there to find.
async fn answered<T, E: Display>(
    patience: Duration,
    answer: impl IntoFuture<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(patience, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("not answered within {patience:?}")),
    }
}

fn second_job(check: &Check, args: &Args) -> io::Result<SecondJob> {
    if args.spawned {
        return Ok(SecondJob::Parent);
    }
    let own = std::env::current_exe()?;
    let app = App::new(own.to_string_lossy(), 1).args(rank_args(check, args)).arg("--spawned");
    Ok(SecondJob::Spawned(app))
}

/// The arguments that make this program a rank of a check.
fn rank_args(check: &Check, args: &Args) -> Vec<String> {
    let wire = args.wire.to_possible_value();
    let wire = wire.as_ref().map_or("grpc", |wire| wire.get_name());
    let words = ["--rank-of", check.name, "--patience", &args.patience.to_string(), "--wire", wire];
    words.map(str::to_owned).into()
}

/// A rank that passes must also be able to leave.
fn end(verdict: Verdict, left: Result<(), String>) -> Verdict {
    match left {
        Err(reason) if verdict == Verdict::Passed => Verdict::Failed(format!("finalize: {reason}")),
        _ => verdict,
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
                // at once: with a launcher that answers nothing the next takes its time, and the reader may have had enough
                print(&outcome.to_string());
            }
            report.outcomes.push(outcome);
        }
    }
    Ok(report)
}

/// How the job of a check ended.
enum Ended {
    With(Verdict),
    /// No rank said anything; the launcher's own words. If that is so from the first check on, it starts none.
    Silent(String),
}

/// Runs a check as a job of its own.
async fn run_job(check: &Check, args: &Args, launcher: &[OsString], own: &PathBuf) -> io::Result<Ended> {
    let Some((program, options)) = launcher.split_first() else {
        return Err(io::Error::other("there is no launcher"));
    };
    let mut command = Command::new(program);
    command.args(options).arg(own).args(rank_args(check, args));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut job = command
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", program.to_string_lossy())))?;
    let (Some(output), Some(mut words)) = (job.stdout.take(), job.stderr.take()) else {
        return Err(io::Error::other("the launcher's output cannot be read"));
    };
    let words = tokio::spawn(async move {
        let mut text = Vec::new();
        let _ = (&mut words).take(WORDS).read_to_end(&mut text).await;
        let _ = tokio::io::copy(&mut words, &mut tokio::io::sink()).await;
        text
    });
    let patience = Duration::from_secs(args.patience);
    // what has not ended then is killed when `job` goes
    let (found, ended) = watch(&mut job, output, patience).await?;
    let (status, has_spoken) = match (found, ended) {
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
    // somebody else may still hold its end
    let words = timeout(patience, words).await.unwrap_or(Ok(Vec::new())).unwrap_or_default();
    let words = String::from_utf8_lossy(&words);
    let reason = format!("the launcher ended with {status}: {}", words.trim());
    Ok(if has_spoken { Ended::With(Verdict::Failed(reason)) } else { Ended::Silent(reason) })
}

/// The first verdict that is not a pass, or a pass if there are only such, and how the launcher ended, unless it did not
/// in time: once a rule is broken, some launchers never do. What has not ended is asked to.
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
        if matches!(found, None | Some(Verdict::Passed)) {
            // what others print need not be text
            found = verdict_in(&String::from_utf8_lossy(&line)).or(found);
            if matches!(found, Some(Verdict::Failed(_))) {
                deadline = deadline.min(Instant::now() + patience);
            }
        }
        line.clear();
    }
    dismiss(job, output, patience).await;
    Ok((found, None))
}

/// Asks a launcher to end, for those that are killed cannot clean up; one that does not is killed when `job` goes.
async fn dismiss(job: &mut Child, mut output: BufReader<ChildStdout>, patience: Duration) {
    let pid = job.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
    if pid.is_some_and(|pid| kill_process(pid, Signal::TERM).is_ok()) {
        // it may have much to say before it goes, and others still hold its end then
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

/// A rank's verdict, if it is in this line of output; launchers may put a tag in front.
fn verdict_in(line: &str) -> Option<Verdict> {
    serde_json::from_str(line.split_once(VERDICT)?.1).ok()
}
