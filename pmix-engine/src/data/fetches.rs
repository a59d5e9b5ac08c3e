//! Data that the host fetches from other nodes for gets here (direct modex).

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::{Directives, Info, keys};

use super::pending::FetchKey;
use crate::context::{Context, Owner};
use crate::upcall::DirectModexRequest;
use crate::{UpcallId, UpcallRequest};

/// Fetches under way, with the gets that share them (GET-25).
#[derive(Debug, Default)]
pub(super) struct Fetches {
    by_key: BTreeMap<FetchKey, Fetch>,
    by_upcall: BTreeMap<UpcallId, FetchKey>,
}

#[derive(Debug)]
struct Fetch {
    upcall: UpcallId,
    gets: BTreeSet<u64>,
}

impl Fetches {
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty() && self.by_upcall.is_empty()
    }

    /// Adds a get to the fetch it needs, and starts that if it is the first.
    pub(super) fn join(&mut self, key: FetchKey, get: u64, mut directives: Directives, cx: &mut Context) {
        if let Some(fetch) = self.by_key.get_mut(&key) {
            fetch.gets.insert(get);
            return;
        }
        // the server keeps the time itself (GEN-12)
        directives.remove(&keys::TIMEOUT);
        if let (true, Some(wanted)) = (key.0.rank.is_valid(), &key.1) {
            directives.push(Info::new(&keys::REQUIRED_KEY, wanted.to_string()));
        }
        let request = DirectModexRequest::new(key.0.clone()).with_directives(directives);
        let caller = cx.self_caller();
        let upcall = cx.upcall(Owner::Fetch, caller, UpcallRequest::DirectModex(request));
        self.by_upcall.insert(upcall, key.clone());
        self.by_key.insert(key, Fetch { upcall, gets: BTreeSet::from([get]) });
    }

    /// A get needs its fetch no longer; the last one ends it.
    pub(super) fn leave(&mut self, key: &FetchKey, get: u64, cx: &mut Context) {
        let Some(fetch) = self.by_key.get_mut(key) else { return };
        fetch.gets.remove(&get);
        if fetch.gets.is_empty() {
            let upcall = fetch.upcall;
            self.by_key.remove(key);
            self.by_upcall.remove(&upcall);
            cx.cancel_upcall(upcall);
        }
    }

    /// A fetch that is done, with the gets that shared it.
    pub(super) fn take(&mut self, upcall: UpcallId) -> Option<(FetchKey, BTreeSet<u64>)> {
        let key = self.by_upcall.remove(&upcall)?;
        self.by_key.remove(&key).map(|fetch| (key, fetch.gets))
    }
}
