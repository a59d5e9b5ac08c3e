//! Daemons that are summoned, by heads and by others.

use pmix_host::Exchange;
use tokio_rustls::rustls::ClientConfig;
use tonic::Code;

use super::super::fixture::{Here, Session as Fixture};
use super::super::trust::Identity;
use super::*;

/// Where a daemon listens, as another one is told.
async fn address(asker: &Here, place: Place) -> SocketAddr {
    asker.peers.whereabouts(place).await.unwrap().addresses.last().unwrap().parse().unwrap()
}

async fn summon(config: Arc<ClientConfig>, place: Place, at: SocketAddr, epoch: u64) -> Result<(), Code> {
    let dial = Dial { name: name_of(place, 1), config, silence: SILENCE };
    let mut client = dial.one(at).await.map_err(|_| Code::Unavailable)?;
    let summons =
        Summons { versions: Some(version::spoken(version::OWN)), epoch, heads: vec!["127.0.0.1:1".into()] };
    client.summon(summons).await.map(drop).map_err(|status| status.code())
}

#[tokio::test]
async fn only_a_head_of_the_session_summons_a_daemon_and_only_one_whose_head_may_have_a_successor() {
    let fixture = Fixture::new(&["h", "a", "b", "c", "d"]).await;
    let mut a = fixture.attached_with("a", true).await;
    let _b = fixture.attached_with("b", false).await;
    let asker = fixture.daemon("d").await;
    let (at_a, at_b) = (address(&asker, 1).await, address(&asker, 2).await);
    let head = fixture.authority.client_config().unwrap();
    // another daemon of the session
    let (identity, certificate) = fixture.enrolled("c");
    let daemon = identity.config(certificate).unwrap();
    assert_eq!(summon(daemon, 1, at_a, 9).await, Err(Code::PermissionDenied));
    // a head of another session, and somebody without a certificate
    let other = Authority::new().unwrap().client_config().unwrap();
    assert_eq!(summon(other, 1, at_a, 9).await, Err(Code::Unavailable));
    let stranger = Identity::new(fixture.authority.certificate()).unwrap().first_config().unwrap();
    assert!(summon(stranger, 1, at_a, 9).await.is_err());
    assert!(a.summons.try_recv().is_err());
    assert_eq!(summon(head.clone(), 2, at_b, 9).await, Err(Code::FailedPrecondition));
    assert_eq!(summon(head, 1, at_a, 9).await, Ok(()));
    assert_eq!(a.summons.recv().await.unwrap().epoch, 9);
    assert_eq!(a.peers.node(), "a");
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn a_successor_has_the_authority_of_the_head_before_and_knows_its_daemons() {
    let first = Authority::new().unwrap();
    let daemon = Daemon { node: "a".into(), place: 1, incarnation: 1 };
    let token = first.token(daemon.clone()).unwrap();
    let identity = Identity::new(first.certificate()).unwrap();
    let certificate = first.enrol(daemon.clone(), &token, &identity.point()).unwrap();
    let signed = HashMap::from([(certificate.clone(), daemon.clone())]);
    let next = Authority::again(first.key(), first.certificate().to_vec(), signed).unwrap();
    assert_eq!(next.daemon_of(&certificate), Some(daemon));
    assert_eq!(next.certificate(), first.certificate());
    // its daemons trust what it signs
    assert!(identity.config(certificate).is_ok());
    assert!(Authority::again(vec![1, 2, 3], Vec::new(), HashMap::new()).is_err());
}
