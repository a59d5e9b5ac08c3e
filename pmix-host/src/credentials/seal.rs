//! Credentials that the host itself issues: text with a seal that nobody can make who does not have this host's key.
//!
//! `HMAC1:<milliseconds>:<uid>:<gid>:<nonce>:<node>:<seal>`. The key never leaves the host. It is made when the host is, so that
//! no credential outlasts it. The milliseconds are those of the host's own clock until the credential expires.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use pmix_server::host::{HostError, HostResult};
use pmix_types::{Gid, Status, Uid};
use sha2::Sha256;

use super::invalid;
use crate::user::User;

const MARK: &str = "HMAC1";

/// How long a credential is valid, as with MUNGE.
const LIFETIME: Duration = Duration::from_secs(300);

/// Longest credential that is looked at.
const MAX_SEALED: usize = 1024;

/// Whom a credential names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) uid: Uid,
    /// `None` if it is not known.
    pub(super) gid: Option<Gid>,
}

/// The key of one host.
pub(super) struct Seal {
    key: OnceLock<[u8; 32]>,
    start: Instant,
}

impl Default for Seal {
    fn default() -> Self {
        Self { key: OnceLock::new(), start: Instant::now() }
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

impl Seal {
    pub(super) fn issue(&self, user: &User, node: &str) -> HostResult<Bytes> {
        self.issue_at(self.start.elapsed(), user, node)
    }

    /// The same, so long after the start of this host.
    fn issue_at(&self, now: Duration, user: &User, node: &str) -> HostResult<Bytes> {
        let nonce = BASE64.encode(random::<16>()?);
        let until = (now + LIFETIME).as_millis();
        let gid = user.gid.map_or_else(|| "-".to_owned(), |gid| gid.to_string());
        let text = format!("{MARK}:{until}:{}:{gid}:{nonce}:{node}", user.uid);
        let seal = BASE64.encode(self.mac(&text)?.finalize().into_bytes());
        Ok(format!("{text}:{seal}").into())
    }

    /// Who holds a credential of this host, whose node has this name.
    pub(super) fn validate(&self, credential: &[u8], node: &str) -> HostResult<Holder> {
        self.validate_at(self.start.elapsed(), credential, node)
    }

    /// The same, so long after the start of this host.
    fn validate_at(&self, now: Duration, credential: &[u8], node: &str) -> HostResult<Holder> {
        let forged = || invalid(format!("the host of node {node} has not issued it"));
        let (text, seal) = parts(credential).ok_or_else(forged)?;
        let seal = BASE64.decode(seal).map_err(|_| forged())?;
        self.mac(text)?.verify_slice(&seal).map_err(|_| forged())?;
        let mut fields = text.split(':').skip(1);
        let mut next = || fields.next().ok_or_else(forged);
        let until: u64 = next()?.parse().map_err(|_| forged())?;
        let uid = next()?.parse().map_err(|_| forged())?;
        let gid = next()?.parse().ok();
        if now >= Duration::from_millis(until) {
            return Err(invalid(format!("it has expired: each is valid for {} s", LIFETIME.as_secs())));
        }
        Ok(Holder { uid, gid })
    }

    fn mac(&self, text: &str) -> HostResult<Hmac<Sha256>> {
        let key = match self.key.get() {
            Some(key) => key,
            None => {
                let key = random()?;
                self.key.get_or_init(|| key)
            }
        };
        let mac = Hmac::<Sha256>::new_from_slice(key);
        let mac = mac.map_err(|error| HostError::new(Status::ERROR, error.to_string()))?;
        Ok(mac.chain_update(text))
    }
}

/// The node whose host has issued a credential, if it is of this type.
pub(super) fn issuer(credential: &[u8]) -> Option<String> {
    let (text, _) = parts(credential)?;
    text.splitn(6, ':').nth(5).map(str::to_owned)
}

/// The text of a credential and its seal.
fn parts(credential: &[u8]) -> Option<(&str, &str)> {
    let text = str::from_utf8(credential).ok().filter(|text| text.len() <= MAX_SEALED)?;
    text.strip_prefix(MARK)?.strip_prefix(':')?;
    text.rsplit_once(':')
}

fn random<const N: usize>() -> HostResult<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        HostError::new(Status::ERROR, format!("the system has no random numbers for a credential: {error}"))
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use pmix_types::{ProcId, Rank};
    use proptest::prelude::*;

    use super::*;

    const USER: Uid = Uid::new(1000);
    const GROUP: Gid = Gid::new(100);

    fn user(uid: Uid, gid: Option<Gid>) -> User {
        User::new(ProcId::new("job".parse().unwrap(), Rank::from_raw(0)), uid, gid)
    }

    #[test]
    fn crd_01_crd_02_a_credential_names_its_holder_to_its_issuer_alone() {
        let (seal, other) = (Seal::default(), Seal::default());
        for holder in [Holder { uid: USER, gid: Some(GROUP) }, Holder { uid: Uid::ROOT, gid: None }] {
            let credential = seal.issue(&user(holder.uid, holder.gid), "a:b").unwrap();
            assert_eq!(issuer(&credential).as_deref(), Some("a:b"));
            assert_eq!(seal.validate(&credential, "a:b").unwrap(), holder);
            let error = other.validate(&credential, "a:b").unwrap_err();
            assert_eq!(error.status(), Status::ERR_INVALID_CRED);
            assert_ne!(credential, seal.issue(&user(holder.uid, holder.gid), "a:b").unwrap());
        }
    }

    #[test]
    fn a_credential_expires() {
        let (seal, issued) = (Seal::default(), Duration::from_secs(7));
        let credential = seal.issue_at(issued, &user(USER, None), "n").unwrap();
        let end = issued + LIFETIME;
        assert!(seal.validate_at(end - Duration::from_millis(1), &credential, "n").is_ok());
        let error = seal.validate_at(end, &credential, "n").unwrap_err();
        assert!(error.to_string().contains("it has expired: each is valid for 300 s"), "{error}");
    }

    proptest! {
        #[test]
        fn a_changed_credential_is_not_valid(at: prop::sample::Index, byte: u8) {
            let seal = Seal::default();
            let credential = seal.issue(&user(USER, Some(GROUP)), "node").unwrap();
            let mut changed = credential.to_vec();
            *at.get_mut(&mut changed) = byte;
            prop_assume!(changed != credential);
            prop_assert_eq!(seal.validate(&changed, "node").unwrap_err().status(), Status::ERR_INVALID_CRED);
        }

        #[test]
        fn garbage_is_not_valid(garbage: Vec<u8>, text in "HMAC1:[0-9a-z:]{0,80}") {
            let seal = Seal::default();
            for bytes in [&garbage[..], text.as_bytes()] {
                prop_assert_eq!(seal.validate(bytes, "node").unwrap_err().status(), Status::ERR_INVALID_CRED);
                let _ = issuer(bytes);
            }
        }
    }
}
