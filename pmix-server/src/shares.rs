//! Limits how much of a resource each user or process may hold at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;

/// A semaphore for each user, process or the like. A share that is neither held nor waited for takes no memory.
#[derive(Debug)]
pub(crate) struct Shares<K> {
    size: usize,
    used: Mutex<BTreeMap<K, Weak<Semaphore>>>,
}

impl<K: Ord + Clone> Shares<K> {
    /// Shares of `size` permits each.
    pub(crate) const fn new(size: usize) -> Self {
        Self { size, used: Mutex::new(BTreeMap::new()) }
    }

    /// The share of `who`. It stays the same as long as the semaphore or one of its permits is held.
    pub(crate) fn of(&self, who: &K) -> Arc<Semaphore> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, share| share.strong_count() > 0);
        used.get(who).and_then(Weak::upgrade).unwrap_or_else(|| {
            let share = Arc::new(Semaphore::new(self.size));
            used.insert(who.clone(), Arc::downgrade(&share));
            share
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_its_share_and_those_who_use_none_are_forgotten() {
        let shares = Shares::new(2);
        let held = shares.of(&1).try_acquire_owned().unwrap();
        assert_eq!((shares.of(&1).available_permits(), shares.of(&2).available_permits()), (1, 2));
        drop(held);
        assert_eq!(shares.of(&1).available_permits(), 2);
        assert_eq!(shares.used.lock().unwrap().len(), 1);
    }
}
