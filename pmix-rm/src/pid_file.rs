//! `--report-pid`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pmix_host::OutputChannel;
use rustix::fs::OFlags;

use crate::console::Console;

/// A file created for the process id of `pmixrun`, removed when dropped.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

/// Writes the process id to standard output (`-`), standard error (`+`) or a file. A file is removed at the end only if it
/// did not exist before: it may be a device.
///
/// # Errors
/// The file cannot be written, or is a pipe without a reader.
pub(crate) fn report(place: &str, console: &mut Console) -> io::Result<Option<PidFile>> {
    let line = format!("{}\n", std::process::id());
    match place {
        "-" => console.put(OutputChannel::Stdout, line.into()),
        "+" => console.put(OutputChannel::Stderr, line.into()),
        path => {
            // stays the same file if the current directory changes
            let path = std::path::absolute(Path::new(path))?;
            let is_new = write(&path, &line)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            // created only on success, as it removes the file when dropped
            return Ok(is_new.then(|| PidFile(path)));
        }
    }
    Ok(None)
}

/// Writes a file; returns whether it is new.
fn write(path: &Path, line: &str) -> io::Result<bool> {
    let (mut file, is_new) = match File::create_new(path) {
        Ok(file) => (file, true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            // a pipe without a reader is an error; do not wait for one
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            (OpenOptions::new().write(true).truncate(true).custom_flags(flags).open(path)?, false)
        }
        Err(error) => return Err(error),
    };
    file.write_all(line.as_bytes())?;
    Ok(is_new)
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "cannot remove the pid file");
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_a_file_that_was_not_there_before_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("old"), "what was there, and longer than a process id").unwrap();
        assert!(write(&path("new"), "7\n").unwrap());
        assert!(!write(&path("old"), "7\n").unwrap());
        assert_eq!(std::fs::read_to_string(path("old")).unwrap(), "7\n");
        assert!(!write(Path::new("/dev/null"), "7\n").unwrap(), "a device stays");
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        write(&path("pipe"), "7\n").expect_err("nobody reads it");
    }
}
