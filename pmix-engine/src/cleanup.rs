//! Files that are to be removed when a process, or the last local one of a namespace, has ended (JCT-03).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pmix_types::message::{Failure, JobControl, Reply};
use pmix_types::{Directives, Key, Nspace, ProcId, Rank, Status, keys};

use super::{Asked, Command, Engine};

/// What the registrations for one process, or for one namespace, may take.
const MAX_CLEANUP: usize = 1 << 20;
/// What a path takes besides its text.
const PATH: usize = 96;

/// What is to be removed, and of whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// Only what belongs to this user and group is removed.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Files, by absolute paths.
    pub files: BTreeSet<PathBuf>,
    /// Directories, by absolute paths.
    pub dirs: BTreeMap<PathBuf, DirCleanup>,
    /// What stays: whole paths, or names of files.
    pub ignored: BTreeSet<PathBuf>,
}

/// How far a directory is cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirCleanup {
    /// With all that is below it.
    pub recursive: bool,
    /// Only directories that are empty.
    pub only_empty: bool,
    /// The directory itself stays.
    pub leave_top: bool,
}

/// By process; rank `WILDCARD` for a namespace.
#[derive(Debug, Default)]
pub(super) struct Cleanups(BTreeMap<ProcId, Cleanup>);

/// Whether job control is about files, which is the server's own business.
pub(super) fn is_cleanup(directives: &Directives) -> bool {
    directives.contains(&keys::REGISTER_CLEANUP) || directives.contains(&keys::REGISTER_CLEANUP_DIR)
}

impl Cleanup {
    fn new(directives: &mut Directives, uid: u32, gid: u32) -> Result<Self, Failure> {
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
            let message = format!("{} is to be removed and to be kept", path.display());
            return Err(Failure::new(Status::ERR_CONFLICTING_CLEANUP_DIRECTIVES, message));
        }
        if all.memory() > MAX_CLEANUP {
            let message =
                format!("{} bytes of paths that are to be removed, the limit is {MAX_CLEANUP}", all.memory());
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
    paths(directives, key)?
        .map(|path| {
            if path.is_absolute() && plain(&path) {
                return Ok(path);
            }
            let message =
                format!("{} cannot be cleaned up: only absolute paths without .. can", path.display());
            Err(Failure::new(Status::ERR_BAD_PARAM, message))
        })
        .collect()
}

impl Engine {
    pub(super) fn on_cleanup(&mut self, asked: &Asked, control: JobControl) {
        let result = self.register_cleanup(asked, control);
        self.cx.reply(asked.to, result.map(|()| Reply::Info(Vec::new())));
    }

    fn register_cleanup(&mut self, asked: &Asked, control: JobControl) -> Result<(), Failure> {
        let JobControl { targets, mut directives, .. } = control;
        let mut targets = BTreeSet::from_iter(targets);
        let caller = &asked.by;
        if self.cx.config.uid != 0 && caller.uid != self.cx.config.uid {
            let message = format!("this server cannot remove files with the rights of uid {}", caller.uid);
            return Err(Failure::new(Status::ERR_NO_PERMISSIONS, message));
        }
        let gid = caller.gid.ok_or_else(|| {
            let message =
                format!("the group of {} is not known, so no files are removed for it", caller.proc);
            Failure::new(Status::ERR_NOT_SUPPORTED, message)
        })?;
        let wanted = Cleanup::new(&mut directives, caller.uid, gid)?;
        directives.deny_unprocessed()?;
        if targets.is_empty() {
            targets.insert(ProcId::wildcard(caller.proc.nspace.clone()));
        }
        let mut joined = Vec::new();
        for target in targets {
            self.check_target(&target, caller.uid)?;
            let held = self.cleanups.0.get(&target).cloned().unwrap_or_default();
            joined.push((target, held.joined(wanted.clone())?));
        }
        self.cleanups.0.extend(joined);
        Ok(())
    }

    /// Only processes here of the same user.
    fn check_target(&self, target: &ProcId, uid: u32) -> Result<(), Failure> {
        let job = self.cx.job_or_failure(&target.nspace)?;
        let is_own = match target.rank {
            Rank::WILDCARD => job.clients.values().all(|client| client.uid == uid),
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

    /// A process has ended, and perhaps its namespace on this node with it.
    pub(super) fn clean_up_after(&mut self, proc: &ProcId) {
        let own = self.cleanups.0.remove(proc);
        self.cx.out.extend(own.map(Command::Cleanup));
        let Some(job) = self.cx.jobs.get(&proc.nspace) else { return };
        let is_last = job.known_local().is_subset(&job.departed) && !job.awaits_clients();
        if is_last {
            let whole = self.cleanups.0.remove(&ProcId::wildcard(proc.nspace.clone()));
            self.cx.out.extend(whole.map(Command::Cleanup));
        }
    }

    /// A namespace is gone: nothing of it runs here any more.
    pub(super) fn clean_up_all_of(&mut self, nspace: &Nspace) {
        let left: Vec<_> = self.cleanups.0.keys().filter(|proc| proc.nspace == *nspace).cloned().collect();
        self.cx.out.extend(left.iter().filter_map(|proc| self.cleanups.0.remove(proc)).map(Command::Cleanup));
    }
}
