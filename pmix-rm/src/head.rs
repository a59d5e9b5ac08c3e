//! The head of a DVM: it keeps servers and daemons running for jobs that tools start.

use std::io;

use futures::FutureExt;
use futures::future::BoxFuture;
use pmix_host::Records;
use pmix_launch::UNKILLABLE;
use pmix_program::signals::{Received, Signals};
use rustix::process::Signal;

use crate::claim::{Claim, Doubt};
use crate::cli::HeadPlan;
use crate::console::Console;
use crate::dvm::{Dvm, Keeping};
use crate::ending::{Interrupts, NOT_ENDED};
use crate::exit_code::NOT_STARTED;
use crate::multi_user::serve_all;
use crate::nodes::Event;
use crate::pool::{Change, Pool};
use crate::report_file::{ReportFile, report_pid, report_uri};

/// Serves until it is told to end, and returns the exit code.
///
/// # Errors
/// The process has no usable standard streams or signals.
pub(crate) async fn run(plan: HeadPlan) -> io::Result<i32> {
    let mut interrupts = Interrupts::new(Signals::receive()?, None);
    let mut console = Console::start("pmixd", plan.talk)?;
    let code = match serve(&plan, &mut console, &mut interrupts).await {
        Ok(code) => code,
        Err(reason) => {
            console.say(reason);
            NOT_STARTED
        }
    };
    tokio::select! {
        // a reader that has gone away is no failure of a head
        _ = console.finish() => {}
        () = interrupts.again() => {}
    }
    Ok(code)
}

/// Serves as the head of its DVM; returns the exit code.
async fn serve(plan: &HeadPlan, console: &mut Console, interrupts: &mut Interrupts) -> Result<i32, String> {
    if plan.setup.multi_user {
        serve_all().map_err(|why| format!("--multi-user: {why}"))?;
    }
    let _pid: Option<ReportFile> = match &plan.report_pid {
        Some(place) => report_pid(place, console)?,
        None => None,
    };
    let Some(mut claim) = claim(plan, console, interrupts).await? else { return Ok(0) };
    let served = serve_as_head(plan, &mut claim, console, interrupts).await;
    // another head waits until all that this one has started is gone
    tokio::select! {
        () = claim.end() => {}
        () = interrupts.again() => {}
    }
    served
}

/// Makes this the head of the DVM; `None` if it, or the DVM, was told to end before it was.
async fn claim(
    plan: &HeadPlan,
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> Result<Option<Claim>, String> {
    let tell = |holder: &str| {
        let waiting = format!("waiting: {holder} is the head of this DVM");
        notify(&[sd_notify::NotifyState::Status(&waiting)]);
        console.tell(waiting);
    };
    let claim = tokio::select! {
        claim = Claim::make(plan.etcd.as_ref(), tell) => claim?,
        _ = interrupts.first("another head was there") => return Ok(None),
    };
    if claim.is_none() {
        console.tell("ending: the DVM has been stopped");
    }
    Ok(claim)
}

async fn serve_as_head(
    plan: &HeadPlan,
    claim: &mut Claim,
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> Result<i32, String> {
    let durable = tokio::select! {
        durable = claim.durable() => durable?,
        _ = interrupts.first("published data was read") => return Ok(0),
    };
    let lasting = tokio::select! {
        lasting = claim.lasting() => lasting?,
        _ = interrupts.first("jobs of the head before were read") => return Ok(0),
    };
    let records = plan.record.clone().map_or(Records::Session, Records::Directory);
    let has_jobs = lasting.as_ref().is_some_and(|lasting| lasting.before.is_some());
    let keeping = Keeping { records, durable, lasting };
    let started = tokio::select! {
        started = Dvm::start(&plan.setup, keeping, None, console, interrupts) => started,
        why = claim.lost() => return Err(why),
    };
    let mut dvm = match started {
        Ok(dvm) => dvm,
        // it was told to end before it was ready
        Err(not_run) if not_run.by.is_some() => return Ok(0),
        Err(not_run) => return Err(not_run.reason),
    };
    let kept = match &dvm.session {
        Some(session) => claim.keep(session).await,
        None => Ok(()),
    };
    let told = match kept.and_then(|()| ready(plan, &dvm, console)) {
        // another head can go on with them
        Err(reason) if has_jobs => {
            dvm.leave_to_successor().await;
            return Err(reason);
        }
        told => told,
    };
    let mut is_stopped = false;
    let result = match &told {
        Ok(_) => {
            let end = until_over(plan, &mut dvm, claim, console, interrupts).await;
            if !matches!(end, End::Told { .. }) {
                notify(&[sd_notify::NotifyState::Stopping]);
            }
            match end {
                End::Told { by_tool } => {
                    is_stopped = by_tool;
                    Ok(0)
                }
                End::Superseded(why) => {
                    console.tell(format_args!("ending: {why}"));
                    dvm.leave_to_successor().await;
                    return Ok(NOT_STARTED);
                }
                End::CutOff(why) => {
                    console.tell(format_args!("ending what runs on this side: {why}"));
                    dvm.end("its head is cut off", interrupts).await;
                    return Ok(NOT_STARTED);
                }
            }
        }
        Err(reason) => Err(reason.clone()),
    };
    dvm.end("the DVM has ended", interrupts).await;
    claim.clear().await;
    if is_stopped {
        claim.stop().await;
    }
    result
}

/// Why a head ends.
enum End {
    /// It was told to, and jobs have ended or are to be killed. A tool stops the DVM, a signal this process.
    Told { by_tool: bool },
    /// Another one goes on with its jobs.
    Superseded(String),
    /// Another one may go on with the jobs of nodes that it can reach, which are not those that this one can.
    CutOff(String),
}

/// Says that jobs can be submitted; returns the file with the address.
fn ready(plan: &HeadPlan, dvm: &Dvm, console: &mut Console) -> Result<Option<ReportFile>, String> {
    let file = match &plan.report_uri {
        Some(place) => report_uri(place, dvm.uri(), console)?,
        None => None,
    };
    let nodes = match dvm.session.as_ref().map_or(dvm.servers.len(), |session| session.members().len()) {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    };
    console.tell(format_args!("ready with {nodes}: pmix submit {}", dvm.selection(plan.setup.multi_user)));
    notify(&[sd_notify::NotifyState::Ready, sd_notify::NotifyState::Status(&nodes)]);
    Ok(file)
}

/// Tells systemd, if that has started this process.
fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot tell systemd");
    }
}

/// Acts on what becomes known of nodes, until it cannot go on, or is told to end and all jobs have ended. A second signal leaves
/// their ends to that of servers and guardian.
async fn until_over(
    plan: &HeadPlan,
    dvm: &mut Dvm,
    claim: &mut Claim,
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> End {
    let host = dvm.host.clone();
    let mut told = std::pin::pin!(host.shutdown_requested());
    let mut requests = host.node_requests();
    let mut pool = Pool::new(dvm);
    // nodes can be lost while jobs end: their ends must not be waited for
    let mut jobs_end: Option<BoxFuture<'_, ()>> = None;
    let mut by_tool = false;
    // a loss of a node; nothing else is done with nodes until it is confirmed
    let mut doubtful: Option<(Change, BoxFuture<'static, Result<(), Doubt>>)> = None;
    loop {
        let why = tokio::select! {
            signal = interrupts.signal() => match signal {
                // it has no processes of its own to pass it on to
                Received::PassOn(_) => continue,
                Received::Stop => {
                    let _ = interrupts.stop();
                    continue;
                }
                Received::End(_) if jobs_end.is_some() => {
                    console.tell("killing what is left of jobs");
                    return End::Told { by_tool };
                }
                Received::End(Signal::INT) => "interrupted".to_owned(),
                Received::End(_) => "a signal".to_owned(),
            },
            why = claim.lost(), if doubtful.is_none() => return End::Superseded(why),
            tool = &mut told, if jobs_end.is_none() => {
                by_tool = true;
                format!("{tool} has requested it")
            }
            () = of(&mut jobs_end) => return End::Told { by_tool },
            Some(request) = requests.recv(), if doubtful.is_none() => {
                pool.take(request, console);
                for node in pool.take_changed() {
                    claim.keep_node(&node).await;
                }
                continue;
            }
            change = pool.next(), if doubtful.is_none() => {
                if let Change::Event(Event::Lost { .. }) = &change {
                    doubtful = Some((change, claim.confirm(plan.setup.start.head_grace).boxed()));
                } else {
                    happen(change, &mut pool, claim, console).await;
                }
                continue;
            }
            (change, confirmed) = confirmation(&mut doubtful) => {
                if let Change::Event(Event::Lost { node, reason }) = &change {
                    if let Err(doubt) = confirmed {
                        return in_doubt(doubt, node, reason);
                    }
                    pool.declare_lost(node, reason);
                }
                happen(change, &mut pool, claim, console).await;
                continue;
            }
            _ = console.advance() => continue,
        };
        console.tell(format_args!("ending: {why}"));
        notify(&[sd_notify::NotifyState::Stopping]);
        requests.close();
        let (host, within) = (&host, plan.setup.grace + UNKILLABLE);
        let end = async move {
            if tokio::time::timeout(within, host.end_jobs()).await.is_err() {
                tracing::warn!("{NOT_ENDED}");
            }
        };
        jobs_end = Some(end.boxed());
    }
}

/// Waits for a future if there is one. Cancel-safe.
async fn of(future: &mut Option<BoxFuture<'_, ()>>) {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Waits until it is known whether this head may say what is in doubt. Cancel-safe.
async fn confirmation(
    doubtful: &mut Option<(Change, BoxFuture<'static, Result<(), Doubt>>)>,
) -> (Change, Result<(), Doubt>) {
    let confirmed = match doubtful {
        Some((_, confirming)) => confirming.await,
        None => std::future::pending().await,
    };
    match doubtful.take() {
        Some((change, _)) => (change, confirmed),
        None => std::future::pending().await,
    }
}

/// Acts on what has happened to nodes, and keeps what a successor has to know of it.
async fn happen(change: Change, pool: &mut Pool<'_>, claim: &Claim, console: &mut Console) {
    if let Some(node) = pool.to_keep(&change) {
        claim.keep_node(&node).await;
    }
    pool.act(change, console);
}

/// What becomes of a head that may not say that a node is lost.
fn in_doubt(doubt: Doubt, node: &str, reason: &str) -> End {
    match doubt {
        Doubt::Superseded(why) => End::Superseded(format!("node {node}: {reason}; {why}")),
        Doubt::CutOff(why) => End::CutOff(format!("node {node}: {reason}; {why}")),
    }
}
