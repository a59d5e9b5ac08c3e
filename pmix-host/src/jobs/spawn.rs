//! Jobs that processes start: children of the job of their parent.

use pmix_server::Account;
use pmix_server::host::{HostError, HostResult, Spawn, UpcallContext};
use pmix_types::{App, Directives, IofChannels, Nspace, ProcId, Rank, Status, Value, keys};
use tokio::sync::mpsc;

use super::cluster::Cluster;
use super::control::{Act, Child, Control, Reach};
use super::daemons::{self, Parts};
use super::error::StartError;
use super::notices::Notices;
use super::report::{JobReport, JobStart};
use super::running::RunningJob;
use super::start::Jobs;
use super::store::TicketOf;
use crate::user::{is_trusted, own_uid};

/// Names that are tried for a job.
const MAX_NAMES: usize = 64;

impl Jobs {
    /// Starts a job for a process; its output goes to the reader of its parent's output, and it ends with the parent's
    /// job, unless it is independent.
    ///
    /// Daemons of a debugger become a job of their own; of an application and its daemons, the namespace is that of the
    /// application (DBG-01).
    pub(crate) async fn spawn(&self, cx: &UpcallContext, req: Spawn) -> HostResult<Nspace> {
        self.spawn_from(self.site.node(), cx, req, None).await
    }

    /// The same for a process of another node, unless that node [calls it off](Self::call_off). The request may come again, to a
    /// successor of this host: it says then what has become of the first one.
    pub(crate) async fn spawn_for(
        &self,
        ticket: TicketOf,
        cx: UpcallContext,
        req: Spawn,
    ) -> HostResult<Nspace> {
        let _under_way = UnderWay::new(&self.cluster, &ticket, &cx);
        self.spawn_from(&ticket.0, &cx, req, Some(ticket.1)).await
    }

    /// Ends what has been started for a spawn of another node: its requester no longer waits for the reply.
    pub(crate) fn call_off(&self, ticket: &TicketOf) {
        if let Some(cx) = self.cluster.spawns_afar().get(ticket) {
            cx.cancel();
        }
    }

    /// Whether no spawn of another node is under way.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.cluster.spawns_afar().is_empty()
    }

    /// The same for a process whose server is on this node.
    async fn spawn_from(
        &self,
        node: &str,
        cx: &UpcallContext,
        req: Spawn,
        ticket: Option<u64>,
    ) -> HostResult<Nspace> {
        let ticket = ticket.map(|ticket| (node.to_owned(), ticket));
        if let Some(settled) = ticket.as_ref().and_then(|ticket| self.settled(ticket)) {
            return settled;
        }
        let Spawn { apps, mut directives, .. } = req;
        let Parts { apps, daemons } = Parts::of(apps, &mut directives)?;
        if apps.is_empty() && !daemons.is_empty() {
            return Ok(self.spawn_one(node, cx, daemons, directives, ticket).await?.nspace);
        }
        if daemons.is_empty() {
            return Ok(self.spawn_one(node, cx, apps, directives, ticket).await?.nspace);
        }
        let app = self.spawn_one(node, cx, apps, daemons::of_application(&directives), ticket).await?;
        let target = ProcId::wildcard(app.nspace.clone());
        let directives = daemons::directives(&directives, target);
        let daemons = self.spawn_one(node, cx, daemons, directives, None).await;
        if let Err(error) = daemons {
            // one spawn, so all or nothing
            let _ = app.control.send(Control::Order { act: Act::Terminate, reach: Reach::All, done: None });
            return Err(error);
        }
        Ok(app.nspace)
    }

    async fn spawn_one(
        &self,
        node: &str,
        cx: &UpcallContext,
        apps: Vec<App>,
        mut directives: Directives,
        ticket: Option<TicketOf>,
    ) -> HostResult<Spawned> {
        let parent = &self.parent(cx, &mut directives)?;
        let user = self.runs_as(cx).await?;
        let (forwarded, stdin) = (forwarded(&directives)?, stdin_reader(&directives)?);
        let is_independent = directives.flag(&keys::SPAWN_CHILD_SEP)?;
        let is_by_tool = !self.cluster.table.contains(&cx.caller.nspace);
        let may_fail = is_by_tool || Notices::take(&mut directives.clone())?.of_failure();
        let mut start =
            JobStart::new(parent.nspace.clone(), apps).parent(parent.clone()).forwarded(forwarded);
        start.directives = directives;
        (start.user, start.ticket) = (user, ticket);
        start.stdin = stdin.filter(|_| self.cluster.launcher.takes_stdin());
        let owner = self.cluster.table.entries().get(&parent.nspace).map(|job| {
            start.on_failure = job.on_failure;
            // not what a user has set for processes of root
            let runs_as = start.user.as_ref().map_or_else(own_uid, Account::uid);
            start.exported_by_parent = Some(job.exported_by(parent.rank)).filter(|_| job.owner == runs_as);
            Owner { control: job.control.clone(), reports: job.reports.clone() }
        });
        let job = self.start_child(start, node, cx).await?;
        let nspace = job.nspace().clone();
        if cx.is_cancelled() {
            // nobody learns its name
            job.terminate();
        }
        if let Some(owner) = &owner {
            let child = Child { control: job.sender(), is_independent, may_fail };
            if let Err(mpsc::error::SendError(Control::Child { child, .. })) =
                owner.control.send(Control::Child { nspace: nspace.clone(), child })
            {
                child.end();
            }
        }
        let control = job.sender();
        tokio::spawn(pass_on(job, owner));
        Ok(Spawned { nspace, control })
    }

    /// Starts a job by the next name that a child may get of the job whose name it has so far.
    async fn start_child(&self, start: JobStart, node: &str, cx: &UpcallContext) -> HostResult<RunningJob> {
        let mut taken = 0;
        loop {
            let number = self.cluster.next_child();
            let nspace = Nspace::new(format!("{}.{number}", start.nspace))
                .map_err(|error| HostError::new(Status::ERR_BAD_PARAM, error.to_string()))?;
            let start = JobStart { nspace: nspace.clone(), ..start.clone() };
            match self.start_unless(start, node, cx.cancelled()).await {
                // on one of the nodes a group has that name (GRP-11)
                Err(error) if error.status() == Status::ERR_EXISTS && taken + 1 < MAX_NAMES => taken += 1,
                started => return started.map_err(|error| refusal(&nspace, error)),
            }
        }
    }

    /// Whose child the job is: the caller's, unless it belongs to no job and has named another process.
    fn parent(&self, cx: &UpcallContext, directives: &mut Directives) -> HostResult<ProcId> {
        let Some(named) = directives.take(&keys::PARENT_ID)?.filter(|named| *named != cx.caller) else {
            return Ok(cx.caller.clone());
        };
        let jobs = self.cluster.table.entries();
        let is_there = jobs.get(&named.nspace).is_some_and(|job| {
            let may = is_trusted(cx.uid) || job.owner == cx.uid;
            may && job.table.iter().any(|row| row.proc == named)
        });
        if !is_there {
            let message = format!("PARENT_ID {named}: no such process of a running job");
            return Err(HostError::new(Status::ERR_NOT_FOUND, message));
        }
        Ok(named)
    }

    /// The user as whom the jobs of a process run: its own user; for root on the server of another user, that user.
    async fn runs_as(&self, cx: &UpcallContext) -> HostResult<Option<Account>> {
        let uid = cx.uid;
        if is_trusted(uid) {
            return Ok(None);
        }
        let failed = |error: std::io::Error| {
            let message = format!("cannot look up the groups of uid {uid}: {error}");
            HostError::new(Status::ERR_JOB_SYS_OP_FAILED, message).with_source(error)
        };
        if let Some(gid) = cx.gid {
            return Account::look_up_async(uid, gid).await.map(Some).map_err(failed);
        }
        // nobody proves the group of a tool in C: its jobs have that of a login
        let found = tokio::task::spawn_blocking(move || Account::look_up_login(uid)).await;
        let found = found.unwrap_or_else(|panic| Err(std::io::Error::other(panic))).map_err(failed)?;
        found.map(Some).ok_or_else(|| {
            let message = format!(
                "{} starts no processes: its group is unknown, and uid {uid} has no login",
                cx.caller
            );
            HostError::new(Status::ERR_NO_PERMISSIONS, message)
        })
    }
}

/// Marks a spawn of another node as under way until dropped.
struct UnderWay<'a> {
    cluster: &'a Cluster,
    ticket: &'a TicketOf,
}

impl<'a> UnderWay<'a> {
    fn new(cluster: &'a Cluster, ticket: &'a TicketOf, cx: &UpcallContext) -> Self {
        cluster.spawns_afar().insert(ticket.clone(), cx.clone());
        Self { cluster, ticket }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.cluster.spawns_afar().remove(self.ticket);
    }
}

/// A job that runs.
struct Spawned {
    nspace: Nspace,
    control: mpsc::UnboundedSender<Control>,
}

/// The job of the parent; a tool has none.
pub(super) struct Owner {
    pub(super) control: mpsc::UnboundedSender<Control>,
    pub(super) reports: mpsc::Sender<JobReport>,
}

/// Passes the reports of a job to the reader of its parent's reports.
pub(super) async fn pass_on(mut job: RunningJob, owner: Option<Owner>) {
    while let Some(report) = job.next_report().await {
        let Some(owner) = &owner else { continue };
        match report {
            JobReport::Done(outcome) => {
                let nspace = job.nspace().clone();
                let _ = owner.control.send(Control::ChildEnded { nspace, outcome });
            }
            report => {
                // an owner that is gone reads nothing
                let _ = owner.reports.send(report).await;
            }
        }
    }
    if let Some(owner) = owner {
        let _ = owner.control.send(Control::ChildGone { nspace: job.nspace().clone() });
    }
}

/// Output of the job that can be pulled: what the spawn requested (IOF-04).
fn forwarded(directives: &Directives) -> HostResult<IofChannels> {
    let mut channels = IofChannels::NONE;
    if directives.flag(&keys::FWD_STDOUT)? {
        channels |= IofChannels::STDOUT;
    }
    if directives.flag(&keys::FWD_STDERR)? {
        channels |= IofChannels::STDERR;
    }
    Ok(channels)
}

/// Who takes input: the rank that is named, as the newest Standard has it, or all, as the headers have it.
fn stdin_reader(directives: &Directives) -> HostResult<Option<Rank>> {
    match directives.get_value(keys::FWD_STDIN.name()) {
        Some(Value::Rank(rank)) => Ok(Some(*rank)),
        _ => Ok(directives.flag(&keys::FWD_STDIN)?.then_some(Rank::WILDCARD)),
    }
}

/// Who has requested a job that does not start has never heard of its name.
fn refusal(nspace: &Nspace, error: StartError) -> HostError {
    let text = error.to_string();
    let rest = text.strip_prefix(nspace.as_str()).and_then(|rest| rest.strip_prefix(": "));
    HostError::new(error.status(), rest.unwrap_or(&text).to_owned()).with_source(error)
}

#[cfg(test)]
mod tests {
    use pmix_types::Info;

    use super::*;

    #[test]
    fn iof_04_iof_10_what_is_forwarded_is_what_the_directives_name() {
        let (out, err) = (IofChannels::STDOUT, IofChannels::STDERR);
        for (directives, channels) in [
            (Directives::new(), IofChannels::NONE),
            (Directives::new().with(&keys::FWD_STDOUT, true), out),
            (Directives::new().with(&keys::FWD_STDERR, true), err),
            (Directives::new().with(&keys::FWD_STDERR, true).with(&keys::FWD_STDOUT, true), out | err),
            (
                Directives::new().with(&keys::FWD_STDERR, false).with(&keys::FWD_STDIN, true),
                IofChannels::NONE,
            ),
        ] {
            assert_eq!(forwarded(&directives).unwrap(), channels, "{directives:?}");
        }
        let reader = |value: Value| {
            let info = Info::dynamic(keys::FWD_STDIN.key_name(), value);
            stdin_reader(&vec![info].into()).unwrap()
        };
        assert_eq!(reader(Value::Rank(Rank::from_raw(2))), Some(Rank::from_raw(2)));
        assert_eq!(reader(Value::Bool(true)), Some(Rank::WILDCARD));
        assert_eq!(reader(Value::Bool(false)), None);
        assert_eq!(stdin_reader(&Directives::new()).unwrap(), None);
    }
}
