//! `pmix attach`: a terminal at a running job.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal, Read};
use std::iter;
use std::process::ExitCode;
use std::thread;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use pmix_program::terminal::wait_for_input;
use pmix_tool::client::{InputSink, JobControlBuilder};
use pmix_tool::types::{IofChannels, Rank};
use pmix_tool::{Bytes, Error, OutputFormat, ProcId, Tool};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::named::about;
use super::output::{Follower, are_own, complain, item, start_printer};
use super::printer::Printer;
use super::selection::{Selection, leave};
use super::signals::{NOT_RECEIVED, Received, Signals};
use super::target::Target;
use super::{Console, Trouble, completions};

/// Attaches this terminal to a running job: shows its output, and passes input on to one of its ranks
///
/// Output is shown from now on, in whole lines, and also goes where it went before. What you type goes to the named rank, by default to rank 0, and
/// Ctrl-D is the end of its input. A rank accepts input only if its job was started with input forwarding: jobs of `pmixrun --dvm` are, jobs of `pmix submit` are not. Without --dvm, the rank that is connected to pmixrun's own standard input cannot take input from attach. Otherwise only the output is shown. Ctrl-C, SIGTERM and SIGHUP (unless it is ignored at startup, as under nohup) end this command, not the
/// job. By default it searches for the job at all live servers of
/// this user on this node.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 when all processes have ended, when their server has stopped, or when this command was told to end; 1 if a job or process is \
                  not running, if its output is not available, or if the connection to the server was lost; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// A job, by namespace, or a process
    #[arg(value_name = "NAMESPACE[:RANK]", add = completions::jobs())]
    target: Target,

    /// Pass standard input on even if it is not a terminal; its end is the end of the rank's input
    #[arg(long)]
    stdin: bool,

    /// Pass signals on to the job or process; a second Ctrl-C kills it, and Ctrl-\ ends this command
    #[arg(long)]
    signals: bool,

    /// Prefix each line with rank and channel
    #[arg(long)]
    rank: bool,

    /// Show output unchanged, whoever it belongs to: on a terminal, control characters of other users' processes are escaped otherwise
    #[arg(long)]
    raw: bool,

    #[command(flatten)]
    selection: Selection,
}

/// Input that was read and is not passed on yet, in pieces of at most [`PIECE`] bytes.
const WAITING: usize = 4;
const PIECE: usize = 64 << 10;

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let mut signals = Signals::receive()?;
    let Target(proc) = &args.target;
    let started = tokio::select! {
        started = start(proc, &args.selection, console) => started?,
        // its server may hang
        _ = signals.interrupted() => return Ok(ExitCode::SUCCESS),
    };
    let Some((tool, output, is_own)) = started else { return Ok(ExitCode::FAILURE) };
    let printer = start_printer(args.raw || is_own, OutputFormat::default().rank(args.rank))?;
    let mut attached = Attached {
        output,
        printer,
        acts: FuturesUnordered::new(),
        passes_signals: args.signals,
        proc: proc.clone(),
    };
    if args.stdin || io::stdin().is_terminal() {
        let reader = attached.reader();
        attached
            .acts
            .push(pass_on(tool.push_stdin([reader]), read().map_err(about("standard input"))?).boxed());
    }
    let outcome = attached.follow(&tool, &mut signals).await;
    let Attached { printer, .. } = attached;
    let written = tokio::select! {
        written = printer.finish() => written,
        // the reader takes its time
        _ = signals.interrupted() => Ok(()),
    };
    leave(tool).await;
    outcome?;
    written?;
    Ok(ExitCode::SUCCESS)
}

/// Follows the output of a process, or of a job, and whether that is this user's; `None` if no server runs it, which has been said.
async fn start(
    proc: &ProcId,
    selection: &Selection,
    console: &mut Console<'_>,
) -> Result<Option<(Tool, Follower, bool)>, Error> {
    let found = selection.find(std::slice::from_ref(&proc.nspace), console).await?;
    let Some((tool, _)) = found.servers.into_iter().next() else { return Ok(None) };
    let channels = IofChannels::STDOUT | IofChannels::STDERR;
    let output = Follower::start(&tool, BTreeSet::from([proc.clone()]), channels, false).await?;
    let is_own = selection.trusts_nobody_else() && are_own(&tool, iter::once(proc)).await?;
    Ok(Some((tool, output, is_own)))
}

struct Attached {
    proc: ProcId,
    output: Follower,
    printer: Printer,
    /// What is under way at the server: input, and signals.
    acts: FuturesUnordered<BoxFuture<'static, Result<(), Error>>>,
    passes_signals: bool,
}

impl Attached {
    /// The process that gets the input.
    fn reader(&self) -> ProcId {
        if self.proc.rank.is_wildcard() { self.proc.with_rank(Rank::from_raw(0)) } else { self.proc.clone() }
    }

    fn control(&self, tool: &Tool, what: impl FnOnce(JobControlBuilder) -> JobControlBuilder) {
        let request = what(tool.client().job_control([self.proc.clone()]));
        self.acts.push(async move { Ok(request.await.map(drop)?) }.boxed());
    }

    /// Until all have ended, or until this command is to end.
    async fn follow(&mut self, tool: &Tool, signals: &mut Signals) -> Result<(), Trouble> {
        let mut quit = signal(SignalKind::quit()).map_err(about(NOT_RECEIVED))?;
        let (mut waiting, mut goes_on) = (None, false);
        loop {
            tokio::select! {
                next = self.output.next(tool), if waiting.is_none() => match next? {
                    Some(next) => waiting = Some(item(next)?),
                    None => return Ok(()),
                },
                is_taken = self.printer.take(&mut waiting), if waiting.is_some() => {
                    if !is_taken {
                        return Ok(());
                    }
                }
                received = signals.next() => match received {
                    // the job is not that of this command, and does not go on with it
                    Received::Stop => goes_on = signals.stop(),
                    Received::PassOn(Signal::CONT) if std::mem::take(&mut goes_on) => {}
                    Received::End(signal) | Received::PassOn(signal) if self.passes_signals => {
                        self.control(tool, |request| request.signal(signal.as_raw()));
                    }
                    Received::Kill if self.passes_signals => self.control(tool, JobControlBuilder::kill),
                    Received::PassOn(_) => {}
                    Received::End(_) | Received::Kill => return Ok(()),
                },
                _ = quit.recv() => return Ok(()),
                Some(outcome) = self.acts.next(), if !self.acts.is_empty() => {
                    // processes may end meanwhile
                    if let Err(error) = outcome && !error.is_not_found() {
                        complain(&error.to_string());
                    }
                }
            }
        }
    }
}

/// Passes input on until it ends, or the job does: a server of several users does not tell a job that has ended from those of others.
async fn pass_on(mut sink: InputSink, mut input: mpsc::Receiver<Bytes>) -> Result<(), Error> {
    let is_refusal =
        |error: &pmix_tool::client::Error| error.status() == pmix_tool::Status::ERR_NO_PERMISSIONS;
    while let Some(piece) = input.recv().await {
        match sink.write(piece).await {
            Err(error) if is_refusal(&error) => return Ok(()),
            written => written?,
        }
    }
    match sink.close().await {
        Err(error) if is_refusal(&error) => Ok(()),
        closed => Ok(closed?),
    }
}

/// Standard input, as it comes. A thread reads it that nobody waits for, because no read of a terminal can be broken off.
fn read() -> io::Result<mpsc::Receiver<Bytes>> {
    let (pieces, received) = mpsc::channel(WAITING);
    thread::Builder::new().name("input".into()).spawn(move || {
        let mut buffer = vec![0; PIECE];
        // an error ends the input as its end does
        while wait_for_input().is_ok()
            && let Ok(length @ 1..) = io::stdin().lock().read(&mut buffer)
        {
            let piece = buffer.get(..length).unwrap_or_default();
            if pieces.blocking_send(Bytes::copy_from_slice(piece)).is_err() {
                return;
            }
        }
    })?;
    Ok(received)
}
