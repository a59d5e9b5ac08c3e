//! Daemons of a debugger: a job of their own beside the job they look at (DBG-01).

use std::collections::BTreeMap;

use pmix_types::{App, Directives, Info, Key, ProcId, ProcInfo, Status, ValueType, keys};

use pmix_server::host::{HostError, HostResult};

/// What a spawn starts: an application, daemons of a debugger, or both.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) apps: Vec<App>,
    pub(super) daemons: Vec<App>,
}

impl Parts {
    /// An application says whether it is one of daemons, or else its job does.
    pub(super) fn of(apps: Vec<App>, job: &mut Directives) -> HostResult<Self> {
        let all = job.take_flag(&keys::DEBUGGER_DAEMONS)?;
        let mut parts = Self { apps: Vec::new(), daemons: Vec::new() };
        for mut app in apps {
            let is_daemon = take(&mut app, &keys::DEBUGGER_DAEMONS)?.unwrap_or(all);
            if is_daemon { &mut parts.daemons } else { &mut parts.apps }.push(app);
        }
        Ok(parts)
    }
}

/// The directives of an application that starts together with daemons: those of the spawn, without the numbers of daemons.
pub(super) fn of_application(spawn: &Directives) -> Directives {
    let mut own = spawn.clone();
    own.remove(&keys::DEBUG_DAEMONS_PER_NODE);
    own.remove(&keys::DEBUG_DAEMONS_PER_PROC);
    own
}

/// The directives of daemons that start together with what they look at: those of the spawn, without those that are for
/// the application alone. They are not bound: the processors are the application's.
pub(super) fn directives(spawn: &Directives, target: ProcId) -> Directives {
    let mut own = spawn.clone();
    own.remove(&keys::DEBUG_STOP_IN_INIT);
    own.remove(&keys::DEBUG_STOP_IN_APP);
    own.remove(&keys::FWD_STDIN);
    own.remove(&keys::DEBUG_TARGET);
    for key in [&keys::MAPBY, &keys::RANKBY, &keys::BINDTO] {
        own.remove(key);
    }
    own.remove(&keys::CPUS_PER_PROC);
    own.with(&keys::BINDTO, "none").with(&keys::DEBUG_TARGET, target)
}

/// The processes that a job is to look at, `None` if it is no job of daemons. The job's directives name them afterwards.
///
/// # Errors
/// `ERR_BAD_PARAM` if its applications name different ones.
pub(super) fn target(apps: &mut [App], job: &mut Directives) -> HostResult<Option<ProcId>> {
    let mut target = job.take(&keys::DEBUG_TARGET)?;
    for app in apps {
        let Some(own) = take(app, &keys::DEBUG_TARGET)? else { continue };
        if target.as_ref().is_some_and(|other| *other != own) {
            return Err(bad(format!(
                "{}: a job of daemons has one DEBUG_TARGET, not several",
                app.command.display()
            )));
        }
        target = Some(own);
    }
    if let Some(target) = target.as_ref().filter(|_| !job.contains(&keys::DEBUG_TARGET)) {
        job.push(Info::new(&keys::DEBUG_TARGET, target.clone()));
    }
    Ok(target)
}

/// How many daemons there are to be: for each node, for each process.
type Counts = (Option<u16>, Option<u16>);

/// Puts daemons on the nodes of the processes they look at: as many for each node or process as requested, or else as
/// many as the application has. `table` is that of these processes.
///
/// # Errors
/// `ERR_BAD_PARAM` for numbers that contradict each other or the nodes that are named, or that are 0.
pub(super) fn beside(apps: Vec<App>, job: &mut Directives, table: &[ProcInfo]) -> HostResult<Vec<App>> {
    let mut procs = BTreeMap::<&str, u64>::new();
    for node in table.iter().filter_map(|row| row.hostname.as_deref()) {
        *procs.entry(node).or_default() += 1;
    }
    let of_job: Counts = (job.take(&keys::DEBUG_DAEMONS_PER_NODE)?, job.take(&keys::DEBUG_DAEMONS_PER_PROC)?);
    let mut placed = Vec::new();
    for mut app in apps {
        let per_node = take(&mut app, &keys::DEBUG_DAEMONS_PER_NODE)?;
        let own: Counts = (per_node, take(&mut app, &keys::DEBUG_DAEMONS_PER_PROC)?);
        let counts = if own == (None, None) { of_job } else { own };
        let names_nodes = app.info.iter().any(|info| info.is(&keys::HOST) || info.is(&keys::HOSTFILE));
        if counts == (None, None) {
            let nodes = procs.keys().copied().collect::<Vec<_>>().join(",");
            placed.push(if names_nodes { app } else { on(&app, &nodes, app.max_procs) });
            continue;
        }
        let refused = |reason: &str| bad(format!("{}: {reason}", app.command.display()));
        if names_nodes {
            return Err(refused(
                "daemons for each node or process are where their DEBUG_TARGET is, not on HOST",
            ));
        }
        // the numbers may differ from node to node, so the daemons of each are an application
        for (node, procs) in &procs {
            let count = match counts {
                (Some(0), None) | (None, Some(0)) => Err(refused("no daemons are requested")),
                (Some(count), None) => Ok(u64::from(count)),
                (None, Some(count)) => Ok(u64::from(count) * procs),
                _ => Err(refused("give one of DEBUG_DAEMONS_PER_NODE and DEBUG_DAEMONS_PER_PROC, not both")),
            }?;
            let count = i32::try_from(count).map_err(|_| refused("too many daemons are requested"))?;
            placed.push(on(&app, node, count));
        }
    }
    Ok(placed)
}

/// Daemons take no slots, so a user of a shared DVM has no more of them than processes to look at. `jobs` are those of this user: the
/// number of processes of each, and whether they are daemons.
///
/// # Errors
/// `ERR_OUT_OF_RESOURCE` if so many more would be too many.
pub(super) fn check_number(more: u64, jobs: impl Iterator<Item = (u64, bool)>) -> HostResult<()> {
    let (mut daemons, mut others) = (more, 0);
    for (count, are_daemons) in jobs {
        *if are_daemons { &mut daemons } else { &mut others } += count;
    }
    if daemons <= others {
        return Ok(());
    }
    let message =
        format!("{daemons} daemons of a debugger are too many for a user who runs {others} processes");
    Err(HostError::new(Status::ERR_OUT_OF_RESOURCE, message))
}

fn on(app: &App, nodes: &str, max_procs: i32) -> App {
    let mut app = app.clone();
    app.max_procs = max_procs;
    app.info.push(Info::new(&keys::HOST, nodes));
    app
}

/// Takes a directive of an application.
fn take<T: ValueType>(app: &mut App, key: &Key<T>) -> HostResult<Option<T>> {
    let mut own = Directives::from(std::mem::take(&mut app.info));
    let found = own.take(key);
    app.info = own.into_vec();
    Ok(found?)
}

fn bad(message: String) -> HostError {
    HostError::new(Status::ERR_BAD_PARAM, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dbg_01_of_one_spawn_each_job_has_the_directives_that_are_for_it() {
        let spawn = Directives::new()
            .require(&keys::DEBUG_DAEMONS_PER_NODE, 2_u16)
            .require(&keys::BINDTO, "core")
            .require(&keys::MAPBY, "core")
            .require(&keys::RANKBY, "slot")
            .require(&keys::CPUS_PER_PROC, 2_u32)
            .require(&keys::DEBUG_STOP_IN_INIT, true)
            .require(&keys::NOTIFY_COMPLETION, true);
        let application = of_application(&spawn);
        assert!(!application.contains(&keys::DEBUG_DAEMONS_PER_NODE));
        assert_eq!(application.into_vec().len(), 6);

        let target = ProcId::wildcard("job".parse().unwrap());
        let daemons = directives(&spawn, target.clone()).into_vec();
        let names: Vec<_> = daemons.iter().map(|info| info.key.as_str()).collect();
        let keys = [
            keys::DEBUG_DAEMONS_PER_NODE.name(),
            keys::NOTIFY_COMPLETION.name(),
            keys::BINDTO.name(),
            keys::DEBUG_TARGET.name(),
        ];
        assert_eq!(names, keys);
        assert_eq!(Directives::from(daemons).take(&keys::BINDTO).unwrap().as_deref(), Some("none"));
    }
}
