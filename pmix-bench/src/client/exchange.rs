//! Values of peers without a fence.

use std::time::Duration;

use bytes::Bytes;
use pmix_client::Scope;

use super::rank::{Bench, Of, Unit, content, wrong};
use crate::Result;
use crate::page::stamp;

const BYTES: usize = 64;

impl Bench {
    /// The getter cannot have the key: it is a new one each time.
    pub(super) async fn direct_modex(&self) -> Result<()> {
        let calls = if self.n >= 32 { 20 } else { 50 };
        let rank = (self.rank + 1) % self.n;
        let peer = self.peer(rank);
        for index in 0..calls {
            let key = format!("bench.dm.{index}");
            self.client.put(Scope::GLOBAL, key.as_str(), content(BYTES, self.rank, index))?;
            self.client.commit().await?;
            self.page.barrier();
            let found: Bytes = self.timed(index, || self.client.get(&peer, key.as_str())).await?;
            if found != content(BYTES, rank, index) {
                return wrong(format!("wrong data from {peer}"));
            }
            self.page.barrier();
        }
        self.report("dmodex_get_local_peer", BYTES as u64, 0..calls, Of::All, Unit::Micros)
    }

    /// Even ranks wait for what odd ones commit: from the begin of that to the end of the wait.
    pub(super) async fn get_waiting(&self) -> Result<()> {
        const CALLS: usize = 30;
        let peer = self.rank ^ 1;
        for index in 0..CALLS {
            let key = format!("bench.gw.{index}");
            let data = Bytes::from_static(&[0; BYTES]);
            self.page.barrier();
            if self.rank % 2 == 1 {
                until_others_wait();
                self.client.put(Scope::GLOBAL, key.as_str(), data)?;
                stamp(&self.page.sample(peer, index).begin);
                self.client.commit().await?;
            } else if peer < self.n {
                let found: Bytes = self.client.get(self.peer(peer), key.as_str()).await?;
                stamp(&self.page.sample(self.rank, index).end);
                if found != data {
                    return wrong(format!("wrong data of {BYTES} bytes"));
                }
            }
        }
        self.report("get_waiting_for_commit", BYTES as u64, 0..CALLS, Of::First, Unit::Micros)
    }
}

/// Nothing tells a rank that another waits: as in C it leaves it three milliseconds.
#[expect(clippy::disallowed_methods, reason = "time is what is measured")]
fn until_others_wait() {
    std::thread::sleep(Duration::from_millis(3));
}
