//! The owner of the other end of a loopback connection: one query to the kernel through `SOCK_DIAG`.
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
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP, TCP_ESTABLISHED};
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponseHeader, SocketId, StateFlags};
use pmix_types::Uid;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

/// Size of the buffer for one answer; the kernel's answer takes a few hundred bytes.
const ANSWER: usize = 8 << 10;
/// The kernel's notation for any socket with these addresses.
const ANY_COOKIE: [u8; 8] = [0xff; 8];

/// Both ends of a connection, as needed to query the kernel about it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SocketPair {
    /// The address of the other end.
    pub from: SocketAddr,
    here: SocketAddr,
    /// Inode of our own end, in the width that the kernel reports. While this end is established, no other socket can have
    /// these addresses.
    inode: u32,
}

impl SocketPair {
    /// Of a connected socket of this process.
    ///
    /// # Errors
    /// It is no IP socket.
    pub fn new(socket: impl AsFd, from: SocketAddr) -> io::Result<Self> {
        let here = rustix::net::getsockname(&socket)?;
        let here = here.try_into().map_err(|_| io::Error::other("its address is not an IP address"))?;
        Ok(Self { from, here, inode: rustix::fs::fstat(socket)?.st_ino as u32 })
    }
}

/// Access to the kernel's table of sockets.
#[derive(Debug)]
pub struct Owners(Mutex<Link>);

#[derive(Debug)]
struct Link {
    socket: OwnedFd,
    questions: u32,
}

impl Owners {
    /// Opens it, and tests it on a connection of our own: some sandboxes give no answer.
    ///
    /// # Errors
    /// The kernel does not answer, or wrongly.
    pub fn open() -> io::Result<Self> {
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
        let told = self.uid_of(&SocketPair::new(&accepted, from)?)?;
        let own = Uid::new(rustix::process::geteuid().as_raw());
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
    pub fn uid_of(&self, connection: &SocketPair) -> io::Result<Uid> {
        let uid = self.claimed_by(connection)?;
        // queried last: if our end is still established, no other socket can have had the peer's address in between
        self.confirm(connection).map(|()| uid)
    }

    /// The inode of the other end; `None` if it is not open any more.
    pub fn inode_of(&self, connection: &SocketPair) -> Option<u32> {
        self.link().established(connection.from, connection.here).ok().map(|theirs| theirs.inode)
    }

    /// The user who seems to hold the other end. Sufficient to refuse a connection, but no proof before
    /// [`confirm`](Self::confirm).
    ///
    /// # Errors
    /// The other end is no longer established, or the kernel does not answer.
    pub fn claimed_by(&self, connection: &SocketPair) -> io::Result<Uid> {
        self.link().established(connection.from, connection.here).map(|theirs| theirs.uid.into())
    }

    /// Checks that our end is still established, so that the answer about the other end was about this connection.
    ///
    /// # Errors
    /// Our end is no longer established, or the kernel does not answer.
    pub fn confirm(&self, connection: &SocketPair) -> io::Result<()> {
        let ours = self.link().established(connection.here, connection.from)?;
        if ours.inode == connection.inode {
            Ok(())
        } else {
            Err(gone("another connection now has its addresses"))
        }
    }

    /// Held for one question.
    fn link(&self) -> MutexGuard<'_, Link> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        family: if local.is_ipv6() { AF_INET6 } else { AF_INET },
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
        let own = Uid::new(rustix::process::geteuid().as_raw());
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

    #[test]
    fn a_kernel_that_does_not_answer_is_found_out_at_once() {
        assert!(Owners::over(netlink::USERSOCK).is_err());
    }
}
