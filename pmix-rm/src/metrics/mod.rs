//! Numbers for Prometheus: `--metrics`.

mod door;
mod numbers;
mod place;
mod serve;

use pmix_host::StandardHost;
use pmix_server::ServerHandle;
use tokio::time::Instant;

pub(crate) use door::Door;
use numbers::Numbers;
pub(crate) use place::MetricsPlace;

/// What the numbers are read from.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    started: Instant,
    host: StandardHost,
    /// Each with the name of its node.
    servers: Vec<(String, ServerHandle)>,
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
    pub(crate) fn new(host: StandardHost, servers: Vec<(String, ServerHandle)>) -> Self {
        Self { started: Instant::now(), host, servers }
    }

    /// The numbers as they are now.
    async fn read(&self) -> Numbers {
        let servers = self.servers.iter().map(async |(node, server)| (node.clone(), server.stats().await));
        Numbers {
            uptime: self.started.elapsed(),
            servers: futures::future::join_all(servers).await,
            host: self.host.stats(),
        }
    }
}
