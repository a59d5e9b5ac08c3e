//! Turns: how many requests of one user hosts work on at a time.
//!
//! A node answers a limited number of requests of another. Without turns, what the processes of one user log, ask, publish
//! or start could take up all of them, so that others, and the reports of this host itself, would be refused. Two kinds of
//! requests take no turn: those that wait for other processes, because these may need one to come (gets of data on other
//! nodes, bootstraps of groups), and notices, which are answered at once. A log holds its turn until the reader of its job
//! has room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use pmix_types::Uid;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::user::is_trusted;

/// Requests of a user on this node that other hosts work on; further ones wait.
pub(super) const MAX_TURNS: usize = 4_096;
/// The same for lines that its processes log. They have turns of their own: they could take up all others until the reader of
/// their job has room, and then no request to end that job would have a turn.
pub(super) const MAX_LOG_TURNS: usize = 2_048;
/// Jobs of a user that this host starts at a time, and requests to control jobs that it carries out. The host itself does this work, and
/// everybody else waits for it.
pub(crate) const MAX_ACTS: usize = 4;
/// Requests of a user with queries that it answers at a time: more, because other nodes may be asked.
pub(crate) const MAX_QUERIES: usize = 16;

/// The turns of all users.
#[derive(Debug)]
pub(crate) struct Turns {
    /// Of each user.
    most: usize,
    taken: Mutex<HashMap<Uid, Weak<Semaphore>>>,
}

impl Turns {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, taken: Mutex::default() }
    }

    /// The same as [`take`](Self::take), but not for root and the server's own user, who take no turns.
    pub(crate) async fn take_unless_trusted(&self, uid: Uid) -> Option<OwnedSemaphorePermit> {
        if is_trusted(uid) { None } else { self.take(uid).await }
    }

    /// Waits until the user may have another request under way, until the turn is dropped. Cancel-safe.
    pub(crate) async fn take(&self, uid: Uid) -> Option<OwnedSemaphorePermit> {
        // never closed
        self.of(uid).acquire_owned().await.ok()
    }

    fn of(&self, uid: Uid) -> Arc<Semaphore> {
        let mut all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = all.get(&uid).and_then(Weak::upgrade) {
            return turns;
        }
        // of users who have nothing under way nothing is kept
        all.retain(|_, turns| turns.strong_count() > 0);
        let turns = Arc::new(Semaphore::new(self.most));
        all.insert(uid, Arc::downgrade(&turns));
        turns
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_user_has_a_limited_number_of_requests_at_other_hosts_and_leaves_room_for_others() {
        let turns = Turns::new(MAX_TURNS);
        let take = |uid: u32| turns.take(uid.into()).now_or_never().flatten();
        let mut taken: Vec<_> = (0..MAX_TURNS).map(|_| take(1000).expect("there is room")).collect();
        assert!(take(1000).is_none(), "it waits");
        assert!(take(1001).is_some());
        taken.pop();
        assert!(take(1000).is_some());
        drop(taken);
        drop(take(1002));
        assert_eq!(turns.taken.lock().unwrap().len(), 1, "nothing is kept of users without requests");
    }
}
