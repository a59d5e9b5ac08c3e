//! Connects to the port of a head or of a daemon.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use pmix_proto::nodes::nodes_client::NodesClient;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::port::GONE;
use super::{MAX_FRAME, bound_silence};
use crate::http2::Channel;

/// How long a connection may take before another address is tried beside it.
const SLOW: Duration = Duration::from_millis(300);
/// How long to wait before connecting again with a port that has no room.
const AGAIN: Duration = Duration::from_millis(100);

pub(super) type Client = NodesClient<Channel>;

/// No address was reached.
struct Unreached {
    why: String,
    /// One has closed the connection at once.
    has_no_room: bool,
}

/// Whom to connect with, and how.
#[derive(Clone)]
pub(super) struct Dial {
    /// The name that its certificate has.
    pub(super) name: String,
    pub(super) config: Arc<ClientConfig>,
    /// How long it may be silent.
    pub(super) silence: Duration,
}

impl Dial {
    /// Connects at the first of these addresses that answers. Another one is tried when one has failed or is slow.
    ///
    /// # Errors
    /// None of them does: why, for each.
    pub(super) async fn any(&self, addresses: &[SocketAddr]) -> Result<(Client, SocketAddr), String> {
        self.attempt(addresses).await.map_err(|unreached| unreached.why)
    }

    /// The same, again as long as one closes the connection at once: so many others may be connecting that there is no room.
    pub(super) async fn any_with_room(
        &self,
        addresses: &[SocketAddr],
    ) -> Result<(Client, SocketAddr), String> {
        loop {
            match self.attempt(addresses).await {
                Err(Unreached { has_no_room: true, why }) => {
                    tracing::debug!("connecting again: {why}");
                    tokio::time::sleep_until(Instant::now() + AGAIN).await;
                }
                Err(Unreached { why, .. }) => return Err(why),
                Ok(connected) => return Ok(connected),
            }
        }
    }

    async fn attempt(&self, addresses: &[SocketAddr]) -> Result<(Client, SocketAddr), Unreached> {
        let mut attempts = JoinSet::new();
        let mut problems = Vec::new();
        let mut has_no_room = false;
        let mut left = addresses.iter().copied();
        loop {
            if let Some(address) = left.next() {
                let dial = self.clone();
                attempts.spawn(async move {
                    let connected = dial.one(address).await;
                    connected.map(|client| (client, address)).map_err(|error| (address, error))
                });
            }
            let slow = async {
                if left.len() == 0 {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep_until(Instant::now() + SLOW).await;
            };
            tokio::select! {
                attempt = attempts.join_next() => match attempt {
                    Some(Ok(Ok(connected))) => return Ok(connected),
                    Some(Ok(Err((address, error)))) => {
                        let kind = error.downcast_ref().map(std::io::Error::kind);
                        has_no_room |= kind.is_some_and(|kind| GONE.contains(&kind));
                        problems.push(format!("{address}: {error}"));
                    }
                    Some(Err(panic)) => problems.push(panic.to_string()),
                    None => return Err(Unreached { why: problems.join("; "), has_no_room }),
                },
                () = slow => {}
            }
        }
    }

    pub(super) async fn one(
        &self,
        address: SocketAddr,
    ) -> Result<Client, Box<dyn std::error::Error + Send + Sync>> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        bound_silence(&stream, self.silence)?;
        let name = ServerName::try_from(self.name.clone())?;
        let handshake = TlsConnector::from(self.config.clone()).connect(name, stream);
        let silent = |_| format!("it has said nothing for {} s", self.silence.as_secs_f64());
        let stream = tokio::time::timeout(self.silence, handshake).await.map_err(silent)??;
        let channel = Channel::begin(stream, self.silence, true).await?;
        let origin = Uri::try_from(format!("https://{}", self.name))?;
        let client = NodesClient::with_origin(channel, origin);
        Ok(client.max_decoding_message_size(MAX_FRAME).max_encoding_message_size(MAX_FRAME))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::super::trust::{Authority, HEAD, Identity};
    use super::*;

    #[tokio::test]
    async fn a_port_that_says_nothing_is_given_up() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let identity = Identity::new(Authority::new().unwrap().certificate()).unwrap();
        let (name, config) = (HEAD.to_owned(), identity.first_config().unwrap());
        let dial = Dial { name, config, silence: Duration::from_millis(20) };
        let error = dial.any_with_room(&[silent.local_addr().unwrap()]).await.err().unwrap();
        assert!(error.ends_with(": it has said nothing for 0.02 s"), "{error}");
    }
}
