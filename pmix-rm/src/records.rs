//! Where the flight recorders of the servers are written when the job fails, so that they outlast it.

use std::env::var_os;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use pmix_host::Records;
use pmix_proto::files::{self, Directory};
use pmix_types::Uid;
use rustix::fs::{Access, access};
use rustix::process::geteuid;

/// The variable that counts if there is no `--record`.
pub(crate) const VARIABLE: &str = "PMIXRUN_RECORD";
/// Turns records off.
const NONE: &str = "none";
/// Files in the default directory; older ones are removed.
const KEPT: usize = 8;

/// The directory of the records of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordPlace {
    /// The user has named it, and looks after it.
    Named(PathBuf),
    /// The default, where `pmixrun` removes old files.
    Default(PathBuf),
    /// There are to be none, or there is no place for them.
    Nowhere,
}

impl RecordPlace {
    /// The place for what the option says, or else the variable. The directory is made if it is not there.
    ///
    /// # Errors
    /// The reason, if the directory that the user has named cannot be made.
    pub(crate) fn prepare(option: Option<&Path>) -> Result<Self, String> {
        let variable = var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
        let (name, directory) = match (option, &variable) {
            (Some(directory), _) => ("--record", directory),
            (None, Some(directory)) => (VARIABLE, directory.as_path()),
            (None, None) => return Ok(Self::by_default()),
        };
        if directory.as_os_str() == NONE {
            return Ok(Self::Nowhere);
        }
        make(directory).map_err(|error| format!("{name} {}: {error}", directory.display()))?;
        Ok(Self::Named(directory.to_owned()))
    }

    /// Without a word if there is none: a job that succeeds does not need it.
    fn by_default() -> Self {
        let uid = Uid::new(geteuid().as_raw());
        let candidates = candidates(var_os("XDG_STATE_HOME"), var_os("HOME"), &std::env::temp_dir(), uid);
        for directory in candidates {
            match make(&directory).and_then(|()| check(&directory, uid)) {
                Ok(()) => return Self::Default(directory),
                Err(error) => {
                    tracing::debug!(directory = %directory.display(), %error, "no place for records")
                }
            }
        }
        Self::Nowhere
    }

    /// The same for the hosts.
    pub(crate) fn records(&self) -> Records {
        match self {
            Self::Named(directory) | Self::Default(directory) => Records::Directory(directory.clone()),
            Self::Nowhere => Records::Off,
        }
    }

    /// Removes the oldest files of the default directory, but none of these.
    pub(crate) fn tidy(&self, own: &[PathBuf]) {
        if let Self::Default(directory) = self
            && let Err(error) = tidy(directory, own)
        {
            tracing::warn!(directory = %directory.display(), %error, "cannot remove old records");
        }
    }
}

/// Where records go by default, the best first. A home of another user, as `sudo` may leave it, is none.
fn candidates(state: Option<OsString>, home: Option<OsString>, temporary: &Path, uid: Uid) -> Vec<PathBuf> {
    let absolute = |path: Option<OsString>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let is_own = |path: &PathBuf| fs::metadata(path).is_ok_and(|about| Uid::new(about.uid()) == uid);
    let home = || absolute(home).filter(is_own).map(|home| home.join(".local/state"));
    let state = absolute(state).or_else(home).map(|state| state.join("pmix/records"));
    state.into_iter().chain([temporary.join(format!("pmix-records-{uid}"))]).collect()
}

/// For its owner only: records tell of the jobs of all users.
fn make(directory: &Path) -> io::Result<()> {
    files::create_dir_all(directory, 0o700)
}

/// Whether nobody else can have put the directory there or can change it.
fn check(directory: &Path, uid: Uid) -> io::Result<()> {
    let about = fs::symlink_metadata(directory)?;
    let held = Directory::open(directory)?;
    if !about.is_dir() || Uid::new(about.uid()) != uid || about.mode() & 0o022 != 0 {
        return Err(io::Error::other("others may write there"));
    }
    Ok(access(held.path(), Access::WRITE_OK | Access::EXEC_OK)?)
}

fn tidy(directory: &Path, own: &[PathBuf]) -> io::Result<()> {
    let held = Directory::open(directory)?;
    let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
    let mut kept = 0;
    for entry in fs::read_dir(held.path())? {
        let entry = entry?;
        let name = entry.file_name();
        let is_record =
            name.to_str().is_some_and(|name| name.starts_with("record.") && name.ends_with(".txt"));
        // another run may remove it at this moment
        let Ok(about) = entry.metadata() else { continue };
        if !is_record || !about.is_file() {
            continue;
        }
        match own.contains(&directory.join(name)) {
            true => kept += 1,
            false => files.push((about.modified()?, entry.path())),
        }
    }
    files.sort_by(|a, b| b.cmp(a));
    for (_, file) in files.into_iter().skip(KEPT.saturating_sub(kept)) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Duration;

    use super::*;

    const fn another(uid: Uid) -> Uid {
        Uid::new(uid.as_raw() + 1)
    }

    #[test]
    fn the_state_of_the_user_comes_first_and_a_home_of_another_does_not_count() {
        let root = tempfile::tempdir().unwrap();
        let uid = Uid::new(geteuid().as_raw());
        let path = |path: &str| Some(OsString::from(path));
        let home = Some(root.path().as_os_str().to_owned());
        let temporary = Path::new("/t");
        let last = PathBuf::from(format!("/t/pmix-records-{uid}"));
        assert_eq!(
            candidates(path("/state"), home.clone(), temporary, uid),
            [PathBuf::from("/state/pmix/records"), last.clone()]
        );
        let in_home = root.path().join(".local/state/pmix/records");
        for state in [None, path(""), path("relative")] {
            assert_eq!(candidates(state, home.clone(), temporary, uid), [in_home.clone(), last.clone()]);
        }
        assert_eq!(candidates(None, home, temporary, another(uid)).len(), 1);
        assert_eq!(candidates(None, path("relative"), temporary, uid), [last]);
    }

    #[test]
    fn a_directory_that_others_may_have_made_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let uid = Uid::new(geteuid().as_raw());
        let directory = root.path().join("a/b");
        make(&directory).unwrap();
        check(&directory, uid).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        check(&directory, another(uid)).unwrap_err();
        let link = root.path().join("link");
        symlink(&directory, &link).unwrap();
        make(&link).unwrap();
        check(&link, uid).unwrap_err();
        fs::set_permissions(&directory, Permissions::from_mode(0o720)).unwrap();
        check(&directory, uid).unwrap_err();
    }

    #[test]
    fn root_removes_no_old_record_by_way_of_a_link_of_another_user() {
        let (root, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for number in 0..=KEPT {
            File::create(root.path().join(format!("record.{number}.txt"))).unwrap();
        }
        let link = others.path().join("link");
        symlink(root.path().parent().unwrap(), &link).unwrap();
        let directory = link.join(root.path().file_name().unwrap());
        let uid = Uid::new(geteuid().as_raw());
        fs::set_permissions(root.path(), Permissions::from_mode(0o700)).unwrap();
        check(&directory, uid).unwrap();
        // only root can make a directory another's
        if std::os::unix::fs::chown(others.path(), Some(4001), None).is_ok() {
            check(&directory, uid).unwrap_err();
            tidy(&directory, &[]).unwrap_err();
            assert_eq!(fs::read_dir(root.path()).unwrap().count(), KEPT + 1);
        }
    }

    #[test]
    fn the_last_eight_stay_with_all_of_the_run_and_whatever_is_no_record() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str, age: u64| {
            let path = root.path().join(name);
            let file = File::create(&path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age)).unwrap();
            path
        };
        file("notes", 90_000);
        let own = [file("record.own.txt", 80_000), root.path().join("record.gone.txt")];
        let others: Vec<_> = (0..9).map(|age| file(&format!("record.{age}.txt"), age)).collect();
        let place = RecordPlace::Default(root.path().to_owned());
        RecordPlace::Named(root.path().to_owned()).tidy(&own);
        assert_eq!(root.path().read_dir().unwrap().count(), 11);
        place.tidy(&own);
        let there: Vec<_> = others.iter().map(|path| path.exists()).collect();
        assert_eq!(there, [[true; KEPT - 1].as_slice(), &[false; 2]].concat());
        assert!(own[0].exists() && root.path().join("notes").exists());
        // more nodes than are kept: all of this run
        let own: Vec<_> = (0..10).map(|node| file(&format!("record.{node}.own.txt"), node)).collect();
        place.tidy(&own);
        assert_eq!(root.path().read_dir().unwrap().count(), 11);
        assert!(own.iter().all(|path| path.exists()));
    }
}
