//! Collectives of all ranks: fence, with and without data, connect, disconnect.

use bytes::Bytes;
use pmix_client::Scope;
use tokio::net::UnixStream;

use super::rank::{Bench, Of, Unit, content, wrong};
use crate::{Result, clock, frames};

/// Where the gets of peers' values stand, behind what a collecting fence leaves.
const GETS: usize = 100;

impl Bench {
    /// What no fence can beat: the ranks meet on the page, without a server.
    pub(super) fn barrier(&self) -> Result<()> {
        let rounds = self.rounds(6000);
        self.page.barrier();
        for index in 0..rounds {
            self.timed_now(index, || {
                self.page.barrier();
                Ok(())
            })?;
        }
        self.report("barrier_futex", 0, 0..rounds, Of::All, Unit::Micros)
    }

    /// The least that a server does: a frame of each rank comes in, and one goes back to each.
    pub(super) async fn frames(&self) -> Result<()> {
        let page = std::env::var_os("BENCH_SHM").unwrap_or_default();
        let mut stream = UnixStream::connect(frames::address(page.as_ref())).await?;
        let (before, rounds) = (5, self.rounds(6000));
        for round in 0..before {
            frames::meet(&mut stream, round).await?;
        }
        self.page.barrier();
        for index in 0..rounds {
            let begin = clock::now();
            frames::meet(&mut stream, before + index).await?;
            self.page.sample(self.rank, index).set(begin, clock::now());
        }
        self.report("fence_frames", 0, 0..rounds, Of::All, Unit::Micros)
    }

    pub(super) async fn fence(&self) -> Result<()> {
        let (rounds, name) = (self.rounds(6000), if self.has_remote() { "fence_host" } else { "fence" });
        for _ in 0..5 {
            self.client.fence_all().await?;
        }
        self.page.barrier();
        for index in 0..rounds {
            self.timed(index, || self.client.fence_all()).await?;
        }
        self.report(name, 0, 0..rounds, Of::AllWithSpan, Unit::Micros)?;
        let rounds = rounds.min(200);
        for index in 0..rounds {
            self.page.barrier();
            self.timed(index, || self.client.fence_all()).await?;
        }
        self.report(&format!("{name}_aligned"), 0, 0..rounds, Of::AllWithSpan, Unit::Micros)
    }

    pub(super) async fn collect(&self, bytes: usize) -> Result<()> {
        let rounds = if self.n >= 32 { 12 } else { 25 };
        let peers = self.n as usize - 1;
        for round in 0..rounds {
            let data = content(bytes, self.rank, round);
            self.page.barrier();
            let begin = clock::now();
            self.client.put(Scope::GLOBAL, "bench.modex", data)?;
            self.client.commit().await?;
            self.page.sample(self.rank, rounds + round).set(begin, clock::now());
            self.page.barrier();
            self.timed(round, || self.client.fence_all().collect_data()).await?;
            if round == 0 {
                self.page.barrier();
                self.get_of_peers(bytes, GETS).await?;
                self.get_of_peers(bytes, GETS + peers).await?;
            }
        }
        let infix = if self.has_remote() { "_host" } else { "" };
        let (size, gets) = (bytes as u64, GETS..GETS + peers);
        self.report(&format!("fence{infix}_collect"), size, 0..rounds, Of::AllWithSpan, Unit::Micros)?;
        let puts = rounds..2 * rounds;
        self.report(&format!("modex{infix}_put_commit"), size, puts, Of::All, Unit::Micros)?;
        self.report(&format!("peer_get{infix}_first"), size, gets.clone(), Of::All, Unit::Micros)?;
        let again = gets.end..gets.end + peers;
        self.report(&format!("peer_get{infix}_second"), size, again, Of::All, Unit::Micros)
    }

    /// Reads what each local peer has put before the first exchange.
    async fn get_of_peers(&self, bytes: usize, place: usize) -> Result<()> {
        for step in 0..self.n - 1 {
            let rank = (self.rank + 1 + step) % self.n;
            let peer = self.peer(rank);
            let index = place + step as usize;
            let found: Bytes = self.timed(index, || self.client.get(&peer, "bench.modex")).await?;
            if found != content(bytes, rank, 0) {
                return wrong(format!("wrong data from {peer}"));
            }
        }
        Ok(())
    }

    pub(super) async fn connect(&self) -> Result<()> {
        let rounds = self.rounds(600).min(100);
        for index in 0..rounds {
            let (all, again) = ([self.all.clone()], [self.all.clone()]);
            self.page.barrier();
            self.timed(index, || self.client.connect(all)).await?;
            self.page.barrier();
            self.timed(rounds + index, || self.client.disconnect(again)).await?;
        }
        self.report("connect", 0, 0..rounds, Of::AllWithSpan, Unit::Micros)?;
        self.report("disconnect", 0, rounds..2 * rounds, Of::AllWithSpan, Unit::Micros)
    }
}
