//! What the system says of users by their numbers.

use std::fs::{Metadata, metadata, read_to_string};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::Uid;

/// The uids that users may take in user namespaces of their own, as many as 65,536 each.
const SUBORDINATES: &str = "/etc/subuid";

impl Uid {
    /// Whether `/etc/subuid` lends this uid to a user other than root. Whoever acts under it is that user, who also has a uid of their
    /// own, unless an account has the number.
    ///
    /// The file is read again when it has changed. A list that the system keeps elsewhere is not known.
    pub fn is_subordinate(self) -> bool {
        static LENT: Mutex<(Option<Version>, Vec<Range<u64>>)> = Mutex::new((None, Vec::new()));
        let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
        let now = metadata(SUBORDINATES).ok().map(|metadata| version(&metadata));
        if lent.0 != now {
            match read_to_string(SUBORDINATES) {
                Ok(list) => *lent = (now, ranges(&list)),
                Err(error) if error.kind() == ErrorKind::NotFound => *lent = (None, Vec::new()),
                // the next call tries again
                Err(_) => {}
            }
        }
        lent.1.iter().any(|range| range.contains(&self.as_raw().into()))
    }

    /// Whether this uid stands for every user that the user namespace of this process does not map.
    pub fn is_unmapped(self) -> bool {
        static OVERFLOW: OnceLock<Uid> = OnceLock::new();
        let read = |file: &str| read_to_string(file).unwrap_or_default();
        let overflow = || read("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(Self::NOBODY);
        let maps_all = || read("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"]);
        self == *OVERFLOW.get_or_init(overflow) && !maps_all()
    }
}

/// What tells that a file has changed.
type Version = (u64, u64, i64, i64);

fn version(metadata: &Metadata) -> Version {
    (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Reads lines of user, first uid and count; skips comments, what root has, and others.
fn ranges(list: &str) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let (user, range) = line.trim().split_once(':')?;
        if user.starts_with('#') || user == "root" || user == "0" {
            return None;
        }
        let (first, count) = range.split_once(':')?;
        let (first, count) = (first.parse::<u32>().ok()?, count.parse::<u32>().ok()?);
        Some(u64::from(first)..u64::from(first) + u64::from(count))
    };
    list.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_uids_lent_to_users_are_read() {
        let list = "alice:100000:65536\n# bob:1:2\n1001:165536:1\n\nroot:1000000:1000000000\nodd\ncarol:4294967295:2\n";
        assert_eq!(ranges(list), [100_000..165_536, 165_536..165_537, 4_294_967_295..4_294_967_297]);
    }
}
