//! Work that is over leaves nothing behind: the small form of `cargo bench -p pmix-tests --bench leaks`. The test is alone
//! in its process, for that is what is measured.

use pmix_test_wait::is_alone;
use pmix_tests::{Footprint, Steady};

/// What the resident set may grow by, in KiB: less than a byte of values in eight.
const PLAY_KIB: u64 = 1024;

#[tokio::test]
async fn a_node_stays_as_it_was() {
    if !is_alone(a_node_stays_as_it_was) {
        return;
    }
    let mut steady = Steady::start().await;
    steady.publish_and_look_up(500).await;
    steady.register_and_deregister(100).await;

    let before = steady.settled(Footprint::now()).await;
    steady.publish_and_look_up(2_000).await;
    let between = steady.settled(before).await;
    steady.register_and_deregister(500).await;
    let after = steady.settled(before).await;

    for (footprint, what) in [(between, "publish and lookup"), (after, "register and deregister")] {
        assert!(
            footprint.resident_kib <= before.resident_kib + PLAY_KIB,
            "{what}: {before}, then {footprint}"
        );
        assert!(footprint.files <= before.files, "{what}: {before}, then {footprint}");
    }
    steady.stop().await;
}
