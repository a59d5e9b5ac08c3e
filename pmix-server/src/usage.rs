//! The state of files, as reported by the system.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pmix_engine::FileState;

/// The state of a file, following links; `None` if it does not exist or cannot be accessed.
pub(crate) fn file_state(path: &Path) -> Option<FileState> {
    let found = fs::metadata(path).ok()?;
    let (accessed, modified) = ((found.atime(), found.atime_nsec()), (found.mtime(), found.mtime_nsec()));
    Some(FileState::new(found.size(), accessed, modified))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_looks_different() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert_eq!(file_state(&path), None);
        fs::write(&path, "a").unwrap();
        let before = file_state(&path).unwrap();
        fs::write(&path, "ab").unwrap();
        assert_eq!((before.size, file_state(&path).unwrap().size), (1, 2));
        assert!(before.modified.0 > 0);
    }
}
