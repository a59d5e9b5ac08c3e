//! The captured messages, and how to take them apart and put them together again.

use bytes::{Bytes, BytesMut};
use pmix_native::codec::CodecError;
use pmix_native::conn::Connect;
use pmix_native::msg::{Command, Context, Push, Reply, Request};
use pmix_native::{Encoding, Version};

/// A message between libraries of others, as it was seen on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Vector {
    pub(crate) direction: Direction,
    pub(crate) name: String,
    pub(crate) context: Context,
    pub(crate) tag: u32,
    pub(crate) bytes: Vec<u8>,
    /// Who was talking, for messages of failed tests.
    pub(crate) source: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Connect,
    Request,
    Reply,
    Push,
}

/// Any message, decoded.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Connect(Box<Connect>),
    Request(Request),
    Reply(Reply),
    Push(Option<Push>),
}

pub(crate) fn vectors() -> Vec<Vector> {
    include_str!("../vectors.jsonl").lines().map(parse).collect()
}

fn parse(line: &str) -> Vector {
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    let text = |field: &str| json[field].as_str().unwrap().to_owned();
    let encoding = Encoding {
        dialect: text("bfrops").parse().unwrap(),
        described: json["described"].as_bool().unwrap(),
    };
    let hex = text("hex");
    let bytes = hex.as_bytes().chunks(2);
    Vector {
        direction: match &*text("dir") {
            "connect" => Direction::Connect,
            "request" => Direction::Request,
            "reply" => Direction::Reply,
            "push" => Direction::Push,
            other => panic!("direction {other}"),
        },
        name: text("cmd"),
        context: Context::new(encoding, text("peer").parse::<Version>().unwrap()),
        tag: json["tag"].as_u64().unwrap().try_into().unwrap(),
        bytes: bytes.map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap()).collect(),
        source: text("source"),
    }
}

impl Vector {
    /// The command by the name that the C library has for it.
    pub(crate) fn command(&self) -> Command {
        let name = match &*self.name {
            "FENCENB" => "FENCE",
            "GETNB" => "GET",
            "PUBLISHNB" => "PUBLISH",
            "LOOKUPNB" => "LOOKUP",
            "UNPUBLISHNB" => "UNPUBLISH",
            "SPAWNNB" => "SPAWN",
            "CONNECTNB" => "CONNECT",
            "DISCONNECTNB" => "DISCONNECT",
            "REGEVENTS" => "REGISTER_EVENTS",
            "DEREGEVENTS" => "DEREGISTER_EVENTS",
            "ALLOC" => "ALLOCATE",
            "VALIDATE_CRED" => "VALIDATE_CREDENTIAL",
            "IOF_DEREG" => "IOF_DEREGISTER",
            "RESOLVE_NODE" => "RESOLVE_NODES",
            other => other,
        };
        Command::ALL.iter().copied().find(|command| command.name() == Some(name)).expect(name)
    }

    /// Decodes bytes that came where this message came.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Message, String> {
        let error = |error: CodecError| error.to_string();
        Ok(match self.direction {
            Direction::Connect => {
                let connect =
                    Connect::decode(&mut BytesMut::from(bytes)).map_err(|error| error.to_string())?;
                Message::Connect(Box::new(connect.ok_or("incomplete")?))
            }
            Direction::Request => Message::Request(Request::decode(&self.context, bytes).map_err(error)?),
            Direction::Reply => {
                Message::Reply(Reply::decode(&self.context, self.command(), bytes).map_err(error)?)
            }
            Direction::Push => Message::Push(Push::decode(&self.context, self.tag, bytes).map_err(error)?),
        })
    }
}

impl Message {
    pub(crate) fn encode(&self, context: &Context) -> Result<Bytes, String> {
        let error = |error: CodecError| error.to_string();
        match self {
            Self::Connect(connect) => connect.encode().map_err(|error| error.to_string()),
            Self::Request(request) => request.encode(context).map_err(error),
            Self::Reply(reply) => reply.encode(context).map_err(error),
            Self::Push(push) => push.as_ref().ok_or("no push")?.encode(context).map_err(error),
        }
    }
}
