//! Debuggers that have daemons started beside processes of the C library.

use pmix_client::keys;
use pmix_client::types::{App, Info};
use pmix_tests::{Peer, spawned_with_daemons};

#[tokio::test(flavor = "multi_thread")]
async fn dbg_01_ini_09_an_application_of_libpmix_with_daemons_stops_in_init() {
    for peer in [Peer::Libpmix, Peer::Libpmix5] {
        if let Some(program) = peer.program("pmix_peers") {
            let mut app = App::new(program.to_str().unwrap(), 3);
            app.info.push(Info::required(&keys::DEBUG_STOP_IN_INIT, true));
            spawned_with_daemons(vec![app], &[0, 1, 2]).await;
        }
    }
}
