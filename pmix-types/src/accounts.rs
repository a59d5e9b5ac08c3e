//! What the system says of users by their numbers.

use std::fs::{Metadata, metadata, read_to_string};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use crate::Uid;

/// The uids that accounts may use in user namespaces of their own, as many as 65,536 each.
const SUBORDINATES: &str = "/etc/subuid";

impl Uid {
    /// Whether `/etc/subuid` lends this uid to an account: the user of that account acts under it, who has one of their own.
    ///
    /// The file is read again when it has changed. A list that the system keeps elsewhere is not known.
    pub fn is_subordinate(self) -> bool {
        static LENT: Mutex<(Option<Version>, Vec<Range<u64>>)> = Mutex::new((None, Vec::new()));
        let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
        let now = metadata(SUBORDINATES).ok().map(|metadata| version(&metadata));
        if lent.0 != now {
            *lent = (now, ranges(&read_to_string(SUBORDINATES).unwrap_or_default()));
        }
        lent.1.iter().any(|range| range.contains(&self.as_raw().into()))
    }

    /// Whether this uid stands for every user that the user namespace of this process does not map.
    pub fn is_unmapped(self) -> bool {
        let read = |file: &str| read_to_string(file).unwrap_or_default();
        let overflow = read("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(Self::NOBODY);
        let maps_all = || read("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"]);
        self == overflow && !maps_all()
    }
}

/// By which a file that has changed is told.
type Version = (u64, u64, i64, i64);

fn version(metadata: &Metadata) -> Version {
    (metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec())
}

/// Reads lines of an account, its first uid and how many there are; others are passed over.
fn ranges(list: &str) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let mut fields = line.trim().split(':').skip(1).map(str::parse::<u32>);
        let (first, count) = (fields.next()?.ok()?, fields.next()?.ok()?);
        Some(u64::from(first)..u64::from(first) + u64::from(count))
    };
    list.lines().filter_map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_to_accounts_is_read() {
        let read = ranges("alice:100000:65536\n# bob:1:2\n1001:165536:1\n\nodd\ncarol:4294967295:2\n");
        assert_eq!(read, [100_000..165_536, 165_536..165_537, 4_294_967_295..4_294_967_297]);
    }
}
