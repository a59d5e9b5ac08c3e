//! Files that root writes where others may have prepared something.
//!
//! Whoever may write a directory can put a link there, and root would then write what the link leads to. So root follows a link only
//! in a directory that root alone may write, or, in one such as `/tmp`, a link of its own. Where others may write, root makes a new
//! file or uses a plain one of its own with one name. For other users, and for the root of a namespace that has no other user, paths
//! lead where they lead.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use pmix_types::{Gid, Uid};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, StatxFlags, fstat, fstatfs, ftruncate,
    mkdirat, openat, readlinkat, statx,
};
use rustix::io::Errno;
use rustix::process::geteuid;

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Links that are followed for one path, as many as the kernel follows.
const MAX_LINKS: usize = 40;

/// What becomes of a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Existing {
    /// It is emptied, or made if there is none.
    Truncated,
    /// What is written goes to the end of one that is there.
    Appended,
    /// It is read, and written anywhere; it is made if there is none. One of another user, except root, is refused: that user could
    /// read and change what it holds.
    Kept,
}

/// Opens a file; a new one gets this mode.
///
/// # Errors
/// The system's; `PermissionDenied` if root would follow a link, or use a file, of somebody else, and for anyone if a file that is
/// [`Kept`](Existing::Kept) belongs to another user.
pub fn open(path: &Path, existing: Existing, mode: u32) -> io::Result<File> {
    let (flags, makes) = match existing {
        Existing::Truncated => (OFlags::WRONLY | OFlags::TRUNC, OFlags::CREATE),
        Existing::Appended => (OFlags::WRONLY | OFlags::APPEND, OFlags::empty()),
        Existing::Kept => (OFlags::RDWR, OFlags::CREATE),
    };
    let file = open_with(path, flags | OFlags::CLOEXEC, makes, Mode::from_raw_mode(mode))?;
    if existing == Existing::Kept {
        check_owner(&file, Uid::new(geteuid().as_raw()))?;
    }
    Ok(file)
}

/// Opens a file that is there, and empties it. A pipe without a reader is an error (`ENXIO`), and writing to a full one another.
///
/// # Errors
/// Those of [`open`].
pub fn open_existing(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NONBLOCK | OFlags::CLOEXEC;
    open_with(path, flags, OFlags::empty(), Mode::empty())
}

fn open_with(path: &Path, flags: OFlags, makes: OFlags, mode: Mode) -> io::Result<File> {
    if !is_among_others() {
        return Ok(openat(CWD, path, flags | makes, mode)?.into());
    }
    let Place { dir, name, is_of_kernel } = walk(path, None)?;
    if is_of_kernel {
        return Ok(openat(dir, name, flags, mode)?.into());
    }
    let flags = flags | OFlags::NOFOLLOW;
    let place = fstat(&dir)?;
    if is_roots_alone(&place) {
        return Ok(openat(dir, name, flags | makes, mode)?.into());
    }
    if makes.contains(OFlags::CREATE) {
        match openat(&dir, &name, flags | OFlags::CREATE | OFlags::EXCL, mode) {
            Err(Errno::EXIST) => {}
            made => {
                let made = made?;
                own_files().insert(Id::of(&made)?);
                return Ok(made.into());
            }
        }
    }
    // a pipe without a reader is no reason to wait
    let file = openat(dir, name, flags.difference(OFlags::TRUNC) | OFlags::NONBLOCK, mode)?;
    let found = fstat(&file)?;
    check_owner(&file, Uid::ROOT)?;
    let is_plain = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    if found.st_nlink > 1 || !(is_plain || is_for_all(&place)) {
        let problem = "others may write its directory, and it is no plain file with one name";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, problem));
    }
    if is_plain && flags.contains(OFlags::TRUNC) {
        ftruncate(&file, 0)?;
    }
    Ok(file.into())
}

/// Refuses a file that belongs neither to this user nor to root.
fn check_owner(file: impl AsFd, own: Uid) -> io::Result<()> {
    let owner = Uid::new(fstat(&file)?.st_uid);
    // where files are given to somebody else, as over NFS, those that this process has made are known
    if owner == own || owner.is_root() || own_files().contains(&Id::of(file)?) {
        return Ok(());
    }
    let problem = format!("it belongs to another user (uid {owner}): use a file of your own");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// Whether this is root, and there are other users: in a namespace with one user, whoever is root there is nobody elsewhere.
#[must_use]
pub fn is_among_others() -> bool {
    geteuid().is_root() && *USERS > 1
}

/// Each file that was made in a directory of others.
fn own_files() -> MutexGuard<'static, HashSet<Id>> {
    static MADE: LazyLock<Mutex<HashSet<Id>>> = LazyLock::new(Mutex::default);
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a file from all others. Its device and its number are not enough, because a file that is made later may get the number of one
/// that was removed. A file system that does not tell when a file was made gives 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Id {
    device: (u32, u32),
    number: u64,
    /// Seconds and nanoseconds since 1970.
    made: (i64, u32),
}

impl Id {
    fn of(file: impl AsFd) -> io::Result<Self> {
        let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
        Ok(Self {
            device: (found.stx_dev_major, found.stx_dev_minor),
            number: found.stx_ino,
            made: (found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
        })
    }
}

/// Makes a directory with this mode, and those above it, unless they are there.
///
/// # Errors
/// The system's; `PermissionDenied` if root would follow a link of somebody else.
pub fn create_dir_all(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;

    if !is_among_others() {
        return std::fs::DirBuilder::new().recursive(true).mode(mode).create(path);
    }
    let mode = Mode::from_raw_mode(mode);
    let Place { dir, name, .. } = walk(path, Some(mode))?;
    match mkdirat(&dir, &name, mode) {
        Err(Errno::EXIST) => match openat(dir, name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOTDIR) => Err(io::ErrorKind::AlreadyExists.into()),
            opened => Ok(opened.map(drop)?),
        },
        made => Ok(made?),
    }
}

/// A directory, held open, so that nobody puts another one in its place.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _held: Option<OwnedFd>,
}

impl Directory {
    /// Opens it.
    ///
    /// # Errors
    /// The system's; `PermissionDenied` if root would follow a link of somebody else.
    pub fn open(path: &Path) -> io::Result<Self> {
        if !is_among_others() {
            return Ok(Self { path: path.to_owned(), _held: None });
        }
        let Place { dir, name, .. } = walk(path, None)?;
        Ok(Self::held(openat(dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())?))
    }

    /// Opens that of a file, and returns the path of the file in it, which is no link that root would not follow.
    ///
    /// # Errors
    /// The system's; `PermissionDenied` if root would follow a link of somebody else.
    pub fn of(file: &Path) -> io::Result<(Self, PathBuf)> {
        if !is_among_others() {
            let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
            let path = parent.unwrap_or_else(|| Path::new(".")).to_owned();
            return Ok((Self { path, _held: None }, file.to_owned()));
        }
        let Place { dir, name, .. } = walk(file, None)?;
        let dir = Self::held(dir);
        let file = dir.path.join(name);
        Ok((dir, file))
    }

    fn held(dir: OwnedFd) -> Self {
        Self { path: PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())), _held: Some(dir) }
    }

    /// A path that leads there as long as this value lives.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A directory above this one, or itself, in which another user than this one and root could put something else in the place of what
/// leads there: it belongs to another user, or others may write it and it is not sticky.
///
/// # Errors
/// The system's.
pub fn replaceable(dir: &Path) -> io::Result<Option<PathBuf>> {
    let real = dir.canonicalize()?;
    let own = Uid::new(geteuid().as_raw());
    let is_of = |uid: Uid| uid.is_root() || uid == own || uid == Uid::NOBODY && *USERS < u64::from(u32::MAX);
    for dir in real.ancestors() {
        let found = std::fs::metadata(dir)?;
        let (mode, gid) = (Mode::from_raw_mode(found.mode()), Gid::new(found.gid()));
        let is_shared = mode.contains(Mode::WOTH) || mode.contains(Mode::WGRP) && !gid.is_root();
        if !is_of(found.uid().into()) || is_shared && !mode.contains(Mode::SVTX) {
            return Ok(Some(dir.to_owned()));
        }
    }
    Ok(None)
}

/// Checks for root that no other user can put something in the place of what lies in a directory, so that its path leads to it later.
///
/// # Errors
/// The system's; `PermissionDenied` if another user can, and if root would follow a link of somebody else.
pub fn check_keeps(dir: &Path) -> io::Result<()> {
    if !is_among_others() {
        return Ok(());
    }
    // links on the way have owners, too
    Directory::open(dir)?;
    let Some(open) = replaceable(dir)? else { return Ok(()) };
    let problem = format!("other users may replace what lies in {}: use another directory", open.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

/// Removes a file, or a link, of this name.
///
/// # Errors
/// The system's; `PermissionDenied` if root would follow a link of somebody else.
pub fn remove(file: &Path) -> io::Result<()> {
    let name = file.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = Directory::open(parent.unwrap_or_else(|| Path::new(".")))?;
    std::fs::remove_file(directory.path().join(name))
}

/// How many users this namespace has.
static USERS: LazyLock<u64> = LazyLock::new(|| {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let lengths = map.lines().filter_map(|line| line.split_whitespace().nth(2)?.parse::<u64>().ok());
    if map.is_empty() { u64::MAX } else { lengths.sum() }
});

/// Where a path leads: the directory and the name there, which is no link.
struct Place {
    dir: OwnedFd,
    name: OsString,
    /// Whether it is a link of the kernel's, such as those for open files: it leads where no path does.
    is_of_kernel: bool,
}

/// Follows a path up to its last name, which need not exist; directories that do not exist are made, if a mode is given.
fn walk(path: &Path, mode: Option<Mode>) -> io::Result<Place> {
    let enter = |dir: &OwnedFd, name: &OsStr| openat(dir, name, DIRECTORY, Mode::empty());
    let mut dir = openat(CWD, ".", DIRECTORY, Mode::empty())?;
    let mut rest = reversed(path);
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == "/" {
            dir = openat(CWD, "/", DIRECTORY, Mode::empty())?;
            continue;
        }
        if name == ".." {
            dir = enter(&dir, &name)?;
            continue;
        }
        let is_last = rest.is_empty();
        // as a directory first, which mounts what is mounted on demand
        let found = match openat(&dir, &name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                openat(&dir, &name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
            }
            found => found,
        };
        let found = match (found, mode) {
            (Err(Errno::NOENT), _) if is_last => return Ok(Place { dir, name, is_of_kernel: false }),
            (Err(Errno::NOENT), Some(mode)) => {
                match mkdirat(&dir, &name, mode) {
                    Ok(()) | Err(Errno::EXIST) => rest.push(name),
                    Err(error) => return Err(error.into()),
                }
                continue;
            }
            (found, _) => found?,
        };
        let link = fstat(&found)?;
        if FileType::from_raw_mode(link.st_mode) != FileType::Symlink {
            if is_last {
                return Ok(Place { dir, name, is_of_kernel: false });
            }
            dir = found;
        } else if fstatfs(&dir)?.f_type == PROC_SUPER_MAGIC {
            if is_last {
                return Ok(Place { dir, name, is_of_kernel: true });
            }
            dir = enter(&dir, &name)?;
        } else {
            check_link(&fstat(&dir)?, &link, &name)?;
            links += 1;
            if links > MAX_LINKS {
                return Err(Errno::LOOP.into());
            }
            let target = readlinkat(&dir, &name, Vec::new())?;
            rest.extend(reversed(Path::new(&OsString::from_vec(target.into_bytes()))));
        }
    }
    Ok(Place { dir, name: ".".into(), is_of_kernel: false })
}

/// The names of a path, the first one last.
fn reversed(path: &Path) -> Vec<OsString> {
    let names = path.components().filter(|part| *part != Component::CurDir);
    let mut names: Vec<_> = names.map(|part| part.as_os_str().to_owned()).collect();
    names.reverse();
    names
}

fn check_link(dir: &Stat, link: &Stat, name: &OsStr) -> io::Result<()> {
    // one with several names may have been made elsewhere
    if is_roots_alone(dir) || (is_for_all(dir) && is_of_root(link) && link.st_nlink == 1) {
        return Ok(());
    }
    let problem = format!(
        "{} is a link in a directory that others may write, and root does not follow those (uid {})",
        Path::new(name).display(),
        link.st_uid
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, problem))
}

fn is_of_root(file: &Stat) -> bool {
    Uid::new(file.st_uid).is_root()
}

/// Whether nobody but root may change what a directory holds.
fn is_roots_alone(dir: &Stat) -> bool {
    is_of_root(dir) && !Mode::from_raw_mode(dir.st_mode).intersects(Mode::WGRP | Mode::WOTH)
}

/// Whether a directory of root is one in which nobody removes files of others, such as `/tmp`.
fn is_for_all(dir: &Stat) -> bool {
    is_of_root(dir) && Mode::from_raw_mode(dir.st_mode).contains(Mode::SVTX)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use tempfile::TempDir;

    use super::*;

    const OTHER: Uid = Uid::new(4001);

    /// A directory of another user; `None` for those who cannot give theirs away.
    fn others() -> Option<TempDir> {
        let dir = tempfile::tempdir().unwrap();
        (geteuid().is_root() && chown(dir.path(), Some(OTHER.as_raw()), None).is_ok()).then_some(dir)
    }

    fn put(path: &Path, existing: Existing, text: &str) -> io::Result<()> {
        open(path, existing, 0o644)?.write_all(text.as_bytes())
    }

    #[track_caller]
    fn refused<T: std::fmt::Debug>(opened: io::Result<T>) {
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn files_are_emptied_appended_to_or_kept_and_made_with_their_mode() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/b/file");
        create_dir_all(file.parent().unwrap(), 0o700).unwrap();
        create_dir_all(file.parent().unwrap(), 0o700).unwrap();
        for (existing, text, expected) in [
            (Existing::Kept, "one", "one"),
            (Existing::Appended, "two", "onetwo"),
            (Existing::Kept, "1", "1netwo"),
            (Existing::Truncated, "new", "new"),
        ] {
            open(&file, existing, 0o600).unwrap().write_all(text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&file).unwrap(), expected);
        }
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(dir.path().join("a").metadata().unwrap().mode() & 0o777, 0o700);
        assert_eq!(create_dir_all(&file, 0o700).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert!(create_dir_all(&file.join("x"), 0o700).is_err());
        let (parent, path) = Directory::of(&file).unwrap();
        assert_eq!(fs::read_to_string(path).unwrap(), "new");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_of_ones_own_lead_where_they_lead() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        fs::create_dir(&real).unwrap();
        symlink("real", dir.path().join("dir")).unwrap();
        symlink(real.join("../dir/./target"), dir.path().join("link")).unwrap();
        put(&dir.path().join("link"), Existing::Truncated, "text").unwrap();
        assert_eq!(fs::read_to_string(real.join("target")).unwrap(), "text");
        create_dir_all(&dir.path().join("dir/deep/er"), 0o700).unwrap();
        assert!(real.join("deep/er").is_dir());
        symlink("round", dir.path().join("round")).unwrap();
        let looped = put(&dir.path().join("round"), Existing::Truncated, "").unwrap_err();
        assert_eq!(looped.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        let (read, write) = io::pipe().unwrap();
        let link = PathBuf::from(format!("/dev/fd/{}", write.as_raw_fd()));
        put(&link, Existing::Appended, "through").unwrap();
        drop(write);
        assert_eq!(io::read_to_string(read).unwrap(), "through");
    }

    #[test]
    fn root_follows_no_link_in_a_directory_of_others() {
        let (Some(dir), safe) = (others(), tempfile::tempdir().unwrap()) else { return };
        let victim = safe.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        symlink(&victim, dir.path().join("file")).unwrap();
        symlink(safe.path(), dir.path().join("dir")).unwrap();
        // also by way of a good link
        symlink(dir.path(), safe.path().join("good")).unwrap();
        for path in [dir.path().join("file"), dir.path().join("dir/victim"), safe.path().join("good/file")] {
            for existing in [Existing::Truncated, Existing::Appended, Existing::Kept] {
                refused(put(&path, existing, "x"));
            }
            refused(Directory::of(&path));
        }
        for path in [dir.path().join("dir/victim"), safe.path().join("good/dir/victim")] {
            refused(remove(&path));
        }
        refused(create_dir_all(&dir.path().join("dir/new"), 0o700));
        refused(create_dir_all(&dir.path().join("dir"), 0o700));
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        // what is no link is only a place
        put(&safe.path().join("good/new"), Existing::Truncated, "x").unwrap();
        put(&safe.path().join("good/new"), Existing::Truncated, "y").unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("new")).unwrap(), "y");
        remove(&safe.path().join("good/new")).unwrap();
        assert!(!dir.path().join("new").exists());
        // nothing is followed to be removed
        remove(&dir.path().join("file")).unwrap();
        assert!(victim.exists() && dir.path().join("file").symlink_metadata().is_err());
    }

    #[test]
    fn root_trusts_no_path_that_another_user_can_change() {
        let (Some(dir), safe) = (others(), tempfile::tempdir().unwrap()) else { return };
        symlink(safe.path(), dir.path().join("dir")).unwrap();
        fs::create_dir(dir.path().join("roots")).unwrap();
        for path in ["", "dir", "roots"] {
            refused(check_keeps(&dir.path().join(path)));
        }
        check_keeps(safe.path()).unwrap();
        for (mode, is_kept) in [(0o777, false), (0o1777, true), (0o755, true)] {
            fs::set_permissions(safe.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(check_keeps(safe.path()).is_ok(), is_kept, "{mode:o}");
        }
    }

    #[test]
    fn root_writes_to_no_file_that_another_user_has_prepared() {
        let Some(dir) = others() else { return };
        let path = |name: &str| dir.path().join(name);
        fs::write(path("theirs"), "old").unwrap();
        chown(path("theirs"), Some(OTHER.as_raw()), None).unwrap();
        fs::write(path("roots"), "old").unwrap();
        fs::hard_link(path("roots"), path("second")).unwrap();
        rustix::fs::mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        for name in ["theirs", "roots", "second"] {
            refused(put(&path(name), Existing::Truncated, "x"));
            assert_eq!(fs::read_to_string(path(name)).unwrap(), "old");
        }
        assert!(put(&path("pipe"), Existing::Truncated, "x").is_err());
        refused(put(&path("pipe"), Existing::Kept, "x"));
        // one that this process has made, wherever it belongs to
        put(&path("own"), Existing::Truncated, "a").unwrap();
        chown(path("own"), Some(OTHER.as_raw()), None).unwrap();
        put(&path("own"), Existing::Appended, "b").unwrap();
        assert_eq!(fs::read_to_string(path("own")).unwrap(), "ab");
    }

    #[test]
    fn a_file_is_not_taken_for_one_that_had_its_number_before() {
        let Some(dir) = others() else { return };
        let path = dir.path().join("file");
        for _ in 0..100 {
            put(&path, Existing::Truncated, "own").unwrap();
            let number = fs::metadata(&path).unwrap().ino();
            fs::remove_file(&path).unwrap();
            // clocks of file systems have ticks
            std::thread::park_timeout(std::time::Duration::from_millis(20));
            fs::write(&path, "theirs").unwrap();
            chown(&path, Some(OTHER.as_raw()), None).unwrap();
            refused(put(&path, Existing::Truncated, "x"));
            if fs::metadata(&path).unwrap().ino() == number {
                return;
            }
            fs::remove_file(&path).unwrap();
        }
        eprintln!("skipped: this file system gives no number again");
    }

    #[test]
    fn a_file_that_is_kept_belongs_to_its_user_or_to_root_wherever_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        put(&file, Existing::Kept, "old").unwrap();
        put(&file, Existing::Kept, "new").unwrap();
        if !geteuid().is_root() {
            return refused(check_owner(File::open(&file).unwrap(), OTHER));
        }
        if chown(&file, Some(OTHER.as_raw()), None).is_ok() {
            check_owner(File::open(&file).unwrap(), OTHER).unwrap();
            refused(put(&file, Existing::Kept, "x"));
            // one that is only written tells nothing
            put(&file, Existing::Truncated, "x").unwrap();
        }
    }

    #[test]
    fn in_a_directory_for_all_root_follows_links_of_its_own() {
        let Some(dir) = others() else { return };
        chown(dir.path(), Some(0), None).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let safe = tempfile::tempdir().unwrap();
        for (name, uid) in [("roots", Uid::ROOT), ("theirs", OTHER)] {
            let link = dir.path().join(name);
            symlink(safe.path().join(name), &link).unwrap();
            std::os::unix::fs::lchown(&link, Some(uid.as_raw()), None).unwrap();
        }
        put(&dir.path().join("roots"), Existing::Truncated, "x").unwrap();
        refused(put(&dir.path().join("theirs"), Existing::Truncated, "x"));
        assert!(safe.path().join("roots").exists() && !safe.path().join("theirs").exists());
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let reader = openat(CWD, &pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        open_existing(&pipe).unwrap().write_all(b"uri").unwrap();
        assert_eq!(io::read_to_string(File::from(reader)).unwrap(), "uri");
    }
}
