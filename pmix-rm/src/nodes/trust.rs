//! Who may speak: an authority for one session, whose key stays in the memory of the head.
//!
//! Each daemon has a token that is good for one enrolment of its node and incarnation. With it the head signs the key that
//! the daemon has made, and knows the daemon by that certificate afterwards. Daemons know each other by the name that the
//! head has put into it.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use constant_time_eq::constant_time_eq;
use hmac::digest::InvalidLength;
use hmac::{Hmac, KeyInit, Mac};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PublicKeyData, SignatureAlgorithm,
};
use sha2::Sha256;
use thiserror::Error;
use tokio_rustls::rustls::client::{WantsClientCert, verify_server_name};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use tokio_rustls::rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig};

use super::gather::Place;
use super::lock;

/// The name that the certificate of the head has.
pub(super) const HEAD: &str = "head.pmix.invalid";
/// Bytes of a token.
const TOKEN: usize = 32;
/// Bytes of an uncompressed point on P-256.
const POINT: usize = 65;

/// A daemon: the node it is for, and how many there have been for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Daemon {
    pub(super) node: String,
    /// That of the node.
    pub(super) place: Place,
    pub(super) incarnation: u64,
}

/// The name that the certificate of a daemon has. That of its node may be none that a certificate can have.
pub(super) fn name_of(place: Place, incarnation: u64) -> String {
    format!("n{place}.i{incarnation}.pmix.invalid")
}

/// Whether a certificate, the signature of which has been checked, is that of this daemon.
pub(super) fn is_of(certificate: &CertificateDer<'_>, place: Place, incarnation: u64) -> bool {
    has_name(certificate, name_of(place, incarnation))
}

/// Whether a certificate, the signature of which has been checked, is that of a head.
pub(super) fn is_of_head(certificate: &CertificateDer<'_>) -> bool {
    has_name(certificate, HEAD.to_owned())
}

fn has_name(certificate: &CertificateDer<'_>, name: String) -> bool {
    let Ok(certificate) = ParsedCertificate::try_from(certificate) else { return false };
    let Ok(name) = ServerName::try_from(name) else { return false };
    verify_server_name(&certificate, &name).is_ok()
}

/// The authority of a session.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    tokens: Mutex<HashMap<Daemon, Token>>,
    /// Whose certificates it has signed.
    signed: Mutex<HashMap<Vec<u8>, Daemon>>,
}

enum Token {
    Fresh(String),
    Used,
}

/// Why a daemon is not enrolled.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(super) enum Refusal {
    #[error("no daemon number {} of node {} is expected", .0.incarnation, pmix_types::escaped(&.0.node))]
    Unknown(Daemon),
    #[error("the token is not that of daemon number {} of node {}", .0.incarnation, .0.node)]
    WrongToken(Daemon),
    #[error("the token of daemon number {} of node {} has been used", .0.incarnation, .0.node)]
    UsedToken(Daemon),
    #[error("the key of node {0} cannot be read")]
    BadKey(String),
}

/// What cannot be made or used of keys and certificates.
#[derive(Debug, Error)]
pub(super) enum TrustError {
    #[error("cannot make keys and certificates: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] tokio_rustls::rustls::Error),
    #[error("cannot set up TLS: {0}")]
    Verifier(#[from] tokio_rustls::rustls::server::VerifierBuilderError),
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    #[error("cannot make a token: {0}")]
    Secret(#[from] InvalidLength),
}

/// A point that a daemon has sent.
struct Point(Vec<u8>);

impl PublicKeyData for Point {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        &PKCS_ECDSA_P256_SHA256
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn named(name: &str, usages: &[ExtendedKeyUsagePurpose]) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = usages.to_vec();
    Ok(params)
}

impl Authority {
    pub(super) fn new() -> Result<Self, TrustError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let certificate = Self::params().self_signed(&key)?.der().clone();
        Ok(Self::of(key, certificate, HashMap::new()))
    }

    /// That of a session whose head is gone, which has signed the certificates of these daemons.
    pub(super) fn again(
        key: Vec<u8>,
        certificate: Vec<u8>,
        signed: HashMap<Vec<u8>, Daemon>,
    ) -> Result<Self, TrustError> {
        let key = KeyPair::try_from(&PrivatePkcs8KeyDer::from(key))?;
        Ok(Self::of(key, CertificateDer::from(certificate), signed))
    }

    fn of(key: KeyPair, certificate: CertificateDer<'static>, signed: HashMap<Vec<u8>, Daemon>) -> Self {
        let issuer = Issuer::new(Self::params(), key);
        Self { issuer, certificate, tokens: Mutex::default(), signed: Mutex::new(signed) }
    }

    fn params() -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "a session of pmixrun");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        params
    }

    /// Its key, in DER: with it and the certificate a successor is as good as this head.
    #[cfg(feature = "etcd")]
    pub(super) fn key(&self) -> Vec<u8> {
        self.issuer.key().serialize_der()
    }

    /// How a head connects with daemons.
    pub(super) fn client_config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let own = named(HEAD, &[ExtendedKeyUsagePurpose::ClientAuth])?.signed_by(&key, &self.issuer)?;
        let config = client_builder(self.certificate.clone())?;
        Ok(Arc::new(config.with_client_auth_cert(vec![own.der().clone()], private(&key))?))
    }

    /// Its certificate, in DER.
    pub(super) fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// A token for a daemon that is to be started.
    pub(super) fn token(&self, daemon: Daemon) -> Result<String, TrustError> {
        let token = unguessable()?;
        lock(&self.tokens).insert(daemon, Token::Fresh(token.clone()));
        Ok(token)
    }

    /// A secret for several daemons, of which each makes its own token, by [`token_of`].
    pub(super) fn secret(&self, daemons: impl IntoIterator<Item = Daemon>) -> Result<String, TrustError> {
        let secret = unguessable()?;
        let mut tokens = lock(&self.tokens);
        for daemon in daemons {
            let token = token_of(&secret, &daemon.node)?;
            tokens.insert(daemon, Token::Fresh(token));
        }
        Ok(secret)
    }

    /// Signs the key of a daemon that shows its token, once.
    pub(super) fn enrol(&self, daemon: Daemon, token: &str, point: &[u8]) -> Result<Vec<u8>, Refusal> {
        let mut tokens = lock(&self.tokens);
        let expected = tokens.get_mut(&daemon).ok_or_else(|| Refusal::Unknown(daemon.clone()))?;
        match expected {
            Token::Used => return Err(Refusal::UsedToken(daemon)),
            Token::Fresh(expected) if !constant_time_eq(expected.as_bytes(), token.as_bytes()) => {
                return Err(Refusal::WrongToken(daemon));
            }
            Token::Fresh(_) => {}
        }
        let bad = |_| Refusal::BadKey(daemon.node.clone());
        if point.len() != POINT || point.first() != Some(&4) {
            return Err(Refusal::BadKey(daemon.node));
        }
        let name = name_of(daemon.place, daemon.incarnation);
        let usages = [ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let params = named(&name, &usages).map_err(bad)?;
        let certificate = params.signed_by(&Point(point.to_vec()), &self.issuer).map_err(bad)?;
        *expected = Token::Used;
        lock(&self.signed).insert(certificate.der().to_vec(), daemon);
        Ok(certificate.der().to_vec())
    }

    /// Whether this is the token of a daemon that has not used it.
    pub(super) fn has_token(&self, daemon: &Daemon, token: &str) -> bool {
        let tokens = lock(&self.tokens);
        matches!(tokens.get(daemon), Some(Token::Fresh(own)) if constant_time_eq(own.as_bytes(), token.as_bytes()))
    }

    /// The daemon that has this certificate.
    pub(super) fn daemon_of(&self, certificate: &[u8]) -> Option<Daemon> {
        lock(&self.signed).get(certificate).cloned()
    }

    /// What the head accepts: anybody without a certificate, who can only be enrolled, and those whose key it has signed.
    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, TrustError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        let own = named(HEAD, &[ExtendedKeyUsagePurpose::ServerAuth])?.signed_by(&key, &self.issuer)?;
        let roots = Arc::new(roots(self.certificate.clone())?);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, provider());
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients.allow_unauthenticated().build()?)
            .with_single_cert(vec![own.der().clone()], private(&key))?;
        Ok(Arc::new(config))
    }
}

/// The token of a daemon that shares a secret with others.
pub(super) fn token_of(secret: &str, node: &str) -> Result<String, TrustError> {
    let code = Hmac::<Sha256>::new_from_slice(secret.as_bytes())?.chain_update(node);
    Ok(hex(&code.finalize().into_bytes()))
}

/// Random digits.
fn unguessable() -> Result<String, TrustError> {
    let mut bytes = [0; TOKEN];
    getrandom::fill(&mut bytes)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // writing to a string cannot fail
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn roots(certificate: CertificateDer<'static>) -> Result<RootCertStore, TrustError> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    Ok(roots)
}

fn private(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()))
}

/// What a daemon has to prove its identity.
pub(super) struct Identity {
    key: KeyPair,
    authority: CertificateDer<'static>,
}

impl Identity {
    /// A new key, in the session of this authority.
    pub(super) fn new(authority: &[u8]) -> Result<Self, TrustError> {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
        Ok(Self { key, authority: CertificateDer::from(authority.to_vec()) })
    }

    /// What the head is to sign.
    pub(super) fn point(&self) -> Vec<u8> {
        self.key.public_key_raw().to_vec()
    }

    /// How a daemon connects that has no certificate yet.
    pub(super) fn first_config(&self) -> Result<Arc<ClientConfig>, TrustError> {
        Ok(Arc::new(self.builder()?.with_no_client_auth()))
    }

    /// Whom a daemon with this certificate accepts: other daemons of the session.
    pub(super) fn server_config(&self, certificate: Vec<u8>) -> Result<Arc<ServerConfig>, TrustError> {
        let roots = Arc::new(roots(self.authority.clone())?);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, provider());
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients.build()?)
            .with_single_cert(vec![CertificateDer::from(certificate)], private(&self.key))?;
        Ok(Arc::new(config))
    }

    /// How it connects with its certificate, to the head and to other daemons.
    pub(super) fn config(&self, certificate: Vec<u8>) -> Result<Arc<ClientConfig>, TrustError> {
        let chain = vec![CertificateDer::from(certificate)];
        Ok(Arc::new(self.builder()?.with_client_auth_cert(chain, private(&self.key))?))
    }

    fn builder(&self) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TrustError> {
        client_builder(self.authority.clone())
    }
}

/// A client that trusts this authority.
fn client_builder(
    authority: CertificateDer<'static>,
) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TrustError> {
    let builder = ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots(authority)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn daemon(node: &str, incarnation: u64) -> Daemon {
        Daemon { node: node.into(), place: 1, incarnation }
    }

    #[test]
    fn a_token_is_good_for_one_enrolment_of_its_own_daemon() {
        let authority = Authority::new().unwrap();
        let key = Identity::new(authority.certificate()).unwrap().point();
        let token = authority.token(daemon("n1", 1)).unwrap();
        let other = authority.token(daemon("n2", 1)).unwrap();
        let enrol = |daemon: &Daemon, token: &str| authority.enrol(daemon.clone(), token, &key);
        let n1 = daemon("n1", 1);
        for (wrong, refusal) in [
            (enrol(&n1, &other), Refusal::WrongToken(n1.clone())),
            (enrol(&n1, ""), Refusal::WrongToken(n1.clone())),
            (enrol(&daemon("n1", 2), &token), Refusal::Unknown(daemon("n1", 2))),
            (enrol(&daemon("x", 1), &token), Refusal::Unknown(daemon("x", 1))),
            (authority.enrol(n1.clone(), &token, &[4; 64]), Refusal::BadKey("n1".into())),
        ] {
            assert_eq!(wrong.unwrap_err(), refusal);
        }
        let certificate = enrol(&n1, &token).unwrap();
        assert_eq!(authority.daemon_of(&certificate), Some(n1.clone()));
        let certificate = CertificateDer::from(certificate);
        let names: Vec<_> = [(1, 1), (1, 2), (2, 1), (11, 1)]
            .map(|(place, number)| is_of(&certificate, place, number))
            .into();
        assert_eq!(names, [true, false, false, false]);
        assert_eq!(enrol(&n1, &token).unwrap_err(), Refusal::UsedToken(n1));
    }

    #[test]
    fn a_secret_of_several_daemons_gives_each_a_token_of_its_own() {
        let authority = Authority::new().unwrap();
        let key = Identity::new(authority.certificate()).unwrap().point();
        let (n1, n2) = (daemon("n1", 1), daemon("n2", 1));
        let secret = authority.secret([n1.clone(), n2.clone()]).unwrap();
        let enrol = |daemon: &Daemon, token: &str| authority.enrol(daemon.clone(), token, &key);
        let (token, other) = (token_of(&secret, "n1").unwrap(), token_of(&secret, "n2").unwrap());
        assert!(token.len() == 64 && token != other);
        for (wrong, refusal) in [
            (enrol(&n1, &secret), Refusal::WrongToken(n1.clone())),
            (enrol(&n1, &other), Refusal::WrongToken(n1.clone())),
            (enrol(&daemon("n3", 1), &token_of(&secret, "n3").unwrap()), Refusal::Unknown(daemon("n3", 1))),
        ] {
            assert_eq!(wrong.unwrap_err(), refusal);
        }
        enrol(&n1, &token).unwrap();
        assert_eq!(enrol(&n1, &token).unwrap_err(), Refusal::UsedToken(n1));
        enrol(&n2, &other).unwrap();
        let another = Authority::new().unwrap().secret([n2]).unwrap();
        assert_ne!(another, secret);
    }
}
