//! Several nodes: `pmixrun` is their head, and each has a daemon, `pmixd`, with the server of the node.
//!
//! `allocation.rs` finds the nodes that a resource manager has given, `hostlist.rs` those of the command line. `start.rs` starts the
//! daemons, by ssh or by Slurm (`slurm.rs`), or leaves that to others (`join.rs`), and hands each the line of `line.rs`.
//! By ssh daemons start others (`branch.rs`), those that `spread.rs` says. `trust.rs`,
//! `port.rs` and `door.rs` let them in, `net.rs` is the exchange of the head with all others. By `peers.rs` daemons ask and answer each
//! other, and `visits.rs` lets in those who ask. `gather.rs` and `tree.rs` decide about operations without I/O, and `operations.rs` says
//! it to others. `session.rs` puts these together for `pmixrun`, `daemon.rs` for `pmixd`; by `change.rs` nodes come and go. A head can have a
//! successor (`succession.rs`), which takes its session over by `takeover.rs`.

mod allocation;
mod branch;
mod change;
mod daemon;
mod dial;
mod door;
#[cfg(test)]
mod fixture;
mod gather;
mod hostlist;
mod join;
mod line;
mod link;
mod names;
mod net;
mod operations;
mod outcomes;
mod peers;
mod pending;
mod port;
mod session;
mod slurm;
mod spread;
mod start;
mod succession;
mod takeover;
mod tree;
mod trust;
mod version;
mod visits;

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::net::TcpStream;

pub(crate) use allocation::Allocation;
pub(crate) use daemon::run as run_daemon;
pub(crate) use hostlist::{Host, HostList};
pub(crate) use session::{Event, How, Session};
pub(crate) use start::{Agent, By};
pub(crate) use succession::{HEAD_NODE, KeptNode, KeptSession};

/// Bytes of a frame between head and daemon.
const MAX_FRAME: usize = 256 << 20;
/// Addresses at which a daemon may be reached.
const MAX_ADDRESSES: usize = 64;

/// How long daemons may take to end, beyond the grace of their processes.
const LEAVING: Duration = Duration::from_secs(5);

/// Locks a table. A panic elsewhere leaves these tables whole: each lock holds one change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a connection whose other side has not acknowledged anything for so long.
fn bound_silence(stream: &TcpStream, limit: Duration) -> io::Result<()> {
    let millis = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    Ok(set_tcp_user_timeout(stream, millis)?)
}

/// Why the connection with a node has ended, in one line.
fn end_of_connection(node: &str, status: &tonic::Status) -> String {
    // an error below gRPC tells people nothing
    if std::error::Error::source(status).is_some() {
        tracing::debug!(node, error = brief(status), "a connection has ended");
        return format!("the connection to {node} was lost");
    }
    format!("the connection to {node} was lost: {}", brief(status))
}

/// Why a call has failed, in one line.
fn brief(status: &tonic::Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = if text.is_empty() { more } else { format!("{text}: {more}") };
        }
        cause = error.source();
    }
    pmix_types::escaped(&text).to_string()
}
