//! Files that are to be removed when a process, or the last local one of a namespace, has ended (JCT-03).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pmix_types::message::{Failure, JobControl, Reply};
use pmix_types::{Directives, Gid, Key, Nspace, ProcId, Rank, Status, Uid, keys};

use crate::command::{Cleanup, DirCleanup};
use crate::context::Context;
use crate::users::not_own;
use crate::{Asked, Command};

/// What the registrations for one process, or for one namespace, may take.
const MAX_CLEANUP: usize = 1 << 20;
/// What a path takes besides its text.
const PATH: usize = 96;

/// By process; rank `WILDCARD` for a namespace.
#[derive(Debug, Default)]
pub(crate) struct Cleanups(BTreeMap<ProcId, Cleanup>);

/// Whether job control is about files, which is the server's own business.
pub(crate) fn is_cleanup(directives: &Directives) -> bool {
    directives.contains(&keys::REGISTER_CLEANUP) || directives.contains(&keys::REGISTER_CLEANUP_DIR)
}

/// Whether job control does something to processes too, which is the host's business.
fn has_operation(directives: &Directives) -> bool {
    let flags =
        [&keys::JOB_CTRL_PAUSE, &keys::JOB_CTRL_RESUME, &keys::JOB_CTRL_KILL, &keys::JOB_CTRL_TERMINATE];
    let texts = [
        &keys::JOB_CTRL_CANCEL,
        &keys::JOB_CTRL_RESTART,
        &keys::JOB_CTRL_CHECKPOINT,
        &keys::JOB_CTRL_PROVISION,
        &keys::JOB_CTRL_DEFINE_PSET,
    ];
    directives.contains(&keys::JOB_CTRL_SIGNAL)
        || texts.iter().any(|key| directives.contains(key))
        || flags.iter().any(|key| directives.flag(key).unwrap_or(true))
}

/// What is left of a request once its files are registered.
fn without_files(mut control: JobControl) -> JobControl {
    let texts = [&keys::REGISTER_CLEANUP, &keys::REGISTER_CLEANUP_DIR, &keys::CLEANUP_IGNORE];
    texts.iter().for_each(|key| control.directives.remove(key));
    let flags = [&keys::CLEANUP_RECURSIVE, &keys::CLEANUP_EMPTY, &keys::CLEANUP_LEAVE_TOPDIR];
    flags.iter().for_each(|key| control.directives.remove(key));
    control
}

impl Cleanup {
    fn new(directives: &mut Directives, uid: Uid, gid: Gid) -> Result<Self, Failure> {
        let kind = DirCleanup {
            recursive: directives.take_flag(&keys::CLEANUP_RECURSIVE)?,
            only_empty: directives.take_flag(&keys::CLEANUP_EMPTY)?,
            leave_top: directives.take_flag(&keys::CLEANUP_LEAVE_TOPDIR)?,
        };
        let files = absolute(directives, &keys::REGISTER_CLEANUP)?;
        let dirs = absolute(directives, &keys::REGISTER_CLEANUP_DIR)?;
        let ignored = paths(directives, &keys::CLEANUP_IGNORE)?.collect();
        Ok(Self { uid, gid, files, dirs: dirs.into_iter().map(|dir| (dir, kind)).collect(), ignored })
    }

    /// Both together. Where a directory is named twice, the one with more to say wins.
    fn joined(&self, other: Self) -> Result<Self, Failure> {
        let mut all = self.clone();
        (all.uid, all.gid) = (other.uid, other.gid);
        all.files.extend(other.files);
        all.ignored.extend(other.ignored);
        for (dir, kind) in other.dirs {
            let held = all.dirs.entry(dir).or_insert(kind);
            held.recursive |= kind.recursive;
            held.leave_top |= kind.leave_top;
            held.only_empty &= kind.only_empty;
        }
        if let Some(path) = all.ignored.iter().find(|path| all.files.contains(*path)) {
            let message = format!("{} is both to be removed and to be kept", path.display());
            return Err(Failure::new(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES, message));
        }
        if all.memory() > MAX_CLEANUP {
            let message =
                format!("the paths to be removed take {} bytes, the limit is {MAX_CLEANUP}", all.memory());
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        Ok(all)
    }

    fn memory(&self) -> usize {
        let paths = self.files.iter().chain(self.dirs.keys()).chain(&self.ignored);
        paths.map(|path| PATH + path.capacity()).sum()
    }
}

/// A list of names, joined by commas.
fn paths(directives: &mut Directives, key: &Key<String>) -> Result<impl Iterator<Item = PathBuf>, Failure> {
    let list = directives.take(key)?.unwrap_or_default();
    let names: Vec<_> = list.split(',').filter(|name| !name.is_empty()).map(PathBuf::from).collect();
    Ok(names.into_iter())
}

fn absolute(directives: &mut Directives, key: &Key<String>) -> Result<BTreeSet<PathBuf>, Failure> {
    let plain = |path: &Path| path.components().all(|part| part != Component::ParentDir);
    let names = |path: &Path| path.components().any(|part| matches!(part, Component::Normal(_)));
    paths(directives, key)?
        .map(|path| {
            if path.is_absolute() && plain(&path) && names(&path) {
                return Ok(path);
            }
            let message = format!(
                "{} cannot be cleaned up: its path must be absolute, without .. in it, and not that of the root directory",
                path.display()
            );
            Err(Failure::new(Status::ERR_BAD_PARAM, message))
        })
        .collect()
}

impl Cleanups {
    /// Registers what is to be removed. Returns the request if it asks for more than that, which the host carries out.
    pub(crate) fn on_request(
        &mut self,
        asked: &Asked,
        mut control: JobControl,
        cx: &mut Context,
    ) -> Option<JobControl> {
        match self.register(asked, &mut control, cx) {
            Ok(()) if has_operation(&control.directives) => return Some(without_files(control)),
            result => cx.reply(asked.to, result.map(|()| Reply::Info(Vec::new()))),
        }
        None
    }

    fn register(&mut self, asked: &Asked, control: &mut JobControl, cx: &Context) -> Result<(), Failure> {
        let mut targets = BTreeSet::from_iter(control.targets.iter().cloned());
        let caller = &asked.by;
        if !cx.config.uid.is_root() && caller.uid != cx.config.uid {
            let message =
                format!("this server cannot remove files with the permissions of uid {}", caller.uid);
            return Err(Failure::new(Status::ERR_NO_PERMISSIONS, message));
        }
        let gid = caller.gid.ok_or_else(|| {
            let message = format!("the group of {} is unknown, so no files are removed for it", caller.proc);
            Failure::new(Status::ERR_NOT_SUPPORTED, message)
        })?;
        let wanted = Cleanup::new(&mut control.directives, caller.uid, gid)?;
        // what goes up is the host's to refuse
        if !has_operation(&control.directives) {
            control.directives.deny_unprocessed()?;
        }
        if targets.is_empty() {
            targets.insert(ProcId::wildcard(caller.proc.nspace.clone()));
        }
        let mut joined = Vec::new();
        for target in targets {
            check_target(&target, caller.uid, cx)?;
            let held = self.0.get(&target).cloned().unwrap_or_else(|| Cleanup::of(caller.uid, gid));
            // whose permissions the files are removed with must not change
            if held.memory() > 0 && held.uid != caller.uid {
                return Err(not_own(caller.uid, &target.nspace));
            }
            joined.push((target, held.joined(wanted.clone())?));
        }
        self.0.extend(joined);
        Ok(())
    }

    /// A process has ended, and perhaps its namespace on this node with it.
    pub(crate) fn proc_gone(&mut self, proc: &ProcId, cx: &mut Context) {
        let own = self.0.remove(proc);
        cx.out.extend(own.map(Command::Cleanup));
        let Some(job) = cx.jobs.get(&proc.nspace) else { return };
        let is_last = job.known_local().is_subset(&job.departed) && !job.awaits_clients();
        if is_last {
            let whole = self.0.remove(&ProcId::wildcard(proc.nspace.clone()));
            cx.out.extend(whole.map(Command::Cleanup));
        }
    }

    /// A namespace is gone: nothing of it runs here any more.
    pub(crate) fn nspace_gone(&mut self, nspace: &Nspace, cx: &mut Context) {
        let left: Vec<_> = self.0.keys().filter(|proc| proc.nspace == *nspace).cloned().collect();
        cx.out.extend(left.iter().filter_map(|proc| self.0.remove(proc)).map(Command::Cleanup));
    }
}

/// Only processes here of the same user.
fn check_target(target: &ProcId, uid: Uid, cx: &Context) -> Result<(), Failure> {
    let job = cx.job_or_failure(&target.nspace)?;
    let is_own = match target.rank {
        // a job of which no process is here yet may be anybody's
        Rank::WILDCARD => job.owner() == Some(uid),
        rank => match job.clients.get(&rank) {
            Some(client) => client.uid == uid,
            None => {
                let message = format!("{target} is not a process of this node");
                return Err(Failure::new(Status::ERR_NOT_FOUND, message));
            }
        },
    };
    if is_own {
        return Ok(());
    }
    let message = format!("{target} belongs to another user");
    Err(Failure::new(Status::ERR_NO_PERMISSIONS, message))
}
