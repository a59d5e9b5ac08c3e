//! A process of another user, or of the same one with false claims, that attacks a server: see [`Act`].
//!
//! It takes one attack and its figures from its arguments, and says on standard output what became of it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is how it talks to the test")]

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures::future::join_all;
use pmix_client::types::App;
use pmix_native::conn::{Connect, Frame, Framing, Peer as Who, Role, Security, ToolIdentity, User, tag};
use pmix_native::msg::{Context, Request};
use pmix_native::{Dialect, Encoding};
use pmix_proto::frames::PREFACE;
use pmix_proto::v1::client_message::Content;
use pmix_proto::v1::{ClientMessage, Part};
use pmix_tests::hoard;
use pmix_types::message::Spawn;
use pmix_types::{Gid, Uid};
use prost::Message;
use rustix::io::Errno;
use rustix::net::sockopt::set_tcp_cork;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// What to do to the server.
#[derive(Debug)]
enum Act {
    /// `spawn-and-leave ADDRESS UID TIMES COMMAND`: connects as a tool that claims this uid, has the command started,
    /// sends some heartbeats, and has closed the connection before the server can look at it.
    SpawnAndLeave { address: SocketAddr, claim: Uid, times: u32, command: String },
    /// `claim ADDRESS UID COMMAND`: the same once, and stays; says `refused` when the server closes the connection.
    Claim { address: SocketAddr, claim: Uid, command: String },
    /// `sit ENDPOINT TIMES`: opens so many connections and says nothing on any; says `seated`, and leaves when its
    /// input ends.
    Sit { endpoint: Endpoint, times: usize },
    /// `is-refused ENDPOINT`: connects and says `refused` when the server closes the connection.
    IsRefused { endpoint: Endpoint },
    /// `flood ENDPOINT [SECONDS]`: for so long, or until its input ends, connects and leaves, sits, sends garbage and false
    /// claims, by turns and as fast as it can; says `flooding` when it has tried that some hundred times.
    Flood { endpoint: Endpoint, time: Option<Duration> },
    /// `hoard SOCKET TIMES`: opens so many connections, on each as many large queries as it may, and leaves out their last
    /// bytes; says `closed` when the server has closed them all.
    Hoard { socket: PathBuf, times: usize },
    /// `chatter SOCKET TIMES`: opens so many connections, one after the other, and on each sends frames of HTTP/2 that ask
    /// for nothing, or calls that it takes back, until the server closes it; says `closed` when all are.
    Chatter { socket: PathBuf, times: usize },
    /// `impersonate ENDPOINT`: listens there, says `listening`, answers what the first connection brings with garbage, and says
    /// at its end how many bytes it has brought.
    Impersonate { endpoint: Endpoint },
    /// `be-deaf ENDPOINT`: listens there, says `listening`, and accepts nothing until it is killed.
    BeDeaf { endpoint: Endpoint },
}

/// Where a server listens: `HOST:PORT`, or the path of a socket.
#[derive(Debug)]
enum Endpoint {
    Native(SocketAddr),
    Grpc(PathBuf),
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(act) = Act::parse(&args) else {
        eprintln!("what is {args:?}?");
        return ExitCode::from(2);
    };
    match run(&act) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(act: &Act) -> io::Result<()> {
    match act {
        Act::SpawnAndLeave { address, claim, times, command } => {
            let sent = tool_that_spawns(*claim, command)?;
            for _ in 0..*times {
                spawn_and_leave(*address, &sent)?;
            }
            println!("tried {times} times");
            Ok(())
        }
        Act::Claim { address, claim, command } => {
            let mut stream = TcpStream::connect(address)?;
            stream.write_all(&tool_that_spawns(*claim, command)?)?;
            // whatever way it is closed in
            let _ = stream.read_to_end(&mut Vec::new());
            println!("refused");
            Ok(())
        }
        Act::Sit { endpoint, times } => {
            let _seats = (0..*times).map(|_| endpoint.connect()).collect::<io::Result<Vec<_>>>()?;
            println!("seated");
            io::stdin().read_to_end(&mut Vec::new()).map(drop)
        }
        Act::IsRefused { endpoint } => {
            // whatever way it is closed in
            let _ = endpoint.connect()?.read_to_end(&mut Vec::new());
            println!("refused");
            Ok(())
        }
        Act::Flood { endpoint, time } => flood(endpoint, *time),
        Act::Impersonate { endpoint } => impersonate(endpoint),
        Act::BeDeaf { endpoint } => {
            let _listener = Listener::at(endpoint)?;
            println!("listening");
            loop {
                std::thread::park();
            }
        }
        Act::Hoard { socket, times } => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(join_all((0..*times).map(|_| hoard(socket))));
            println!("closed");
            Ok(())
        }
        Act::Chatter { socket, times } => {
            let chatters = [(HTTP_2, settings as Chatter), (HTTP_2, taken_back), (&PREFACE, nothing_yet)];
            for (begin, chatter) in chatters.iter().cycle().take(*times) {
                chat(socket, begin, chatter)?;
            }
            println!("closed");
            Ok(())
        }
    }
}

/// A frame of HTTP/2.
fn http2(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Settings without any.
fn settings(_: u32) -> Vec<u8> {
    http2(4, 0, 0, &[])
}

/// A call, and the word that it is not wanted any more.
fn taken_back(turn: u32) -> Vec<u8> {
    let stream = 2 * turn + 1;
    // POST / by https
    let call = http2(1, 4, stream, &[0x83, 0x84, 0x87]);
    [call, http2(3, 0, stream, &8_u32.to_be_bytes())].concat()
}

/// A part of a greeting that has no bytes, and is not the last one.
fn nothing_yet(_: u32) -> Vec<u8> {
    let part = Part { data: Bytes::new(), last: false };
    let message = ClientMessage { id: 0, content: Some(Content::Part(part)) }.encode_to_vec();
    [&u32::try_from(message.len()).unwrap_or_default().to_le_bytes()[..], &message].concat()
}

/// What a connection goes on to say, by turn.
type Chatter = fn(u32) -> Vec<u8>;

/// How an HTTP/2 connection begins.
const HTTP_2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Goes on until the server closes the connection. Bit by bit, so that the server handles what has come before the rest.
fn chat(socket: &Path, begin: &[u8], chatter: &Chatter) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    let mut heard = stream.try_clone()?;
    let listener = std::thread::spawn(move || io::copy(&mut heard, &mut io::sink()));
    stream.write_all(begin)?;
    // the server's end of it, whatever way it comes in
    let _ = (0..1 << 20).try_for_each(|turn| stream.write_all(&chatter(turn)));
    let _ = listener.join();
    Ok(())
}

/// Connections that a flood leaves open at a time; what is more is closed, the oldest first. So many wait to be accepted
/// that there is no room for others, as long as they come faster than they are accepted.
const OPEN: usize = 6000;

/// One after the other: nothing, garbage, half a greeting, a false claim. Refusals are what it expects.
fn flood(endpoint: &Endpoint, time: Option<Duration>) -> io::Result<()> {
    let greeting = match endpoint {
        Endpoint::Native(_) => tool_that_spawns(Uid::ROOT, "true")?,
        Endpoint::Grpc(_) => Bytes::from_static(HTTP_2),
    };
    let garbage = [0xa5; 4096];
    // on the framed wire: half a preface, and the length of a greeting that does not come
    let framed = [&PREFACE[..], &1000_u32.to_le_bytes()].concat();
    let half = &greeting[..greeting.len() / 2];
    let sent: [&[u8]; 6] = [b"", &garbage, half, &greeting, &framed[..4], &framed];
    let (end, mut open, mut tried) = (time.map(|time| Instant::now() + time), VecDeque::new(), 0_u64);
    let input = std::thread::spawn(move || match end {
        Some(_) => Ok(0),
        None => io::stdin().read_to_end(&mut Vec::new()),
    });
    while end.map_or_else(|| !input.is_finished(), |end| Instant::now() < end) {
        for bytes in sent {
            tried += 1;
            if let Ok(socket) = endpoint.knock() {
                // before it is accepted, if there is room for it to wait
                let _ = rustix::io::write(&socket, bytes);
                open.push_back(socket);
            }
            if open.len() > OPEN {
                open.pop_front();
            }
        }
        if tried == 600 {
            println!("flooding");
        }
    }
    println!("tried {tried} times");
    Ok(())
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// What listens in the place of a server.
enum Listener {
    Native(TcpListener),
    Grpc(UnixListener),
}

/// A connection that has been accepted.
trait Accepted: Read + Write {}
impl Accepted for TcpStream {}
impl Accepted for UnixStream {}

impl Listener {
    fn at(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Native(address) => TcpListener::bind(address).map(Self::Native),
            Endpoint::Grpc(path) => {
                let listener = UnixListener::bind(path)?;
                // for whoever comes
                std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777))?;
                Ok(Self::Grpc(listener))
            }
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Accepted>> {
        Ok(match self {
            Self::Native(listener) => Box::new(listener.accept()?.0),
            Self::Grpc(listener) => Box::new(listener.accept()?.0),
        })
    }
}

fn impersonate(endpoint: &Endpoint) -> io::Result<()> {
    let listener = Listener::at(endpoint)?;
    println!("listening");
    let mut connection = listener.accept()?;
    let (mut heard, mut piece) = (0, [0; 4096]);
    loop {
        match connection.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => heard += count,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
            Err(error) => return Err(error),
        }
        // the other side may have gone
        let _ = connection.write_all(&[7; 64]);
    }
    println!("heard {heard} bytes");
    Ok(())
}

impl Endpoint {
    fn parse(word: &str) -> Option<Self> {
        if word.starts_with('/') {
            Some(Self::Grpc(word.into()))
        } else {
            word.parse().ok().map(Self::Native)
        }
    }

    /// Connects without waiting for anything.
    fn knock(&self) -> io::Result<OwnedFd> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let family = match self {
            Self::Native(_) => AddressFamily::INET,
            Self::Grpc(_) => AddressFamily::UNIX,
        };
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let connected = match self {
            Self::Native(address) => rustix::net::connect(&socket, address),
            Self::Grpc(path) => rustix::net::connect(&socket, &SocketAddrUnix::new(path)?),
        };
        match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error.into()),
        }
    }

    fn connect(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Native(address) => Box::new(TcpStream::connect(address)?),
            Self::Grpc(path) => Box::new(UnixStream::connect(path)?),
        })
    }
}

/// All that such a tool sends, in one piece.
fn tool_that_spawns(claim: Uid, command: &str) -> io::Result<Bytes> {
    let user = User { uid: claim, gid: Gid::new(claim.as_raw()) };
    let who = Who::Tool { role: Role::Tool, user, identity: ToolIdentity::Assign };
    let encoding = Encoding::plain(Dialect::V41);
    let connect = Connect::new(who, Security::native(user), encoding, "4.2.2");
    let context = Context::new(encoding, "4.2.2".parse().map_err(io::Error::other)?);
    let app = App::new("sh", 1).args(["-c", command]);
    let spawn = Request::from(Spawn::new(vec![app])).encode(&context).map_err(io::Error::other)?;
    let mut sent = BytesMut::from(&connect.encode().map_err(io::Error::other)?[..]);
    let beats = (0..8).map(|_| (tag::HEARTBEAT, Bytes::new()));
    for (tag, payload) in [(tag::FIRST_REQUEST + 1, spawn)].into_iter().chain(beats) {
        Framing::default().encode(&Frame { index: 0, tag, payload }, &mut sent).map_err(io::Error::other)?;
    }
    Ok(sent.freeze())
}

/// One segment with the request and the end of the connection.
fn spawn_and_leave(address: SocketAddr, sent: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    set_tcp_cork(&stream, true)?;
    stream.write_all(sent)
}

impl Act {
    fn parse(args: &[String]) -> Option<Self> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Some(match args[..] {
            ["spawn-and-leave", address, claim, times, command] => Self::SpawnAndLeave {
                address: address.parse().ok()?,
                claim: claim.parse().ok()?,
                times: times.parse().ok()?,
                command: command.into(),
            },
            ["claim", address, claim, command] => Self::Claim {
                address: address.parse().ok()?,
                claim: claim.parse().ok()?,
                command: command.into(),
            },
            ["sit", endpoint, times] => {
                Self::Sit { endpoint: Endpoint::parse(endpoint)?, times: times.parse().ok()? }
            }
            ["is-refused", endpoint] => Self::IsRefused { endpoint: Endpoint::parse(endpoint)? },
            ["impersonate", endpoint] => Self::Impersonate { endpoint: Endpoint::parse(endpoint)? },
            ["be-deaf", endpoint] => Self::BeDeaf { endpoint: Endpoint::parse(endpoint)? },
            ["flood", endpoint] => Self::Flood { endpoint: Endpoint::parse(endpoint)?, time: None },
            ["flood", endpoint, seconds] => {
                let time = Some(Duration::from_secs(seconds.parse().ok()?));
                Self::Flood { endpoint: Endpoint::parse(endpoint)?, time }
            }
            ["hoard", socket, times] => Self::Hoard { socket: socket.into(), times: times.parse().ok()? },
            ["chatter", socket, times] => Self::Chatter { socket: socket.into(), times: times.parse().ok()? },
            _ => return None,
        })
    }
}
