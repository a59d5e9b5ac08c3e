//! How fast an ordinary user may have published data, and jobs, written to a store that keeps its history, such as etcd: it grows with all
//! that is written, whatever is removed again, until it is compacted.

use std::collections::BTreeMap;
use std::time::Duration;

use pmix_server::host::{HostError, HostResult};
use pmix_types::{Status, Uid, short_duration};
use tokio::time::Instant;

use crate::user::is_trusted;

/// Bytes that a user may have written at once. A larger record is written if the user has had nothing written of late.
const MAX_BURST: usize = 64 << 20;
/// Bytes that a user may have written in each second after that.
const PER_SECOND: usize = 256 << 10;
/// What a store needs for a record beside its data, when it is written and when it is removed.
pub(crate) const OVERHEAD: usize = 512;

/// Bytes that each user has had written of late, and when they were counted; of users who may write [`MAX_BURST`] nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct Pace(BTreeMap<Uid, (usize, Instant)>);

impl Pace {
    /// Counts bytes that this user wants to have kept.
    ///
    /// # Errors
    /// `ERR_RESOURCE_BUSY`: they are too much for now, and are not counted.
    pub(crate) fn admit(&mut self, uid: Uid, bytes: usize) -> HostResult<()> {
        if is_trusted(uid) || bytes == 0 {
            return Ok(());
        }
        let now = Instant::now();
        self.0.retain(|_, (written, since)| {
            let whole = (now - *since).as_secs();
            *written =
                written.saturating_sub(PER_SECOND.saturating_mul(whole.try_into().unwrap_or(usize::MAX)));
            *since += Duration::from_secs(whole);
            *written > 0
        });
        let (written, _) = self.0.entry(uid).or_insert((0, now));
        if *written + bytes > MAX_BURST && *written > 0 {
            let seconds = (*written + bytes - MAX_BURST).min(*written).div_ceil(PER_SECOND);
            let wait = short_duration(Duration::from_secs(seconds.try_into().unwrap_or(u64::MAX)));
            let message = format!(
                "uid {uid} has had too much data written lately (published data and jobs): try again in {wait}"
            );
            return Err(HostError::new(Status::ERR_RESOURCE_BUSY, message));
        }
        *written += bytes;
        Ok(())
    }

    /// Bytes that were counted were not written.
    pub(crate) fn give_back(&mut self, uid: Uid, bytes: usize) {
        if let Some((written, _)) = self.0.get_mut(&uid) {
            *written = written.saturating_sub(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALICE: Uid = Uid::new(4001);
    const BOB: Uid = Uid::new(4002);
    const CAROL: Uid = Uid::new(4003);

    #[tokio::test(start_paused = true)]
    async fn a_user_over_the_burst_is_paced_and_others_are_not() {
        let mut pace = Pace::default();
        let (full, second) = (MAX_BURST, PER_SECOND);
        pace.admit(BOB, full).unwrap();
        let refused = pace.admit(BOB, second).unwrap_err();
        assert_eq!(refused.status(), Status::ERR_RESOURCE_BUSY);
        assert!(refused.to_string().contains("in 1 s"), "{refused}");
        pace.admit(ALICE, full).unwrap();
        pace.admit(Uid::ROOT, 2 * full).unwrap();
        tokio::time::advance(Duration::from_millis(1500)).await;
        pace.admit(BOB, second).unwrap();
        pace.admit(BOB, second).unwrap_err();
        // half a second is not lost
        tokio::time::advance(Duration::from_millis(500)).await;
        pace.admit(BOB, second).unwrap();
        tokio::time::advance(Duration::from_secs(1000)).await;
        pace.admit(CAROL, second).unwrap();
        assert_eq!(pace.0.keys().copied().collect::<Vec<_>>(), [CAROL]);
    }

    #[tokio::test(start_paused = true)]
    async fn failed_writes_are_given_back() {
        let mut pace = Pace::default();
        let (full, second) = (MAX_BURST, PER_SECOND);
        pace.admit(BOB, full).unwrap();
        pace.admit(BOB, 0).unwrap();
        pace.give_back(BOB, full);
        pace.admit(BOB, second).unwrap();
        pace.admit(BOB, full).unwrap_err();
        assert!(pace.0.values().all(|(written, _)| *written == PER_SECOND));
        pace.admit(CAROL, 0).unwrap();
        assert_eq!(pace.0.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_larger_than_the_burst_is_admitted_first() {
        let mut pace = Pace::default();
        pace.admit(BOB, 2 * MAX_BURST).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        let refused = pace.admit(BOB, MAX_BURST).unwrap_err();
        assert!(refused.to_string().contains("in 8 min 31 s"), "{refused}");
    }
}
