//! How nodes find each other over TCP and keep strangers out.
//!
//! Anybody on the machine can connect to a loopback port, or take over the port of a process that has ended. So each
//! node has a key, which the program that starts the nodes has drawn and given to all of them in private. The node that
//! connects shows its key first; the node that listens shows its own only after a valid key. It accepts each node once,
//! and stops listening when all have come.
//!
//! The keys keep out other users of the same machine, because they cannot read its loopback traffic. Between machines,
//! others on the network can read the traffic, so connections need TLS, with a certificate for each node instead of the
//! keys.
//!
//! A stranger who takes over the port of a node that has ended sees the keys of nodes that connect there: draw new keys
//! for all nodes after a failed meeting. With three or more nodes, the stranger could show such a key to a node that
//! still listens; such a setup should prove possession of keys instead of showing them. Hundreds of silent connections
//! at a time can keep a node out until it gives up.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use constant_time_eq::constant_time_eq;
use futures::{SinkExt, StreamExt};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::link::Wire;
use crate::message::LARGEST;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The keys of all nodes.
pub(crate) type Keys = BTreeMap<String, [u8; 32]>;

/// How long whoever has connected may take to greet.
const GREETING: Duration = Duration::from_secs(2);
/// How long the node that listens may take: longer, as it may have strangers to turn away first.
const WELCOME: Duration = Duration::from_secs(6);
/// Connections that may be at their greeting at once; more wait.
const AT_ONCE: usize = 256;
/// How long to wait after a connection that could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// Largest greeting in bytes.
const SHORT: usize = 1024;

#[derive(Clone, PartialEq, Message)]
struct Greeting {
    #[prost(string, tag = "1")]
    node: String,
    #[prost(bytes = "bytes", tag = "2")]
    key: Bytes,
}

/// Connects to the nodes that listen already, and waits for all others, however long it takes them.
///
/// # Errors
/// If one of the former cannot be reached, or does not have its key.
pub(crate) async fn meet(
    node: &str,
    keys: &Keys,
    listener: TcpListener,
    listening: &BTreeMap<String, SocketAddr>,
) -> Result<BTreeMap<String, Wire>> {
    let mut wires = BTreeMap::new();
    for (other, address) in listening {
        let wire = connect(node, keys, other, *address).await;
        let wire = wire.map_err(|error| format!("node {other} at {address} cannot be reached: {error}"))?;
        wires.insert(other.clone(), wire);
    }
    let mut missing: BTreeSet<_> = keys.keys().filter(|other| *other != node).cloned().collect();
    missing.retain(|other| !wires.contains_key(other));
    let mut greetings = JoinSet::new();
    while !missing.is_empty() {
        tokio::select! {
            accepted = listener.accept(), if greetings.len() < AT_ONCE => match accepted {
                Ok((stream, _)) => drop(greetings.spawn(welcome(node.to_owned(), keys.clone(), stream))),
                // whoever has left already, or so many that there is no descriptor left
                Err(_) => tokio::time::sleep_until(tokio::time::Instant::now() + ACCEPT_AGAIN).await,
            },
            Some(Ok(greeted)) = greetings.join_next() => match greeted {
                Ok((other, wire)) if missing.remove(&other) => drop(wires.insert(other, wire)),
                // one of the nodes would not come twice, or to itself
                Ok(_) | Err(_) => {}
            },
        }
    }
    Ok(wires)
}

async fn connect(node: &str, keys: &Keys, other: &str, address: SocketAddr) -> Result<Wire> {
    let greet = async {
        let mut wire = wire(TcpStream::connect(address).await?)?;
        wire.send(greeting(node, keys)).await?;
        if read(&mut wire, keys).await? != other {
            return Err("it is another node".into());
        }
        wire.codec_mut().set_max_frame_length(LARGEST);
        Ok(wire)
    };
    timeout(WELCOME, greet).await?
}

/// Greets whoever has connected, if that is a node.
async fn welcome(node: String, keys: Keys, stream: TcpStream) -> Result<(String, Wire)> {
    let greet = async {
        let mut wire = wire(stream)?;
        let other = read(&mut wire, &keys).await?;
        wire.send(greeting(&node, &keys)).await?;
        wire.codec_mut().set_max_frame_length(LARGEST);
        Ok((other, wire))
    };
    timeout(GREETING, greet).await?
}

fn wire(stream: TcpStream) -> Result<Wire> {
    stream.set_nodelay(true)?;
    Ok(Framed::new(stream, LengthDelimitedCodec::builder().max_frame_length(SHORT).new_codec()))
}

fn greeting(node: &str, keys: &Keys) -> Bytes {
    let key = Bytes::copy_from_slice(&keys[node]);
    Greeting { node: node.to_owned(), key }.encode_to_vec().into()
}

/// The node that the other end has shown the key of.
async fn read(wire: &mut Wire, keys: &Keys) -> Result<String> {
    let bytes = wire.next().await.ok_or("it closed the connection")??;
    let Greeting { node, key } = Greeting::decode(bytes)?;
    match keys.get(&node) {
        Some(expected) if constant_time_eq(expected, &key) => Ok(node),
        _ => Err("it does not have the key of a node".into()),
    }
}
