//! The directives of a spawn: its own, and those of its applications, which override them (SPN-01).

use std::ffi::OsString;
use std::time::Duration;

use pmix_types::{App, Directives, Envar, Gid, Info, Key, Status, Uid, keys};

use super::launched_tools::{Agent, ToolRequest};
use super::notices::Notices;
use super::places::Hosts;
use crate::binding::{BadPolicy, BindingPolicy};
use pmix_server::Pmi1Wire;
use pmix_server::host::{HostError, HostResult};
use pmix_types::changes_environment;

/// What the directives of a job request, all of them checked.
#[derive(Debug)]
pub(crate) struct JobRequests {
    /// In rank order.
    pub(crate) apps: Vec<AppRequest>,
    /// Nodes that the allocation is to have.
    pub(crate) added: Vec<Hosts>,
    /// The events that the requester receives.
    pub(crate) notices: Notices,
    /// The allocation in which it is to run.
    pub(crate) allocation: Option<String>,
    /// How long it may run (SPN-06).
    pub(crate) limit: Option<Duration>,
    /// It does not end with its parent, and neither is notified of errors of the other (CON-18).
    pub(crate) is_independent: bool,
    /// What its processes find in their job data: where they are to wait for a debugger (INI-09), or that they are one's
    /// daemons, and of which processes (DBG-01), or values for PMI-1.
    pub(crate) told: Vec<Info>,
    pub(crate) binding: BindingRequest,
    /// The requester has looked for variables of programming models, so that nobody else has to.
    pub(crate) is_harvested: bool,
    pub(crate) tool: ToolRequest,
}

/// How its processes are placed and bound.
#[derive(Debug)]
pub(crate) struct BindingRequest {
    pub(crate) policy: BindingPolicy,
    pub(crate) is_reported: bool,
}

/// What is requested for an application.
#[derive(Debug)]
pub(crate) struct AppRequest {
    /// The application, its `info` being what changes its environment.
    pub(crate) app: App,
    /// It starts in the session's directory.
    pub(crate) in_session_dir: bool,
    pub(crate) hosts: Hosts,
    /// Where its processes alone are to wait for a debugger.
    pub(crate) stops: Vec<Info>,
    /// Its program is started by an agent that is a tool.
    pub(crate) is_by_tool: bool,
}

/// Bytes of the longest path by which Linux finds a file.
const LONGEST_PATH: usize = 4095;

impl JobRequests {
    /// # Errors
    /// `ERR_BAD_PARAM` for directives with wrong values or that contradict each other, `ERR_NOT_SUPPORTED` for one that
    /// is required and not known (GEN-05).
    pub(crate) fn new(apps: Vec<App>, mut job: Directives) -> HostResult<Self> {
        let asker = identity(&mut job)?;
        // read when the spawn came in
        for key in [&keys::FWD_STDIN, &keys::FWD_STDOUT, &keys::FWD_STDERR] {
            job.take_each(|info| info.is(key));
        }
        let notices = Notices::take(&mut job)?;
        let limit = match job.take(&keys::JOB_TIMEOUT)? {
            None | Some(0) => None,
            Some(seconds) => {
                let negative = |_| bad(format!("JOB_TIMEOUT of {seconds} seconds is negative"));
                Some(Duration::from_secs(u64::try_from(seconds).map_err(negative)?))
            }
        };
        let allocation = job.take(&keys::ALLOC_ID)?;
        let is_independent = job.take_flag(&keys::SPAWN_CHILD_SEP)?;
        let mut must_stop = must_stop_in_init(&job);
        let stops_of_job = take_stops(&mut job);
        let mut told = Vec::new();
        if let Some(target) = job.take(&keys::DEBUG_TARGET)? {
            told.push(Info::new(&keys::DEBUG_TARGET, target));
            told.push(Info::new(&keys::DEBUGGER_DAEMONS, true));
        }
        let binding =
            BindingRequest { policy: policy(&mut job)?, is_reported: job.take_flag(&keys::REPORT_BINDINGS)? };
        let is_harvested = job.take_flag(&keys::ENVARS_HARVESTED)?;
        let mut tool = ToolRequest::take(&mut job)?;
        told.extend(tool.told());
        // what a parent that speaks PMI-1 has its children find
        told.extend(job.take_each(|info| info.key.starts_with(Pmi1Wire::KEYS)));
        let all = Common::take(&mut job)?;
        job.deny_unprocessed()?;
        let mut added = vec![all.added.clone()];
        let mut wanted = Vec::<AppRequest>::with_capacity(apps.len());
        for mut app in apps {
            let mut own = Directives::from(std::mem::take(&mut app.info));
            let (user, group) = identity(&mut own)?;
            if user.is_some() && user != asker.0 || group.is_some() && group != asker.1 {
                let message = format!(
                    "{}: jobs run as the user who requests them; USERID and GRPID cannot name another",
                    app.command.display()
                );
                return Err(HostError::new(Status::ERR_NO_PERMISSIONS, message));
            }
            if app.command.len() > LONGEST_PATH {
                let length = app.command.len();
                return Err(bad(format!(
                    "the name of a program has {length} bytes, the limit is {LONGEST_PATH}"
                )));
            }
            must_stop |= must_stop_in_init(&own);
            let mut stops = take_stops(&mut own);
            let of_job = stops_of_job.iter().filter(|stop| stops.iter().all(|own| own.key != stop.key));
            stops.extend(of_job.cloned().collect::<Vec<_>>());
            stops.retain(|stop| stop.value.is_true() != Ok(false));
            let common = Common::take(&mut own)?;
            own.deny_unprocessed()?;
            added.push(common.added.clone());
            wanted.push(AppRequest { stops, ..common.over(&all, app) });
        }
        // one that is not to stop finds nothing: for some libraries it is enough that the key is there
        if let [first, others @ ..] = &mut *wanted
            && others.iter().all(|other| other.stops == first.stops)
        {
            told.append(&mut first.stops);
            others.iter_mut().for_each(|other| other.stops.clear());
        } else if wanted.iter().any(|app| app.stops.iter().any(|stop| stop.is(&keys::DEBUG_STOP_IN_INIT))) {
            let message = "processes of the C library stop in init all or none, so DEBUG_STOP_IN_INIT for some \
                           applications of a job is only for those of pmix-client";
            if must_stop {
                return Err(HostError::new(Status::ERR_NOT_SUPPORTED, format!("{message}: give it for all")));
            }
            tracing::warn!("{message}");
        }
        let apps = wanted;
        Ok(Self {
            apps,
            added,
            notices,
            allocation,
            limit,
            is_independent,
            told,
            binding,
            is_harvested,
            tool,
        })
    }
}

/// User and group.
fn identity(directives: &mut Directives) -> HostResult<(Option<Uid>, Option<Gid>)> {
    Ok((directives.take(&keys::USERID)?, directives.take(&keys::GRPID)?))
}

fn must_stop_in_init(directives: &Directives) -> bool {
    directives.iter().any(|info| info.is(&keys::DEBUG_STOP_IN_INIT) && info.is_required())
}

/// What processes find in their job data and carry out themselves. What an application says goes before what its job says, so
/// this includes that it is not to stop.
fn take_stops(job: &mut Directives) -> Vec<Info> {
    if job.get_value(keys::DEBUG_STOP_ON_EXEC.name()).is_some_and(|value| value.is_true() != Ok(false)) {
        tracing::warn!("DEBUG_STOP_ON_EXEC is not supported: use DEBUG_STOP_IN_INIT");
    }
    let stops = job.take_each(|info| info.is(&keys::DEBUG_STOP_IN_INIT) || info.is(&keys::DEBUG_STOP_IN_APP));
    stops.into_iter().map(|info| Info::dynamic(info.key, info.value)).collect()
}

/// Where to place processes, and what to bind them to. One that is not known is refused if it is required.
fn policy(job: &mut Directives) -> HostResult<BindingPolicy> {
    type Reader = fn(BindingPolicy, &str) -> Result<BindingPolicy, BadPolicy>;
    let readers: [(_, Reader); 3] = [
        (&keys::MAPBY, BindingPolicy::map_by),
        (&keys::RANKBY, BindingPolicy::rank_by),
        (&keys::BINDTO, BindingPolicy::bind_to),
    ];
    let mut policy =
        BindingPolicy { is_required: is_required(job, &keys::CPUS_PER_PROC), ..Default::default() };
    match job.take(&keys::CPUS_PER_PROC)? {
        Some(0) => return Err(bad("CPUS_PER_PROC must be at least 1".to_owned())),
        count => policy.cpus_per_proc = count,
    }
    for (key, read) in readers {
        let is_required = is_required(job, key);
        let Some(text) = job.take(key)? else { continue };
        let so_far = BindingPolicy { is_required: policy.is_required || is_required, ..policy.clone() };
        match read(so_far, &text) {
            Ok(read) => policy = read,
            Err(reason) if is_required => {
                let message = format!("directive {}: {reason}", key.name());
                return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message));
            }
            Err(reason) => tracing::info!(key = key.name(), %reason, "a directive of a spawn is ignored"),
        }
    }
    Ok(policy)
}

fn is_required<T>(directives: &Directives, key: &Key<T>) -> bool {
    directives.iter().any(|info| info.is(key) && info.is_required())
}

/// Directives that a job and an application can have.
#[derive(Debug, Default)]
struct Common {
    dir: Option<Dir>,
    prefix: Option<String>,
    hosts: Hosts,
    added: Hosts,
    changes: Vec<Info>,
    agent: Option<Agent>,
}

/// Where to start.
#[derive(Clone, Debug)]
enum Dir {
    Named(OsString),
    OfSession,
}

impl Common {
    fn take(directives: &mut Directives) -> HostResult<Self> {
        let dir = match (directives.take(&keys::WDIR)?, directives.take_flag(&keys::SET_SESSION_CWD)?) {
            (Some(_), true) => {
                return Err(bad(
                    "WDIR and SET_SESSION_CWD request two different working directories: give one of them"
                        .to_owned(),
                ));
            }
            (dir, false) => dir.map(|dir| Dir::Named(dir.into())),
            (None, true) => Some(Dir::OfSession),
        };
        Ok(Self {
            dir,
            prefix: directives.take(&keys::PREFIX)?,
            hosts: Hosts::take(directives, &keys::HOST, &keys::HOSTFILE)?,
            added: Hosts::take(directives, &keys::ADD_HOST, &keys::ADD_HOSTFILE)?,
            changes: directives.take_each(changes_environment),
            agent: Agent::take(directives)?,
        })
    }

    /// An application with its own directives over those of the job.
    fn over(self, job: &Self, mut app: App) -> AppRequest {
        let dir = self.dir.or_else(|| app.cwd.take().map(Dir::Named)).or_else(|| job.dir.clone());
        let in_session_dir = matches!(dir, Some(Dir::OfSession));
        app.cwd = match dir {
            Some(Dir::Named(dir)) => Some(dir),
            Some(Dir::OfSession) | None => None,
        };
        let prefix = self.prefix.as_ref().or(job.prefix.as_ref());
        app.info = prefix.into_iter().flat_map(|prefix| of_prefix(prefix)).collect();
        app.info.extend(job.changes.iter().cloned().chain(self.changes));
        let hosts = if self.hosts.is_empty() { job.hosts.clone() } else { self.hosts };
        let agent = self.agent.or_else(|| job.agent.clone());
        let is_by_tool = agent.as_ref().is_some_and(|agent| agent.is_tool);
        if let Some(agent) = agent {
            app = agent.start(app);
        }
        AppRequest { app, in_session_dir, hosts, stops: Vec::new(), is_by_tool }
    }
}

/// What is installed below a directory is found first.
fn of_prefix(prefix: &str) -> [Info; 2] {
    let first = |name: &str, below: &str| {
        let envar = Envar { name: name.into(), value: format!("{prefix}/{below}").into(), separator: b':' };
        Info::new(&keys::PREPEND_ENVAR, envar)
    };
    [first("PATH", "bin"), first("LD_LIBRARY_PATH", "lib")]
}

pub(super) fn bad(message: String) -> HostError {
    HostError::new(Status::ERR_BAD_PARAM, message)
}

#[cfg(test)]
mod tests {
    use pmix_types::{Rank, Value};

    use super::*;

    fn requests(app: App, job: Directives) -> HostResult<JobRequests> {
        JobRequests::new(vec![app], job)
    }

    fn app(info: Directives) -> App {
        let mut app = App::new("program", 1);
        app.info = info.into_vec();
        app
    }

    fn none() -> Directives {
        Directives::new()
    }

    #[test]
    fn a_program_whose_name_no_system_finds_is_refused() {
        let named = |bytes: usize| requests(App::new("x".repeat(bytes), 1), none());
        assert!(named(LONGEST_PATH).is_ok());
        let error = named(LONGEST_PATH + 1).unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
        assert!(error.to_string().contains("4096 bytes"), "{error}");
    }

    #[test]
    fn what_a_parent_that_speaks_pmi_1_has_put_is_told_to_its_children() {
        let job = none().with(&keys::WDIR, "/job");
        let preput = Info::dynamic("pmi1.PARENT_ROOT_PORT_NAME".parse().unwrap(), "tag#0$");
        let job = job.into_iter().chain([preput.clone()]).collect();
        assert_eq!(requests(app(none()), job).unwrap().told, [preput]);
    }

    #[test]
    fn spn_01_spn_02_what_an_application_says_of_its_directory_wins() {
        let job = none().with(&keys::WDIR, "/job");
        let of = |app: App, job: &Directives| {
            let found = requests(app, job.clone()).unwrap().apps.remove(0);
            (found.app.cwd, found.in_session_dir)
        };
        assert_eq!(of(app(none()), &job), (Some("/job".into()), false));
        assert_eq!(of(app(none()).cwd("/cwd"), &job), (Some("/cwd".into()), false));
        let own = app(none().with(&keys::WDIR, "/own")).cwd("/cwd");
        assert_eq!(of(own, &job), (Some("/own".into()), false));
        let in_session = none().with(&keys::SET_SESSION_CWD, true);
        assert_eq!(of(app(in_session.clone()), &job), (None, true));
        assert_eq!(of(app(none()), &in_session), (None, true));
        assert_eq!(of(app(none()), &none()), (None, false));
        let both = in_session.with(&keys::WDIR, "/x");
        assert_eq!(requests(app(none()), both).unwrap_err().status(), Status::ERR_BAD_PARAM);
    }

    #[test]
    fn spn_01_spn_03_changes_of_the_job_come_before_those_of_its_applications() {
        let set = |value: &str| {
            none().with(&keys::SET_ENVAR, Envar { name: "V".into(), value: value.into(), separator: 0 })
        };
        let job = set("job").with(&keys::PREFIX, "/opt/job");
        let found = requests(app(set("own").with(&keys::PREFIX, "/opt/own")), job).unwrap();
        let env = super::super::environment(&found.apps[0].app, []).unwrap();
        let values: Vec<_> = env.into_values().map(|value| value.into_string().unwrap()).collect();
        assert_eq!(values, ["/opt/own/lib", "/opt/own/bin", "own"]);
    }

    #[test]
    fn ini_09_processes_are_told_where_to_wait_for_a_debugger() {
        let stop = |value| none().require(&keys::DEBUG_STOP_IN_INIT, value);
        for value in [Value::Undef, Value::Bool(true), Value::Rank(Rank::from_raw(1))] {
            let told = Info::new(&keys::DEBUG_STOP_IN_INIT, value.clone());
            assert_eq!(requests(app(none()), stop(value)).unwrap().told, [told]);
        }
        assert_eq!(requests(app(none()), stop(Value::Bool(false))).unwrap().told, []);
        let in_app = none().with(&keys::DEBUG_STOP_IN_APP, Value::Bool(true));
        assert!(requests(app(none()), in_app.clone()).unwrap().told[0].is(&keys::DEBUG_STOP_IN_APP));
        let found = requests(app(in_app), none()).unwrap();
        assert!(found.apps[0].stops.is_empty() && found.told[0].is(&keys::DEBUG_STOP_IN_APP));
        let some = |stop: Directives| JobRequests::new(vec![app(none()), app(stop)], none());
        let found = some(none().with(&keys::DEBUG_STOP_IN_INIT, true)).unwrap();
        assert!(found.told.is_empty() && found.apps[0].stops.is_empty());
        assert!(found.apps[1].stops[0].is(&keys::DEBUG_STOP_IN_INIT));
        assert_eq!(some(stop(true.into())).unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
        // SPN-01: what an application says goes before what its job says
        let all_but = |no: Directives, job: Directives| JobRequests::new(vec![app(none()), app(no)], job);
        let not_in_app = none().require(&keys::DEBUG_STOP_IN_APP, Value::Bool(false));
        let found = all_but(not_in_app, none().with(&keys::DEBUG_STOP_IN_APP, Value::Bool(true))).unwrap();
        assert!(found.told.is_empty() && found.apps[1].stops.is_empty());
        assert!(found.apps[0].stops[0].is(&keys::DEBUG_STOP_IN_APP));
        let not_in_init = none().with(&keys::DEBUG_STOP_IN_INIT, Value::Bool(false));
        let error = all_but(not_in_init, stop(true.into())).unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
        // nobody stops there, so it must not be promised
        let on_exec = none().require(&keys::DEBUG_STOP_ON_EXEC, true);
        for (own, job) in [(on_exec.clone(), none()), (none(), on_exec)] {
            assert_eq!(requests(app(own), job).unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
        }
    }

    #[test]
    fn spn_02_gen_05_places_and_bindings_that_are_not_known_are_refused_if_they_are_required() {
        let policy = |job: Directives| requests(app(none()), job).map(|found| found.binding.policy);
        let core = policy(none().with(&keys::BINDTO, "core").with(&keys::CPUS_PER_PROC, 2u32)).unwrap();
        assert_eq!(core.cpus_per_proc, Some(2));
        assert!(core.asks_for_binding() && !core.is_required);
        assert!(policy(none().require(&keys::MAPBY, "numa")).unwrap().is_required);
        assert!(!policy(none().require(&keys::BINDTO, "numa:if-supported")).unwrap().is_required);
        for key in [&keys::MAPBY, &keys::RANKBY, &keys::BINDTO] {
            let error = policy(none().require(key, "moon")).unwrap_err();
            assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
            assert!(error.to_string().contains("moon"), "{error}");
            assert_eq!(policy(none().with(key, "moon")).unwrap(), BindingPolicy::default());
        }
        let none_at_all = policy(none().with(&keys::CPUS_PER_PROC, 0u32)).unwrap_err();
        assert_eq!(none_at_all.status(), Status::ERR_BAD_PARAM);
        let reported = requests(app(none()), none().require(&keys::REPORT_BINDINGS, true)).unwrap();
        assert!(reported.binding.is_reported);
    }

    #[test]
    fn gen_04_gen_05_what_is_not_known_is_ignored_or_refused() {
        let unknown: [(&Key<bool>, bool); 2] =
            [(&keys::JOB_RECOVERABLE, true), (&keys::JOB_CONTINUOUS, true)];
        for (key, value) in unknown {
            requests(app(none().with(key, value)), none().with(key, value)).unwrap();
            for (own, job) in [(none().require(key, value), none()), (none(), none().require(key, value))] {
                let error = requests(app(own), job).unwrap_err();
                assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED, "{error}");
            }
        }
        let known = none()
            .require(&keys::WDIR, "/")
            .require(&keys::PREFIX, "/")
            .require(&keys::HOST, "n0")
            .require(&keys::UNSET_ENVAR, "A")
            .require(&keys::UNSET_ENVAR, "B")
            .require(&keys::NOTIFY_COMPLETION, true)
            .require(&keys::JOB_TIMEOUT, 3)
            .require(&keys::FWD_STDOUT, true);
        let found = requests(app(none()), known).unwrap();
        assert_eq!(found.limit, Some(Duration::from_secs(3)));
        assert!(requests(app(none()), none().with(&keys::JOB_TIMEOUT, 0)).unwrap().limit.is_none());
        assert!(requests(app(none()), none().with(&keys::JOB_TIMEOUT, -1)).is_err());
    }

    #[test]
    fn spn_02_programs_and_libraries_below_a_prefix_are_found_first() {
        let changes = of_prefix("/opt").map(|info| (info.is(&keys::PREPEND_ENVAR), info.get().unwrap()));
        let wanted = [("PATH", "/opt/bin"), ("LD_LIBRARY_PATH", "/opt/lib")]
            .map(|(name, value)| (true, Envar { name: name.into(), value: value.into(), separator: b':' }));
        assert_eq!(changes, wanted);
    }

    #[test]
    fn spn_06_nodes_to_be_added_are_those_of_job_and_applications() {
        let mut app = App::new("program", 1);
        app.info.push(Info::new(&keys::ADD_HOST, "n7"));
        let added = |apps, job| {
            let requests = JobRequests::new(apps, job).unwrap();
            requests.added.iter().filter(|hosts| !hosts.is_empty()).count()
        };
        assert_eq!(added(vec![App::new("program", 1)], Directives::new()), 0);
        assert_eq!(added(vec![app.clone()], Directives::new()), 1);
        assert_eq!(added(vec![app], Directives::new().with(&keys::ADD_HOST, "n8")), 2);
    }
}
