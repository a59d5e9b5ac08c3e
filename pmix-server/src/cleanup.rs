//! Removes files and directories that processes have registered for cleanup (JCT-03).
//!
//! The server may have permissions that its processes lack, so it never follows a symbolic link and removes only entries
//! that belong to the user and group of the process. Entries that cannot be removed stay.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat, unlinkat};
use tokio::task::spawn_blocking;

use crate::account::{Account, own_uid};
use pmix_engine::{Cleanup, DirCleanup};

/// How many levels of directories are cleared.
const MAX_DEPTH: usize = 64;

/// Cleans up with the permissions of the user who registered the paths, as far as possible.
pub(crate) async fn clean_up_as_user(cleanup: Cleanup) {
    let uid = cleanup.uid;
    if let Err(error) = try_clean_up(cleanup).await {
        tracing::warn!(uid = uid.as_raw(), %error, "cannot clean up with the user's permissions");
    }
}

async fn try_clean_up(cleanup: Cleanup) -> io::Result<()> {
    let Cleanup { uid, gid, .. } = cleanup;
    if uid == own_uid() {
        return Ok(spawn_blocking(move || clean_up(&cleanup)).await?);
    }
    let user = spawn_blocking(move || Account::look_up(uid, gid)).await??;
    user.with_rights(move || clean_up(&cleanup)).await
}

/// Cleans up as far as possible.
fn clean_up(cleanup: &Cleanup) {
    for file in &cleanup.files {
        note(file, remove_named(cleanup, file));
    }
    let mut dirs: Vec<_> = cleanup.dirs.iter().collect();
    // the deepest first
    dirs.sort_by_key(|(dir, _)| std::cmp::Reverse(dir.components().count()));
    for (dir, kind) in dirs {
        note(dir, clear_named(cleanup, dir, *kind));
    }
}

fn note(path: &Path, result: io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(?path, %error, "not cleaned up");
    }
}

fn remove_named(cleanup: &Cleanup, file: &Path) -> io::Result<()> {
    let (parent, name) = open_parent(file)?;
    remove_file(cleanup, parent.as_fd(), name)
}

fn clear_named(cleanup: &Cleanup, dir: &Path, kind: DirCleanup) -> io::Result<()> {
    let (parent, name) = open_parent(dir)?;
    let opened = open_dir(parent.as_fd(), name)?;
    if !is_own(cleanup, opened.as_fd())? {
        return Ok(());
    }
    clear(cleanup, dir, opened, kind, 0)?;
    if !kind.leave_top && !is_ignored(cleanup, dir) {
        // stays if it is not empty
        unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Empties a directory as far as possible.
fn clear(cleanup: &Cleanup, path: &Path, opened: OwnedFd, kind: DirCleanup, depth: usize) -> io::Result<()> {
    for entry in Dir::read_from(&opened)?.flatten() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let below: PathBuf = path.join(name);
        let is_dir = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
            .map(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        let removed = match is_dir {
            Ok(true) if kind.recursive && depth < MAX_DEPTH => {
                clear_below(cleanup, &opened, name, &below, kind, depth + 1)
            }
            Ok(true) => Ok(()),
            Ok(false) if kind.only_empty || is_ignored(cleanup, &below) => Ok(()),
            Ok(false) => remove_file(cleanup, opened.as_fd(), name),
            // somebody else may be removing files here, such as the cleanup of another process
            Err(error) => Err(error.into()),
        };
        note(&below, removed);
    }
    Ok(())
}

fn clear_below(
    cleanup: &Cleanup,
    parent: &OwnedFd,
    name: &OsStr,
    path: &Path,
    kind: DirCleanup,
    depth: usize,
) -> io::Result<()> {
    let opened = open_dir(parent.as_fd(), name)?;
    if is_own(cleanup, opened.as_fd())? && !is_ignored(cleanup, path) {
        clear(cleanup, path, opened, kind, depth)?;
        unlinkat(parent, name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

/// Removes a symbolic link itself, not its target.
fn remove_file(cleanup: &Cleanup, parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_dir = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    if !is_dir && is_of(cleanup, &stat) {
        unlinkat(parent, name, AtFlags::empty())?;
    }
    Ok(())
}

fn is_own(cleanup: &Cleanup, file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(is_of(cleanup, &fstat(file)?))
}

/// Whether something belongs to the user and the group whose files are removed.
const fn is_of(cleanup: &Cleanup, stat: &Stat) -> bool {
    stat.st_uid == cleanup.uid.as_raw() && stat.st_gid == cleanup.gid.as_raw()
}

fn is_ignored(cleanup: &Cleanup, path: &Path) -> bool {
    cleanup.ignored.contains(path)
        || path.file_name().is_some_and(|name| cleanup.ignored.contains(Path::new(name)))
}

/// The parent directory of a path, opened without following links, and the last component of the path.
fn open_parent(path: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut opened = open_dir(CWD, OsStr::new("/"))?;
    for part in path.parent().into_iter().flat_map(Path::components).skip(1) {
        opened = pass_through(opened.as_fd(), part.as_os_str())?;
    }
    Ok((opened, name))
}

/// Opens a directory on the way; it need not be readable.
fn pass_through(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

fn open_dir(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(parent, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use pmix_types::{Gid, Uid};

    use super::*;
    use crate::account::tests::{can_become, group_of, hang};

    /// A directory `top` with a file, a directory with a file and a link to a directory outside, and its cleanup.
    fn scene() -> (tempfile::TempDir, PathBuf, Cleanup) {
        let scene = tempfile::tempdir().unwrap();
        let root = scene.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("top/sub")).unwrap();
        fs::create_dir(root.join("outside")).unwrap();
        for file in ["top/a", "top/keep", "top/sub/b", "outside/c"] {
            fs::write(root.join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink(root.join("outside"), root.join("top/link")).unwrap();
        let stat = rustix::fs::stat(root.join("top/a")).unwrap();
        let cleanup = Cleanup::of(stat.st_uid.into(), stat.st_gid.into());
        (scene, root, cleanup)
    }

    fn left(root: &Path) -> Vec<&'static str> {
        let all = ["top", "top/a", "top/keep", "top/sub", "top/sub/b", "top/link", "outside/c"];
        all.into_iter().filter(|path| root.join(path).symlink_metadata().is_ok()).collect()
    }

    const fn other_group(cleanup: &Cleanup) -> Gid {
        Gid::new(cleanup.gid.as_raw() + 1)
    }

    #[test]
    fn jct_03_a_recursive_directory_goes_without_what_its_links_lead_to() {
        let (_scene, root, mut cleanup) = scene();
        cleanup.dirs.insert(root.join("top"), DirCleanup { recursive: true, ..DirCleanup::default() });
        clean_up(&cleanup);
        assert_eq!(left(&root), ["outside/c"]);
    }

    #[test]
    fn jct_03_of_directories_within_each_other_the_inner_goes_first() {
        let (_scene, root, mut cleanup) = scene();
        cleanup.dirs = ["top", "top/sub"].map(|dir| (root.join(dir), DirCleanup::default())).into();
        clean_up(&cleanup);
        assert_eq!(left(&root), ["outside/c"]);
    }

    #[test]
    fn jct_03_a_file_of_another_group_stays() {
        let (_scene, root, mut cleanup) = scene();
        cleanup.files = [root.join("top/a")].into();
        let other = Cleanup { gid: other_group(&cleanup), ..cleanup.clone() };
        clean_up(&other);
        assert!(left(&root).contains(&"top/a"));
        clean_up(&cleanup);
        assert!(!left(&root).contains(&"top/a"));
    }

    #[test]
    fn jct_03_a_directory_of_another_group_stays_with_all_in_it() {
        let (_scene, root, mut cleanup) = scene();
        cleanup.dirs.insert(root.join("top"), DirCleanup { recursive: true, ..DirCleanup::default() });
        let other = Cleanup { gid: other_group(&cleanup), ..cleanup.clone() };
        clean_up(&other);
        assert_eq!(left(&root).len(), 7);
        // a file that could be removed, in a directory of another group: only root can set this up, and not in every container
        let group = Some(other_group(&cleanup).as_raw());
        if rustix::process::geteuid().is_root()
            && std::os::unix::fs::chown(root.join("top/sub"), None, group).is_ok()
        {
            clean_up(&cleanup);
            assert_eq!(left(&root), ["top", "top/sub", "top/sub/b", "outside/c"]);
            std::os::unix::fs::chown(root.join("top"), None, group).unwrap();
            fs::write(root.join("top/a"), "x").unwrap();
            clean_up(&cleanup);
            assert_eq!(left(&root), ["top", "top/a", "top/sub", "top/sub/b", "outside/c"]);
        }
    }

    #[test]
    fn jct_03_flags_say_what_stays() {
        let (_scene, root, mut cleanup) = scene();
        cleanup.ignored.insert("keep".into());
        cleanup.dirs.insert(root.join("top"), DirCleanup { leave_top: true, ..DirCleanup::default() });
        clean_up(&cleanup);
        assert_eq!(left(&root), ["top", "top/keep", "top/sub", "top/sub/b", "outside/c"]);
        let only_empty = DirCleanup { recursive: true, only_empty: true, leave_top: true };
        fs::remove_file(root.join("top/sub/b")).unwrap();
        cleanup.dirs.insert(root.join("top"), only_empty);
        clean_up(&cleanup);
        assert_eq!(left(&root), ["top", "top/keep", "outside/c"]);
    }

    #[test]
    fn jct_03_files_of_others_and_behind_links_stay() {
        let (_scene, root, mut cleanup) = scene();
        cleanup.files.extend([root.join("top/a"), root.join("top/link/c"), root.join("top/sub")]);
        let stranger = Cleanup { uid: Uid::new(cleanup.uid.as_raw() + 1), ..cleanup.clone() };
        clean_up(&stranger);
        assert_eq!(left(&root).len(), 7);
        clean_up(&cleanup);
        assert_eq!(left(&root), ["top", "top/keep", "top/sub", "top/sub/b", "top/link", "outside/c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_user_asks_to_be_removed_waits_for_its_file_systems_without_a_thread() {
        const STRANGER: Uid = Uid::new(4013);
        if !can_become(STRANGER) {
            println!("skipped: only root can remove files of other users");
            return;
        }
        let (_scene, root, mut cleanup) = scene();
        let (uid, gid) = (STRANGER, group_of(STRANGER));
        for path in [root.clone(), root.join("top"), root.join("top/a")] {
            std::os::unix::fs::chown(path, Some(uid.as_raw()), Some(gid.as_raw())).unwrap();
        }
        (cleanup.uid, cleanup.gid, cleanup.files) = (uid, gid, [root.join("top/a")].into());
        let release = hang(STRANGER).await;
        clean_up_as_user(cleanup.clone()).await;
        assert!(left(&root).contains(&"top/a"), "there was no place");
        drop(release);
        // the places come back as threads end, for which a paused clock does not wait
        tokio::time::resume();
        pmix_test_wait::until_async("there is a place again, and the file is removed", async || {
            clean_up_as_user(cleanup.clone()).await;
            !left(&root).contains(&"top/a")
        })
        .await;
    }

    #[test]
    fn jct_03_those_who_clean_up_the_same_directory_leave_nothing() {
        let (_scene, root, mut cleanup) = scene();
        let top = root.join("top");
        cleanup.dirs.insert(top.clone(), DirCleanup { recursive: true, ..DirCleanup::default() });
        for _ in 0..20 {
            fs::create_dir_all(top.join("sub")).unwrap();
            (0..300).for_each(|number| fs::write(top.join(number.to_string()), "").unwrap());
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| clean_up(&cleanup));
                }
            });
            assert!(!top.exists());
        }
    }
}
