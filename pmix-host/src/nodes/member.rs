//! The orders of the head, carried out by a node.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use pmix_server::Account;
use pmix_types::job::JobSpec;
use pmix_types::message::{Failure, Reply};
use pmix_types::{Gid, Nspace, ProcId, Status, Uid};
use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::binding::BindRequest;
use crate::internode::{News, Order, PeerReply, PeerRequest, ProcToLaunch, Site, Told, decode_reply};
use crate::jobs::{LocalNode, MAX_PROCS, Node, NodeJob, StartError, change_first};
use crate::nodes::Holdings;
use crate::services::Services;
use crate::user::{is_trusted, own_uid, own_user};
use crate::{ExchangeError, LaunchError, LaunchJob, LaunchProc, LaunchReport, Launcher};

/// How long reports wait before they are sent again, if the head does not take them.
const AGAIN: Duration = Duration::from_millis(100);
/// Reports of a job that may wait for the head, and how many go to it at a time.
const REPORTS: usize = 256;
const AT_A_TIME: usize = 64;

/// Carries out an order of the head, which alone may give one.
pub(crate) async fn obey(services: &Services, from: &str, order: Order) -> Result<PeerReply, Failure> {
    if services.site.head() != Some(from) {
        let message = format!("node {} takes no orders from node {from}", services.site.node());
        return Err(Failure::new(Status::ERR_NO_PERMISSIONS, message));
    }
    // before anything that takes time: the successor of a head is told what comes of it
    let launch = match order.is_launch() {
        true => Some(services.holdings.begin_launch().await),
        false => None,
    };
    let obeyed = match order {
        Order::OfUser { uid, gid, order } => of_user(services, from, uid, gid, *order).await,
        order => carry_out(services, from, order, None).await,
    };
    drop(launch);
    obeyed
}

/// Carries out an order for the job of another user. Looking the user up can take so long that the head ends the job meanwhile.
async fn of_user(
    services: &Services,
    from: &str,
    uid: Uid,
    gid: Gid,
    order: Order,
) -> Result<PeerReply, Failure> {
    let registered = match &order {
        Order::RegisterJob { number, nspace, .. } => Some((*number, nspace.clone())),
        _ => None,
    };
    if let Some((number, nspace)) = &registered {
        services.holdings.begin(*number, nspace);
    }
    let user = account(services, uid, gid).await;
    if let Some((_, nspace)) = &registered {
        if !services.holdings.has(nspace) {
            let message =
                format!("{nspace} was ended while node {} looked up its user", services.node.name());
            return Err(Failure::new(Status::ERR_JOB_CANCELED, message));
        }
        if user.is_err() {
            services.holdings.end(nspace);
        }
    }
    carry_out(services, from, order, Some(user?)).await
}

/// The user of a job that is not the daemon's own, as this node knows it.
async fn account(services: &Services, uid: Uid, gid: Gid) -> Result<Account, Failure> {
    let node = services.node.name();
    let refused = |why: String| Failure::new(Status::ERR_NO_PERMISSIONS, format!("node {node}: {why}"));
    if !services.gate.serves_others() {
        let own = own_uid();
        return Err(refused(format!(
            "this daemon starts processes as uid {own} only, not as uid {uid}: its head was not started with --multi-user"
        )));
    }
    // jobs of root come without a user
    if is_trusted(uid) {
        return Err(refused(format!(
            "uid {uid} is root or the user of this daemon, so its jobs need no other user"
        )));
    }
    if !services.launcher.supports_user_switch() {
        return Err(refused(format!("this daemon may not become uid {uid}: root must start it")));
    }
    Account::look_up_async(uid, gid).await.map_err(|error| {
        let message = format!("node {node}: cannot look up the groups of uid {uid}: {error}");
        Failure::new(Status::ERR_JOB_SYS_OP_FAILED, message)
    })
}

async fn carry_out(
    services: &Services,
    from: &str,
    order: Order,
    user: Option<Account>,
) -> Result<PeerReply, Failure> {
    let node = &services.node;
    let done = PeerReply::Reply(Reply::Done);
    let told = match order {
        // it is read as one of the others
        Order::OfUser { .. } => return Err(Status::ERR_BAD_PARAM.into()),
        Order::RegisterJob { number, nspace, infos, ranks, in_session } => {
            services.holdings.begin(number, &nspace);
            let here = ranks.into_iter().map(|rank| ProcId::new(nspace.clone(), rank)).collect();
            let spec = infos.into_iter().fold(JobSpec::new(nspace), JobSpec::raw);
            let job = NodeJob { spec, here, in_session };
            node.register_job(number, job, user.as_ref()).await.map_err(failure)?;
            return Ok(done);
        }
        Order::Knows(nspace) => Told { yes: node.knows(&nspace).await, ..Told::default() },
        Order::SetUp { nspace, infos } => {
            node.set_up_local(&nspace, infos).await.map_err(Failure::from)?;
            return Ok(done);
        }
        Order::WorkDir(number) => {
            let path = node.work_dir(number, user.as_ref()).await.map_err(Failure::from)?;
            Told { text: Some(path), ..Told::default() }
        }
        Order::ProcEnded { proc, reason } => {
            node.proc_ended(&proc, reason).await;
            return Ok(done);
        }
        Order::EndJob(nspace) => {
            // first: it may not have been registered yet
            services.holdings.end(&nspace);
            node.end_job(&nspace).await;
            return Ok(done);
        }
        Order::KeepRecord { nspace, why } => {
            let file = node.keep_record(&nspace, &why).await;
            Told { text: file.map(|file| file.to_string_lossy().into_owned()), ..Told::default() }
        }
        Order::Notify(event) => {
            node.notify(&event).await;
            return Ok(done);
        }
        Order::Deliver { source, channels, data, info } => {
            node.deliver(&source, channels, data, info).await;
            return Ok(done);
        }
        Order::Launch { nspace, apps, procs, base_env } => {
            let mut job = LaunchJob::new(nspace, apps);
            (job.base_env, job.user) = (base_env, user);
            launch(services, from, job, procs).await.map_err(failure)?;
            return Ok(done);
        }
        Order::Signal { procs, signal } => {
            services.launcher.signal(&procs, signal).await.map_err(|error| of_launch(&error))?;
            return Ok(done);
        }
        Order::Terminate(procs) => {
            services.launcher.terminate(&procs).await.map_err(|error| of_launch(&error))?;
            return Ok(done);
        }
        Order::PushStdin { procs, data, is_end } => {
            let pushed = services.launcher.push_stdin(&procs, data, is_end).await;
            pushed.map_err(|error| of_launch(&error))?;
            return Ok(done);
        }
        Order::Bind { nspace, policy, here, all } => {
            let count = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
            if here > all || count(here) > MAX_PROCS {
                let message = format!("{nspace}: {here} of {all} processes cannot be bound");
                return Err(Failure::new(Status::ERR_BAD_PARAM, message));
            }
            let job = BindRequest { all: count(all), ..BindRequest::new(nspace, policy, Vec::new()) };
            let bound = services.launcher.bind(&job.on(node.name(), count(here))).await;
            Told { bound: bound.map_err(Failure::from)?, ..Told::default() }
        }
        Order::Holdings => {
            let (held, pulls) = services.holdings.tell().await;
            Told { held, pulls, ..Told::default() }
        }
        Order::WhichEnded(procs) => {
            Told { procs: services.launcher.which_ended(&procs).await, ..Told::default() }
        }
    };
    Ok(PeerReply::Told(told))
}

/// Registers the processes of a job here, and starts them.
async fn launch(
    services: &Services,
    head: &str,
    mut job: LaunchJob,
    procs: Vec<ProcToLaunch>,
) -> Result<(), StartError> {
    let node = &services.node;
    let nspace = job.nspace.clone();
    let (uid, gid) = job.user.as_ref().map_or_else(own_user, |user| (user.uid(), user.gid()));
    let mut changed = BTreeSet::new();
    for ProcToLaunch { rank, app, cwd, takes_stdin, bound } in procs {
        let proc = ProcId::new(nspace.clone(), rank);
        let environment = node.register_proc(&proc, uid, gid).await?;
        if let Some(app) = changed.insert(app).then(|| job.apps.get_mut(app)).flatten() {
            change_first(app, environment.changes);
        }
        let mut launched = LaunchProc::new(rank, node.name().to_owned(), app, environment.variables);
        launched.defaults = environment.defaults;
        launched.pmi1 = environment.pmi1;
        launched.cwd = cwd;
        launched.takes_stdin = takes_stdin;
        launched.bound = bound;
        job.procs.push(launched);
    }
    let procs: Vec<_> = job.procs.iter().map(|proc| ProcId::new(nspace.clone(), proc.rank)).collect();
    let (sender, reports) = mpsc::channel(REPORTS);
    services.holdings.launch(&nspace, procs.iter().map(|proc| proc.rank));
    let launched = services.launcher.launch(job, sender).await;
    launched.inspect_err(|_| services.holdings.not_launched(&nspace))?;
    let part =
        JobPart { nspace, procs, launcher: services.launcher.clone(), holdings: services.holdings.clone() };
    tokio::spawn(report(node.clone(), services.site.clone(), head.to_owned(), part, reports));
    Ok(())
}

/// The processes of a job that run here.
struct JobPart {
    nspace: Nspace,
    procs: Vec<ProcId>,
    launcher: Arc<dyn Launcher>,
    holdings: Arc<Holdings>,
}

impl JobPart {
    /// What is not output; how much is dropped is logged.
    fn without_output(&self, reports: Vec<LaunchReport>) -> Vec<LaunchReport> {
        let is_output =
            |report: &LaunchReport| matches!(report, LaunchReport::Output { data, .. } if !data.is_empty());
        let (output, others): (Vec<_>, Vec<_>) = reports.into_iter().partition(is_output);
        let size = |report: &LaunchReport| {
            if let LaunchReport::Output { data, .. } = report { data.len() } else { 0 }
        };
        let bytes: usize = output.iter().map(size).sum();
        if bytes > 0 {
            tracing::warn!(nspace = %self.nspace, bytes, "output is lost with the head that was to pass it on");
        }
        others
    }

    /// Kills them: the head has given the job up, perhaps before they were started.
    async fn kill(&self) {
        tracing::info!(nspace = %self.nspace, "the head does not know the job; its processes are killed");
        if let Err(error) = self.launcher.signal(&self.procs, Signal::KILL.as_raw()).await {
            tracing::warn!(nspace = %self.nspace, %error, "processes that the head does not know are still running");
        }
    }
}

/// Sends the head what the launcher reports, in batches. The next one waits until the head has taken the last, so that a
/// reader who is slow slows the processes that write, and nobody else.
async fn report(
    node: Arc<LocalNode>,
    site: Arc<Site>,
    head: String,
    part: JobPart,
    mut reports: mpsc::Receiver<LaunchReport>,
) {
    let mut batch = Vec::with_capacity(AT_A_TIME);
    let (mut is_unknown, mut is_late) = (false, false);
    while reports.recv_many(&mut batch, AT_A_TIME).await > 0 {
        for report in &batch {
            // of an end its successor must hear what was written before
            if !matches!(report, LaunchReport::Ended { .. }) {
                part.holdings.report(report);
            }
            if let LaunchReport::Started { proc, pid, .. } = report {
                node.proc_started(proc, *pid).await;
            }
        }
        let mut reports = std::mem::take(&mut batch);
        let is_end = |report: &&LaunchReport| matches!(report, LaunchReport::Ended { .. });
        let ends: Vec<_> = reports.iter().filter(is_end).cloned().collect();
        let told = loop {
            let news = PeerRequest::News(News::Reports { nspace: part.nspace.clone(), reports });
            let told = site.tell(&head, &news).await;
            match (told, news) {
                // it may have passed on the output, or some of it
                (
                    Err(ExchangeError::Replaced { .. }),
                    PeerRequest::News(News::Reports { reports: all, .. }),
                ) => {
                    reports = part.without_output(all);
                }
                // it has too many requests of this node at the moment; ends must not be lost
                (Err(ExchangeError::Other(why)), PeerRequest::News(News::Reports { reports: all, .. })) => {
                    if !std::mem::replace(&mut is_late, true) {
                        tracing::warn!(nspace = %part.nspace, why, "the head is not accepting reports of a job at the moment; they are sent again until it does");
                    }
                    reports = all;
                    tokio::time::sleep_until(Instant::now() + AGAIN).await;
                }
                (told, _) => {
                    is_late = false;
                    break told;
                }
            }
        };
        ends.iter().for_each(|end| part.holdings.report(end));
        match told.map(decode_reply) {
            Err(error) => {
                tracing::debug!(nspace = %part.nspace, %error, "the head is gone; its job ends with it");
            }
            Ok(Err(failure)) if failure.status == Status::ERR_NOT_FOUND => {
                if !std::mem::replace(&mut is_unknown, true) {
                    part.kill().await;
                }
            }
            Ok(Err(failure)) => {
                tracing::warn!(nspace = %part.nspace, %failure, "the head does not take reports of a job");
            }
            Ok(Ok(_)) => {}
        }
    }
}

fn failure(error: StartError) -> Failure {
    match &error {
        // whose parts the head puts together again
        StartError::Launch(error) => of_launch(error),
        error => Failure::new(error.status(), error.to_string()),
    }
}

/// The process that it concerns, and the reason alone.
fn of_launch(error: &LaunchError) -> Failure {
    Failure::new(error.status, error.reason.clone()).with_procs(vec![error.proc.clone()])
}

#[cfg(test)]
#[path = "member_tests.rs"]
mod tests;
