//! Credentials of MUNGE.

use pmix_client::keys;
use pmix_client::types::{Info, Status};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_tests::{Munged, NullLauncher, TestNode, on_both_runtimes, own_credential, within};

#[test]
fn crd_01_crd_02_munge_issues_and_validates_credentials() {
    on_both_runtimes(async || {
        let Some(munged) = Munged::start() else { return };
        let host = || StandardHost::new(NullLauncher, MemoryExchange::single("n0"));
        let node = TestNode::with_host(1, host().with_munge_socket(munged.socket())).await;
        let client = node.client(0).await;
        let validate = |credential: Vec<u8>| within(client.validate_credential(credential));
        let given = within(client.credential().types("munge,hmac")).await.unwrap();
        assert_eq!(given.info, [Info::new(&keys::CRED_TYPE, "munge")]);
        assert_eq!(validate(given.credential.to_vec()).await.unwrap(), own_credential("munge"));
        let error = validate(given.credential.to_vec()).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_INVALID_CRED);
        let mut changed = given.credential.to_vec();
        changed[30] ^= 1;
        for forged in [changed, b"MUNGE:nonsense:".to_vec(), [&b"MUNGE:"[..], &[b'A'; 10_000]].concat()] {
            let error = validate(forged).await.unwrap_err();
            assert_eq!(error.status(), Status::ERR_INVALID_CRED, "{error}");
        }

        // without its daemon there is the next type
        munged.end();
        let error = validate(given.credential.to_vec()).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_UNREACH, "{error}");
        let given = within(client.credential().types("munge,hmac")).await.unwrap();
        assert_eq!(given.info, [Info::new(&keys::CRED_TYPE, "hmac")]);
        let error = within(client.credential().types("munge")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_NOT_SUPPORTED);
        assert!(error.to_string().contains("no credential of type munge"), "{error}");
    });
}
