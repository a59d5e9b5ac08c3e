//! Removes a directory with its contents, even if another user owns it and is still filling it.
//!
//! The directories of jobs belong to other users, who may nest them to any depth and move them during the removal. So only
//! the given path is resolved, nothing here recurses, and the number of open files does not grow with the depth: entries of
//! a directory below the top are moved to the top and removed from there. Another user's directory is cleared only with that
//! user's permissions, because the user may have moved entries into it that only we could remove.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pmix_types::{Gid, Uid};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, chmod, fstat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::account::{Account, own_uid};

/// Time limit for one directory: a user who keeps filling it must not block us for ever.
const PATIENCE: Duration = Duration::from_secs(30);

/// A group without members. Only entries that a user owns are removed, not those it can reach through a group.
const NO_GROUP: Gid = Gid::NOBODY;

/// Removes a directory with its contents. Does not recurse, uses few descriptors at any depth, and follows no links below
/// the directory. Blocks for at most about half a minute, unless the file system hangs.
///
/// Entries of another user are removed with that user's permissions, if this process may assume them.
///
/// # Errors
/// The directory does not exist, or some of its contents could not be removed in time; the rest has been removed.
///
/// # Examples
/// ```
/// let root = tempfile::tempdir()?;
/// let dir = root.path().join("a");
/// std::fs::create_dir_all(dir.join("b/c"))?;
/// pmix_server::remove_tree(&dir)?;
/// assert!(!dir.exists());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn remove_tree(path: &Path) -> io::Result<()> {
    remove_within(path, PATIENCE)
}

fn remove_within(path: &Path, patience: Duration) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let parent =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let parent = openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut removal = Removal { end: Instant::now() + patience, moved: 0, steps: 0 };
    let top = hold(parent.as_fd(), name)?;
    removal.clear_as_owner(top)?;
    Ok(unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}

/// Progress of a removal.
#[derive(Clone, Copy)]
struct Removal {
    end: Instant,
    /// Directories moved to the top.
    moved: u64,
    /// Entries moved or removed.
    steps: u64,
}

impl Removal {
    /// Clears a directory with the permissions of its owner.
    fn clear_as_owner(&mut self, top: OwnedFd) -> io::Result<()> {
        let owner = Uid::new(fstat(&top)?.st_uid);
        if owner == own_uid() || !Account::can_be_assumed() {
            return self.clear(&top);
        }
        let mut as_owner = *self;
        let account = Account::with_groups(owner, NO_GROUP, Vec::new());
        account.with_rights_blocking(move || as_owner.clear(&top))?
    }

    /// Clears a directory until nothing more in it can be removed.
    fn clear(&mut self, top: &OwnedFd) -> io::Result<()> {
        open_up(top)?;
        loop {
            let before = self.steps;
            let cleared = self.each(top, |removal, name| removal.remove(top, name));
            // this pass may have missed entries that were moved to the top meanwhile
            if self.steps == before || self.is_late() {
                return cleared;
            }
        }
    }

    /// Calls `act` for each entry of a directory; returns the last error, except for entries that no longer exist.
    fn each(
        &mut self,
        dir: &OwnedFd,
        mut act: impl FnMut(&mut Self, &OsStr) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut outcome = Ok(());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        for entry in Dir::new(openat(dir, ".", flags, Mode::empty())?)? {
            if self.is_late() {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the removal takes too long; the directory may still be filling up",
                ));
            }
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            match act(self, name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => outcome = Err(error),
                _ => {}
            }
        }
        outcome
    }

    /// Removes an entry of the top.
    fn remove(&mut self, top: &OwnedFd, name: &OsStr) -> io::Result<()> {
        if self.unlink(top, name)? {
            return Ok(());
        }
        let dir = hold(top.as_fd(), name)?;
        if Uid::new(fstat(&dir)?.st_uid) == own_uid() {
            open_up(&dir)?;
            self.each(&dir, |removal, name| removal.lift(&dir, name, top))?;
        } else {
            self.clear_as_owner(dir)?;
        }
        self.unlink(top, name).map(drop)
    }

    /// Removes an entry of a directory below the top, or moves it to the top if it is not empty.
    fn lift(&mut self, dir: &OwnedFd, name: &OsStr, top: &OwnedFd) -> io::Result<()> {
        if self.unlink(dir, name)? {
            return Ok(());
        }
        let below = hold(dir.as_fd(), name)?;
        // moving a directory needs write permission for it
        open_up(&below)?;
        // if the name is taken, the next pass tries the next number
        self.moved += 1;
        renameat(dir, name, top, format!(".removed.{}", self.moved))?;
        self.steps += 1;
        Ok(())
    }

    /// Removes an entry of any kind; returns false if it is a directory that is not empty.
    fn unlink(&mut self, dir: &OwnedFd, name: &OsStr) -> io::Result<bool> {
        let unlinked = match unlinkat(dir, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => unlinkat(dir, name, AtFlags::REMOVEDIR),
            unlinked => unlinked,
        };
        match unlinked {
            Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(false),
            unlinked => unlinked?,
        }
        self.steps += 1;
        Ok(true)
    }

    fn is_late(&self) -> bool {
        Instant::now() > self.end
    }
}

/// Opens a directory without reading it; it need not be readable.
fn hold(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

/// Makes a directory of our own readable and writable for us.
fn open_up(dir: &OwnedFd) -> io::Result<()> {
    let stat = fstat(dir)?;
    let mode = Mode::from_raw_mode(stat.st_mode);
    if Uid::new(stat.st_uid) == own_uid() && !mode.contains(Mode::RWXU) {
        // fchmod does not work on a descriptor opened with O_PATH
        chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), mode | Mode::RWXU)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, lchown, symlink};

    use pmix_test_wait::is_alone;
    use rustix::fs::mkdirat;
    use rustix::process::{Resource, Rlimit, setrlimit};

    use super::*;
    use crate::account::tests::{can_become, group_of};

    /// More than a path, the descriptors or the stack could hold.
    const DEPTH: usize = 3_000;
    const STACK: usize = 128 << 10;
    const STRANGER: Uid = Uid::new(4001);
    /// Longer than any machine takes to remove so many directories.
    const HOUR: Duration = Duration::from_secs(3600);

    /// Nests directories, each with a file and a link to `outside`; each is left with this mode.
    fn nest(top: &Path, outside: &Path, mode: u32) {
        let mut dir = openat(CWD, top, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..DEPTH {
            rustix::fs::symlinkat(outside, &dir, "link").unwrap();
            mkdirat(&dir, "d", Mode::RWXU).unwrap();
            let below = hold(dir.as_fd(), OsStr::new("d")).unwrap();
            chmod(format!("/proc/self/fd/{}", dir.as_raw_fd()), Mode::from_raw_mode(mode)).unwrap();
            dir = below;
        }
    }

    /// A directory `top`, and one outside that has a file.
    fn scene() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
        let scene = tempfile::tempdir().unwrap();
        fs::set_permissions(scene.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (top, outside) = (scene.path().join("top"), scene.path().join("outside"));
        fs::create_dir(&top).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::set_permissions(&top, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(outside.join("file"), "x").unwrap();
        (scene, top, outside)
    }

    /// Runs a test again in a process of its own that may have 64 open files; true in there.
    fn is_in_need(test: impl Fn()) -> bool {
        let is_alone = is_alone(test);
        if is_alone {
            setrlimit(Resource::Nofile, Rlimit { current: Some(64), maximum: Some(64) }).unwrap();
        }
        is_alone
    }

    /// Removes with a stack on which a function that calls itself for each level would find no room.
    fn remove_with_small_stack(top: &Path) {
        std::thread::scope(|scope| {
            let remover = std::thread::Builder::new().stack_size(STACK);
            let removed = remover.spawn_scoped(scope, || remove_within(top, HOUR)).unwrap();
            removed.join().unwrap().unwrap();
        });
    }

    #[test]
    fn directories_nested_without_end_go_with_few_descriptors() {
        if !is_in_need(directories_nested_without_end_go_with_few_descriptors) {
            return;
        }
        let (_scene, top, outside) = scene();
        nest(&top, &outside, 0o700);
        remove_with_small_stack(&top);
        assert!(!top.exists() && outside.join("file").exists());
    }

    #[test]
    fn directories_that_another_user_has_nested_and_closed_go_too() {
        if !can_become(STRANGER) || !is_in_need(directories_that_another_user_has_nested_and_closed_go_too) {
            return;
        }
        let (_scene, top, outside) = scene();
        // as the directory of a session holds that of a job
        let job = top.join("job");
        fs::create_dir(&job).unwrap();
        let group = group_of(STRANGER);
        lchown(&job, Some(STRANGER.as_raw()), Some(group.as_raw())).unwrap();
        let stranger = Account::with_groups(STRANGER, group, vec![group]);
        let (inside, out) = (job.clone(), outside.clone());
        stranger.with_rights_blocking(move || nest(&inside, &out, 0)).unwrap();
        remove_with_small_stack(&top);
        assert!(!top.exists() && outside.join("file").exists());
    }

    #[test]
    fn what_only_root_could_remove_stays_in_the_directory_of_another_user() {
        if !can_become(STRANGER) {
            return;
        }
        let (_scene, top, outside) = scene();
        symlink(&outside, top.join("link")).unwrap();
        fs::create_dir_all(top.join("job/ours/deep")).unwrap();
        fs::set_permissions(top.join("job/ours"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(top.join("job/theirs"), "x").unwrap();
        let group = group_of(STRANGER);
        lchown(top.join("job"), Some(STRANGER.as_raw()), Some(group.as_raw())).unwrap();
        let error = remove_within(&top, HOUR).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
        assert!(top.join("job/ours/deep").exists(), "moved there by its user, it may be anybody's");
        assert!(!top.join("job/theirs").exists() && !top.join("link").exists());
        assert!(outside.join("file").exists());
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let (_scene, top, _) = scene();
        assert_eq!(remove_tree(&top.join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
