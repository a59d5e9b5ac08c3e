//! What each user or process has of a resource that all share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A share for each user, process or the like, such as a semaphore. A share that nobody holds takes no memory.
#[derive(Debug)]
pub(crate) struct Shares<K, S> {
    used: Mutex<BTreeMap<K, Weak<S>>>,
}

impl<K: Ord + Clone, S> Shares<K, S> {
    pub(crate) const fn new() -> Self {
        Self { used: Mutex::new(BTreeMap::new()) }
    }

    /// The share of `who`, which begins with `make`. It stays the same as long as somebody holds it.
    pub(crate) fn of(&self, who: &K, make: impl FnOnce() -> S) -> Arc<S> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.retain(|_, share| share.strong_count() > 0);
        used.get(who).and_then(Weak::upgrade).unwrap_or_else(|| {
            let share = Arc::new(make());
            used.insert(who.clone(), Arc::downgrade(&share));
            share
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn each_has_its_share_and_those_who_use_none_are_forgotten() {
        let shares = Shares::new();
        let of = |who| shares.of(&who, || Semaphore::new(2));
        let held = of(1).try_acquire_owned().unwrap();
        assert_eq!((of(1).available_permits(), of(2).available_permits()), (1, 2));
        drop(held);
        assert_eq!(of(1).available_permits(), 2);
        assert_eq!(shares.used.lock().unwrap().len(), 1);
    }
}
