//! Calls of etcd, at whichever of its members answers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use pmix_proto::etcd::kv_client::KvClient;
use pmix_proto::etcd::lease_client::LeaseClient;
use pmix_proto::etcd::{
    Compare, KeyValue, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, RangeRequest, RequestOp,
    TxnRequest, TxnResponse,
};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tonic::{Code, Status};

use crate::cli::EtcdPlace;
use crate::http2::Channel;

/// How long a call may take, at however many members.
pub(super) const LIMIT: Duration = Duration::from_secs(5);
/// How long one member may take: the others may be reached.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a connection may be silent. Each call has its own limit, which is shorter.
const SILENCE: Duration = Duration::from_secs(20);
/// How long to wait before the next member is tried.
const AGAIN: Duration = Duration::from_millis(100);
/// Keys that are read at a time, and the bytes that they may have.
const PAGE: i64 = 32;
const MAX_PAGE: usize = 64 << 20;
/// Bytes of what is read together.
const MAX_BELOW: usize = 1 << 30;
/// etcd's usual port.
const PORT: u16 = 2379;

/// Why etcd is of no use.
#[derive(Debug, Error)]
pub(crate) enum EtcdError {
    #[error("{member} is no address of etcd: {problem}")]
    Address { member: String, problem: &'static str },
    #[error("{}: {problem}", .file.display())]
    File { file: PathBuf, problem: PemError },
    #[error("{} has no certificates", .0.display())]
    Empty(PathBuf),
    #[error("cannot set up TLS for etcd: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    #[error("etcd does not answer: {0}")]
    Silent(String),
    #[error("what answers as etcd is none: it sends {0}")]
    Nonsense(&'static str),
    #[error("etcd refuses: {}", .0.message())]
    Refused(Status),
    #[error("according to etcd, this process is not the head of the DVM")]
    Superseded,
    #[error("the key {0} in etcd was not written by a DVM: remove it, or choose another --etcd-prefix")]
    Foreign(String),
}

/// A client of etcd.
#[derive(Debug)]
pub(crate) struct Etcd {
    members: Vec<Member>,
    tls: Option<Arc<ClientConfig>>,
    prefix: String,
    line: Mutex<MemberLine>,
}

/// The member in use, or to be tried next, and the connection with it.
#[derive(Clone, Debug, Default)]
struct MemberLine {
    member: usize,
    channel: Option<Channel>,
}

#[derive(Clone, Debug)]
struct Member {
    origin: Uri,
    host: String,
    port: u16,
    is_tls: bool,
}

impl Etcd {
    /// A client that has not connected yet.
    ///
    /// # Errors
    /// An address makes no sense, or a file cannot be used.
    pub(crate) fn new(place: &EtcdPlace) -> Result<Self, EtcdError> {
        let members = place.members.iter().map(|member| Member::of(member, place.is_insecure));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let tls = if members.iter().any(|member| member.is_tls) { Some(tls(place)?) } else { None };
        Ok(Self { members, tls, prefix: place.prefix.clone(), line: Mutex::default() })
    }

    /// The key of this name among those of the DVM.
    pub(crate) fn key(&self, name: &str) -> Bytes {
        format!("{}/{name}", self.prefix).into()
    }

    /// All keys that begin like this.
    pub(crate) async fn below(&self, prefix: &[u8]) -> Result<Vec<KeyValue>, EtcdError> {
        let (mut all, mut bytes) = (Vec::<KeyValue>::new(), 0);
        let mut key = Bytes::copy_from_slice(prefix);
        let range_end = after(prefix);
        loop {
            let request = RangeRequest { key, range_end: range_end.clone(), limit: PAGE };
            let page = self
                .call(move |channel, origin| {
                    let request = request.clone();
                    async move {
                        let client = KvClient::with_origin(channel, origin);
                        client.max_decoding_message_size(MAX_PAGE).range(request).await
                    }
                })
                .await?;
            let before = all.len();
            for found in page.kvs {
                bytes += size_of::<KeyValue>() + found.key.len() + found.value.len();
                let is_next = all.last().is_none_or(|last| last.key < found.key);
                if !is_next || !found.key.starts_with(prefix) {
                    return Err(EtcdError::Nonsense("keys that were not asked for"));
                }
                if bytes > MAX_BELOW {
                    return Err(EtcdError::Nonsense("more than a DVM writes"));
                }
                all.push(found);
            }
            let last = all.last().map(|last| last.key.clone());
            let Some(last) = last.filter(|_| page.more && all.len() > before) else { return Ok(all) };
            // the first key after it
            key = [&last[..], &[0]].concat().into();
        }
    }

    /// Does one thing if all of these hold, and otherwise another. May be done twice if a connection breaks.
    pub(crate) async fn transaction(
        &self,
        compare: Vec<Compare>,
        success: Vec<RequestOp>,
        failure: Vec<RequestOp>,
    ) -> Result<TxnResponse, EtcdError> {
        let request = TxnRequest { compare, success, failure };
        self.call(move |channel, origin| {
            let request = request.clone();
            async move { KvClient::with_origin(channel, origin).txn(request).await }
        })
        .await
    }

    /// A lease of so long.
    pub(crate) async fn lease(&self, ttl: Duration) -> Result<i64, EtcdError> {
        let request = LeaseGrantRequest { ttl: i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX) };
        let granted = self.call(move |channel, origin| async move {
            LeaseClient::with_origin(channel, origin).lease_grant(request).await
        });
        Ok(granted.await?.id)
    }

    /// Renews a lease; false if it is over.
    pub(crate) async fn renew(&self, id: i64) -> Result<bool, EtcdError> {
        let renewed = self.call(move |channel, origin| async move {
            let requests = futures::stream::iter([LeaseKeepAliveRequest { id }]);
            let mut answers =
                LeaseClient::with_origin(channel, origin).lease_keep_alive(requests).await?.into_inner();
            let answer =
                answers.message().await?.ok_or_else(|| Status::unavailable("it has not answered"))?;
            Ok(tonic::Response::new(answer))
        });
        Ok(renewed.await?.ttl > 0)
    }

    /// Ends a lease, and what belongs to it.
    pub(crate) async fn revoke(&self, id: i64) -> Result<(), EtcdError> {
        let revoked = self.call(move |channel, origin| async move {
            LeaseClient::with_origin(channel, origin).lease_revoke(LeaseRevokeRequest { id }).await
        });
        match revoked.await {
            // it is over
            Err(EtcdError::Refused(status)) if status.code() == Code::NotFound => Ok(()),
            revoked => revoked.map(drop),
        }
    }

    /// Calls one member, and another if that does not answer.
    async fn call<T, F, C>(&self, call: F) -> Result<T, EtcdError>
    where
        F: Fn(Channel, Uri) -> C + Send + Sync,
        C: Future<Output = Result<tonic::Response<T>, Status>> + Send,
    {
        let deadline = Instant::now() + LIMIT;
        let mut earlier = None;
        loop {
            let patience = deadline.min(Instant::now() + PATIENCE);
            let problem = match self.channel(patience).await {
                Ok((number, channel)) => {
                    let origin = self.members.get(number).map(|member| member.origin.clone());
                    let why = match timeout_at(patience, call(channel, origin.unwrap_or_default())).await {
                        Ok(Ok(answer)) => return Ok(answer.into_inner()),
                        Ok(Err(status)) if !is_of_this_member(&status) => {
                            return Err(EtcdError::Refused(status));
                        }
                        Ok(Err(status)) => status.message().to_owned(),
                        Err(_) => "no answer".to_owned(),
                    };
                    self.give_up(number);
                    format!("{}: {why}", self.name(number))
                }
                Err(why) => why,
            };
            let now = Instant::now();
            if now + AGAIN >= deadline {
                // a call that the end of the time has cut short tells less than one before it
                let is_cut_short = patience == deadline && now >= deadline;
                return Err(EtcdError::Silent(earlier.filter(|_| is_cut_short).unwrap_or(problem)));
            }
            earlier = Some(problem);
            tokio::time::sleep_until(Instant::now() + AGAIN).await;
        }
    }

    fn name(&self, number: usize) -> String {
        self.members.get(number).map(|member| format!("{}:{}", member.host, member.port)).unwrap_or_default()
    }

    /// The connection in use, or a new one.
    async fn channel(&self, patience: Instant) -> Result<(usize, Channel), String> {
        let MemberLine { member: number, channel } = lock(&self.line).clone();
        if let Some(channel) = channel {
            return Ok((number, channel));
        }
        let member = self.members.get(number).ok_or("there is no member")?;
        let why = match timeout_at(patience, member.connect(self.tls.as_ref())).await {
            Ok(Ok(channel)) => {
                let mut line = lock(&self.line);
                if line.member == number {
                    // another call may have connected meanwhile: either connection will do
                    line.channel = Some(channel.clone());
                }
                return Ok((number, channel));
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no connection".to_owned(),
        };
        self.give_up(number);
        Err(format!("{}: {why}", self.name(number)))
    }

    /// Tries the next member, unless another call does already.
    fn give_up(&self, number: usize) {
        let mut line = lock(&self.line);
        if line.member == number {
            *line = MemberLine { member: (number + 1) % self.members.len().max(1), channel: None };
        }
    }
}

fn lock(line: &Mutex<MemberLine>) -> MutexGuard<'_, MemberLine> {
    // it is whole after each change
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether another member may answer otherwise.
fn is_of_this_member(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::Unavailable | Code::Unknown | Code::DeadlineExceeded | Code::Cancelled | Code::Internal
    )
}

impl Member {
    fn of(text: &str, is_insecure: bool) -> Result<Self, EtcdError> {
        let wrong = |problem| EtcdError::Address { member: pmix_types::escaped(text).to_string(), problem };
        let origin: Uri = text.parse().map_err(|_| wrong("it is no URL"))?;
        let is_tls = match origin.scheme_str() {
            Some("https") => true,
            Some("http") if is_insecure => false,
            Some("http") => {
                return Err(wrong("it is not protected: use https, or allow this with --etcd-insecure"));
            }
            _ => return Err(wrong("it must begin with https://")),
        };
        if !matches!(origin.path(), "" | "/") {
            return Err(wrong("it has a path"));
        }
        if origin.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(wrong("it has a user: clients prove who they are by certificates"));
        }
        let host =
            origin.host().ok_or_else(|| wrong("it names no host"))?.trim_matches(['[', ']']).to_owned();
        let port = origin.port_u16().unwrap_or(PORT);
        Ok(Self { origin, host, port, is_tls })
    }

    async fn connect(&self, tls: Option<&Arc<ClientConfig>>) -> io::Result<Channel> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let begun = match tls.filter(|_| self.is_tls) {
            Some(config) => {
                let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
                let stream = TlsConnector::from(config.clone()).connect(name, stream).await?;
                Channel::begin(stream, SILENCE, false).await
            }
            None => Channel::begin(stream, SILENCE, false).await,
        };
        begun.map_err(io::Error::other)
    }
}

fn tls(place: &EtcdPlace) -> Result<Arc<ClientConfig>, EtcdError> {
    let mut roots = RootCertStore::empty();
    if let Some(file) = &place.authority {
        for certificate in certificates(file)? {
            roots.add(certificate)?;
        }
    }
    let provider: Arc<CryptoProvider> = ring::default_provider().into();
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots);
    let mut config = match &place.identity {
        Some((certificate, key)) => {
            let problem = |problem| EtcdError::File { file: key.clone(), problem };
            let key = PrivateKeyDer::from_pem_file(key).map_err(problem)?;
            config.with_client_auth_cert(certificates(certificate)?, key)?
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config.into())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, EtcdError> {
    let problem = |problem| EtcdError::File { file: file.to_owned(), problem };
    let certificates = CertificateDer::pem_file_iter(file).map_err(problem)?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(problem)?;
    if certificates.is_empty() {
        return Err(EtcdError::Empty(file.to_owned()));
    }
    Ok(certificates)
}

/// The first key after all that begin like this.
fn after(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(next) = last.checked_add(1) {
            end.push(next);
            return end.into();
        }
    }
    // all keys
    Bytes::from_static(&[0])
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn members_are_reached_by_https_unless_that_is_waived() {
        let member = |text, is_insecure| Member::of(text, is_insecure).map_err(|error| error.to_string());
        let one = member("https://n0:4001", false).unwrap();
        assert_eq!((one.host.as_str(), one.port, one.is_tls), ("n0", 4001, true));
        assert_eq!(member("https://[::1]", false).unwrap().host, "::1");
        assert_eq!(member("http://n0", true).unwrap().port, 2379);
        for (text, words) in [
            ("http://n0:2379", "it is not protected: use https"),
            ("n0:2379", "it must begin with https://"),
            ("https://n0/v3", "it has a path"),
            ("https://me:secret@n0", "it has a user"),
            ("https://", "it is no URL"),
        ] {
            let problem = member(text, false).unwrap_err();
            assert!(problem.contains(words), "{text}: {problem}");
        }
    }

    #[test]
    fn a_range_ends_after_all_keys_that_begin_like_its_first() {
        assert_eq!(after(b"a/b"), "a/c");
        assert_eq!(after(b"a\xff"), "b");
        assert_eq!(after(b"\xff\xff"), "\0");
    }

    /// What comes of a call of what listens at these addresses.
    async fn problem(members: Vec<SocketAddr>) -> String {
        let place = EtcdPlace {
            members: members.iter().map(|member| format!("http://{member}")).collect(),
            authority: None,
            identity: None,
            is_insecure: true,
            prefix: "/pmix".into(),
        };
        Etcd::new(&place).unwrap().lease(Duration::from_secs(1)).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn an_etcd_that_is_not_there_or_does_not_speak_as_one_is_given_up() {
        let listener = || async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            (listener, address)
        };
        let (closed, gone) = listener().await;
        drop(closed);
        let (_silent, mute) = listener().await;
        let (noise, noisy) = listener().await;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = noise.accept().await {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            }
        });
        let (one, other, last) =
            tokio::join!(problem(vec![gone]), problem(vec![mute]), problem(vec![gone, noisy]));
        assert!(one.starts_with(&format!("etcd does not answer: {gone}: ")), "{one}");
        assert_eq!(other, format!("etcd does not answer: {mute}: no answer"));
        assert!(last.starts_with("etcd does not answer: "), "{last}");
    }
}
