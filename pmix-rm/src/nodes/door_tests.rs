//! Who is let in, by connections that no daemon would make.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::FutureExt;
use pmix_proto::nodes::{Enrolment, Frame, Hello, Leave, Versions, Where, frame::Content};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ClientConfig;
use tonic::Code;

use super::super::dial::{Client, Dial};
use super::super::fixture::allow_open_files;
use super::super::port::{HELLO_WITHIN, MAX_STRANGERS};
use super::super::trust::{HEAD, Identity};
use super::super::{brief, version};
use super::*;
use pmix_test_wait::StillClock;

const SILENCE: Duration = Duration::from_secs(30);

const MOMENT: Duration = Duration::from_millis(10);

/// The door of a session with a head and a node `n1`, while time stands still.
struct Fixture {
    still: StillClock,
    authority: Arc<Authority>,
    door: Opened,
    address: SocketAddr,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
}

impl Fixture {
    async fn new() -> Self {
        let still = StillClock::start();
        let authority = Arc::new(Authority::new().unwrap());
        let names = vec!["head".to_owned(), "n1".to_owned()];
        let (net, _losses) = Net::new(0, names.clone());
        let port = Port::bind(None).await.unwrap();
        let address = *port.addresses().last().unwrap();
        let silence = Duration::from_secs(20);
        let branches = Arc::new(Branches::new(mpsc::channel(1).0));
        let opened = open(port, authority.clone(), 0, net, silence, branches);
        let (door, arrivals) = opened.unwrap();
        Self { still, authority, door, address, arrivals }
    }

    async fn client(&self, config: Arc<ClientConfig>) -> Client {
        dial(config).one(self.address).await.unwrap()
    }

    /// A daemon of the node with a certificate of the session.
    async fn enrolled(&self) -> Client {
        let identity = Identity::new(self.authority.certificate()).unwrap();
        let daemon = Daemon { node: "n1".into(), place: 1, incarnation: 1 };
        let token = self.authority.token(daemon.clone()).unwrap();
        let certificate = self.authority.enrol(daemon, &token, &identity.point()).unwrap();
        self.client(identity.config(certificate).unwrap()).await
    }

    /// That a daemon is let in.
    async fn lets_in(&self) {
        let mut welcomed = self
            .enrolled()
            .await
            .join(says(hello(version::spoken(version::OWN))))
            .await
            .unwrap()
            .into_inner();
        let first = welcomed.message().await.unwrap().unwrap();
        assert!(matches!(first.content, Some(Content::Welcome(Welcome { version: version::OWN, .. }))));
    }
}

fn dial(config: Arc<ClientConfig>) -> Dial {
    Dial { name: HEAD.to_owned(), config, silence: SILENCE }
}

fn hello(versions: Versions) -> Content {
    let versions = Some(versions);
    Content::Hello(Hello { versions, machine: "m".into(), processors: 1, ..Hello::default() })
}

fn says(content: Content) -> impl Stream<Item = Frame> + Send + 'static {
    tokio_stream::iter([Frame { content: Some(content) }]).chain(tokio_stream::pending())
}

fn older() -> Versions {
    Versions { oldest: 0, newest: 0, implementation: "pmix-rs 0.0.1".into() }
}

#[tokio::test]
async fn an_older_version_is_refused_in_one_line_that_names_both() {
    let mut fixture = Fixture::new().await;
    let identity = Identity::new(fixture.authority.certificate()).unwrap();
    let token = fixture.authority.token(Daemon { node: "n1".into(), place: 1, incarnation: 1 }).unwrap();
    let enrolment = Enrolment {
        versions: Some(older()),
        node: "n1".into(),
        incarnation: 1,
        token,
        public_key: identity.point().into(),
    };
    let mut client = fixture.client(identity.first_config().unwrap()).await;
    let told = client.enrol(enrolment).await.unwrap_err();
    let line = "pmix-rs 0.0.1 speaks pmix.host.v1 in the minor versions 0 to 0, pmix-rs ";
    assert!(told.message().starts_with(line) && !told.message().contains('\n'), "{told:?}");
    // whoever waits for it hears the same
    let Some(Arrival::Refused { node, reason }) = fixture.arrivals.recv().await else { panic!() };
    assert_eq!((node.as_str(), reason.as_str()), ("n1", told.message()));
    let told = fixture.enrolled().await.join(says(hello(older()))).await.unwrap_err();
    assert!(told.message().starts_with(line), "{told:?}");
    fixture.lets_in().await;
}

#[tokio::test]
async fn a_certificate_of_another_session_is_refused_with_the_reason_on_both_sides() {
    let fixture = Fixture::new().await;
    let other = Authority::new().unwrap();
    let identity = Identity::new(fixture.authority.certificate()).unwrap();
    let daemon = Daemon { node: "n1".into(), place: 1, incarnation: 1 };
    let token = other.token(daemon.clone()).unwrap();
    let certificate = other.enrol(daemon, &token, &identity.point()).unwrap();
    let config = identity.config(certificate).unwrap();
    // the head is checked first, so the handshake may be over on this side before the head refuses
    let refused = match dial(config).one(fixture.address).await {
        Err(error) => error.to_string(),
        Ok(mut client) => brief(&client.join(says(hello(version::spoken(1)))).await.unwrap_err()),
    };
    assert!(
        refused.contains("CertificateUnknown")
            || refused.contains("UnknownCA")
            || refused.contains("DecryptError"),
        "{refused}"
    );
    fixture.lets_in().await;
}

#[tokio::test]
async fn a_connection_without_certificate_can_only_enrol() {
    let fixture = Fixture::new().await;
    let identity = Identity::new(fixture.authority.certificate()).unwrap();
    let mut client = fixture.client(identity.first_config().unwrap()).await;
    let told = client.join(says(hello(version::spoken(1)))).await.unwrap_err();
    assert_eq!(told.code(), Code::Unauthenticated);
    // and that with few bytes
    let enrolment = Enrolment { token: "x".repeat(MAX_ENROLMENT), ..Enrolment::default() };
    assert_eq!(client.enrol(enrolment).await.unwrap_err().code(), Code::OutOfRange);
    fixture.lets_in().await;
}

#[tokio::test]
async fn a_node_has_one_daemon_which_begins_with_a_hello() {
    let fixture = Fixture::new().await;
    let told = fixture.enrolled().await.join(says(Content::Leave(Leave::default()))).await.unwrap_err();
    assert_eq!(told.code(), Code::InvalidArgument);
    let mut first = fixture.enrolled().await;
    let mut welcomed = first.join(says(hello(version::spoken(1)))).await.unwrap().into_inner();
    assert!(welcomed.message().await.unwrap().is_some());
    let told = fixture.enrolled().await.join(says(hello(version::spoken(1)))).await.unwrap_err();
    assert_eq!(told.code(), Code::AlreadyExists);
}

#[tokio::test]
async fn a_daemon_tells_a_bounded_number_of_addresses() {
    let fixture = Fixture::new().await;
    let Content::Hello(hello) = hello(version::spoken(version::OWN)) else { panic!() };
    let hello = Hello { addresses: vec!["192.0.2.1:1".into(); 2 * MAX_ADDRESSES], ..hello };
    let mut client = fixture.enrolled().await;
    let asks = ["n1", "head", "nowhere"].map(|node| Content::Where(Where { node: node.into() }));
    let says =
        [Content::Hello(hello)].into_iter().chain(asks).map(|content| Frame { content: Some(content) });
    let says = tokio_stream::iter(says.collect::<Vec<_>>()).chain(tokio_stream::pending());
    let mut told = client.join(says).await.unwrap().into_inner();
    assert!(matches!(told.message().await.unwrap().unwrap().content, Some(Content::Welcome(_))));
    for (node, incarnation, addresses) in [("n1", 1, MAX_ADDRESSES), ("head", 0, 0), ("nowhere", 0, 0)] {
        let Some(Content::There(there)) = told.message().await.unwrap().unwrap().content else { panic!() };
        let there = (there.node.as_str(), there.incarnation, there.addresses.len());
        assert_eq!(there, (node, incarnation, addresses));
    }
}

#[tokio::test]
async fn a_daemon_that_is_let_in_takes_no_place_of_strangers() {
    let fixture = Fixture::new().await;
    let strangers = || fixture.door.strangers();
    let mut client = fixture.enrolled().await;
    let mut welcomed = client.join(says(hello(version::spoken(1)))).await.unwrap().into_inner();
    assert!(welcomed.message().await.unwrap().is_some());
    assert_eq!(strangers(), 0);
    // one that has not said hello has such a place
    let _silent = fixture.enrolled().await;
    assert_eq!(strangers(), 1);
}

#[tokio::test]
async fn who_proves_nothing_after_the_handshake_is_disconnected_in_the_same_time() {
    let fixture = Fixture::new().await;
    let strangers = || fixture.door.strangers();
    let config = Identity::new(fixture.authority.certificate()).unwrap().first_config().unwrap();
    let mut stream = TcpStream::connect(fixture.address).await.unwrap();
    fixture.still.until("it is accepted", || strangers() == 1).await;
    // late, but in time for the handshake
    fixture.still.pass(HELLO_WITHIN / 2).await;
    let tls = tokio_rustls::TlsConnector::from(config.clone());
    let name = tokio_rustls::rustls::pki_types::ServerName::try_from(HEAD).unwrap();
    let mut stream = tls.connect(name, &mut stream).await.unwrap();
    let mut end = Box::pin(async { while stream.read(&mut [0; 64]).await.is_ok_and(|read| read > 0) {} });
    fixture.still.pass(HELLO_WITHIN / 2 - MOMENT).await;
    // what is due by now happens before another one can connect
    fixture.client(config).await;
    assert!(end.as_mut().now_or_never().is_none(), "it has a moment left");
    fixture.still.pass(2 * MOMENT).await;
    fixture.still.within("it is disconnected", end).await;
    fixture.lets_in().await;
}

#[tokio::test]
async fn garbage_ends_its_connection_and_the_door_stays_open() {
    let fixture = Fixture::new().await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64 << 10], b"\x16\x03\x01\xff\xff"] {
        let mut stream = TcpStream::connect(fixture.address).await.unwrap();
        // it may be refused before all of it is written
        let _ = stream.write_all(garbage).await;
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    fixture.lets_in().await;
}

#[tokio::test]
async fn who_connects_and_says_nothing_is_disconnected_and_too_many_of_them_at_once() {
    allow_open_files();
    let fixture = Fixture::new().await;
    let strangers = || fixture.door.strangers();
    let mut silent = Vec::new();
    for _ in 0..=MAX_STRANGERS {
        silent.push(TcpStream::connect(fixture.address).await.unwrap());
    }
    let end = async |mut stream: TcpStream| {
        let end = fixture.still.within("it is disconnected", stream.read(&mut [0])).await;
        assert_eq!(end.unwrap(), 0);
    };
    // the oldest makes room
    end(silent.remove(0)).await;
    fixture.still.pass(HELLO_WITHIN - MOMENT).await;
    assert_eq!(strangers(), MAX_STRANGERS, "the others have a moment left");
    // also those that were accepted at the last moment
    fixture.still.pass(HELLO_WITHIN).await;
    for stream in silent {
        end(stream).await;
    }
    assert_eq!(strangers(), 0);
    fixture.lets_in().await;
}
