use std::time::Instant;

use pmix_types::message::{Failure, Identity, Push, Reply, Request};
use pmix_types::{ProcId, Status, Uid};

use super::super::{
    Answer, CallId, CallValue, Command, ConnId, HostCall, Input, RequestId, Upcall, UpcallId, UpcallRequest,
};
use super::about::{About, Recorded, short};

/// Something that has happened, and when.
#[derive(Debug)]
pub(super) struct RecordEntry {
    pub(super) at: Instant,
    pub(super) what: What,
}

// what `ServerBuilder::record` says
const _: () = assert!(size_of::<RecordEntry>() <= 120);

#[derive(Debug)]
pub(super) enum What {
    /// A connection says who it is; a tool need not have a name.
    Hello {
        conn: ConnId,
        who: Option<ProcId>,
        uid: Uid,
        pid: Option<i32>,
    },
    Accepted {
        conn: ConnId,
        proc: ProcId,
    },
    Refused {
        conn: ConnId,
        failed: Box<Failed>,
    },
    /// A connection has ended: by itself, or closed by this server.
    Gone {
        conn: ConnId,
        closed: bool,
        reason: Box<str>,
    },
    Request {
        conn: ConnId,
        id: RequestId,
        operation: &'static str,
        about: About,
    },
    Reply {
        conn: ConnId,
        id: RequestId,
        failed: Option<Box<Failed>>,
    },
    Push {
        conn: ConnId,
        what: &'static str,
        event: Option<Status>,
    },
    /// The host is asked on behalf of a process.
    Upcall {
        id: UpcallId,
        upcall: Upcall,
        by: ProcId,
        about: About,
    },
    Answer {
        id: UpcallId,
        failed: Option<Box<Failed>>,
    },
    Cancelled(UpcallId),
    /// The host calls.
    Call {
        id: CallId,
        name: &'static str,
        about: About,
    },
    Returned {
        id: CallId,
        failed: Option<Box<Failed>>,
    },
    Abandoned(CallId),
}

/// Why something has failed.
#[derive(Debug)]
pub(super) struct Failed {
    pub(super) status: Status,
    pub(super) message: Box<str>,
}

impl Failed {
    fn new(failure: &Failure) -> Box<Self> {
        Box::new(Self { status: failure.status, message: short(&failure.message) })
    }

    fn of<T>(result: &Result<T, Failure>) -> Option<Box<Self>> {
        result.as_ref().err().map(Self::new)
    }
}

impl What {
    /// What is recorded of an input; `None` for nothing.
    #[inline]
    pub(super) fn of_input(input: &Input) -> Option<Self> {
        Some(match input {
            Input::Request { request: Request::QueryInfo(_), .. } => return None,
            Input::Request { conn, id, request } => {
                let (operation, about) = (request.operation(), request.about());
                Self::Request { conn: *conn, id: *id, operation, about }
            }
            Input::HostReply {
                result: Ok(Answer::Query(_) | Answer::Looks(_) | Answer::File(_)), ..
            } => {
                return None;
            }
            Input::HostReply { upcall, result } => Self::Answer { id: *upcall, failed: Failed::of(result) },
            // what is accepted is recorded
            Input::Own { .. } => return None,
            Input::Hello { conn, peer, hello, .. } => {
                let who = match &hello.identity {
                    Identity::Client(proc) => Some(proc.clone()),
                    Identity::Tool(wish) => wish.clone(),
                    _ => None,
                };
                Self::Hello { conn: *conn, who, uid: peer.uid, pid: peer.pid }
            }
            Input::Lost { conn, reason } => Self::Gone { conn: *conn, closed: false, reason: short(reason) },
            Input::Call { id, call } => Self::of_call(*id, call)?,
            Input::Abandoned(call) => Self::Abandoned(*call),
        })
    }

    /// What is recorded of a command; `None` for nothing.
    #[inline]
    pub(super) fn of_command(command: &Command) -> Option<Self> {
        Some(match command {
            Command::Reply { result: Ok(Reply::Query(_)), .. } => return None,
            Command::Reply { conn, id, result } => {
                Self::Reply { conn: *conn, id: *id, failed: Failed::of(result) }
            }
            Command::Push { conn, push } => {
                let (what, event) = match push {
                    Push::Output { .. } => return None,
                    Push::Event { event, .. } => ("event", Some(event.code)),
                    Push::Lagged { .. } => ("events left out, as it reads too slowly", None),
                    Push::OutputLost { .. } => ("output left out, as it reads too slowly", None),
                    _ => ("the server stops", None),
                };
                Self::Push { conn: *conn, what, event }
            }
            Command::Upcall { request: UpcallRequest::Query(_), .. } => return None,
            Command::Upcall { id, caller, request } => {
                let (upcall, about) = (request.upcall(), request.about());
                Self::Upcall { id: *id, upcall, by: caller.proc.clone(), about }
            }
            Command::Accept { conn, welcome } => Self::Accepted { conn: *conn, proc: welcome.proc.clone() },
            Command::Refuse { conn, failure } => Self::Refused { conn: *conn, failed: Failed::new(failure) },
            Command::Close { conn, reason } => {
                Self::Gone { conn: *conn, closed: true, reason: short(reason) }
            }
            Command::CancelUpcall(id) => Self::Cancelled(*id),
            // of those that succeed, only what may have waited is news
            Command::Return {
                id,
                result: result @ (Err(_) | Ok(CallValue::Blob(_) | CallValue::Presence(_))),
            } => Self::Returned { id: *id, failed: Failed::of(result) },
            Command::Return { .. } | Command::Measure { .. } | Command::Look { .. } | Command::Cleanup(_) => {
                return None;
            }
        })
    }

    fn of_call(id: CallId, call: &HostCall) -> Option<Self> {
        let (name, about) = match call {
            HostCall::RegisterNspace { nspace, .. } => ("register nspace", About::Nspace(nspace.clone())),
            HostCall::DeregisterNspace(nspace) => ("deregister nspace", About::Nspace(nspace.clone())),
            HostCall::RegisterClient { proc, .. } => ("register client", About::Proc(proc.clone())),
            HostCall::ClientStarted { proc, .. } => ("client started", About::Proc(proc.clone())),
            HostCall::DeregisterClient(proc) => ("deregister client", About::Proc(proc.clone())),
            HostCall::ClientEnded { proc, reason } => ("client ended", About::because(proc, reason)),
            HostCall::DmodexRequest { proc, .. } => {
                ("direct modex request", About::Data { proc: proc.clone(), key: None })
            }
            HostCall::Absence(request) => ("presence", About::Text(request.operation().into())),
            HostCall::NotifyEvent(event) => ("notify event", About::Event(event.code)),
            HostCall::NotifyEventOf { event, .. } => ("notify event", About::Event(event.code)),
            HostCall::DefinePset { name, .. } => ("define process set", About::text(name)),
            HostCall::DeletePset(name) => ("delete process set", About::text(name)),
            HostCall::SetupLocal { nspace, .. } => ("set up local support", About::Nspace(nspace.clone())),
            HostCall::RegisterResources(_) => ("register resources", About::Nothing),
            HostCall::DeregisterResources(_) => ("deregister resources", About::Nothing),
            HostCall::DeliverInventory(_) => ("deliver inventory", About::Nothing),
            HostCall::RegisterAttributes { function, .. } => ("register attributes", About::text(function)),
            // these only look, and output is not ours to keep
            HostCall::IofDeliver(_)
            | HostCall::JobData(_)
            | HostCall::EnvChangesOf(_)
            | HostCall::UserOf(_)
            | HostCall::Stats
            | HostCall::Waits(_)
            | HostCall::Looks(_)
            | HostCall::Usage(_)
            | HostCall::Record => return None,
        };
        Some(Self::Call { id, name, about })
    }

    /// Bytes that it holds elsewhere, beside its own.
    #[inline]
    pub(super) fn heap(&self) -> usize {
        let of_failed = |failed: &Failed| size_of::<Failed>() + failed.message.len();
        match self {
            Self::Request { about, .. } | Self::Upcall { about, .. } | Self::Call { about, .. } => {
                about.heap()
            }
            Self::Reply { failed, .. } | Self::Answer { failed, .. } | Self::Returned { failed, .. } => {
                failed.as_deref().map_or(0, of_failed)
            }
            Self::Refused { failed, .. } => of_failed(failed),
            Self::Gone { reason, .. } => reason.len(),
            Self::Hello { .. }
            | Self::Accepted { .. }
            | Self::Push { .. }
            | Self::Cancelled(_)
            | Self::Abandoned(_) => 0,
        }
    }
}
