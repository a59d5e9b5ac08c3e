use std::future::Future;
use std::time::Duration;

use tokio::runtime::Builder;

/// What any single wait of a test may take: far more than it does, also on a machine that does other things too.
pub const DEADLINE: Duration = Duration::from_secs(20);
/// What a whole scenario may take.
const SCENARIO: Duration = Duration::from_secs(60);

/// Waits for something that must happen soon.
///
/// # Panics
/// If it has not happened within [`DEADLINE`].
#[track_caller]
pub fn within<F: IntoFuture>(future: F) -> impl Future<Output = F::Output> {
    let caller = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(DEADLINE, future.into_future()).await {
            Ok(output) => output,
            Err(_) => panic!("{caller}: nothing happened within {DEADLINE:?}"),
        }
    }
}

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
