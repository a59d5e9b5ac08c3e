//! What processes use, and what files look like, as the system says.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pmix_engine::FileState;

/// Bytes of a process that are in memory; pid 0 is this process. `None` if there is no such process, or the system does
/// not tell.
pub(crate) fn resident_bytes(pid: i32) -> Option<u64> {
    let path = match pid {
        0 => "/proc/self/statm".to_owned(),
        pid => format!("/proc/{pid}/statm"),
    };
    let text = fs::read_to_string(path).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

/// What a file looks like, links followed; `None` if it is not there, or cannot be seen.
pub(crate) fn file_state(path: &Path) -> Option<FileState> {
    let found = fs::metadata(path).ok()?;
    Some(FileState {
        size: found.size(),
        accessed: (found.atime(), found.atime_nsec()),
        modified: (found.mtime(), found.mtime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_runs_uses_memory() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(resident_bytes(0).unwrap() > 100_000);
        assert!(resident_bytes(own).unwrap() > 100_000);
        assert_eq!(resident_bytes(i32::MAX), None);
    }

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
