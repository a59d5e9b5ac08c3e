//! The directories of a user's servers on a node: servers choose one of these places, and tools search all of them (TOL-03).
//!
//! The usual place is `pmix-<uid>` below `TMPDIR` or `/tmp`. As anyone can create a directory of that name there, two other
//! places follow: the same name in `XDG_RUNTIME_DIR`, if that is private to the user, and unpredictable names `pmix-<uid>-*`
//! beside the usual one. A directory given in `PMIX_SERVER_TMPDIR` or by a program is the only place, so that its problems
//! are reported.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pmix_types::Uid;

/// The places of one user's servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    uid: Uid,
    root: PathBuf,
    is_given: bool,
    runtime_dir: Option<PathBuf>,
}

/// The reason not to trust a directory to be the user's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "servers decide on each case")]
pub enum Doubt {
    /// It is a link or a file.
    NoDirectory,
    /// It belongs to this other user.
    Owner(Uid),
    /// Its mode lets others read or write.
    Mode(u32),
}

impl Places {
    /// Only this directory, relative to the current one if it is not absolute.
    ///
    /// # Errors
    /// The path is empty, or relative and the current directory no longer exists.
    pub fn given(root: impl AsRef<Path>, uid: impl Into<Uid>) -> io::Result<Self> {
        Ok(Self { uid: uid.into(), root: std::path::absolute(root)?, is_given: true, runtime_dir: None })
    }

    /// The places that the environment gives: `PMIX_SERVER_TMPDIR` alone if it is set and not empty; otherwise the usual place
    /// below [`TMPDIR`](tmpdir) or `/tmp`, followed by the other places.
    ///
    /// # Errors
    /// A path is relative and the current directory no longer exists.
    pub fn of_environment(uid: impl Into<Uid>) -> io::Result<Self> {
        let set = |name| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
        match set("PMIX_SERVER_TMPDIR") {
            Some(given) => Self::given(given, uid),
            None => Self::usual(tmpdir().ok().as_deref(), set("XDG_RUNTIME_DIR"), uid.into()),
        }
    }

    fn usual(tmpdir: Option<&Path>, runtime_dir: Option<PathBuf>, uid: Uid) -> io::Result<Self> {
        let root = std::path::absolute(tmpdir.unwrap_or_else(|| Path::new("/tmp")))?;
        let is_private = |dir: &PathBuf| {
            dir.is_absolute()
                && fs::symlink_metadata(dir)
                    .is_ok_and(|found| doubt(&found, uid).is_none() && found.mode() & 0o077 == 0)
        };
        Ok(Self { uid, root, is_given: false, runtime_dir: runtime_dir.filter(is_private) })
    }

    /// The parent of the first place.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the first place is the only one.
    pub const fn is_given(&self) -> bool {
        self.is_given
    }

    /// The place to use unless another user has taken it.
    pub fn first(&self) -> PathBuf {
        self.root.join(self.name())
    }

    /// The other places, in order, including existing directories with unpredictable names if they are the user's own.
    pub fn others(&self) -> Vec<PathBuf> {
        if self.is_given {
            return Vec::new();
        }
        let runtime = self.runtime_dir.as_ref().map(|dir| dir.join(self.name()));
        let prefix = self.random_prefix();
        let beside = fs::read_dir(&self.root).into_iter().flatten().flatten().filter(|entry| {
            entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes())
                && entry.metadata().is_ok_and(|found| doubt(&found, self.uid).is_none())
        });
        let mut beside: Vec<_> = beside.map(|entry| entry.path()).collect();
        beside.sort();
        runtime.into_iter().chain(beside).collect()
    }

    /// Prefix of unpredictable names, below [`root`](Self::root).
    pub fn random_prefix(&self) -> String {
        format!("{}-", self.name())
    }

    /// Whether something that this user's servers cannot use is at this path: an entry of another user, or one that is not a
    /// directory. The latter may even belong to this user: in a directory such as `/tmp`, others can create a hard link to a
    /// file of this user, and this user may be unable to remove it.
    pub fn is_taken(&self, path: &Path) -> bool {
        fs::symlink_metadata(path)
            .is_ok_and(|found| matches!(doubt(&found, self.uid), Some(Doubt::NoDirectory | Doubt::Owner(_))))
    }

    fn name(&self) -> String {
        format!("pmix-{}", self.uid)
    }
}

/// The directory that `TMPDIR` names.
///
/// # Errors
/// What it names is not there, as where a batch system has not made it yet; empty if it is not set.
pub fn tmpdir() -> Result<PathBuf, PathBuf> {
    let named = PathBuf::from(std::env::var_os("TMPDIR").unwrap_or_default());
    if named.is_dir() { Ok(named) } else { Err(named) }
}

/// The directory in which the system-level server of a node has its file, and in which tools look for it (TOL-02): the first of
/// `PMIX_SYSTEM_TMPDIR` and [`TMPDIR`](tmpdir) that is set, else `/tmp`.
pub fn system_root() -> PathBuf {
    let given = std::env::var_os("PMIX_SYSTEM_TMPDIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    given.or_else(|| tmpdir().ok()).unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Checks whether a directory belongs to this user, and others can neither read nor write it. They may search it. The metadata
/// must not be that of the target of a link.
pub fn doubt(found: &Metadata, uid: impl Into<Uid>) -> Option<Doubt> {
    let owner = Uid::new(found.uid());
    if !found.is_dir() {
        Some(Doubt::NoDirectory)
    } else if owner != uid.into() {
        Some(Doubt::Owner(owner))
    } else if found.mode() & 0o066 != 0 {
        Some(Doubt::Mode(found.mode() & 0o7777))
    } else {
        None
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDirectory => f.write_str("is not a directory but a link or a file: remove it"),
            Self::Owner(uid) => write!(f, "belongs to uid {uid}, not to this user"),
            Self::Mode(mode) => {
                write!(f, "has mode {mode:04o}, so others may read or write it: chmod 700 it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn private(path: &Path) -> Uid {
        fs::create_dir(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
        fs::metadata(path).unwrap().uid().into()
    }

    const fn another(uid: Uid) -> Uid {
        Uid::new(uid.as_raw() + 1)
    }

    #[test]
    fn a_given_place_is_absolute_and_the_only_one() {
        let here = std::env::current_dir().unwrap();
        let places = Places::given("below/here", 7).unwrap();
        assert_eq!((places.root(), places.is_given()), (here.join("below/here").as_path(), true));
        assert_eq!(places.first(), here.join("below/here/pmix-7"));
        assert_eq!(places.others(), Vec::<PathBuf>::new());
        assert!(Places::given("", 7).is_err());
        assert_eq!(Places::usual(Some(Path::new("t")), None, Uid::new(7)).unwrap().root(), here.join("t"));
    }

    #[test]
    fn a_runtime_directory_serves_if_it_is_private_and_absolute() {
        let root = tempfile::tempdir().unwrap();
        let run = root.path().join("run");
        let uid = private(&run);
        let others =
            |run: &Path, uid| Places::usual(Some(root.path()), Some(run.to_owned()), uid).unwrap().others();
        assert_eq!(others(&run, uid), [run.join(format!("pmix-{uid}"))]);
        assert_eq!(others(&run, another(uid)), Vec::<PathBuf>::new(), "it is another's");
        assert_eq!(others(Path::new("run"), uid), Vec::<PathBuf>::new());
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&run, &link).unwrap();
        assert_eq!(others(&link, uid), Vec::<PathBuf>::new());
        fs::set_permissions(&run, Permissions::from_mode(0o711)).unwrap();
        assert_eq!(others(&run, uid), Vec::<PathBuf>::new());
    }

    #[test]
    fn of_names_that_nobody_foresees_only_own_private_directories_count() {
        let root = tempfile::tempdir().unwrap();
        let mine = root.path().join("mine");
        let uid = private(&mine);
        let places = Places::usual(Some(root.path()), None, uid).unwrap();
        let named = |end: &str| root.path().join(format!("{}{end}", places.random_prefix()));
        fs::rename(&mine, named("a")).unwrap();
        private(&named("wide"));
        fs::set_permissions(named("wide"), Permissions::from_mode(0o702)).unwrap();
        fs::write(named("file"), "").unwrap();
        std::os::unix::fs::symlink(named("a"), named("link")).unwrap();
        private(&root.path().join(format!("pmix-{uid}0-a")));
        assert_eq!(places.others(), [named("a")]);
        let of_another = Places { uid: another(uid), ..places };
        assert_eq!(of_another.others(), Vec::<PathBuf>::new());
    }

    #[test]
    fn what_is_no_directory_of_the_user_is_taken_whoever_owns_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("dir");
        let uid = private(&path);
        let places = Places::usual(Some(root.path()), None, uid).unwrap();
        assert!(!places.is_taken(&path) && !places.is_taken(&places.first()));
        assert!(Places { uid: another(uid), ..places.clone() }.is_taken(&path));
        // a mode is the user's own to mend
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert!(!places.is_taken(&path));
        let own = root.path().join("own");
        fs::write(&own, "").unwrap();
        fs::hard_link(&own, places.first()).unwrap();
        assert!(places.is_taken(&places.first()), "a link that another user can make");
        fs::remove_file(places.first()).unwrap();
        std::os::unix::fs::symlink(&path, places.first()).unwrap();
        assert!(places.is_taken(&places.first()));
    }

    #[test]
    fn others_may_only_pass_through() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("dir");
        let uid = private(&dir);
        let doubt_at = |mode| {
            fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
            doubt(&fs::symlink_metadata(&dir).unwrap(), uid)
        };
        for mode in [0o700, 0o711, 0o500] {
            assert_eq!(doubt_at(mode), None, "{mode:o}");
        }
        for mode in [0o740, 0o720, 0o704, 0o702, 0o744, 0o755, 0o1777] {
            assert_eq!(doubt_at(mode), Some(Doubt::Mode(mode)));
        }
    }
}
