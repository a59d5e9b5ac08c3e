//! What arrives of a process.

use bytes::BytesMut;
use pmix_pmi1::{Error, Reader, Request as Ask};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest greeting of a connection to the port.
const MAX_GREETING: usize = 128;
/// What is read at a time at least.
const READ_BYTES: usize = 2 << 10;
/// What may have arrived beyond the request that is carried out.
const MAX_AHEAD: usize = 4 << 10;

/// Why a connection ends.
pub(super) enum End {
    /// The process has closed it.
    Closed,
    /// The server has: it stops, or the job is gone.
    Stopped,
    /// The process does what it must not.
    Broken(String),
}

impl End {
    /// For the engine, which has words of its own for a process that has just ended.
    pub(super) fn reason(&self) -> &str {
        match self {
            Self::Closed | Self::Stopped => "",
            Self::Broken(reason) => reason,
        }
    }
}

/// What has arrived of a process.
pub(super) struct Received<R> {
    from: R,
    arrived: BytesMut,
    reader: Reader,
}

impl<R: AsyncRead + Unpin> Received<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, arrived: BytesMut::new(), reader: Reader::default() }
    }

    /// The next request. The inner error is one that can be answered. Cancel-safe.
    pub(super) async fn request(&mut self) -> Result<Result<Ask, Error>, End> {
        loop {
            match self.reader.request(&mut self.arrived) {
                Ok(Some(request)) => return Ok(Ok(request)),
                Ok(None) => {}
                Err(error) if error.command().is_some() => return Ok(Err(error)),
                Err(error) => return Err(End::Broken(format!("protocol error: {error}"))),
            }
            self.more().await?;
        }
    }

    /// Waits for something while the process may end, or send more. What it sends is read up to a limit. Cancel-safe if the
    /// other thing is.
    pub(super) async fn meanwhile<T>(&mut self, other: impl Future<Output = T>) -> Result<T, End> {
        tokio::pin!(other);
        loop {
            let has_room = self.arrived.len() < MAX_AHEAD;
            tokio::select! {
                biased;
                done = &mut other => return Ok(done),
                read = self.more(), if has_room => read?,
            }
        }
    }

    /// Reads further bytes. Cancel-safe.
    async fn more(&mut self) -> Result<(), End> {
        if self.arrived.capacity() - self.arrived.len() < READ_BYTES / 2 {
            self.arrived.reserve(READ_BYTES);
        }
        match self.from.read_buf(&mut self.arrived).await {
            Ok(0) | Err(_) => Err(End::Closed),
            Ok(_) => Ok(()),
        }
    }

    /// The number that a process says at a port first. Nothing longer is read of strangers.
    pub(super) async fn greeting(&mut self) -> Result<i32, String> {
        while !self.arrived.iter().take(MAX_GREETING).any(|byte| *byte == b'\n') {
            if self.arrived.len() >= MAX_GREETING {
                return Err("it does not speak the protocol: its greeting is too long".into());
            }
            self.more().await.map_err(|_| "it disconnected without a greeting".to_owned())?;
        }
        match self.reader.request(&mut self.arrived) {
            Ok(Some(Ask::InitAck { pmiid })) => Ok(pmiid),
            Ok(_) => Err("it does not speak the protocol: its first message is not initack".into()),
            Err(error) => Err(format!("it does not speak the protocol: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[tokio::test]
    async fn what_a_process_sends_ahead_stays_in_its_socket() {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        theirs.write_all(&vec![b'a'; 1 << 20]).await.unwrap();
        let mut reading = Received::new(ours);
        for _ in 0..3 {
            let waits = reading.meanwhile(std::future::pending::<()>()).now_or_never();
            assert!(waits.is_none());
            assert!((MAX_AHEAD..2 * MAX_AHEAD).contains(&reading.arrived.len()), "{}", reading.arrived.len());
        }
        // an answer is heard, and so is an end while there is room for more
        assert!(matches!(reading.meanwhile(async { 7 }).await, Ok(7)));
        let (ours, theirs) = tokio::io::duplex(1);
        drop(theirs);
        let end = Received::new(ours).meanwhile(std::future::pending::<()>()).now_or_never();
        assert!(matches!(end, Some(Err(End::Closed))));
    }
}
