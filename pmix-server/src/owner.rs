//! The owner of the other end of a loopback connection: one query to the kernel through SOCK_DIAG.
//!
//! TCP carries no credentials, and a process's own claim proves nothing. The kernel reports the owner of a socket, but only
//! while the socket is open. For a closed socket it reports uid 0 and no inode, which must not be mistaken for root. So only
//! a connection that is established at both ends proves who the peer is.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use netlink_packet_core::{NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, IPPROTO_TCP, TCP_ESTABLISHED};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags};
#[cfg(any(feature = "native-wire", test))]
use procfs::process::{FDTarget, Process};
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

#[cfg(any(feature = "native-wire", test))]
use crate::shares::Shares;

/// Size of the buffer for one answer; the kernel's answer takes a few hundred bytes.
const ANSWER: usize = 8 << 10;
/// The kernel's notation for any socket with these addresses.
const ANY_COOKIE: [u8; 8] = [0xff; 8];

/// Both ends of an accepted connection, as needed to query the kernel about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketPair {
    /// The address of the other end.
    pub(crate) from: SocketAddr,
    here: SocketAddr,
    /// Inode of our own end, in the width that the kernel reports. While this end is established, no other socket can have
    /// these addresses.
    inode: u32,
}

impl SocketPair {
    pub(crate) fn new(accepted: impl AsFd, from: SocketAddr) -> io::Result<Self> {
        let here = rustix::net::getsockname(&accepted)?;
        let here = here.try_into().map_err(|_| io::Error::other("its address is not an IP address"))?;
        Ok(Self { from, here, inode: rustix::fs::fstat(accepted)?.st_ino as u32 })
    }
}

/// Access to the kernel's table of sockets.
#[derive(Debug)]
pub(crate) struct Owners(Mutex<Link>);

#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    questions: u32,
}

impl Owners {
    /// Opens it, and tests it on a connection of our own: some sandboxes give no answer.
    pub(crate) fn open() -> io::Result<Self> {
        Self::over(netlink::SOCK_DIAG)
    }

    fn over(protocol: Protocol) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(protocol))?;
        // sends to the kernel, and receives from nowhere else
        rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
        let owners = Self(Mutex::new(Link { socket, questions: 0 }));
        owners.try_out()?;
        Ok(owners)
    }

    fn try_out(&self) -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = TcpStream::connect(listener.local_addr()?)?;
        let (accepted, from) = listener.accept()?;
        let (told, own) =
            (self.uid_of(&SocketPair::new(&accepted, from)?)?, rustix::process::geteuid().as_raw());
        drop(client);
        if told == own {
            return Ok(());
        }
        Err(io::Error::other(format!("the kernel reported uid {told} as the owner of a socket of uid {own}")))
    }

    /// The user whose process holds the other end.
    ///
    /// # Errors
    /// The connection is no longer established at both ends, or the kernel does not answer.
    pub(crate) fn uid_of(&self, connection: &SocketPair) -> io::Result<u32> {
        let uid = self.claimed_by(connection)?;
        // queried last: if our end is still established, no other socket can have had the peer's address in between
        self.confirm(connection).map(|()| uid)
    }

    /// The inode of the other end; `None` if it is not open any more.
    #[cfg(any(feature = "native-wire", test))]
    pub(crate) fn inode_of(&self, connection: &SocketPair) -> Option<u32> {
        self.link().established(connection.from, connection.here).ok().map(|theirs| theirs.inode)
    }

    /// The user who seems to hold the other end. Sufficient to refuse a connection, but no proof before
    /// [`confirm`](Self::confirm).
    ///
    /// # Errors
    /// The other end is no longer established, or the kernel does not answer.
    pub(crate) fn claimed_by(&self, connection: &SocketPair) -> io::Result<u32> {
        self.link().established(connection.from, connection.here).map(|theirs| theirs.uid)
    }

    /// Checks that our end is still established, so that the answer about the other end was about this connection.
    ///
    /// # Errors
    /// Our end is no longer established, or the kernel does not answer.
    pub(crate) fn confirm(&self, connection: &SocketPair) -> io::Result<()> {
        let ours = self.link().established(connection.here, connection.from)?;
        if ours.inode == connection.inode {
            Ok(())
        } else {
            Err(gone("another connection now has its addresses"))
        }
    }

    /// Only the server's own thread takes this lock while it runs, so it never blocks.
    fn link(&self) -> MutexGuard<'_, Link> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Searches of [`holder_of`] for one user that run at a time. Each holds a thread, for as long as the user's processes have
/// descriptors to be read.
#[cfg(any(feature = "native-wire", test))]
const MAX_SEARCHES: usize = 1;
#[cfg(any(feature = "native-wire", test))]
static SEARCHES: Shares<u32> = Shares::new(MAX_SEARCHES);

/// The process of this user that has a socket open, the one with the highest pid if there are several. `None` if `/proc` shows
/// none, as for a process in a container.
#[cfg(any(feature = "native-wire", test))]
pub(crate) async fn holder_of(inode: u32, uid: u32) -> Option<i32> {
    let place = SEARCHES.of(&uid).acquire_owned().await.ok()?;
    let search = move || {
        let found = search(inode, uid);
        drop(place);
        found
    };
    tokio::task::spawn_blocking(search).await.ok().flatten()
}

/// Reads what the user's processes have open, the latest first, because the process has often just been started.
#[cfg(any(feature = "native-wire", test))]
fn search(inode: u32, uid: u32) -> Option<i32> {
    let named = std::fs::read_dir("/proc").ok()?.flatten();
    let mut pids: Vec<i32> = named.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable_by(|one, other| other.cmp(one));
    let has_open = |pid: &i32| {
        let process = Process::new(*pid).ok().filter(|process| process.uid().is_ok_and(|its| its == uid));
        let mut open = process.and_then(|process| process.fd().ok()).into_iter().flatten().flatten();
        open.any(|open| matches!(open.target, FDTarget::Socket(its) if its == u64::from(inode)))
    };
    pids.into_iter().find(has_open)
}

impl Link {
    /// The kernel's answer about the socket at `local` that is connected to `remote`, if it is open.
    fn established(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<InetResponseHeader> {
        let told = self.ask(local, remote)?;
        if told.state != TCP_ESTABLISHED || told.inode == 0 {
            return Err(gone("it has been closed"));
        }
        Ok(told)
    }

    fn ask(&mut self, local: SocketAddr, remote: SocketAddr) -> io::Result<InetResponseHeader> {
        self.questions = self.questions.wrapping_add(1);
        let sent = question(self.questions, local, remote);
        rustix::net::send(&self.socket, &sent, SendFlags::empty())?;
        let mut answer = [0; ANSWER];
        // the kernel answers before `send` returns; answers to older queries are skipped
        loop {
            let (length, _) = rustix::net::recv(&self.socket, &mut answer, RecvFlags::empty())?;
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(&answer[..length])
                .map_err(|error| io::Error::other(format!("the kernel's answer cannot be read: {error}")))?;
            if message.header.sequence_number != self.questions {
                continue;
            }
            return match message.payload {
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(told)) => Ok(told.header),
                NetlinkPayload::Error(error) if error.to_io().kind() == io::ErrorKind::NotFound => {
                    Err(gone("there is no such connection"))
                }
                NetlinkPayload::Error(error) => Err(error.to_io()),
                other => Err(io::Error::other(format!("unexpected answer from the kernel: {other:?}"))),
            };
        }
    }
}

fn question(number: u32, local: SocketAddr, remote: SocketAddr) -> Vec<u8> {
    let request = InetRequest {
        family: AF_INET,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::empty(),
        states: StateFlags::all(),
        socket_id: SocketId {
            source_port: local.port(),
            destination_port: remote.port(),
            source_address: local.ip(),
            destination_address: remote.ip(),
            interface_id: 0,
            cookie: ANY_COOKIE,
        },
    };
    let mut header = NetlinkHeader::default();
    (header.flags, header.sequence_number) = (NLM_F_REQUEST, number);
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

fn gone(how: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, how)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::Shutdown;

    use super::*;

    /// Both ends of a connection, and how the kernel is queried about it.
    fn pair(listener: &TcpListener) -> (TcpStream, TcpStream, SocketPair) {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, from) = listener.accept().unwrap();
        let connection = SocketPair::new(&accepted, from).unwrap();
        (client, accepted, connection)
    }

    fn listener() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
    }

    /// Waits until the other end is closed: a process that another test starts may hold it for a moment longer.
    fn await_end(mut stream: &TcpStream) {
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn sec_01_the_kernel_tells_the_owner_of_an_open_connection_only() {
        let owners = Owners::open().unwrap();
        let listener = listener();
        let own = rustix::process::geteuid().as_raw();
        let is_gone =
            |connection| owners.uid_of(connection).unwrap_err().kind() == io::ErrorKind::NotConnected;

        let (client, accepted, connection) = pair(&listener);
        assert_eq!(owners.uid_of(&connection).unwrap(), own);
        drop(client);
        await_end(&accepted);
        assert!(is_gone(&connection), "closed with nothing left to read");

        let (client, _accepted, connection) = pair(&listener);
        client.shutdown(Shutdown::Write).unwrap();
        assert!(is_gone(&connection), "half closed");

        let (client, accepted, connection) = pair(&listener);
        drop(accepted);
        await_end(&client);
        assert!(is_gone(&connection), "closed by ourselves");

        let strange = SocketPair { from: SocketAddr::from(([127, 0, 0, 1], 1)), ..connection };
        assert!(is_gone(&strange));
    }

    #[test]
    fn a_later_connection_with_the_same_addresses_is_another_one() {
        let owners = Owners::open().unwrap();
        let (_client, _accepted, connection) = pair(&listener());
        let older = SocketPair { inode: connection.inode + 1, ..connection };
        let error = owners.uid_of(&older).unwrap_err();
        assert!(error.to_string().contains("another connection"), "{error}");
        assert!(owners.uid_of(&connection).is_ok());
    }

    #[tokio::test]
    async fn tol_12_the_process_at_the_other_end_is_found_while_it_is_there() {
        let owners = Owners::open().unwrap();
        let (client, accepted, connection) = pair(&listener());
        let (own, uid) =
            (rustix::process::getpid().as_raw_nonzero().get(), rustix::process::geteuid().as_raw());
        let inode = owners.inode_of(&connection).unwrap();
        assert_eq!(holder_of(inode, uid).await, Some(own));
        assert_eq!(holder_of(inode, uid + 1).await, None, "a process of another user");
        drop(client);
        await_end(&accepted);
        assert_eq!((owners.inode_of(&connection), holder_of(inode, uid).await), (None, None));
    }

    #[tokio::test]
    async fn searches_for_the_processes_of_one_user_take_a_bounded_number_of_threads() {
        let uid = 4_000_000_001;
        let running = SEARCHES.of(&uid).acquire_many_owned(MAX_SEARCHES as u32).await.unwrap();
        let mut waiting = std::pin::pin!(holder_of(1, uid));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        // another user does not wait for this one, and has no such processes either
        assert_eq!(holder_of(1, uid + 1).await, None);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(running);
        assert_eq!(waiting.await, None);
    }

    #[test]
    fn a_kernel_that_does_not_answer_is_found_out_at_once() {
        assert!(Owners::over(netlink::USERSOCK).is_err());
    }
}
