//! The syslog of this node.

#[cfg(feature = "syslog")]
use std::io;
#[cfg(feature = "syslog")]
use std::path::{Path, PathBuf};
#[cfg(feature = "syslog")]
use std::time::Duration;

use pmix_types::Status;
#[cfg(feature = "syslog")]
use syslog::{Facility, Formatter3164, LogFormat, Severity};
#[cfg(feature = "syslog")]
use tokio::io::AsyncWriteExt;
#[cfg(feature = "syslog")]
use tokio::net::{UnixDatagram, UnixStream};
#[cfg(feature = "syslog")]
use tokio::sync::Semaphore;
#[cfg(feature = "syslog")]
use tokio::time::{Instant, sleep_until};

use pmix_server::host::{HostError, HostResult};

/// Where the system's logger listens.
#[cfg(feature = "syslog")]
const SOCKET: &str = "/dev/log";
/// How long a line waits for a logger that reads nothing.
#[cfg(feature = "syslog")]
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before a logger that has too many waiting is asked again.
#[cfg(feature = "syslog")]
const PAUSE: Duration = Duration::from_millis(20);
/// Lines that are sent at a time; each has a socket of its own.
#[cfg(feature = "syslog")]
const AT_A_TIME: usize = 64;

/// The way to it.
#[cfg(feature = "syslog")]
#[derive(Debug)]
pub(crate) struct Syslog {
    socket: PathBuf,
    places: Semaphore,
}

/// How urgent a message is, from 0 (emergency) to 7 (debug).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Priority(i32);

impl Priority {
    /// That of messages without one (LOG-06).
    pub(crate) const ERROR: Self = Self(3);

    pub(crate) fn new(number: i32) -> HostResult<Self> {
        if (0..8).contains(&number) {
            return Ok(Self(number));
        }
        let message = format!("{number} is not a syslog priority: use 0 (most urgent) to 7 (least urgent)");
        Err(HostError::new(Status::ERR_BAD_PARAM, message))
    }

    pub(crate) const fn number(self) -> i32 {
        self.0
    }

    #[cfg(feature = "syslog")]
    const fn severity(self) -> Severity {
        match self.0 {
            0 => Severity::LOG_EMERG,
            1 => Severity::LOG_ALERT,
            2 => Severity::LOG_CRIT,
            3 => Severity::LOG_ERR,
            4 => Severity::LOG_WARNING,
            5 => Severity::LOG_NOTICE,
            6 => Severity::LOG_INFO,
            _ => Severity::LOG_DEBUG,
        }
    }
}

/// This host was built without it.
#[cfg(not(feature = "syslog"))]
#[derive(Debug, Default)]
pub(crate) struct Syslog;

#[cfg(not(feature = "syslog"))]
impl Syslog {
    pub(crate) async fn write(&self, _line: String, _priority: Priority) -> HostResult<()> {
        Err(HostError::not_supported(
            "logging to the syslog: the host was built without the feature `syslog`",
        ))
    }
}

#[cfg(feature = "syslog")]
impl Default for Syslog {
    fn default() -> Self {
        Self::at(Path::new(SOCKET))
    }
}

#[cfg(feature = "syslog")]
impl Syslog {
    pub(crate) fn at(socket: &Path) -> Self {
        Self { socket: socket.into(), places: Semaphore::new(AT_A_TIME) }
    }

    /// Hands a line over. The logger may be restarted at any time, so that each line finds its own way.
    pub(crate) async fn write(&self, line: String, priority: Priority) -> HostResult<()> {
        let place = self.socket.display();
        let unreachable = |error: &dyn std::fmt::Display| {
            HostError::new(Status::ERR_UNREACH, format!("cannot write to the syslog at {place}: {error}"))
        };
        let formatter = Formatter3164 {
            facility: Facility::LOG_USER,
            hostname: None,
            process: "pmix".into(),
            pid: std::process::id(),
        };
        let mut entry = Vec::new();
        formatter.format(&mut entry, priority.severity(), line).map_err(|error| unreachable(&error))?;
        // of the lines that a logger does not read, a few have a socket, and the others wait for one
        let sent = async {
            let _place = self.places.acquire().await;
            send(&self.socket, &entry).await
        };
        match tokio::time::timeout(PATIENCE, sent).await {
            Ok(sent) => sent.map_err(|error| unreachable(&error)),
            Err(_) => Err(unreachable(&format!("the line was not taken within {} s", PATIENCE.as_secs()))),
        }
    }
}

/// Sends an entry: a logger takes datagrams, or else texts that end with a zero.
#[cfg(feature = "syslog")]
async fn send(socket: &Path, entry: &[u8]) -> io::Result<()> {
    let datagrams = UnixDatagram::unbound()?;
    match datagrams.connect(socket) {
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::PROTOTYPE.raw_os_error()) => {
            let mut stream = loop {
                match UnixStream::connect(socket).await {
                    // others wait to be let in
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        sleep_until(Instant::now() + PAUSE).await;
                    }
                    connected => break connected?,
                }
            };
            stream.write_all(&[entry, &[0]].concat()).await
        }
        connected => {
            connected?;
            datagrams.send(entry).await.map(drop)
        }
    }
}

#[cfg(all(test, feature = "syslog"))]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixListener};
    use std::sync::mpsc;

    use futures::future::join_all;
    use pmix_types::Status;
    use rustix::net::sockopt::{Timeout, set_socket_timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_logger_that_takes_streams_gets_texts_that_end_with_a_zero() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("log");
        let logger = UnixListener::bind(&place).unwrap();
        // room for as few as there can be, so that some have to try again
        rustix::net::listen(&logger, 0).unwrap();
        // after a write that fails, no further connection arrives
        set_socket_timeout(&logger, Timeout::Recv, Some(pmix_test_wait::LIMIT)).unwrap();
        let (reader, mut read) = tokio::sync::mpsc::unbounded_channel();
        // while this thread reads, only this test lets time pass
        tokio::task::spawn_blocking(move || {
            for _ in 0..20 {
                let _ = reader.send(io::read_to_string(logger.accept().unwrap().0).unwrap());
            }
        });
        let syslog = Syslog::at(&place);
        let writes =
            join_all((0..20).map(async |_| syslog.write("line".into(), Priority::ERROR).await.unwrap()));
        let reads = async {
            while let Some(line) = read.recv().await {
                assert!(line.ends_with("line\0"), "{line:?}");
                // there is room again for one that pauses
                tokio::time::advance(2 * PAUSE).await;
            }
        };
        tokio::join!(writes, reads);
    }

    #[tokio::test(start_paused = true)]
    async fn a_logger_that_reads_nothing_takes_no_threads_and_makes_nobody_wait_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("log");
        let unread = UnixDatagram::bind(&place).unwrap();
        let syslog = Syslog::at(&place);
        let mut lines =
            std::pin::pin!(join_all((0..5000).map(|_| syslog.write("line".into(), Priority::ERROR))));
        assert!(futures::poll!(&mut lines).is_pending());
        let (sender, other) = mpsc::channel();
        tokio::task::spawn_blocking(move || sender.send(()));
        other.recv_timeout(pmix_test_wait::LIMIT).expect("there are threads for others");
        let failed = lines.await.into_iter().filter_map(Result::err).collect::<Vec<_>>();
        assert!(failed.iter().all(|error| error.status() == Status::ERR_UNREACH), "{failed:?}");
        assert!(!failed.is_empty());
        // as soon as it reads again, lines come through
        unread.set_nonblocking(true).unwrap();
        let read = std::iter::from_fn(|| unread.recv(&mut [0; 256]).ok()).count();
        assert_eq!(failed.len() + read, 5000);
        syslog.write("again".into(), Priority::ERROR).await.unwrap();
    }
}
