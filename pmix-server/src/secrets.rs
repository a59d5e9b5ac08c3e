//! The secrets by which processes recognize this server ([`pmix_proto::proof`]).

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

use pmix_engine::HostCall;
use pmix_proto::proof::{LENGTH, QUESTION, Secret};
use pmix_types::message::Failure;
use pmix_types::{Gid, ProcId, Status, Uid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::inbox::Inbox;

/// One for each user that has registered processes here.
#[derive(Debug, Default)]
pub(crate) struct Secrets(Mutex<BTreeMap<Uid, Secret>>);

impl Secrets {
    /// That of the user with which a process is registered.
    ///
    /// # Errors
    /// It is not registered, or the system has no random numbers.
    pub(crate) async fn for_proc(&self, proc: &ProcId, inbox: &Inbox) -> Result<Secret, Failure> {
        let (uid, _): (Uid, Gid) = inbox.call(HostCall::UserOf(proc.clone())).await?;
        self.for_user(uid).map_err(|error| {
            let message = format!("the system has no random numbers: {error}");
            Failure::new(Status::ERR_OUT_OF_RESOURCE, message)
        })
    }

    /// That of a user, which is drawn when it is first asked for.
    fn for_user(&self, uid: Uid) -> io::Result<Secret> {
        let mut secrets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secret) = secrets.get(&uid) {
            return Ok(*secret);
        }
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes)?;
        let secret = Secret::new(bytes);
        secrets.insert(uid, secret);
        Ok(secret)
    }

    /// That of a user, if a process of this user has been given one.
    fn of_user(&self, uid: Uid) -> Option<Secret> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&uid).copied()
    }

    /// Reads the rest of a question of a process of this user, the first bytes of which have been read, and answers it.
    ///
    /// # Errors
    /// `InvalidData` if it is no question, or no process of this user has been given a secret; or those of the connection.
    pub(crate) async fn answer(
        &self,
        uid: Uid,
        read: &[u8],
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let wrong = |problem: String| io::Error::new(io::ErrorKind::InvalidData, problem);
        let mut question = [0; QUESTION.len()];
        let (begun, rest) = question.split_at_mut(read.len());
        begun.copy_from_slice(read);
        reader.read_exact(rest).await?;
        if question != QUESTION {
            return Err(wrong(format!("it begins with {}", question.escape_ascii())));
        }
        let secret = self.of_user(uid);
        let secret =
            secret.ok_or_else(|| wrong(format!("no process of uid {uid} was given a secret here")))?;
        writer.write_all(secret.as_bytes()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn each_user_is_answered_with_its_own_secret_and_strangers_with_none() {
        let secrets = Secrets::default();
        let users @ [alice, bob, _] = [1, 2, 3].map(Uid::new);
        let (one, other) = (secrets.for_user(alice).unwrap(), secrets.for_user(bob).unwrap());
        assert!(one != other && secrets.for_user(alice).unwrap() == one);
        for (uid, known) in users.into_iter().zip([Some(one), Some(other), None]) {
            let mut answer = Vec::new();
            let answered = secrets.answer(uid, &QUESTION[..1], &mut &QUESTION[1..], &mut answer).await;
            assert_eq!(answered.is_ok(), known.is_some());
            assert_eq!(answer, known.map_or(vec![], |secret| secret.as_bytes().to_vec()));
        }
        let mut answer = Vec::new();
        let error = secrets.answer(alice, &[], &mut &b"\x01pmix-!\n"[..], &mut answer).await.unwrap_err();
        assert!(error.kind() == io::ErrorKind::InvalidData && answer.is_empty());
    }
}
