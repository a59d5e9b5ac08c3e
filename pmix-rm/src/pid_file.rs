//! `--report-pid`.

use std::io;
use std::path::{Path, PathBuf};

use pmix_server::standard::OutputChannel;

use crate::console::Console;

/// A file with the process id of `pmixrun`, removed when dropped.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

/// Writes the process id to standard output (`-`), standard error (`+`) or the file of this name.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn report(place: &str, console: &mut Console) -> io::Result<Option<PidFile>> {
    let line = format!("{}\n", std::process::id());
    match place {
        "-" => console.put(OutputChannel::Stdout, line.into()),
        "+" => console.put(OutputChannel::Stderr, line.into()),
        path => {
            // the directory may become another one, the file not
            let path = std::path::absolute(Path::new(path))?;
            std::fs::write(&path, line)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
            return Ok(Some(PidFile(path)));
        }
    }
    Ok(None)
}

impl Drop for PidFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "not removed");
        }
    }
}
