//! The head of a DVM: it keeps servers and daemons running for jobs that tools start.

use std::io;

use pmix_host::{Records, StandardHost};
use rustix::process::Signal;

use crate::claim::Claim;
use crate::cli::HeadPlan;
use crate::console::Console;
use crate::dvm::{Dvm, Keeping};
use crate::ending::Interrupts;
use crate::exit_code::NOT_STARTED;
use crate::multi_user::serve_all;
use crate::pool::Pool;
use crate::report_file::{ReportFile, report_pid, report_uri};
use crate::signals::{Received, Signals};

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

/// Makes this the head of the DVM; `None` if it was told to end before it was.
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
    tokio::select! {
        claim = Claim::make(plan.etcd.as_ref(), tell) => claim.map(Some),
        _ = interrupts.first("another head was there") => Ok(None),
    }
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
    let records = plan.record.clone().map_or(Records::Session, Records::Directory);
    let keeping = Keeping { records, durable };
    let mut dvm = match Dvm::start(&plan.setup, keeping, None, console, interrupts).await {
        Ok(dvm) => dvm,
        // it was told to end before it was ready
        Err(not_run) if not_run.by.is_some() => return Ok(0),
        Err(not_run) => return Err(not_run.reason),
    };
    let told = ready(plan, &dvm, console);
    let result = match &told {
        Ok(_) => {
            let (why, code) = until_told(&mut dvm, claim, console, interrupts).await;
            notify(&[sd_notify::NotifyState::Stopping]);
            console.tell(format_args!("ending: {why}"));
            end_jobs(&dvm.host, console, interrupts).await;
            Ok(code)
        }
        Err(reason) => Err(reason.clone()),
    };
    dvm.end("the DVM has ended", interrupts).await;
    result
}

/// Says that jobs can be submitted; returns the file with the address.
fn ready(plan: &HeadPlan, dvm: &Dvm, console: &mut Console) -> Result<Option<ReportFile>, String> {
    let file = match &plan.report_uri {
        Some(place) => report_uri(place, dvm.uri(), console)?,
        None => None,
    };
    let nodes = match dvm.session.as_ref().map_or(1, |session| session.members().len()) {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    };
    console.tell(format_args!("ready with {nodes}: pmix submit --pid {}", std::process::id()));
    notify(&[sd_notify::NotifyState::Ready, sd_notify::NotifyState::Status(&nodes)]);
    Ok(file)
}

/// Tells systemd, if that has started this process.
fn notify(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot tell systemd");
    }
}

/// Acts on what becomes known of nodes, until it is told to end, or cannot go on; returns why, and the exit code.
async fn until_told(
    dvm: &mut Dvm,
    claim: &mut Claim,
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> (String, i32) {
    let host = dvm.host.clone();
    let mut told = std::pin::pin!(host.told_to_end());
    let mut requests = host.node_requests();
    let mut pool = Pool::new(dvm);
    loop {
        tokio::select! {
            signal = interrupts.signals.next() => match signal {
                Received::End(Signal::INT) => return ("interrupted".to_owned(), 0),
                Received::End(_) => return ("a signal".to_owned(), 0),
                // it has no processes of its own to pass it on to
                Received::PassOn(_) => {}
            },
            why = claim.lost() => return (why, NOT_STARTED),
            tool = &mut told => return (format!("{tool} has requested it"), 0),
            Some(request) = requests.recv() => pool.take(request, console),
            change = pool.next() => pool.act(change, console),
            _ = console.advance() => {}
        }
    }
}

/// Ends all jobs. A second signal leaves that to the end of servers and guardian.
async fn end_jobs(host: &StandardHost, console: &mut Console, interrupts: &mut Interrupts) {
    tokio::select! {
        () = host.end_jobs() => {}
        () = interrupts.again() => console.tell("killing what is left of jobs"),
    }
}
