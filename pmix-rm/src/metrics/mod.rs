//! Numbers for Prometheus: `--metrics`.

mod door;
mod numbers;
mod place;
mod serve;

use std::sync::Arc;
use std::time::Duration;

use pmix_host::StandardHost;
use pmix_server::ServerStats;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

pub(crate) use door::Door;
use numbers::Numbers;
pub(crate) use place::MetricsPlace;

/// Time between two questions to all nodes, however many read and however often.
const APART: Duration = Duration::from_millis(100);

/// What the numbers are read from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    started: Instant,
    host: StandardHost,
    told: Arc<Mutex<Told>>,
}

/// What each server has counted, with the name of its node; `None` if it has not told it in time.
type OfServers = Vec<(String, Option<ServerStats>)>;

/// What the servers of all nodes have told.
#[derive(Debug, Default)]
struct Told {
    /// When they were last asked, even if whoever had asked did not wait for the answer.
    asked: Option<Instant>,
    /// When they were asked, and what they have told.
    last: Option<(Instant, OfServers)>,
}

/// Answers scrapes until it is dropped.
#[derive(Debug)]
pub(crate) struct Metrics(tokio::task::JoinHandle<()>);

impl Metrics {
    /// Answers whoever comes to this door.
    pub(crate) fn serve(door: Door, source: Source) -> Self {
        Self(tokio::spawn(serve::all(door, source)))
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        // the door goes with it
        self.0.abort();
    }
}

impl Source {
    pub(crate) fn new(host: StandardHost) -> Self {
        Self { started: Instant::now(), host, told: Arc::default() }
    }

    /// The numbers as they are now.
    async fn read(&self) -> Numbers {
        let servers = self.servers().await;
        Numbers { uptime: self.started.elapsed(), servers, host: self.host.stats() }
    }

    /// What the servers of all nodes tell. Those who come while they are being asked wait for the next question, which is one for all of
    /// them.
    async fn servers(&self) -> OfServers {
        let came = Instant::now();
        let mut told = self.told.lock().await;
        if let Some((asked, servers)) = &told.last
            && *asked >= came
        {
            return servers.clone();
        }
        if let Some(asked) = told.asked {
            sleep_until(asked + APART).await;
        }
        let asked = Instant::now();
        told.asked = Some(asked);
        let servers = self.host.server_stats().await;
        told.last = Some((asked, servers.clone()));
        servers
    }
}
