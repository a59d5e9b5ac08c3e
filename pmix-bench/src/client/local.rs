//! Operations of a single rank: get of job data, put, commit, resolve.

use pmix_client::{Rank, Scope, Value, keys};

use super::rank::{Bench, Of, Unit, wrong};
use crate::{Result, clock};

impl Bench {
    pub(super) async fn get(&self) -> Result<()> {
        const CALLS: usize = 1000;
        let size = self.total.into();
        // the first ones are not counted
        for index in std::iter::repeat_n(0, 20).chain(0..CALLS) {
            let found: u32 = self.timed(index, || self.client.get(&self.all, keys::JOB_SIZE)).await?;
            if found != self.total {
                return wrong(format!("the job has size {found}"));
            }
        }
        self.report("get_job_level", size, 0..CALLS, Of::All, Unit::Nanos)?;
        let calls = self.total.min(1000);
        for (index, rank) in (0..calls).map(|rank| rank * (self.total / calls)).enumerate() {
            let proc = self.peer(rank);
            let found: String = self.timed(index, || self.client.get(&proc, keys::HOSTNAME)).await?;
            if !found.starts_with("node") {
                return wrong(format!("rank {rank} is on {found}"));
            }
        }
        self.report("get_proc_level", size, 0..calls as usize, Of::All, Unit::Nanos)?;
        if self.is_first() {
            let reads = (0..1000).map(|_| {
                let begin = clock::now();
                clock::now() - begin
            });
            self.print("clock_read", 0, Unit::Nanos, reads)?;
        }
        self.page.barrier();
        Ok(())
    }

    pub(super) async fn put(&self) -> Result<()> {
        const CALLS: usize = 500;
        for index in 0..CALLS {
            let (key, value) = (format!("bench.put.{index}"), Value::from(index as u64));
            self.timed_now(index, || self.client.put(Scope::GLOBAL, key.as_str(), value))?;
        }
        self.report("put", 8, 0..CALLS, Of::All, Unit::Nanos)?;
        self.timed(0, || self.client.commit()).await?;
        self.report("commit_500_keys", 8, 0..1, Of::All, Unit::Micros)
    }

    pub(super) async fn commit(&self) -> Result<()> {
        let calls = self.rounds(4000).min(200);
        for index in 0..calls {
            let mut data = vec![0; 64];
            data[0] = index as u8;
            self.client.put(Scope::GLOBAL, "bench.commit", bytes::Bytes::from(data))?;
            self.timed(index, || self.client.commit()).await?;
        }
        self.report("commit_1_key", 64, 0..calls, Of::All, Unit::Micros)
    }

    pub(super) async fn resolve(&self) -> Result<()> {
        let calls = if self.total > 10_000 { 20 } else { 200 };
        let (size, nspace) = (self.total.into(), &self.all.nspace);
        for index in 0..calls {
            let peers =
                self.timed(index, || self.client.resolve_peers(Some(crate::job::HERE), Some(nspace))).await?;
            if peers.len() != self.n as usize || peers.iter().any(|peer| peer.rank >= Rank::from_raw(self.n))
            {
                return wrong(format!("there are {} peers", peers.len()));
            }
        }
        self.report("resolve_peers", size, 0..calls, Of::All, Unit::Micros)?;
        for index in 0..calls {
            let nodes = self.timed(index, || self.client.resolve_nodes(Some(nspace))).await?;
            if nodes.first().is_none_or(|name| name != crate::job::HERE) {
                return wrong(format!("the job has {} nodes", nodes.len()));
            }
        }
        self.report("resolve_nodes", size, 0..calls, Of::All, Unit::Micros)
    }
}
