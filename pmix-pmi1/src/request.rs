use bytes::Bytes;

use crate::pairs::{Line, Pairs};
use crate::{Error, SpawnRequest, Token};

/// What a process asks for. Names of the messages are in brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// The first message on a port, with the number that the environment gives the process (`initack`).
    InitAck {
        /// `PMI_ID`.
        pmiid: i32,
    },
    /// The first message otherwise (`init`).
    Init {
        /// The version that the process speaks.
        version: u32,
        /// The same after the point.
        subversion: u32,
    },
    /// The limits of names, keys and values (`get_maxes`).
    GetMaxes,
    /// How many processes there can be (`get_universe_size`).
    GetUniverseSize,
    /// The number of the application (`get_appnum`).
    GetAppnum,
    /// The name of the key-value space of the job (`get_my_kvsname`).
    GetMyKvsname,
    /// Stores a value for all processes of the job (`put`).
    Put {
        /// The key-value space; absent for that of the job.
        kvsname: Option<Token>,
        /// The key.
        key: Token,
        /// The value.
        value: Token,
    },
    /// Reads a value (`get`).
    Get {
        /// The key-value space; absent for that of the job.
        kvsname: Option<Token>,
        /// The key.
        key: Token,
    },
    /// Reads the value of a number, with its key (`getbyidx`).
    GetByIndex {
        /// The key-value space; absent for that of the job.
        kvsname: Option<Token>,
        /// The number, from 0.
        index: u64,
    },
    /// Waits for all processes of the job (`barrier_in`).
    BarrierIn,
    /// Publishes the port of a service (`publish_name`).
    PublishName {
        /// The service.
        service: Token,
        /// The port.
        port: Token,
    },
    /// Takes that back (`unpublish_name`).
    UnpublishName {
        /// The service.
        service: Token,
    },
    /// Looks the port of a service up (`lookup_name`).
    LookupName {
        /// The service.
        service: Token,
    },
    /// Starts processes (`spawn`).
    Spawn(SpawnRequest),
    /// Ends the job; nothing is answered (`abort`).
    Abort {
        /// The exit code.
        exit_code: i32,
        /// What to tell the user.
        message: Option<Token>,
    },
    /// The process is done (`finalize`).
    Finalize,
    /// A process that nobody has started meets a launcher that it has started itself (`singinit`). A launcher sends it
    /// first, and the process answers with the same.
    SingInit {
        /// The version that it speaks.
        version: u32,
        /// The same after the point.
        subversion: u32,
        /// Whether the launcher is to take its standard streams: `yes` or `no`.
        stdio: Token,
        /// How it proves who it is: `none`, or a method.
        authtype: Token,
    },
    /// A message of another name.
    Other(Token),
}

impl Request {
    pub(crate) fn read(line: &str) -> Result<Self, Error> {
        let pairs = Pairs::new(line)?;
        let kvsname = || pairs.optional("kvsname");
        Ok(match pairs.command() {
            "initack" => Self::InitAck { pmiid: pairs.number("pmiid")? },
            "init" => Self::Init {
                version: pairs.number("pmi_version")?,
                subversion: pairs.number("pmi_subversion")?,
            },
            "get_maxes" => Self::GetMaxes,
            "get_universe_size" => Self::GetUniverseSize,
            "get_appnum" => Self::GetAppnum,
            "get_my_kvsname" => Self::GetMyKvsname,
            // an empty value is sent as none by some
            "put" => Self::Put {
                kvsname: kvsname()?,
                key: pairs.token("key")?,
                value: pairs.optional("value")?.unwrap_or_else(|| Token::of_line("")),
            },
            "get" => Self::Get { kvsname: kvsname()?, key: pairs.token("key")? },
            "getbyidx" => Self::GetByIndex { kvsname: kvsname()?, index: pairs.number("idx")? },
            "barrier_in" => Self::BarrierIn,
            "publish_name" => {
                Self::PublishName { service: pairs.token("service")?, port: pairs.token("port")? }
            }
            "unpublish_name" => Self::UnpublishName { service: pairs.token("service")? },
            "lookup_name" => Self::LookupName { service: pairs.token("service")? },
            "abort" => Self::Abort {
                exit_code: pairs.number_or("exitcode", 1)?,
                message: pairs.optional("message")?,
            },
            "finalize" => Self::Finalize,
            "singinit" => Self::SingInit {
                version: pairs.number("pmi_version")?,
                subversion: pairs.number("pmi_subversion")?,
                stdio: pairs.optional("stdio")?.unwrap_or_else(|| Token::of_line("yes")),
                authtype: pairs.optional("authtype")?.unwrap_or_else(|| Token::of_line("none")),
            },
            _ => Self::Other(pairs.name()),
        })
    }

    /// The message on the wire.
    pub fn encode(&self) -> Bytes {
        let version = |command, version, subversion| {
            Line::new(command).pair("pmi_version", version).pair("pmi_subversion", subversion)
        };
        let line = match self {
            Self::InitAck { pmiid } => Line::new("initack").pair("pmiid", pmiid),
            Self::Init { version: major, subversion } => version("init", major, subversion),
            Self::GetMaxes => Line::new("get_maxes"),
            Self::GetUniverseSize => Line::new("get_universe_size"),
            Self::GetAppnum => Line::new("get_appnum"),
            Self::GetMyKvsname => Line::new("get_my_kvsname"),
            Self::Put { kvsname, key, value } => {
                Line::new("put").optional("kvsname", kvsname.as_ref()).pair("key", key).pair("value", value)
            }
            Self::Get { kvsname, key } => {
                Line::new("get").optional("kvsname", kvsname.as_ref()).pair("key", key)
            }
            Self::GetByIndex { kvsname, index } => {
                Line::new("getbyidx").optional("kvsname", kvsname.as_ref()).pair("idx", index)
            }
            Self::BarrierIn => Line::new("barrier_in"),
            Self::PublishName { service, port } => {
                Line::new("publish_name").pair("service", service).pair("port", port)
            }
            Self::UnpublishName { service } => Line::new("unpublish_name").pair("service", service),
            Self::LookupName { service } => Line::new("lookup_name").pair("service", service),
            Self::Spawn(spawn) => return spawn.encode(),
            Self::Abort { exit_code, message } => {
                Line::new("abort").pair("exitcode", exit_code).optional("message", message.as_ref())
            }
            Self::Finalize => Line::new("finalize"),
            Self::SingInit { version: major, subversion, stdio, authtype } => {
                version("singinit", major, subversion).pair("stdio", stdio).pair("authtype", authtype)
            }
            Self::Other(name) => Line::new(name.as_str()),
        };
        line.end()
    }
}
