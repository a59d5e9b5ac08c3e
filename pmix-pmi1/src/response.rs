use bytes::Bytes;

use crate::pairs::{Line, Pairs};
use crate::{Error, KEYLEN_MAX, KVSNAME_MAX, Token, VALLEN_MAX};

/// What a server answers. Names of the messages are in brackets. What fails has a reason, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Response {
    /// Who the process is (`initack` and three times `set`).
    InitAck {
        /// How many processes the job has.
        size: u32,
        /// The rank of the process.
        rank: u32,
        /// Whether it is to say what it does.
        debug: bool,
    },
    /// The version that both speak (`response_to_init`).
    Init {
        /// The version that the server speaks.
        version: u32,
        /// The same after the point.
        subversion: u32,
        /// 0, unless the process speaks another one.
        rc: i32,
    },
    /// Limits in bytes, terminators included (`maxes`).
    Maxes {
        /// Of names of key-value spaces.
        kvsname: usize,
        /// Of keys.
        key: usize,
        /// Of values.
        value: usize,
    },
    /// How many processes there can be; negative if that is not known (`universe_size`).
    UniverseSize(i32),
    /// The number of the application (`appnum`).
    Appnum(i32),
    /// The name of the key-value space of the job (`my_kvsname`).
    MyKvsname(Token),
    /// A value is stored (`put_result`).
    Put(Result<(), Token>),
    /// A value (`get_result`).
    Value(Result<Token, Token>),
    /// A value with its key; `None` after the last one (`getbyidx_results`).
    Entry(Option<Entry>),
    /// All processes of the job have come (`barrier_out`).
    BarrierOut,
    /// A port is published (`publish_result`).
    Published(Result<(), Token>),
    /// A port is not published any more (`unpublish_result`).
    Unpublished(Result<(), Token>),
    /// A port (`lookup_result`).
    Port(Result<Token, Token>),
    /// Processes have been started (`spawn_result`).
    Spawned(Result<(), Token>),
    /// The process may leave (`finalize_ack`).
    FinalizeAck,
    /// A message that nobody else expects: it has a name of its own, so no process takes it for a success.
    Failed {
        /// Its name.
        command: Token,
        /// The reason.
        reason: Token,
    },
}

/// A key-value pair of a number.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The number of the next one.
    pub next: u64,
    /// The key.
    pub key: Token,
    /// The value.
    pub value: Token,
}

impl Entry {
    /// A key with its value, and the number of the next one.
    pub const fn new(next: u64, key: Token, value: Token) -> Self {
        Self { next, key, value }
    }
}

impl Response {
    /// The limits that servers of PMI-1 have.
    pub const MAXES: Self = Self::Maxes { kvsname: KVSNAME_MAX, key: KEYLEN_MAX, value: VALLEN_MAX };

    /// `lines` are those that have arrived of it; `None` if more of them are due.
    pub(crate) fn read(lines: &[&str]) -> Result<Option<Self>, Error> {
        let Some(first) = lines.first() else { return Ok(None) };
        let pairs = Pairs::new(first)?;
        let outcome = || match pairs.number_or("rc", 0)? {
            0 => Ok::<_, Error>(Ok(())),
            _ => Ok(Err(reason(&pairs)?)),
        };
        let value = |key| match outcome()? {
            Ok(()) => pairs.token(key).map(Ok),
            Err(reason) => Ok(Err(reason)),
        };
        Ok(Some(match pairs.command() {
            "initack" => {
                let [_, size, rank, debug] = lines else { return Ok(None) };
                let set = |line: &str, key| match Pairs::new(line)? {
                    pairs if pairs.command() == "set" => pairs.number(key),
                    other => Err(Error::Unknown(other.name())),
                };
                Self::InitAck {
                    size: set(size, "size")?,
                    rank: set(rank, "rank")?,
                    debug: set(debug, "debug")? != 0,
                }
            }
            "response_to_init" => Self::Init {
                version: pairs.number("pmi_version")?,
                subversion: pairs.number("pmi_subversion")?,
                rc: pairs.number_or("rc", 0)?,
            },
            "maxes" => Self::Maxes {
                kvsname: pairs.number("kvsname_max")?,
                key: pairs.number("keylen_max")?,
                value: pairs.number("vallen_max")?,
            },
            "universe_size" => Self::UniverseSize(pairs.number("size")?),
            "appnum" => Self::Appnum(pairs.number("appnum")?),
            "my_kvsname" => Self::MyKvsname(pairs.token("kvsname")?),
            "put_result" => Self::Put(outcome()?),
            "get_result" => Self::Value(value("value")?),
            "getbyidx_results" => match outcome()? {
                Ok(()) => Self::Entry(Some(Entry {
                    next: pairs.number("nextidx")?,
                    key: pairs.token("key")?,
                    value: pairs.token("val")?,
                })),
                Err(_) => Self::Entry(None),
            },
            "barrier_out" => Self::BarrierOut,
            "publish_result" => Self::Published(outcome()?),
            "unpublish_result" => Self::Unpublished(outcome()?),
            "lookup_result" => Self::Port(value("port")?),
            "spawn_result" => Self::Spawned(outcome()?),
            "finalize_ack" => Self::FinalizeAck,
            _ => match outcome()? {
                Err(reason) => Self::Failed { command: pairs.name(), reason },
                Ok(()) => return Err(Error::Unknown(pairs.name())),
            },
        }))
    }

    /// The message on the wire.
    pub fn encode(&self) -> Bytes {
        // older processes read `info`, newer ones `rc`
        let of_name = |command, outcome: &Result<(), Token>| match outcome {
            Ok(()) => succeeded(Line::new(command).pair("info", "ok")),
            Err(reason) => failed(Line::new(command).pair("info", "failed"), reason),
        };
        let of = |command, outcome: &Result<(), Token>| match outcome {
            Ok(()) => succeeded(Line::new(command)),
            Err(reason) => failed(Line::new(command), reason),
        };
        let line = match self {
            Self::InitAck { size, rank, debug } => {
                let line = Line::new("initack").line("set").pair("size", size);
                line.line("set").pair("rank", rank).line("set").pair("debug", u8::from(*debug))
            }
            Self::Init { version, subversion, rc } => {
                let line = Line::new("response_to_init").pair("pmi_version", version);
                line.pair("pmi_subversion", subversion).pair("rc", rc)
            }
            Self::Maxes { kvsname, key, value } => {
                let line = Line::new("maxes").pair("kvsname_max", kvsname);
                line.pair("keylen_max", key).pair("vallen_max", value)
            }
            Self::UniverseSize(size) => Line::new("universe_size").pair("size", size),
            Self::Appnum(number) => Line::new("appnum").pair("appnum", number),
            Self::MyKvsname(name) => Line::new("my_kvsname").pair("kvsname", name),
            Self::Put(outcome) => of("put_result", outcome),
            Self::Value(Ok(value)) => succeeded(Line::new("get_result")).pair("value", value),
            Self::Value(Err(reason)) => failed(Line::new("get_result"), reason).pair("value", "unknown"),
            Self::Entry(Some(Entry { next, key, value })) => {
                let line = Line::new("getbyidx_results").pair("rc", 0).pair("nextidx", next);
                line.pair("key", key).pair("val", value)
            }
            Self::Entry(None) => {
                Line::new("getbyidx_results").pair("rc", -2).pair("reason", "no_more_keyvals")
            }
            Self::BarrierOut => Line::new("barrier_out"),
            Self::Published(outcome) => of_name("publish_result", outcome),
            Self::Unpublished(outcome) => of_name("unpublish_result", outcome),
            Self::Port(Ok(port)) => of_name("lookup_result", &Ok(())).pair("port", port),
            Self::Port(Err(reason)) => of_name("lookup_result", &Err(reason.clone())),
            Self::Spawned(outcome) => of("spawn_result", outcome),
            Self::FinalizeAck => Line::new("finalize_ack"),
            Self::Failed { command, reason } => failed(Line::new(command.as_str()), reason),
        };
        line.end()
    }
}

fn succeeded(line: Line) -> Line {
    line.pair("rc", 0).pair("msg", "success")
}

fn failed(line: Line, reason: &Token) -> Line {
    line.pair("rc", -1).pair("msg", reason)
}

/// Why something failed, under whichever name it is told.
fn reason(pairs: &Pairs<'_>) -> Result<Token, Error> {
    let told = match pairs.optional("msg")? {
        None => pairs.optional("reason")?,
        told => told,
    };
    Ok(told.unwrap_or_else(|| Token::of_line("failed")))
}
