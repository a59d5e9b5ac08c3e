//! The port of a daemon, by connections that no other daemon would make.

use std::net::SocketAddr;

use pmix_proto::nodes::{Ask, Leave, Versions, ask::What};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::rustls::ClientConfig;
use tonic::Code;

use super::super::brief;
use super::super::daemon::SILENCE;
use super::super::dial::{Client, Dial};
use super::super::fixture::{Here, Session};
use super::super::peers::MAX_VISITS;
use super::super::trust::{Authority, Daemon, Identity, name_of};
use super::*;

/// A session in which `a` can be asked by `b`, and by whoever else comes.
struct Fixture {
    session: Session,
    a: Here,
    b: Here,
    address: SocketAddr,
}

impl Fixture {
    async fn new() -> Self {
        let session = Session::new(&["h", "a", "b", "c"]).await;
        let (a, b) = (session.daemon("a").await, session.daemon("b").await);
        let there = b.peers.whereabouts(1).await.unwrap();
        let address = there.addresses.last().unwrap().parse().unwrap();
        Self { session, a, b, address }
    }

    fn dial(&self, config: Arc<ClientConfig>) -> Dial {
        Dial { name: name_of(1, 1), config, silence: Duration::from_secs(30) }
    }

    /// A daemon with the certificate of `c`.
    async fn c(&self) -> Client {
        let (identity, certificate) = self.session.enrolled("c");
        self.dial(identity.config(certificate).unwrap()).one(self.address).await.unwrap()
    }

    /// That `a` answers `b` directly, on a new connection.
    async fn serves(&self) {
        if let Some(visit) = self.a.peers.visits().remove(&2) {
            visit.abort();
        }
        let mut count = self.session.head.next_id();
        let served = async {
            // the first may go through the head, as the connection has just ended
            loop {
                assert_eq!(self.b.ask("a").await.unwrap(), "a to b");
                if self.session.passed_on(&mut count) == 0 && !self.a.peers.visits().is_empty() {
                    return;
                }
            }
        };
        self.session.still.within("a answers b directly", served).await;
    }

    /// Waits until this is so, while no time passes.
    async fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        self.session.still.until(what, is_so).await;
    }
}

fn hello(node: &str, incarnation: u64) -> Content {
    let versions = Some(version::spoken(version::OWN));
    Content::Hello(Hello { versions, node: node.into(), incarnation, ..Hello::default() })
}

fn ask(id: u64, bytes: usize) -> Content {
    let (from, to) = ("b".into(), "a".into());
    Content::Ask(Ask { id, from, to, what: Some(What::Request(bytes.to_string().into())) })
}

/// Says this, and then nothing more.
fn says(contents: impl IntoIterator<Item = Content>) -> impl Stream<Item = Frame> + Send + 'static {
    let frames: Vec<_> = contents.into_iter().map(|content| Frame { content: Some(content) }).collect();
    tokio_stream::iter(frames).chain(tokio_stream::pending())
}

#[tokio::test]
async fn a_stranger_without_certificate_is_refused_by_a_daemon() {
    let fixture = Fixture::new().await;
    let identity = Identity::new(fixture.session.authority.certificate()).unwrap();
    // the handshake is over on this side before the other one misses the certificate
    if let Ok(mut client) = fixture.dial(identity.first_config().unwrap()).one(fixture.address).await {
        let refused = brief(&client.join(says([hello("b", 1), ask(1, 0)])).await.unwrap_err());
        assert!(refused.contains("CertificateRequired"), "{refused}");
    }
    fixture.serves().await;
}

#[tokio::test]
async fn a_certificate_of_another_session_is_refused_by_a_daemon() {
    let fixture = Fixture::new().await;
    let other = Authority::new().unwrap();
    let identity = Identity::new(fixture.session.authority.certificate()).unwrap();
    let daemon = Daemon { node: "b".into(), place: 2, incarnation: 1 };
    let token = other.token(daemon.clone()).unwrap();
    let certificate = other.enrol(daemon, &token, &identity.point()).unwrap();
    let refused = match fixture.dial(identity.config(certificate).unwrap()).one(fixture.address).await {
        Err(error) => error.to_string(),
        Ok(mut client) => brief(&client.join(says([hello("b", 1), ask(1, 0)])).await.unwrap_err()),
    };
    let reasons = ["UnknownCA", "DecryptError", "CertificateUnknown"];
    assert!(reasons.iter().any(|reason| refused.contains(reason)), "{refused}");
    fixture.serves().await;
}

#[tokio::test]
async fn a_daemon_that_says_it_is_another_one_is_refused_by_a_daemon() {
    let fixture = Fixture::new().await;
    for (claimed, incarnation) in [("b", 1), ("c", 2), ("h", 1), ("a", 1), ("x\n", 1), ("", 0)] {
        let told = fixture.c().await.join(says([hello(claimed, incarnation), ask(1, 0)])).await.unwrap_err();
        assert_eq!(told.code(), Code::PermissionDenied, "{claimed:?}: {told:?}");
    }
    let mut client = fixture.c().await;
    let mut answers = client.join(says([hello("c", 1), ask(1, 0)])).await.unwrap().into_inner();
    assert!(matches!(answers.message().await.unwrap().unwrap().content, Some(Content::Welcome(_))));
    let Some(Content::Answer(answer)) = answers.message().await.unwrap().unwrap().content else { panic!() };
    let reply = pmix_proto::nodes::answer::Result::Reply("a to c".into());
    assert_eq!(answer.result, Some(reply), "whatever the request says of who asks");
    fixture.serves().await;
}

#[tokio::test]
async fn a_daemon_takes_no_other_for_the_one_that_it_asks() {
    let fixture = Fixture::new().await;
    let (identity, certificate) = fixture.session.enrolled("c");
    let config = identity.config(certificate).unwrap();
    for name in [name_of(2, 1), name_of(1, 2)] {
        let dial = Dial { name, ..fixture.dial(config.clone()) };
        let Err(error) = dial.one(fixture.address).await else { panic!("another name is accepted") };
        assert!(error.to_string().contains("not valid for name"), "{error}");
    }
}

#[tokio::test]
async fn what_is_no_question_ends_the_connection_of_a_daemon() {
    let fixture = Fixture::new().await;
    let leave = || Content::Leave(Leave::default());
    let told = fixture.c().await.join(says([leave()])).await.unwrap_err();
    assert_eq!(told.code(), Code::InvalidArgument);
    let old = Versions { oldest: 0, newest: 0, implementation: "older".into() };
    let old = Content::Hello(Hello { versions: Some(old), node: "c".into(), ..Hello::default() });
    assert_eq!(fixture.c().await.join(says([old])).await.unwrap_err().code(), Code::FailedPrecondition);
    assert_eq!(fixture.c().await.enrol(Enrolment::default()).await.unwrap_err().code(), Code::Unimplemented);
    let to_another = Ask { id: 1, from: "c".into(), to: "b".into(), what: Some(What::Request("0".into())) };
    for wrong in [leave(), Content::Ask(to_another)] {
        let mut client = fixture.c().await;
        let mut answers = client.join(says([hello("c", 1), wrong])).await.unwrap().into_inner();
        assert!(answers.message().await.unwrap().is_some(), "it is welcome");
        assert_eq!(answers.message().await.unwrap(), None);
    }
    fixture.serves().await;
}

#[tokio::test]
async fn garbage_and_leaving_at_once_leave_the_port_of_a_daemon_open() {
    let fixture = Fixture::new().await;
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64 << 10], b"\x16\x03\x01\xff\xff", b""] {
        let mut stream = TcpStream::connect(fixture.address).await.unwrap();
        // it may be refused before all of it is written
        let _ = stream.write_all(garbage).await;
        let _ = stream.shutdown().await;
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    // after the handshake, and after a question
    drop(fixture.c().await);
    fixture.a.withhold();
    let mut client = fixture.c().await;
    let (link, frames) = Link::new(SILENCE);
    for content in [hello("c", 1), ask(1, 0)] {
        link.send(Frame { content: Some(content) }).await.unwrap();
    }
    let answers = client.join(frames).await.unwrap();
    fixture.until("a is asked", || fixture.a.asked() > 0).await;
    drop((link, answers, client));
    fixture.until("the visit ends", || fixture.a.peers.visits()[&3].is_finished()).await;
    assert_eq!(fixture.a.port.as_ref().unwrap().strangers(), 0);
    fixture.a.answers.permits.add_permits(100);
    fixture.serves().await;
}

#[tokio::test]
async fn a_daemon_that_reads_no_answers_is_disconnected() {
    let fixture = Fixture::new().await;
    let asks = (0..100).map(|id| ask(id, 1 << 20));
    let mut client = fixture.c().await;
    let _unread = client.join(says([hello("c", 1)].into_iter().chain(asks))).await.unwrap();
    let is_over = || fixture.a.peers.visits()[&3].is_finished();
    fixture.until("all is asked", || fixture.a.asked() == 100).await;
    assert!(!is_over());
    let step = SILENCE + Duration::from_secs(1);
    fixture.session.still.until_passing("it is disconnected", step, is_over).await;
    fixture.serves().await;
}

#[tokio::test]
async fn daemons_that_are_connected_to_ask_are_bounded_and_each_once() {
    let fixture = Fixture::new().await;
    fixture.serves().await;
    let visits = || fixture.a.peers.visits().len();
    // one that comes again takes its own place
    let mut all = Vec::new();
    for _ in 0..3 {
        let earlier = fixture.a.peers.visits().get(&3).cloned();
        let mut client = fixture.c().await;
        let answers = client.join(says([hello("c", 1)])).await.unwrap();
        assert_eq!(visits(), 2);
        let is_over = || earlier.as_ref().is_none_or(AbortHandle::is_finished);
        fixture.until("its earlier visit ends", is_over).await;
        all.push((client, answers));
    }
    let others = 1000..1000 + MAX_VISITS;
    for place in others {
        let waits = tokio::spawn(std::future::pending::<()>()).abort_handle();
        fixture.a.peers.visits().insert(place, waits);
    }
    fixture.a.peers.visits().remove(&3);
    let told = fixture.c().await.join(says([hello("c", 1)])).await.unwrap_err();
    assert_eq!(told.code(), Code::Unavailable, "{told:?}");
    let one = fixture.a.peers.visits().remove(&1000);
    one.unwrap().abort();
    fixture.a.peers.visits().remove(&1001);
    fixture.c().await.join(says([hello("c", 1)])).await.unwrap();
}
