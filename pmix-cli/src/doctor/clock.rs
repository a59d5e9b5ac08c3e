//! Whether the clock can be right.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::finding::Finding;

const CHECK: &str = "clock";
const REMEDY: &str = "compare it with other nodes, and synchronize it: timedatectl; chronyc tracking";
/// 2025-01-01, before which this program did not exist.
const EARLIEST: Duration = Duration::from_secs(1_735_689_600);
/// File servers may be ahead by so much.
const TOLERANCE: Duration = Duration::from_secs(5);

pub(super) fn check() -> Vec<Finding> {
    let own = std::env::current_exe().ok();
    let root = pmix_tool::session_root().ok();
    vec![judge(SystemTime::now(), own.iter().chain(&root).map(|path| path.as_path()))]
}

fn judge<'a>(now: SystemTime, paths: impl Iterator<Item = &'a Path>) -> Finding {
    if now < UNIX_EPOCH + EARLIEST {
        return Finding::failure(CHECK, "the clock says a time before 2025", REMEDY);
    }
    let ahead = |path: &Path| {
        let ahead = fs::symlink_metadata(path).ok()?.modified().ok()?.duration_since(now).ok()?;
        (ahead > TOLERANCE).then(|| (path.to_owned(), ahead))
    };
    match paths.filter_map(ahead).max_by_key(|(_, ahead)| *ahead) {
        Some((path, ahead)) => Finding::warning(
            CHECK,
            format!(
                "{} was modified {} s in the future: the clock is behind, or was",
                path.display(),
                ahead.as_secs()
            ),
            REMEDY,
        ),
        None => Finding::ok(CHECK, "no file is from the future"),
    }
}

/// The same for what is in a directory of servers.
pub(super) fn of_entries<'a>(paths: impl Iterator<Item = &'a Path>) -> Option<Finding> {
    let found = judge(SystemTime::now(), paths);
    found.remedy.is_some().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn files_from_the_future_tell_of_a_clock_that_is_behind() {
        let dir = tempfile::tempdir().unwrap();
        let judged = |now| judge(now, std::iter::once(dir.path()));
        let now = dir.path().metadata().unwrap().modified().unwrap();
        assert_eq!(judged(now).level, Level::Ok);
        assert_eq!(judged(now - Duration::from_secs(2)).level, Level::Ok, "within the tolerance");
        let behind = judged(now - Duration::from_secs(100));
        assert!(behind.level == Level::Warning && behind.text.contains(" s in the future"), "{behind:?}");
        assert_eq!(judged(UNIX_EPOCH).level, Level::Failure);
    }
}
