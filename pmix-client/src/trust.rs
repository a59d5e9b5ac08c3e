//! Whether the program at an address is the server that is meant. The address of one that has ended can be taken by anybody.

use std::io;

use pmix_proto::proof::{LENGTH, QUESTION, Secret};
use pmix_types::message::Failure;
use pmix_types::{ProcId, Status, Uid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::error::{Error, TransportError};

/// How a client recognizes its server before it sends anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// The server knows this secret.
    pub(crate) secret: Option<Secret>,
    /// Without a secret, the server is a process of root, of the client's user, or of this uid.
    pub(crate) uid: Option<Uid>,
    /// A tool chooses its server itself, so it refuses one whose user the system does not report. Other processes have the address
    /// from whoever started them.
    pub(crate) is_tool: bool,
}

impl Trust {
    /// Verifies a server on a new connection, whose other end `owner` resolves to.
    ///
    /// # Errors
    /// `ERR_INVALID_CRED` if the server is not to be trusted; a transport error if it closes the connection instead of an answer.
    pub(crate) async fn verify(
        &self,
        server: &ProcId,
        address: &str,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        owner: impl Future<Output = io::Result<Uid>>,
    ) -> Result<(), Error> {
        let Some(secret) = &self.secret else {
            return match owner.await {
                Ok(uid) => self.check_user(uid).map_err(|problem| distrusted(server, address, &problem)),
                Err(error) if self.is_tool => {
                    let problem = format!("the system does not tell whose process it is: {error}");
                    Err(distrusted(server, address, &problem))
                }
                Err(error) => {
                    tracing::debug!(%error, %server, "the system does not tell whose process the server is");
                    Ok(())
                }
            };
        };
        let lost = |error: io::Error| {
            let problem =
                "it closed the connection, or the connection failed, before it had proved who it is: the server has \
                 started no process of this user, or another program is at its address"
                    .to_owned();
            let address = address.to_owned();
            Error::Transport(Box::new(TransportError { address, problem, source: Some(error) }))
        };
        stream.write_all(&QUESTION).await.map_err(lost)?;
        let mut answer = [0; LENGTH];
        stream.read_exact(&mut answer).await.map_err(lost)?;
        if Secret::new(answer) == *secret {
            return Ok(());
        }
        Err(refused(server, address, "it does not know the secret that the server of this process has"))
    }

    fn check_user(&self, uid: Uid) -> Result<(), String> {
        let own = Uid::new(rustix::process::geteuid().as_raw());
        if self.uid == Some(uid) {
            return Ok(());
        }
        if uid.is_unmapped() {
            return Err(
                "it is a process of a user that this container or user namespace does not know".into()
            );
        }
        if uid.is_root() || uid == own {
            return Ok(());
        }
        Err(format!("it is a process of uid {uid}, and only root and uid {own} are trusted here"))
    }
}

fn refused(server: &ProcId, address: &str, problem: &str) -> Error {
    let message = format!("the program at {address} may not be {server}: {problem}");
    Error::failed("init", Failure::new(Status::ERR_INVALID_CRED, message))
}

fn distrusted(server: &ProcId, address: &str, problem: &str) -> Error {
    let hint = "to trust that user, use --trust-uid, or trusted_server_uid in programs";
    refused(server, address, &format!("{problem}; {hint}"))
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use pmix_types::Rank;

    use super::*;

    async fn verify(trust: &Trust, owner: io::Result<Uid>, answer: &[u8]) -> Result<Vec<u8>, Error> {
        let (mut ours, mut theirs) = tokio::io::duplex(256);
        theirs.write_all(answer).await.unwrap();
        let server = ProcId::new("srv".parse().unwrap(), Rank::from_raw(0));
        let verified = trust.verify(&server, "/there", &mut ours, ready(owner)).await;
        drop(ours);
        let mut said = Vec::new();
        theirs.read_to_end(&mut said).await.unwrap();
        verified.map(|()| said)
    }

    #[tokio::test]
    async fn a_server_is_asked_for_its_secret_and_told_nothing_else() {
        let secret = Secret::new([7; LENGTH]);
        let trust = Trust { secret: Some(secret), ..Trust::default() };
        let strange = || Ok(Uid::new(rustix::process::geteuid().as_raw() + 1));
        assert_eq!(verify(&trust, strange(), &[7; LENGTH]).await.unwrap(), QUESTION);
        let error = verify(&trust, Ok(Uid::ROOT), &[8; LENGTH]).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_INVALID_CRED);
        assert!(error.to_string().contains("it does not know the secret"), "{error}");
    }

    #[tokio::test]
    async fn without_a_secret_a_server_must_be_a_process_of_root_or_of_this_user_or_of_one_that_is_trusted() {
        let own = rustix::process::geteuid().as_raw();
        let [own, other, third] = [own, own + 4001, own + 4002].map(Uid::new);
        let trust = |uid| Trust { uid, is_tool: true, ..Trust::default() };
        for uid in [Uid::ROOT, own] {
            assert!(verify(&trust(None), Ok(uid), &[]).await.unwrap().is_empty());
        }
        let error = verify(&trust(None), Ok(other), &[]).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_INVALID_CRED);
        assert!(error.to_string().contains(&format!("process of uid {other}, and only root")), "{error}");
        verify(&trust(Some(other)), Ok(other), &[]).await.unwrap();
        verify(&trust(Some(other)), Ok(third), &[]).await.unwrap_err();
        // what cannot be known is too little for a tool
        let unknown = || Err(io::ErrorKind::Unsupported.into());
        let error = verify(&trust(None), unknown(), &[]).await.unwrap_err();
        assert!(error.to_string().contains("does not tell whose process it is"), "{error}");
        verify(&Trust::default(), unknown(), &[]).await.unwrap();
    }
}
