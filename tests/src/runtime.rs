use std::time::Duration;

use tokio::runtime::Builder;

/// What a whole scenario may take: far more than it does on any machine, as this only ends a hang.
const SCENARIO: Duration = Duration::from_secs(300);

/// Runs a scenario on a current-thread and then on a multi-thread runtime.
///
/// # Panics
/// If the scenario does, or hangs.
pub fn on_both_runtimes(scenario: impl AsyncFn()) {
    let current = Builder::new_current_thread().enable_all().build().unwrap();
    let multi = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (flavor, runtime) in [("current-thread", current), ("multi-thread", multi)] {
        let done = runtime.block_on(async { tokio::time::timeout(SCENARIO, scenario()).await });
        assert!(done.is_ok(), "the scenario hangs on the {flavor} runtime");
        // a host that never answers must not keep the test
        runtime.shutdown_background();
    }
}
