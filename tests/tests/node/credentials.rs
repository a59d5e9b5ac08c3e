//! Credentials that the standard host issues and validates.

use pmix_client::types::{Info, Status};
use pmix_client::{Client, Error, keys};
use pmix_tests::{TestCluster, on_both_runtimes, own_credential, within};

async fn validate(by: &Client, credential: impl Into<Vec<u8>>) -> Result<Vec<Info>, Error> {
    within(by.validate_credential(credential.into())).await
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
                assert_eq!(validate(by, given.credential.clone()).await.unwrap(), own_credential("hmac"));
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
