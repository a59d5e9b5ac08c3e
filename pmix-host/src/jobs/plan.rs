//! Where the processes of a job go, and the job data for the server.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::job::JobSpec;
use pmix_types::{
    App, DataArray, Directives, Envar, Info, Nspace, ProcId, ProcInfo, ProcState, Rank, RankSet, Status, Uid,
    Value, keys, split_variable,
};

use super::error::StartError;
use super::node::Nodes;
use super::places::{Hosts, NamedNode};
use super::requests::AppRequest;
use super::slots::{Layout, Room, Slots};
use crate::user::{is_trusted, own_user};
use crate::{LaunchJob, LaunchProc, Machine};
use pmix_server::Account;
use pmix_server::host::HostError;

/// Processes of a job.
pub(crate) const MAX_PROCS: usize = 1 << 20;
/// Processes of all jobs of a user other than the server's own and root.
const MAX_PROCS_OF_USER: usize = 1 << 16;
/// Applications of a job.
const MAX_APPS: usize = 1 << 12;
/// Environment variables and directives of an application.
const MAX_VARIABLES: usize = 1 << 15;
/// Directives of a job, times its applications.
const MAX_DIRECTIVES: usize = 1 << 20;

/// Where each rank goes, and what it runs.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Nodes in use.
    pub(crate) nodes: Vec<String>,
    /// Node and app of each rank.
    pub(crate) ranks: Vec<(usize, usize)>,
    /// The apps that start in the session's directory.
    in_session_dir: Vec<bool>,
    /// Of each app, where its processes alone are to wait for a debugger.
    stops: Vec<Vec<Info>>,
}

/// A job that is about to start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Starting<'a> {
    pub(crate) nspace: &'a Nspace,
    /// No other job of the host has it.
    pub(crate) number: u32,
    /// The user as whom it runs, unless it is the server's own.
    pub(crate) user: Option<&'a Account>,
}

/// Refuses more than a launcher could start in good time. Each application has the directives of the job, too.
///
/// # Errors
/// `ERR_OUT_OF_RESOURCE`.
pub(super) fn check_sizes(apps: &[App], directives: &Directives) -> Result<(), HostError> {
    let too_large = |message| Err(HostError::new(Status::ERR_OUT_OF_RESOURCE, message));
    if apps.len() > MAX_APPS {
        return too_large(format!("{} applications, the limit of a job is {MAX_APPS}", apps.len()));
    }
    let of_job = directives.iter().count();
    if apps.len() * of_job > MAX_DIRECTIVES {
        return too_large(format!(
            "{of_job} directives for {} applications, the limit of the product is {MAX_DIRECTIVES}",
            apps.len()
        ));
    }
    match apps.iter().find(|app| app.env.len() + app.info.len() + of_job > MAX_VARIABLES) {
        Some(app) => too_large(format!(
            "{} environment variables and {} directives for {}, the limit is {MAX_VARIABLES}",
            app.env.len(),
            app.info.len() + of_job,
            app.command.display()
        )),
        None => Ok(()),
    }
}

impl Plan {
    /// Puts the ranks on nodes in blocks, whose sizes differ by one at most: those of all applications that name the same
    /// nodes as one; or deals them to the nodes in turn. Nodes with slots are filled up to these instead. Files of hosts are read with the rights of the user.
    ///
    /// # Errors
    /// [`StartError`], with a status that says what is missing (SPN-06).
    pub(crate) async fn new(
        nspace: &Nspace,
        apps: &[AppRequest],
        added: &[Hosts],
        room: &[Room],
        user: Option<&Account>,
        layout: Layout,
    ) -> Result<Self, StartError> {
        let all: Vec<String> = room.iter().map(|room| room.name.clone()).collect();
        if all.is_empty() {
            return Err(StartError::Invalid(format!("{nspace}: the launcher has no node to start it on")));
        }
        for hosts in added.iter().filter(|hosts| !hosts.is_empty()) {
            // the launcher has those that it has
            hosts.among(&all, Status::ERR_JOB_ALLOC_FAILED, user).await?;
        }
        // of applications that name the same nodes, the ranks
        let mut sharing = BTreeMap::<(Vec<NamedNode>, Option<usize>), Vec<usize>>::new();
        let mut ranks = Vec::new();
        for (number, AppRequest { app, hosts, .. }) in apps.iter().enumerate() {
            let procs = procs_of(app).ok_or_else(|| {
                let message = format!(
                    "{nspace}: `max_procs` of {} must be at least 1, not {}",
                    app.command.display(),
                    app.max_procs
                );
                StartError::Invalid(message)
            })?;
            let most = if user.is_some() { MAX_PROCS_OF_USER } else { MAX_PROCS };
            if procs > most - ranks.len() {
                let message = format!("{nspace}: a job has {most} processes at most");
                return Err(HostError::new(Status::ERR_OUT_OF_RESOURCE, message).into());
            }
            if app.command.is_empty() {
                let message = format!("{nspace}: no program is given for application {number}");
                return Err(HostError::new(Status::ERR_JOB_NO_EXE_SPECIFIED, message).into());
            }
            let named = hosts.among(&all, Status::ERR_JOB_FAILED_TO_MAP, user).await?;
            let nodes = Room::that_take_jobs(room, named, !hosts.is_empty()).map_err(|reason| {
                HostError::new(Status::ERR_JOB_FAILED_TO_MAP, format!("{nspace}: {reason}"))
            })?;
            // a number for each node is that of each application
            let only = layout.per_node.map(|_| number);
            sharing.entry((nodes, only)).or_default().extend(ranks.len()..ranks.len() + procs);
            ranks.extend(std::iter::repeat_n((0, number), procs));
        }
        if ranks.is_empty() {
            return Err(StartError::Invalid(format!("{nspace}: there is no application to start")));
        }
        let mut places = Slots::new(room.iter().map(Room::left).collect());
        for ((nodes, _), members) in sharing {
            let chosen = places.take(&nodes, members.len(), layout).map_err(|slots| {
                let names: Vec<_> = nodes.iter().filter_map(|named| all.get(named.node)).cloned().collect();
                let taken: u32 = nodes.iter().filter_map(|named| room.get(named.node)?.taken).sum();
                let many = |count: u64, one: &str, many: &str| match count {
                    1 => format!("1 {one}"),
                    _ => format!("{count} {many}"),
                };
                let slots = many(slots, "slot", "slots");
                let is_limited = layout.per_node.is_some() || nodes.iter().any(|named| named.most.is_some());
                let (have, remedy) = match taken {
                    _ if is_limited => (
                        format!("{slots} within the given limits"),
                        "use more nodes or slots, start fewer processes, or oversubscribe",
                    ),
                    0 => (slots, "give the nodes more slots, start fewer processes, or oversubscribe"),
                    _ => (
                        format!(
                            "{slots} left beside {} of other jobs",
                            many(taken.into(), "process", "processes")
                        ),
                        "wait for these, start fewer processes, or oversubscribe",
                    ),
                };
                let message = format!(
                    "{nspace}: {} to run on {}, which {} {have}: {remedy}",
                    many(members.len() as u64, "process is", "processes are"),
                    names.join(", "),
                    if names.len() == 1 { "has" } else { "have" },
                );
                HostError::new(Status::ERR_JOB_FAILED_TO_MAP, message)
            })?;
            for (rank, node) in members.into_iter().zip(chosen) {
                if let Some(place) = ranks.get_mut(rank) {
                    place.0 = node;
                }
            }
        }
        let in_session_dir = apps.iter().map(|wanted| wanted.in_session_dir).collect();
        let stops = apps.iter().map(|wanted| wanted.stops.clone()).collect();
        Ok(Self { stops, ..Self::without_idle_nodes(all, ranks, in_session_dir) })
    }

    fn without_idle_nodes(
        all: Vec<String>,
        mut ranks: Vec<(usize, usize)>,
        in_session_dir: Vec<bool>,
    ) -> Self {
        let used: BTreeSet<usize> = ranks.iter().map(|(node, _)| *node).collect();
        let new_number: BTreeMap<usize, usize> = used.iter().copied().zip(0..).collect();
        for (node, _) in &mut ranks {
            *node = new_number.get(node).copied().unwrap_or_default();
        }
        let nodes = all.into_iter().enumerate().filter(|(node, _)| used.contains(node));
        Self { nodes: nodes.map(|(_, name)| name).collect(), ranks, in_session_dir, stops: Vec::new() }
    }

    /// Node, application and count of each run of ranks that have the same, for [`of_runs`](Self::of_runs).
    pub(crate) fn runs(&self) -> Vec<u32> {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let runs = self.ranks.chunk_by(|one, other| one == other);
        runs.filter_map(|run| run.first().map(|(node, app)| [number(*node), number(*app), number(run.len())]))
            .flatten()
            .collect()
    }

    /// The plan of a job that has started; `None` if it makes no sense.
    pub(crate) fn of_runs(nodes: Vec<String>, runs: &[u32]) -> Option<Self> {
        let mut ranks = Vec::new();
        for run in runs.chunks(3) {
            let &[node, app, count] = run else { return None };
            let (node, app) = (usize::try_from(node).ok()?, usize::try_from(app).ok()?);
            let count = usize::try_from(count).ok()?;
            if node >= nodes.len() || count > MAX_PROCS - ranks.len() {
                return None;
            }
            ranks.extend(std::iter::repeat_n((node, app), count));
        }
        Some(Self { nodes, ranks, in_session_dir: Vec::new(), stops: Vec::new() })
    }

    fn ids(&self) -> impl Iterator<Item = (Rank, usize, usize)> + '_ {
        (0..).map(Rank::from_raw).zip(&self.ranks).map(|(rank, (node, app))| (rank, *node, *app))
    }

    /// The name of the node of each rank.
    pub(crate) fn places(&self) -> Vec<String> {
        let name = |(_, node, _): (Rank, usize, usize)| self.nodes.get(node).cloned().unwrap_or_default();
        self.ids().map(name).collect()
    }

    /// The applications that start in the session's directory.
    pub(crate) fn in_session(&self) -> Vec<u32> {
        let apps = (0..).zip(&self.in_session_dir);
        apps.filter(|(_, is_there)| **is_there).map(|(app, _)| app).collect()
    }

    pub(crate) fn all_ranks(&self) -> BTreeSet<Rank> {
        self.ids().map(|(rank, ..)| rank).collect()
    }

    /// How many processes go to each node.
    pub(crate) fn slots(&self) -> BTreeMap<String, u64> {
        let mut slots = BTreeMap::new();
        for node in self.ranks.iter().filter_map(|(node, _)| self.nodes.get(*node)) {
            *slots.entry(node.clone()).or_default() += 1;
        }
        slots
    }

    pub(crate) fn table(&self, nspace: &Nspace) -> Vec<ProcInfo> {
        let row = |(rank, node, _): (Rank, usize, usize)| {
            let mut row = ProcInfo::new(ProcId::new(nspace.clone(), rank));
            row.hostname = self.nodes.get(node).cloned();
            row.state = ProcState::LAUNCH_UNDERWAY;
            row
        };
        self.ids().map(row).collect()
    }

    /// The application of each rank.
    pub(crate) fn apps(&self) -> Vec<usize> {
        self.ranks.iter().map(|(_, app)| *app).collect()
    }

    /// A job that has its maps alone.
    pub(crate) fn maps(&self, nspace: &Nspace) -> JobSpec {
        let mut on_node = vec![RankSet::new(); self.nodes.len()];
        for (rank, node, _) in self.ids() {
            if let Some(ranks) = on_node.get_mut(node) {
                ranks.insert(rank);
            }
        }
        let text = on_node.iter().map(RankSet::to_string).collect::<Vec<_>>().join(";");
        let spec = JobSpec::new(nspace.clone());
        // names and ranks fit: Plan::new has checked them
        spec.clone().node_map(&self.nodes).and_then(|spec| spec.proc_map(&text)).unwrap_or(spec)
    }

    pub(crate) fn spec(&self, nspace: &Nspace, parent: Option<&ProcId>) -> JobSpec {
        let mut of_app = BTreeMap::<usize, RankSet>::new();
        for (rank, _, app) in self.ids() {
            of_app.entry(app).or_default().insert(rank);
        }
        // sizes fit: Plan::new has checked them
        let size = self.ranks.len() as u32;
        let mut spec = self
            .maps(nspace)
            .info(&keys::JOBID, nspace.as_str())
            .info(&keys::JOB_SIZE, size)
            .info(&keys::JOB_NUM_APPS, of_app.len() as u32)
            .info(&keys::MAX_PROCS, size)
            .session_info(&keys::UNIV_SIZE, size.max(places()));
        for (app, ranks) in of_app {
            spec = spec.app_ranks(app as u32, ranks);
        }
        for (rank, _, app) in self.ids() {
            for stop in self.stops.get(app).into_iter().flatten().filter(|stop| concerns(&stop.value, rank)) {
                // ranks are for us to sort out: for some libraries it is enough that the key is there
                let value = if names_ranks(&stop.value) { Value::Bool(true) } else { stop.value.clone() };
                let key = if stop.is(&keys::DEBUG_STOP_IN_INIT) {
                    &keys::DEBUG_STOP_IN_INIT
                } else {
                    &keys::DEBUG_STOP_IN_APP
                };
                spec = spec.proc_info(rank, key, value);
            }
        }
        if let Some(parent) = parent {
            // what is said once for the job holds for each process of it
            spec = spec.info(&keys::SPAWNED, true).info(&keys::PARENT_ID, parent.clone());
        }
        spec
    }

    /// Name of the node a rank is on.
    pub(crate) fn node_of(&self, rank: Rank) -> Option<&str> {
        let (node, _) = self.ranks.get(rank.to_raw() as usize)?;
        self.nodes.get(*node).map(String::as_str)
    }

    /// Registers each process on its node, with the environment in which it finds its server.
    pub(crate) async fn launch_job(
        &self,
        Starting { nspace, number, user }: Starting<'_>,
        apps: &[App],
        nodes: &Nodes,
    ) -> Result<LaunchJob, StartError> {
        let (uid, gid) = user.map_or_else(own_user, |user| (user.uid(), user.gid()));
        let mut job = LaunchJob::new(nspace.clone(), apps.to_vec());
        job.user = user.cloned();
        let mut changed = BTreeSet::new();
        for (rank, _, app) in self.ids() {
            let proc = ProcId::new(nspace.clone(), rank);
            let name = self.node_of(rank).unwrap_or_default();
            let node = nodes
                .get(name)
                .ok_or_else(|| StartError::Invalid(format!("{proc}: node {name} has no server here")))?;
            let environment = node.register_proc(&proc, uid, gid).await?;
            // they are the same on all nodes
            if let Some(app) = changed.insert(app).then(|| job.apps.get_mut(app)).flatten() {
                change_first(app, environment.changes);
            }
            let mut launched = LaunchProc::new(rank, name.to_owned(), app, environment.variables);
            launched.defaults = environment.defaults;
            launched.pmi1 = environment.pmi1;
            if self.in_session_dir.get(app) == Some(&true) {
                launched.cwd = Some(node.work_dir(number, user).await?);
            }
            job.procs.push(launched);
        }
        Ok(job)
    }
}

/// Changes the environment of an application before what it asks for itself, which therefore wins: its own variables are
/// set once more after the changes.
pub(crate) fn change_first(app: &mut App, mut changes: Vec<Info>) {
    if changes.is_empty() {
        return;
    }
    let own = app.env.iter().filter_map(|entry| split_variable(entry));
    changes.extend(own.map(|(name, value)| {
        Info::new(&keys::SET_ENVAR, Envar { name: name.into(), value: value.into(), separator: 0 })
    }));
    app.info.splice(0..0, changes);
}

/// Whether a directive is for some ranks only.
fn names_ranks(value: &Value) -> bool {
    matches!(value, Value::Rank(_))
        || matches!(value, Value::DataArray(array) if matches!(**array, DataArray::Rank(_)))
}

/// Whether a directive is for this rank.
fn concerns(value: &Value, rank: Rank) -> bool {
    match value {
        Value::Rank(wanted) => wanted.matches(rank),
        Value::DataArray(array) => match &**array {
            DataArray::Rank(wanted) => wanted.iter().any(|wanted| wanted.matches(rank)),
            _ => true,
        },
        _ => true,
    }
}

/// How many processes of an application are started; `None` if that is none.
fn procs_of(app: &App) -> Option<usize> {
    usize::try_from(app.max_procs).ok().filter(|procs| *procs > 0)
}

/// Whether a user may have `new` more processes, with jobs of these owners and sizes.
///
/// # Errors
/// `ERR_OUT_OF_RESOURCE`. The server's own user and root are not limited.
pub(super) fn check_room(
    nspace: &Nspace,
    uid: Uid,
    new: u64,
    jobs: impl Iterator<Item = (Uid, usize)>,
) -> Result<(), StartError> {
    let own: u64 = jobs.filter(|(owner, _)| *owner == uid).map(|(_, procs)| procs as u64).sum();
    if is_trusted(uid) || own + new <= MAX_PROCS_OF_USER as u64 {
        return Ok(());
    }
    let message = format!(
        "{nspace}: the jobs of uid {uid} may have at most {MAX_PROCS_OF_USER} processes together, and already have {own}"
    );
    Err(HostError::new(Status::ERR_OUT_OF_RESOURCE, message).into())
}

/// Processes that this node has room for at least: how many a job may grow to by spawning.
fn places() -> u32 {
    Machine::this().processors
}

#[cfg(test)]
mod tests {
    use pmix_types::Info;

    use super::super::requests::JobRequests;
    use super::*;

    fn names(nodes: usize) -> Vec<String> {
        (0..nodes).map(|node| format!("n{node}")).collect()
    }

    async fn plan(apps: Vec<App>, job: Directives, nodes: usize) -> Result<Plan, StartError> {
        let JobRequests { apps, added, binding, .. } = JobRequests::new(apps, job).unwrap();
        let room: Vec<_> = names(nodes).into_iter().map(Room::new).collect();
        Plan::new(&Nspace::new("job").unwrap(), &apps, &added, &room, None, Layout::of(&binding.policy)).await
    }

    fn on(app: App, hosts: &str) -> App {
        let mut app = app;
        app.info.push(Info::new(&keys::HOST, hosts));
        app
    }

    /// The node of each rank.
    fn placed(plan: &Plan) -> Vec<&str> {
        plan.ids().map(|(rank, ..)| plan.node_of(rank).unwrap()).collect()
    }

    /// An application as a program in C may give it.
    fn with_max_procs(max_procs: i32) -> App {
        let mut app = App::new("a", 0);
        app.max_procs = max_procs;
        app
    }

    /// The number of ranks on each node.
    async fn blocks(ranks: u32, nodes: usize) -> Vec<usize> {
        let plan = plan(vec![App::new("app", ranks)], Directives::new(), nodes).await.unwrap();
        let placed: Vec<usize> = plan.ids().map(|(_, node, _)| node).collect();
        assert!(placed.is_sorted(), "blocks: {placed:?}");
        (0..plan.nodes.len()).map(|node| placed.iter().filter(|other| **other == node).count()).collect()
    }

    #[tokio::test]
    async fn ranks_are_spread_in_even_blocks() {
        assert_eq!(blocks(4, 1).await, [4]);
        assert_eq!(blocks(4, 2).await, [2, 2]);
        assert_eq!(blocks(4, 3).await, [2, 1, 1]);
        assert_eq!(blocks(8, 3).await, [3, 3, 2]);
    }

    #[tokio::test]
    async fn spn_02_ranks_are_dealt_to_nodes_in_turn_if_they_are_mapped_by_node() {
        for job in
            [Directives::new().with(&keys::MAPBY, "node"), Directives::new().with(&keys::RANKBY, "node")]
        {
            let found = plan(vec![App::new("a", 5)], job, 3).await.unwrap();
            assert_eq!(placed(&found), ["n0", "n1", "n2", "n0", "n1"]);
        }
        let in_blocks = Directives::new().with(&keys::MAPBY, "core");
        let found = plan(vec![App::new("a", 5)], in_blocks, 3).await.unwrap();
        assert_eq!(placed(&found), ["n0", "n0", "n1", "n1", "n2"]);
    }

    #[tokio::test]
    async fn a_job_smaller_than_the_nodes_leaves_the_last_ones_out() {
        assert_eq!(blocks(2, 3).await, [1, 1]);
    }

    #[tokio::test]
    async fn spn_01_spn_02_each_application_is_put_on_the_nodes_it_names_or_those_of_the_job() {
        let apps = || {
            let own = on(App::new("b", 3), "n3,n0");
            vec![App::new("a", 2), own, App::new("c", 2)]
        };
        let job = Directives::new().with(&keys::HOST, "n2,n1");
        let found = plan(apps(), job, 4).await.unwrap();
        // the first and the last share the nodes of the job
        assert_eq!(placed(&found), ["n2", "n2", "n3", "n3", "n0", "n1", "n1"]);
        assert_eq!(found.nodes, names(4));
        let found = plan(apps(), Directives::new(), 5).await.unwrap();
        assert_eq!(placed(&found), ["n0", "n1", "n3", "n3", "n0", "n2", "n3"]);
        assert_eq!(found.nodes, names(4), "nobody is on the last one");
        let spec = found.spec(&Nspace::new("job").unwrap(), None);
        let mut data = pmix_types::job::JobData::new(Nspace::new("job").unwrap());
        data.register(&spec.into_infos(), "n0").unwrap();
        let on_first: Vec<_> = data.local_ranks("n0").unwrap().iter().map(Rank::to_raw).collect();
        assert_eq!(on_first, [0, 4]);
    }

    #[tokio::test]
    async fn spn_01_spn_06_an_application_without_processes_is_refused_though_others_have_some() {
        for procs in [0, -1] {
            for apps in [[1, procs], [procs, 1]] {
                let apps = apps.map(with_max_procs).to_vec();
                let error = plan(apps, Directives::new(), 1).await.unwrap_err();
                assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
            }
        }
    }

    #[tokio::test]
    async fn the_processes_of_a_job_are_bounded() {
        let most = i32::try_from(MAX_PROCS).unwrap();
        for procs in [vec![i32::MAX], vec![i32::MAX; 3], vec![most + 1], vec![1, most], vec![most, 1]] {
            let apps = procs.into_iter().map(with_max_procs).collect();
            let error = plan(apps, Directives::new(), 1).await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE, "{error}");
        }
        assert_eq!(blocks(MAX_PROCS as u32, 1).await, [MAX_PROCS]);
    }

    #[test]
    fn applications_and_their_variables_are_bounded() {
        let with_variables = |count| {
            let mut app = App::new("a", 1);
            app.env = vec!["E=1".into(); count];
            app
        };
        let directives = |count| Directives::from(vec![Info::new(&keys::NOTIFY_COMPLETION, true); count]);
        for (apps, of_job, fits) in [
            (vec![App::new("a", 1); MAX_APPS], 0, true),
            (vec![App::new("a", 1); MAX_APPS + 1], 0, false),
            (vec![with_variables(MAX_VARIABLES)], 0, true),
            (vec![App::new("a", 1), with_variables(MAX_VARIABLES + 1)], 0, false),
            (vec![with_variables(1)], MAX_VARIABLES - 1, true),
            (vec![with_variables(1)], MAX_VARIABLES, false),
            (vec![App::new("a", 1); MAX_APPS], MAX_DIRECTIVES / MAX_APPS, true),
            (vec![App::new("a", 1); MAX_APPS], MAX_DIRECTIVES / MAX_APPS + 1, false),
        ] {
            let status = check_sizes(&apps, &directives(of_job)).err().map(|error| error.status());
            assert_eq!(status, (!fits).then_some(Status::ERR_OUT_OF_RESOURCE));
        }
    }

    #[test]
    fn the_processes_of_another_user_are_bounded_in_all_jobs_together() {
        let own = crate::user::own_uid().as_raw();
        let (uid, other) = (Uid::new(own + 1), Uid::new(own + 2));
        let job = Nspace::new("job").unwrap();
        let jobs = || [(uid, MAX_PROCS_OF_USER - 2), (other, MAX_PROCS_OF_USER), (uid, 1)].into_iter();
        assert!(check_room(&job, uid, 1, jobs()).is_ok());
        let error = check_room(&job, uid, 2, jobs()).unwrap_err();
        assert_eq!(error.status(), Status::ERR_OUT_OF_RESOURCE, "{error}");
        let of_root = [(Uid::ROOT, MAX_PROCS_OF_USER)].into_iter();
        assert!(check_room(&job, Uid::ROOT, 1 << 20, of_root).is_ok());
    }

    #[tokio::test]
    async fn spn_06_the_status_says_what_is_missing() {
        let added = Directives::new().with(&keys::ADD_HOST, "n7");
        let known = Directives::new().with(&keys::ADD_HOST, "n0");
        plan(vec![App::new("a", 1)], known, 1).await.unwrap();
        for (app, job, status) in [
            (on(App::new("a", 1), "n1"), Directives::new(), Status::ERR_JOB_FAILED_TO_MAP),
            (App::new("a", 1), added, Status::ERR_JOB_ALLOC_FAILED),
            (App::new("", 1), Directives::new(), Status::ERR_JOB_NO_EXE_SPECIFIED),
            (App::new("a", 0), Directives::new(), Status::ERR_BAD_PARAM),
            (with_max_procs(-1), Directives::new(), Status::ERR_BAD_PARAM),
        ] {
            let error = plan(vec![app], job, 1).await.unwrap_err();
            assert_eq!(error.status(), status, "{error}");
        }
        assert_eq!(plan(vec![], Directives::new(), 1).await.unwrap_err().status(), Status::ERR_BAD_PARAM);
    }
}
