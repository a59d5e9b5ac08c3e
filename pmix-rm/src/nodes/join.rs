//! Start lines in files, for daemons that somebody else starts: `pmixrun --await-daemons` writes them, `pmixd --join` reads them.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use pmix_proto::files::{Directory, check_keeps};
use pmix_types::Uid;
use rustix::fs::OFlags;
use rustix::process::geteuid;

use super::line::{Line, MAX_START_LINE};

/// The name of the file for a node.
pub(super) fn file_of(dir: &Path, node: &str) -> PathBuf {
    dir.join(format!("{node}.join"))
}

/// A file with the line of a daemon. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct JoinFile {
    path: PathBuf,
    _made: Arc<MadeDirs>,
}

impl JoinFile {
    /// Writes the line of a node to a file for its owner alone. Whoever waits for the file finds all of it. Directories that are
    /// missing are made, and noted.
    ///
    /// # Errors
    /// The file, and why it cannot be written; then nothing of it is left. One that exists may be that of another run.
    pub(super) fn write(dir: &Path, node: &str, line: &str, made: &Arc<MadeDirs>) -> Result<Self, String> {
        let path = file_of(dir, node);
        let write = || {
            check_place(dir)?;
            made.make(dir)?;
            // meanwhile, others may have put something in the place of a directory that was missing
            check_keeps(dir)?;
            let mut fresh = tempfile::Builder::new().prefix(&format!(".{node}.join.")).tempfile_in(dir)?;
            fresh.write_all(line.as_bytes())?;
            fresh.persist_noclobber(&path)?;
            Ok(())
        };
        let written: io::Result<()> = write().or_else(|error: io::Error| match error.kind() {
            // another run has removed a directory that it had made, at its end
            io::ErrorKind::NotFound => write(),
            _ => Err(error),
        });
        match written {
            Ok(()) => Ok(Self { path, _made: made.clone() }),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.symlink_metadata().is_ok() => {
                Err(format!(
                    "{} exists: each pmixrun needs a directory of its own; if no other pmixrun is using this file, remove it",
                    path.display()
                ))
            }
            Err(error) => Err(format!("cannot write {}: {error}", path.display())),
        }
    }
}

impl Drop for JoinFile {
    fn drop(&mut self) {
        // somebody may have removed it
        let _ = fs::remove_file(&self.path);
    }
}

/// Checks for root that nobody else can put something in the place of a directory, as far as that is there: root would write and remove
/// files where others want. Other users may share a directory with those whom they trust.
fn check_place(dir: &Path) -> io::Result<()> {
    let whole = std::path::absolute(dir)?;
    let there =
        whole.ancestors().find(|dir| dir.symlink_metadata().is_ok()).unwrap_or_else(|| Path::new("/"));
    check_keeps(there)
}

/// Directories that were made for files of daemons, the inner ones last. When this is dropped, those that are empty are removed.
#[derive(Debug, Default)]
pub(super) struct MadeDirs(Mutex<Vec<PathBuf>>);

impl MadeDirs {
    fn make(&self, dir: &Path) -> io::Result<()> {
        let create = || {
            let (_parent, reached) = Directory::of(dir)?;
            DirBuilder::new().mode(0o700).create(reached)?;
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(dir.to_owned());
            Ok(())
        };
        let created: io::Result<()> = create();
        match (created, dir.parent()) {
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
                self.make(parent)?;
                create()
            }
            (Err(error), _) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
            (created, _) => created,
        }
    }
}

impl Drop for MadeDirs {
    fn drop(&mut self) {
        let made = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        for dir in made.iter().rev() {
            // others may have put something there
            let _ = Directory::of(dir).and_then(|(_parent, reached)| fs::remove_dir(reached));
        }
    }
}

/// Reads the start line from a file. The file must belong to this user or to root, and no other user may have access to it.
///
/// # Errors
/// The file, and what is wrong with it, without its text.
pub(super) fn read(path: &Path) -> Result<Line, String> {
    let about = |why: String| format!("{}: {why}", path.display());
    let file = open(path).map_err(about)?;
    let mut text = Vec::new();
    let read = file.take(MAX_START_LINE as u64).read_to_end(&mut text);
    read.map_err(|error| about(error.to_string()))?;
    Line::read(&String::from_utf8_lossy(&text), &path.display())
}

fn open(path: &Path) -> Result<File, String> {
    // a pipe would keep whoever opens it waiting
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let file = file.map_err(|error| error.to_string())?;
    let found = file.metadata().map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("it is not a file".into());
    }
    let owner = Uid::new(found.uid());
    if !owner.is_root() && owner.as_raw() != geteuid().as_raw() {
        return Err(format!("it belongs to user {owner}, who could have written anything"));
    }
    if found.mode() & 0o077 != 0 {
        let mode = found.mode() & 0o777;
        return Err(format!("others may read or write it (mode {mode:o}): it must have mode 600"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_start_line_in_a_file_is_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let (below, made) = (dir.path().join("of/a run"), Arc::default());
        let file = JoinFile::write(&below, "n1", "{}\n", &made).unwrap();
        let path = file_of(&below, "n1");
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(&below)), (0o600, 0o700));
        assert_eq!(fs::read_dir(&below).unwrap().count(), 1);
        // it is as good as no other, but it is one
        assert!(read(&path).unwrap_err().contains("it is not from pmixrun"));
        for open_to in [0o640, 0o604, 0o620, 0o644] {
            fs::set_permissions(&path, fs::Permissions::from_mode(open_to)).unwrap();
            let why = format!("{}: others may read or write it (mode {open_to:o})", path.display());
            assert!(read(&path).unwrap_err().starts_with(&why));
        }
        drop(file);
        assert!(!path.exists());
        let error = JoinFile::write(Path::new("/proc/none"), "n1", "", &made).unwrap_err();
        assert!(error.starts_with("cannot write /proc/none/n1.join: "), "{error}");
    }

    #[test]
    fn the_files_of_two_runs_never_replace_each_other_and_directories_are_removed_that_were_made() {
        let dir = tempfile::tempdir().unwrap();
        let below = dir.path().join("of/all/runs");
        let write = |node: &str, line: &str, made: &Arc<MadeDirs>| JoinFile::write(&below, node, line, made);
        let (first, second) = (Arc::default(), Arc::default());
        let files = ["a", "b"].map(|node| write(node, "first", &first).unwrap());
        let path = file_of(&below, "a");
        let error = write("a", "second", &second).unwrap_err();
        assert!(error.starts_with(&format!("{} exists: ", path.display())), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        assert_eq!(fs::read_dir(&below).unwrap().count(), 2, "nothing is left of one that was refused");
        let of_second = write("c", "second", &second).unwrap();
        drop((files, first));
        assert_eq!(fs::read_to_string(file_of(&below, "c")).unwrap(), "second");
        // those that another one has made remain
        drop((of_second, second));
        assert!(below.exists() && fs::read_dir(&below).unwrap().count() == 0);

        fs::remove_dir_all(dir.path().join("of")).unwrap();
        fs::create_dir(dir.path().join("of")).unwrap();
        let made = Arc::default();
        let files = ["a", "b"].map(|node| write(node, "", &made).unwrap());
        drop((made, files));
        assert!(dir.path().join("of").exists() && !dir.path().join("of/all").exists());
    }

    /// As one that another user puts there while directories are made.
    #[test]
    fn root_makes_no_directory_for_start_lines_by_way_of_a_link_of_another_user() {
        let (dir, roots) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(roots.path(), &link).unwrap();
        let made = MadeDirs::default();
        made.make(&link.join("own")).unwrap();
        // only root can make a directory another's
        if std::os::unix::fs::chown(dir.path(), Some(4001), None).is_ok() {
            made.make(&link.join("new")).unwrap_err();
            made.make(&link.join("own")).unwrap_err();
            drop(made);
            let left: Vec<_> =
                fs::read_dir(roots.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
            assert_eq!(left, [roots.path().join("own")], "nor does it remove one there");
        }
    }

    #[test]
    fn what_is_no_file_of_a_start_line_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let put = |name: &str, bytes: &[u8]| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).mode(0o600).open(at(name)).unwrap().write_all(bytes).unwrap();
        };
        put("empty", b"");
        put("garbage", &[0xff; 100]);
        put("long", &[b'['; 2 * MAX_START_LINE]);
        for (name, why) in [
            ("missing", "No such file"),
            ("pipe", "it is not a file"),
            (".", "it is not a file"),
            ("empty", "there is no start line in "),
            ("garbage", "it is not from pmixrun"),
            ("long", "it is not from pmixrun"),
        ] {
            let error = read(&at(name)).unwrap_err();
            assert!(error.contains(why) && error.contains(at(name).to_str().unwrap()), "{name}: {error}");
        }
        put("theirs", b"{}\n");
        let other = geteuid().as_raw() + 1;
        // only root can make a file another's
        if std::os::unix::fs::chown(at("theirs"), Some(other), None).is_ok() {
            let error = read(&at("theirs")).unwrap_err();
            assert!(error.contains(&format!("it belongs to user {other}")), "{error}");
        }
    }
}
