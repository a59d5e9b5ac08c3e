//! Whether a node stays as it was: work that is over must leave neither memory nor open files behind.

use std::fmt;

use bytes::Bytes;
use pmix_client::types::Persistence;
use pmix_client::{Client, Scope};
use pmix_server::types::job::JobSpec;
use pmix_server::types::{Nspace, ProcId, Rank};
use pmix_test_wait::{until, within};

use crate::TestNode;

/// Bytes of each value: enough for a lost one to be seen.
const BYTES: usize = 4096;

/// What this process takes of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Footprint {
    /// Resident set, in KiB.
    pub resident_kib: u64,
    /// Open file descriptors.
    pub files: usize,
}

impl Footprint {
    /// What it takes now.
    ///
    /// # Panics
    /// If the system does not tell.
    pub fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let resident_kib = resident.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse().ok()).unwrap();
        // the directory itself is open while it is read
        let files = std::fs::read_dir("/proc/self/fd").unwrap().count() - 1;
        Self { resident_kib, files }
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} KiB resident, {} open files", self.resident_kib, self.files)
    }
}

/// A node with a standard host and two processes, which does things that should leave nothing.
#[derive(Debug)]
pub struct Steady {
    node: TestNode,
    clients: [Client; 2],
    /// Pairs and cycles so far: no name is used twice.
    done: u32,
}

impl Steady {
    /// Starts the node and connects its processes.
    pub async fn start() -> Self {
        let node = TestNode::with_standard_host(2).await;
        let clients = [node.client(0).await, node.client(1).await];
        Self { node, clients, done: 0 }
    }

    /// One process publishes, the other looks it up, so many times. What is published ends in turn by being read once,
    /// and by being taken back.
    pub async fn publish_and_look_up(&mut self, pairs: u32) {
        let [publisher, reader] = &self.clients;
        for _ in 0..pairs {
            self.done += 1;
            let key = format!("steady.{}", self.done);
            let read_once = self.done.is_multiple_of(2);
            let mut offer = publisher.publish().data(&key, Bytes::from(vec![1; BYTES]));
            if read_once {
                offer = offer.persistence(Persistence::FIRST_READ);
            }
            within(offer).await.unwrap();
            let found = within(reader.lookup([&key])).await.unwrap();
            assert_eq!(found.publisher(&key), Some(publisher.proc_id()));
            if !read_once {
                within(publisher.unpublish([&key])).await.unwrap();
            }
        }
    }

    /// So many jobs come and go: each is registered, its only process connects, puts a value and ends, and the job is
    /// deregistered.
    pub async fn register_and_deregister(&mut self, cycles: u32) {
        let handle = self.node.handle();
        for _ in 0..cycles {
            self.done += 1;
            let nspace = Nspace::new(format!("steady.{}", self.done)).unwrap();
            let proc = ProcId::new(nspace.clone(), Rank::from_raw(0));
            let spec = JobSpec::new(nspace.clone()).node_map(["n0"]).unwrap().ranks_block(1, 1).unwrap();
            self.node.add_job(spec, [0]).await;
            let client = self.node.connect(&proc).await.unwrap();
            client.put(Scope::GLOBAL, "value", Bytes::from(vec![1; BYTES])).unwrap();
            within(client.commit()).await.unwrap();
            within(client.finalize()).await.unwrap();
            within(handle.deregister_nspace(&nspace)).await.unwrap();
        }
    }

    /// What this process takes when connections that have ended are closed on both sides: when there are no more open files
    /// than `before`.
    ///
    /// # Panics
    /// If more files stay open.
    pub async fn settled(&self, before: Footprint) -> Footprint {
        let look = || {
            let now = Footprint::now();
            if now.files <= before.files { Ok(now) } else { Err(now) }
        };
        until("connections that have ended are closed", look).await
    }

    /// Ends the node.
    pub async fn stop(self) {
        for client in self.clients {
            within(client.finalize()).await.unwrap();
        }
        self.node.stop().await;
    }
}
