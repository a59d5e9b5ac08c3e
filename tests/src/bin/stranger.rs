//! A process of another user, or of the same one with false claims, that attacks a server: see [`Act`].
//!
//! It takes one attack and its figures from its arguments, and says on standard output what became of it.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is how it talks to the test")]

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;

use bytes::{Bytes, BytesMut};
use pmix_client::types::App;
use pmix_native::conn::{Connect, Frame, Framing, Peer as Who, Role, Security, ToolIdentity, User, tag};
use pmix_native::msg::{Context, Request, Spawn};
use pmix_native::{Dialect, Encoding};
use rustix::net::sockopt::set_tcp_cork;

/// What to do to the server.
#[derive(Debug)]
enum Act {
    /// `spawn-and-leave ADDRESS UID TIMES COMMAND`: connects as a tool that claims this uid, has the command started,
    /// sends some heartbeats, and has closed the connection before the server can look at it.
    SpawnAndLeave { address: SocketAddr, claim: u32, times: u32, command: String },
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
    }
}

/// All that such a tool sends, in one piece.
fn tool_that_spawns(claim: u32, command: &str) -> io::Result<Bytes> {
    let user = User { uid: claim, gid: claim };
    let who = Who::Tool { role: Role::Tool, user, identity: ToolIdentity::Assign };
    let encoding = Encoding::plain(Dialect::V41);
    let connect = Connect::new(who, Security::native(user), encoding, "4.2.2");
    let context = Context::new(encoding, "4.2.2".parse().map_err(io::Error::other)?);
    let app = App::new("sh", 1).args(["-c", command]);
    let spawn = Request::Spawn(Spawn::new(vec![app])).encode(&context).map_err(io::Error::other)?;
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
            _ => return None,
        })
    }
}
