use bytes::{Buf, BufMut, Bytes, BytesMut};
use pmix_types::{Gid, Info, Nspace, ProcId, Rank, Uid};

use super::ConnectError;
use crate::codec::{Limits, Reader, Writer, kind};
use crate::{Dialect, Encoding};

/// The first message of a process: its identity and encoding.
///
/// Release 4 of the C library appends a zero byte, which readers ignore.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Connect {
    /// Credential of the process.
    pub security: Security,
    /// Kind and name of the process.
    pub peer: Peer,
    /// Release of its library, such as `4.2.2rc2`. See [`Version`](crate::Version).
    pub version: String,
    /// Encoding of its messages.
    pub encoding: Encoding,
    /// Its data store; only `hash` uses messages.
    pub store: String,
    /// Attributes of a tool; empty for other processes, and if they are malformed.
    pub info: Vec<Info>,
}

/// A credential: the name of a security mechanism, and its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Security {
    /// `native`, `munge` or `none`.
    pub mechanism: String,
    /// User and group in native byte order, a MUNGE text with its NUL, or nothing.
    pub credential: Bytes,
}

/// A user and a group of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: Uid,
    /// Group id.
    pub gid: Gid,
}

/// Kind and name of a connecting process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Peer {
    /// A process launched by this server.
    Client(ProcId),
    /// A tool or launcher.
    Tool {
        /// Which of the two.
        role: Role,
        /// Its user, as claimed.
        user: User,
        /// Its name, or the way it gets one.
        identity: ToolIdentity,
    },
    /// A process without a launcher.
    Singleton {
        /// Its user, as claimed.
        user: User,
        /// Its self-assigned name.
        proc: ProcId,
    },
    /// A scheduler; since 5.0.
    Scheduler {
        /// Its user, as claimed.
        user: User,
        /// Its name.
        proc: ProcId,
    },
}

/// Whether a tool launches jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It does not.
    Tool,
    /// It does.
    Launcher,
}

/// The name of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolIdentity {
    /// An old tool that does not say.
    Legacy,
    /// The server assigns one.
    Assign,
    /// It was given this one when it was started.
    Given(ProcId),
    /// Assigned by the server that started it.
    Started(ProcId),
}

impl Security {
    /// The mechanism that carries user and group.
    pub fn native(user: User) -> Self {
        let credential = [user.uid.as_raw().to_ne_bytes(), user.gid.as_raw().to_ne_bytes()].concat();
        Self { mechanism: "native".into(), credential: credential.into() }
    }

    /// User and group, if the mechanism is `native`. They are not verified over TCP.
    pub fn user(&self) -> Option<User> {
        let (uid, rest) = self.credential.split_first_chunk()?;
        let (gid, []) = rest.split_first_chunk()? else { return None };
        let (uid, gid) = (u32::from_ne_bytes(*uid), u32::from_ne_bytes(*gid));
        (self.mechanism == "native").then(|| User { uid: uid.into(), gid: gid.into() })
    }
}

impl Peer {
    /// The process's name, if it has one already.
    pub const fn proc(&self) -> Option<&ProcId> {
        match self {
            Self::Client(proc) | Self::Singleton { proc, .. } | Self::Scheduler { proc, .. } => Some(proc),
            Self::Tool { identity: ToolIdentity::Given(proc) | ToolIdentity::Started(proc), .. } => {
                Some(proc)
            }
            Self::Tool { .. } => None,
        }
    }

    /// Whether the server's answer has a name for the process.
    pub const fn wants_identity(&self) -> bool {
        matches!(self, Self::Tool { identity: ToolIdentity::Assign, .. })
    }

    const fn flag(&self) -> u8 {
        match self {
            Self::Client(_) => 0,
            Self::Tool { role, identity, .. } => match (identity, role) {
                (ToolIdentity::Legacy, Role::Tool) => 1,
                (ToolIdentity::Legacy, Role::Launcher) => 2,
                (ToolIdentity::Assign, Role::Tool) => 3,
                (ToolIdentity::Given(_), Role::Tool) => 4,
                (ToolIdentity::Started(_), Role::Tool) => 5,
                (ToolIdentity::Assign, Role::Launcher) => 6,
                (ToolIdentity::Given(_), Role::Launcher) => 7,
                (ToolIdentity::Started(_), Role::Launcher) => 8,
            },
            Self::Singleton { .. } => 9,
            Self::Scheduler { .. } => 10,
        }
    }

    const fn user(&self) -> Option<User> {
        match self {
            Self::Client(_) => None,
            Self::Tool { user, .. } | Self::Singleton { user, .. } | Self::Scheduler { user, .. } => {
                Some(*user)
            }
        }
    }
}

impl Connect {
    /// Bytes of the header.
    pub const HEADER: usize = 16;
    /// Most bytes after the header.
    pub const MAX_PAYLOAD: u32 = 131_072;

    /// A message that asks for job data in messages.
    pub fn new(peer: Peer, security: Security, encoding: Encoding, version: impl Into<String>) -> Self {
        Self { security, peer, version: version.into(), encoding, store: "hash".into(), info: Vec::new() }
    }

    /// Decodes a connect message from the front of the buffer; `None` if it is incomplete.
    ///
    /// The header is in the sender's byte order, which follows from the length: native order if the length is valid in it,
    /// otherwise the other order.
    ///
    /// # Errors
    /// [`ConnectError`]; the connection is unusable then.
    pub fn decode(arrived: &mut BytesMut) -> Result<Option<Self>, ConnectError> {
        let Some((header, _)) = arrived.split_first_chunk::<{ Self::HEADER }>() else { return Ok(None) };
        let length = payload_length(header)?;
        // allowed lengths fit
        let total = Self::HEADER + length as usize;
        if arrived.len() < total {
            return Ok(None);
        }
        let message = arrived.split_to(total);
        Self::read(&mut message.get(Self::HEADER..).unwrap_or_default()).map(Some)
    }

    /// Encodes the message, with its header in native byte order.
    ///
    /// # Errors
    /// [`ConnectError::Infos`] if an info cannot be encoded, [`ConnectError::TooLong`].
    pub fn encode(&self) -> Result<Bytes, ConnectError> {
        let mut payload = BytesMut::new();
        put_text(&mut payload, &self.security.mechanism);
        let credential = &self.security.credential;
        payload.put_u32(u32::try_from(credential.len()).map_err(|_| ConnectError::TooLong(u32::MAX))?);
        payload.put_slice(credential);
        payload.put_u8(self.peer.flag());
        if let Some(user) = self.peer.user() {
            payload.put_u32(user.uid.as_raw());
            payload.put_u32(user.gid.as_raw());
        }
        if let Some(proc) = self.peer.proc() {
            put_text(&mut payload, &proc.nspace);
            payload.put_u32(proc.rank.to_raw());
        }
        put_text(&mut payload, &self.version);
        put_text(&mut payload, self.encoding.dialect.name());
        payload.put_u8(if self.encoding.described { DESCRIBED } else { PLAIN });
        put_text(&mut payload, &self.store);
        if !self.info.is_empty() {
            let mut writer = Writer::new(self.encoding);
            writer.list::<kind::Info>(&self.info)?;
            payload.put_slice(&writer.finish());
        }
        let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        if length > Self::MAX_PAYLOAD {
            return Err(ConnectError::TooLong(length));
        }
        let mut message = BytesMut::with_capacity(Self::HEADER + payload.len());
        message.put_slice(&MARK);
        message.put_u32_ne(length);
        message.put_u32_ne(0);
        message.put_slice(&payload);
        Ok(message.freeze())
    }

    fn read(bytes: &mut &[u8]) -> Result<Self, ConnectError> {
        let mechanism = text(bytes, "security mechanism")?;
        let length = number(bytes, "credential length")?;
        let credential = Bytes::copy_from_slice(take(bytes, length as usize, "credential")?);
        let peer = read_peer(bytes)?;
        let version = text(bytes, "version")?;
        let dialect = text(bytes, "dialect")?.parse::<Dialect>()?;
        let described = match byte(bytes, "buffer type")? {
            PLAIN => false,
            DESCRIBED => true,
            other => return Err(ConnectError::BufferType(other)),
        };
        let store = text(bytes, "data store")?;
        let encoding = Encoding { dialect, described };
        let mut reader = Reader::new(encoding, Limits::default(), bytes);
        let info = match peer {
            Peer::Client(_) => Vec::new(),
            _ => reader.list::<kind::Info>().unwrap_or_default(),
        };
        Ok(Self { security: Security { mechanism, credential }, peer, version, encoding, store, info })
    }
}

const PLAIN: u8 = 1;
const DESCRIBED: u8 = 2;

/// Start of the header: -1 twice, the same in either byte order.
const MARK: [u8; 8] = [0xff; 8];

fn payload_length(header: &[u8; Connect::HEADER]) -> Result<u32, ConnectError> {
    let (mark, rest) = header.split_at(MARK.len());
    let (Some(length), true) = (rest.first_chunk(), mark == MARK) else { return Err(ConnectError::Header) };
    let own = u32::from_ne_bytes(*length);
    [own, own.swap_bytes()]
        .into_iter()
        .find(|length| *length <= Connect::MAX_PAYLOAD)
        .ok_or(ConnectError::TooLong(own))
}

fn read_peer(bytes: &mut &[u8]) -> Result<Peer, ConnectError> {
    let flag = byte(bytes, "process flag")?;
    if flag == 0 {
        return Ok(Peer::Client(read_proc(bytes)?));
    }
    if flag > 10 {
        return Err(ConnectError::Flag(flag));
    }
    let user = User { uid: number(bytes, "user id")?.into(), gid: number(bytes, "group id")?.into() };
    let identity = match flag {
        1 | 2 => ToolIdentity::Legacy,
        3 | 6 => ToolIdentity::Assign,
        4 | 7 => ToolIdentity::Given(read_proc(bytes)?),
        5 | 8 => ToolIdentity::Started(read_proc(bytes)?),
        9 => return Ok(Peer::Singleton { user, proc: read_proc(bytes)? }),
        _ => return Ok(Peer::Scheduler { user, proc: read_proc(bytes)? }),
    };
    let role = if matches!(flag, 2 | 6..=8) { Role::Launcher } else { Role::Tool };
    Ok(Peer::Tool { role, user, identity })
}

fn read_proc(bytes: &mut &[u8]) -> Result<ProcId, ConnectError> {
    let nspace = Nspace::new(text(bytes, "namespace")?)?;
    Ok(ProcId::new(nspace, Rank::from_raw(number(bytes, "rank")?)))
}

fn put_text(payload: &mut BytesMut, text: &str) {
    payload.put_slice(text.as_bytes());
    payload.put_u8(0);
}

fn text(bytes: &mut &[u8], what: &'static str) -> Result<String, ConnectError> {
    let length = bytes.iter().position(|byte| *byte == 0).ok_or(ConnectError::End(what))?;
    let text = take(bytes, length, what)?;
    bytes.advance(1);
    String::from_utf8(text.to_owned()).map_err(|_| ConnectError::Utf8(what))
}

fn number(bytes: &mut &[u8], what: &'static str) -> Result<u32, ConnectError> {
    bytes.try_get_u32().map_err(|_| ConnectError::End(what))
}

fn byte(bytes: &mut &[u8], what: &'static str) -> Result<u8, ConnectError> {
    bytes.try_get_u8().map_err(|_| ConnectError::End(what))
}

fn take<'a>(bytes: &mut &'a [u8], count: usize, what: &'static str) -> Result<&'a [u8], ConnectError> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or(ConnectError::End(what))?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn proc() -> ProcId {
        ProcId::new("679280641".parse().unwrap(), Rank::from_raw(0))
    }

    /// The worked example: a client of release 4.2.2.
    const CLIENT: &[u8] =
        b"\xff\xff\xff\xff\xff\xff\xff\xff\x36\0\0\0\0\0\0\0native\0\0\0\0\x08\0\0\0\0\0\0\0\0\
        \x00679280641\0\0\0\0\x004.2.2rc2\0v41\0\x01hash\0\0";

    #[test]
    fn a_client_of_the_c_library_is_understood() {
        let mut arrived = BytesMut::from(CLIENT);
        let connect = Connect::decode(&mut arrived).unwrap().unwrap();
        assert!(arrived.is_empty());
        assert_eq!(connect.peer, Peer::Client(proc()));
        assert_eq!(connect.security.user(), Some(User { uid: Uid::ROOT, gid: Gid::ROOT }));
        assert_eq!(connect.encoding, Encoding::plain(Dialect::V41));
        assert_eq!((&*connect.version, &*connect.store), ("4.2.2rc2", "hash"));

        // ours lacks the stray zero
        let encoded = connect.encode().unwrap();
        assert_eq!(encoded[8..12], 53u32.to_ne_bytes());
        assert_eq!(encoded[16..], CLIENT[16..CLIENT.len() - 1]);
    }

    #[test]
    fn either_byte_order_is_understood_and_parts_are_waited_for() {
        let mut swapped = CLIENT.to_vec();
        swapped[8..12].reverse();
        assert!(Connect::decode(&mut BytesMut::from(&*swapped)).unwrap().is_some());
        for cut in 0..CLIENT.len() {
            let mut arrived = BytesMut::from(&CLIENT[..cut]);
            assert_eq!(Connect::decode(&mut arrived), Ok(None), "{cut} bytes");
            assert_eq!(arrived.len(), cut);
        }
    }

    #[test]
    fn long_and_foreign_messages_are_refused() {
        let mut long = CLIENT.to_vec();
        long[8..12].copy_from_slice(&[0x00, 0x02, 0x02, 0x01]);
        assert!(matches!(Connect::decode(&mut BytesMut::from(&*long)), Err(ConnectError::TooLong(_))));
        let mut foreign = BytesMut::from(&b"GET / HTTP/1.1\r\n\r\n"[..]);
        assert_eq!(Connect::decode(&mut foreign), Err(ConnectError::Header));
    }

    fn peers() -> Vec<Peer> {
        let user = User { uid: Uid::new(1000), gid: Gid::new(100) };
        let mut peers = vec![
            Peer::Client(proc()),
            Peer::Singleton { user, proc: proc() },
            Peer::Scheduler { user, proc: proc() },
        ];
        for role in [Role::Tool, Role::Launcher] {
            for identity in [
                ToolIdentity::Legacy,
                ToolIdentity::Assign,
                ToolIdentity::Given(proc()),
                ToolIdentity::Started(proc()),
            ] {
                peers.push(Peer::Tool { role, user, identity });
            }
        }
        peers
    }

    #[test]
    fn every_kind_of_peer_comes_back() {
        for peer in peers() {
            for dialect in Dialect::ALL {
                let security = Security::native(User { uid: Uid::new(7), gid: Gid::new(8) });
                let mut connect = Connect::new(peer.clone(), security, Encoding::plain(dialect), "5.0.11");
                if !matches!(peer, Peer::Client(_)) {
                    connect.info = vec![Info::new(&pmix_types::keys::TIMEOUT, 3)];
                }
                let mut arrived = BytesMut::from(&*connect.encode().unwrap());
                assert_eq!(Connect::decode(&mut arrived), Ok(Some(connect)));
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut message = MARK.to_vec();
            message.extend(u32::try_from(bytes.len()).unwrap().to_ne_bytes());
            message.extend([0; 4]);
            message.extend(&bytes);
            let _ = Connect::decode(&mut BytesMut::from(&*message));
            let _ = Connect::decode(&mut BytesMut::from(&*bytes));
        }

        #[test]
        fn changed_messages_are_read_or_refused(at in 0..CLIENT.len(), byte: u8) {
            let mut message = CLIENT.to_vec();
            message[at] = byte;
            let _ = Connect::decode(&mut BytesMut::from(&*message));
        }
    }
}
