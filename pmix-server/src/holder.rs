//! The process that holds the other end of a loopback connection, by its inode.

use std::sync::Arc;

use pmix_types::Uid;
use procfs::process::{FDTarget, Process};
use tokio::sync::Semaphore;

use crate::shares::Shares;

/// Searches of [`holder_of`] for one user that run at a time. Each holds a thread, for as long as the user's processes have
/// descriptors to be read.
const MAX_SEARCHES: usize = 1;
static SEARCHES: Shares<Uid, Semaphore> = Shares::new();

fn searches_of(uid: Uid) -> Arc<Semaphore> {
    SEARCHES.of(&uid, || Semaphore::new(MAX_SEARCHES))
}

/// The process of this user that has a socket open, the one with the highest pid if there are several. `None` if `/proc` shows
/// none, as for a process in a container.
pub(crate) async fn holder_of(inode: u32, uid: Uid) -> Option<i32> {
    let place = searches_of(uid).acquire_owned().await.ok()?;
    let search = move || {
        let found = search(inode, uid);
        drop(place);
        found
    };
    tokio::task::spawn_blocking(search).await.ok().flatten()
}

/// Reads what the user's processes have open, the latest first, because the process has often just been started.
fn search(inode: u32, uid: Uid) -> Option<i32> {
    let named = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids: Vec<i32> = named.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable_by(|one, other| other.cmp(one));
    let has_open = |pid: &i32| {
        let process =
            Process::new(*pid).ok().filter(|process| process.uid().is_ok_and(|its| its == uid.as_raw()));
        let mut open = process.and_then(|process| process.fd().ok()).into_iter().flatten().flatten();
        open.any(|open| matches!(open.target, FDTarget::Socket(its) if its == u64::from(inode)))
    };
    pids.into_iter().find(has_open)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use pmix_proto::owner::{Owners, SocketPair};

    use super::*;
    use crate::account::own_uid;

    /// Both ends of a connection, and how the kernel is queried about it.
    fn pair() -> (TcpStream, TcpStream, SocketPair) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, from) = listener.accept().unwrap();
        let connection = SocketPair::new(&accepted, from).unwrap();
        (client, accepted, connection)
    }

    #[tokio::test]
    async fn tol_12_the_process_at_the_other_end_is_found_while_it_is_there() {
        let owners = Owners::open().unwrap();
        let (client, accepted, connection) = pair();
        let (own, uid) = (rustix::process::getpid().as_raw_nonzero().get(), own_uid());
        let other = Uid::new(uid.as_raw() + 1);
        let inode = owners.inode_of(&connection).unwrap();
        assert_eq!(holder_of(inode, uid).await, Some(own));
        assert_eq!(holder_of(inode, other).await, None, "a process of another user");
        drop(client);
        // a process that another test starts may hold it for a moment longer
        assert_eq!((&accepted).read(&mut [0]).unwrap(), 0);
        assert_eq!((owners.inode_of(&connection), holder_of(inode, uid).await), (None, None));
    }

    #[tokio::test]
    async fn searches_for_the_processes_of_one_user_take_a_bounded_number_of_threads() {
        let (uid, other) = (Uid::new(4_000_000_001), Uid::new(4_000_000_002));
        let running = searches_of(uid).acquire_many_owned(MAX_SEARCHES as u32).await.unwrap();
        let mut waiting = std::pin::pin!(holder_of(1, uid));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        // another user does not wait for this one, and has no such processes either
        assert_eq!(holder_of(1, other).await, None);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(running);
        assert_eq!(waiting.await, None);
    }
}
