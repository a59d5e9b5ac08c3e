//! Processes of the C library that wait in init for a debugger.

use pmix_tests::{Peer, stops_and_goes};

#[tokio::test(flavor = "multi_thread")]
async fn ini_09_a_c_client_waits_in_init_for_its_release() {
    let Some(program) = Peer::Libpmix.program("pmix_peers") else { return };
    stops_and_goes(&[program.to_str().unwrap()], "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ini_09_a_client_of_libpmix_5_waits_in_init_for_its_release() {
    let Some(program) = Peer::Libpmix5.program("pmix_peers") else { return };
    stops_and_goes(&[program.to_str().unwrap()], "1").await;
}
