//! Signals that are sent with the rights of a user.

use std::io;
use std::sync::LazyLock;

use pmix_types::Uid;
use rustix::thread::{set_capabilities, set_thread_res_uid};
use tokio::sync::oneshot;

use crate::account::{NONE, exists};

/// How many uids are looked at to find one that nobody has.
const LOOKS: usize = 1 << 16;

/// Runs `work` that signals processes, in a separate thread: the kernel lets it signal what this user may signal, and refuses it what
/// has become another user's. The thread has no other rights of the server.
///
/// # Errors
/// This process may not become other users, or cannot create a thread.
///
/// # Cancel safety
/// Work that has begun continues when the future is dropped.
///
/// # Examples
/// ```
/// use pmix_server::types::Uid;
/// use pmix_server::{Account, signal_as};
/// use rustix::process::{Pid, test_kill_process};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::io::Result<()> {
/// if Account::can_be_assumed() {
///     let may_signal_init = signal_as(Uid::new(1000), || test_kill_process(Pid::INIT).is_ok());
///     assert!(!may_signal_init.await?);
/// }
/// # Ok(()) }
/// ```
pub async fn signal_as<T: Send + 'static>(
    user: Uid,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, outcome) = oneshot::channel();
    // it keeps these rights until it ends, so it never runs other work
    std::thread::Builder::new().name(format!("signals {user}")).spawn(move || {
        let _ = done.send(assume_rights(user).map(|()| work()));
    })?;
    outcome.await.unwrap_or_else(|_| Err(io::Error::other("the thread that sends signals has failed")))
}

/// Gives the thread what the kernel asks of the sender of a signal. The real user id cannot stay root's, as it lets a thread signal what
/// is root's, nor become the user's: that user could then signal this process. So it is one that no user has.
fn assume_rights(user: Uid) -> io::Result<()> {
    let nobodys = nobodys_uid().ok_or_else(|| io::Error::other("this user namespace has no uid to spare"))?;
    let system = |uid: Uid| rustix::process::Uid::from_raw(uid.as_raw());
    set_thread_res_uid(system(nobodys), system(user), None)?;
    Ok(set_capabilities(None, NONE)?)
}

/// The highest uid of this user namespace that is neither an account's nor lent to a user.
fn nobodys_uid() -> Option<Uid> {
    static NOBODYS: LazyLock<Option<Uid>> = LazyLock::new(|| {
        let map = std::fs::read_to_string("/proc/self/uid_map").ok()?;
        let range = |line: &str| {
            let mut numbers = line.split_ascii_whitespace().map(str::parse::<u32>);
            let (first, count) = (numbers.next()?.ok()?, numbers.nth(1)?.ok()?);
            Some(first..first.checked_add(count)?)
        };
        let last = map.lines().filter_map(range).max_by_key(|range| range.end)?;
        let is_nobodys = |uid: &Uid| !uid.is_root() && !uid.is_subordinate() && !exists(*uid);
        last.rev().map(Uid::new).take(LOOKS).find(is_nobodys)
    });
    *NOBODYS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Account;
    use crate::account::tests::another_uid;

    #[tokio::test]
    async fn who_sends_signals_has_the_users_rights_and_is_nobody_whom_that_user_may_signal() {
        if !Account::can_be_assumed() {
            return;
        }
        let user = another_uid();
        let status = signal_as(user, || std::fs::read_to_string("/proc/thread-self/status").unwrap());
        let status = status.await.unwrap();
        let fields = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        let nobodys = nobodys_uid().unwrap();
        assert_ne!(nobodys, user);
        // real, effective and saved
        let saved = crate::account::own_uid().to_string();
        assert_eq!(fields("Uid:")[..3], [nobodys.to_string(), user.to_string(), saved]);
        for set in ["CapPrm:", "CapEff:"] {
            assert_eq!(fields(set), ["0000000000000000"], "{status}");
        }
    }
}
