//! Credentials that the standard host issues and validates.

use pmix_client::types::{Info, Status};
use pmix_client::{Client, Error, keys};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_tests::{Munged, NullLauncher, TestCluster, TestNode, on_both_runtimes, within};
use rustix::process::{getegid, geteuid};

async fn validate(by: &Client, credential: impl Into<Vec<u8>>) -> Result<Vec<Info>, Error> {
    within(by.validate_credential(credential.into())).await
}

#[track_caller]
fn is_own(infos: &[Info], name: &str) {
    let own = [
        Info::new(&keys::USERID, geteuid().as_raw()),
        Info::new(&keys::GRPID, getegid().as_raw()),
        Info::new(&keys::CRED_TYPE, name),
    ];
    assert_eq!(infos, own);
}

#[test]
fn crd_01_crd_02_a_credential_tells_its_holder_on_each_node() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(3, 1).await;
        let clients = cluster.clients().await;
        // with no type, with a list of which one is known, and with blanks
        for types in [None, Some("hmac"), Some("kerberos, hmac ,munge")] {
            let request = clients[1].credential();
            let request = if let Some(types) = types { request.types(types) } else { request };
            let given = within(request).await.unwrap();
            assert_eq!(given.info, [Info::new(&keys::CRED_TYPE, "hmac")]);
            for by in &clients {
                is_own(&validate(by, given.credential.clone()).await.unwrap(), "hmac");
            }
            let other = clients[0].validate_credential(given.credential.clone());
            let error = within(other.directive(keys::CRED_TYPE, "munge")).await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_INVALID_CRED, "{error}");
        }
    });
}

#[test]
fn crd_01_types_that_nobody_issues_are_refused() {
    on_both_runtimes(async || {
        let cluster = TestCluster::new(1, 1).await;
        let client = cluster.client(0).await;
        let error = within(client.credential().types("kerberos")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
        assert!(error.to_string().contains("use hmac or munge"), "{error}");
        let error = within(client.credential().types(" , ")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
    });
}

#[test]
fn crd_02_what_no_host_of_the_system_has_issued_is_not_valid() {
    on_both_runtimes(async || {
        let (cluster, others) = (TestCluster::new(2, 1).await, TestCluster::new(2, 1).await);
        let (client, stranger) = (cluster.client(0).await, others.client(0).await);
        let given = within(stranger.credential()).await.unwrap().credential;
        let elsewhere = String::from_utf8(given.to_vec()).unwrap();
        for forged in [
            given.to_vec(),
            elsewhere.replace(":n0:", ":n1:").into_bytes(),
            elsewhere.replace(":n0:", ":mars:").into_bytes(),
            b"HMAC1:".to_vec(),
            vec![0xff; 100_000],
            Vec::new(),
        ] {
            let error = validate(&client, forged).await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_INVALID_CRED, "{error}");
        }
    });
}

#[test]
fn crd_01_crd_02_munge_issues_and_validates_credentials() {
    on_both_runtimes(async || {
        let Some(munged) = Munged::start() else { return };
        let host = || StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
        let node = TestNode::with_host(1, host().with_munge_socket(munged.socket())).await;
        let client = node.client(0).await;
        let given = within(client.credential().types("munge,hmac")).await.unwrap();
        assert_eq!(given.info, [Info::new(&keys::CRED_TYPE, "munge")]);
        is_own(&validate(&client, given.credential.clone()).await.unwrap(), "munge");
        let error = validate(&client, given.credential.clone()).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_INVALID_CRED);
        let mut changed = given.credential.to_vec();
        changed[30] ^= 1;
        for forged in [changed, b"MUNGE:nonsense:".to_vec(), [&b"MUNGE:"[..], &[b'A'; 10_000]].concat()] {
            let error = validate(&client, forged).await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_INVALID_CRED, "{error}");
        }

        // without its daemon there is the next type
        munged.end();
        let error = validate(&client, given.credential.clone()).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
        let given = within(client.credential().types("munge,hmac")).await.unwrap();
        assert_eq!(given.info, [Info::new(&keys::CRED_TYPE, "hmac")]);
        let error = within(client.credential().types("munge")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
        assert!(error.to_string().contains("no credential of type munge"), "{error}");
    });
}
