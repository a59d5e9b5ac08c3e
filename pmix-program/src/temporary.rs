//! The directory for temporary files.

use std::io;
use std::path::PathBuf;

use pmix_proto::files::check_keeps;

/// The directory for temporary files, where no other user can put something in the place of a directory of root's.
///
/// # Errors
/// It cannot be looked at, or another user can; the error names it.
pub fn kept_temporary() -> io::Result<PathBuf> {
    let directory = std::env::temp_dir();
    match check_keeps(&directory) {
        Ok(()) => Ok(directory),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", directory.display()))),
    }
}
