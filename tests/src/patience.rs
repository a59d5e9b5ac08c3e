use std::fmt::Debug;

/// Limits in seconds: the first is long enough for an idle machine, the last for any.
const LIMITS: [u64; 5] = [1, 3, 10, 30, 100];

/// Has one of our programs try something within a limit of its own that grows until it is long enough for this machine and what
/// else that does; what the attempt has found then.
///
/// # Panics
/// If the longest limit is not long enough, with what the last attempt has seen.
pub async fn long_enough<T, E: Debug>(mut attempt: impl AsyncFnMut(u64) -> Result<T, E>) -> T {
    let mut seen = None;
    for seconds in LIMITS {
        match attempt(seconds).await {
            Ok(found) => return found,
            Err(other) => seen = Some(other),
        }
    }
    panic!("no limit is long enough: {seen:#?}")
}
