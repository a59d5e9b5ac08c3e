//! `--report-pid` and `--report-uri`.

use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use pmix_host::OutputChannel;
use pmix_proto::files::{self, Directory};

use crate::console::Console;

/// A file created for what is reported, removed when dropped.
#[derive(Debug)]
pub(crate) struct ReportFile {
    _directory: Directory,
    /// By way of this directory.
    path: PathBuf,
    /// Device and number of the file: another run may have put its own there since.
    id: (u64, u64),
}

/// Reports the process id.
///
/// # Errors
/// The place cannot be written to.
pub(crate) fn report_pid(place: &OsStr, console: &mut Console) -> Result<Option<ReportFile>, String> {
    report(place, std::process::id(), console).map_err(|error| format!("--report-pid: {error}"))
}

/// Reports the address of the server.
///
/// # Errors
/// The place cannot be written to.
pub(crate) fn report_uri(
    place: &OsStr,
    uri: &str,
    console: &mut Console,
) -> Result<Option<ReportFile>, String> {
    report(place, uri, console).map_err(|error| format!("--report-uri: {error}"))
}

/// Writes a line to standard output (`-`), standard error (`+`) or a file. A file is removed at the end only if it
/// did not exist before: it may be a device.
///
/// # Errors
/// The file cannot be written, or is a pipe without a reader.
fn report(
    place: &OsStr,
    what: impl std::fmt::Display,
    console: &mut Console,
) -> io::Result<Option<ReportFile>> {
    let line = format!("{what}\n");
    match place.to_str() {
        Some("-") => console.put(OutputChannel::Stdout, line.into()),
        Some("+") => console.put(OutputChannel::Stderr, line.into()),
        _ => {
            // stays the same file if the current directory changes
            let path = std::path::absolute(Path::new(place))?;
            return write(&path, &line)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())));
        }
    }
    Ok(None)
}

/// Writes a file; returns it if it is new. A new one appears whole: scripts wait for it.
fn write(path: &Path, line: &str) -> io::Result<Option<ReportFile>> {
    let (parent, reached) = Directory::of(path)?;
    if std::fs::symlink_metadata(&reached).is_err() {
        let made = tempfile::Builder::new()
            .prefix(".pmix-report")
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(parent.path());
        let Ok(mut file) = made else {
            // says in its own words why nothing can be made there
            File::create_new(&reached)?.write_all(line.as_bytes())?;
            return ReportFile::at(parent, reached).map(Some);
        };
        file.write_all(line.as_bytes())?;
        match file.persist_noclobber(&reached) {
            Ok(_) => return ReportFile::at(parent, reached).map(Some),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.error),
        }
    }
    // a pipe without a reader is an error; do not wait for one
    let mut file = files::open_existing(path)?;
    file.write_all(line.as_bytes())?;
    Ok(None)
}

impl ReportFile {
    fn at(directory: Directory, path: PathBuf) -> io::Result<Self> {
        let id = id(&path)?;
        Ok(Self { _directory: directory, path, id })
    }
}

/// Device and number of what is at a path.
fn id(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Drop for ReportFile {
    fn drop(&mut self) {
        if id(&self.path).is_ok_and(|now| now != self.id) {
            return;
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "cannot remove the file of a report");
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn a_file_that_another_run_has_put_there_since_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("pid"), dir.path().join("moved"));
        std::fs::write(&path, "7\n").unwrap();
        let at = |path: &Path| {
            let (directory, path) = Directory::of(path).unwrap();
            ReportFile::at(directory, path).unwrap()
        };
        let own = at(&path);
        std::fs::rename(&path, &moved).unwrap();
        std::fs::write(&path, "8\n").unwrap();
        drop(own);
        assert!(path.exists());
        drop(at(&moved));
        assert!(!moved.exists());
    }

    #[test]
    fn only_a_file_that_was_not_there_before_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("old"), "what was there, and longer than a process id").unwrap();
        assert!(write(&path("new"), "7\n").unwrap().is_some());
        assert!(write(&path("old"), "7\n").unwrap().is_none());
        assert_eq!(std::fs::read_to_string(path("old")).unwrap(), "7\n");
        assert!(write(Path::new("/dev/null"), "7\n").unwrap().is_none(), "a device stays");
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        write(&path("pipe"), "7\n").expect_err("nobody reads it");
    }
}
