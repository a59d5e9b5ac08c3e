//! Input for processes: passed to the host in order of arrival.

use std::collections::{BTreeMap, VecDeque};

use pmix_types::message::{Failure, IofPush, Reply};
use pmix_types::{Memory, ProcId, Status};

use crate::context::{Context, Owner};
use crate::ids::ReplyTo;
use crate::upcall::Upcall;
use crate::users::push_identity;
use crate::{Asked, ConnId, UpcallRequest, not_supported};

/// Bytes of input from one connection that may wait for the host; a single push may be larger.
const MAX_WAITING: usize = 16 << 20;

/// Input that waits until the host has taken what came before it, as upcalls may overtake each other. It has an entry for
/// each connection whose input the host is taking.
#[derive(Debug, Default)]
pub(super) struct Inputs(BTreeMap<ConnId, VecDeque<(Asked, IofPush)>>);

impl Inputs {
    pub(super) fn waiting(&self) -> usize {
        self.0.values().map(VecDeque::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn forget(&mut self, conn: ConnId) {
        if let Some(waiting) = self.0.get_mut(&conn) {
            waiting.clear();
        }
    }

    pub(super) fn on_push(&mut self, asked: Asked, input: IofPush, cx: &mut Context) {
        let failure = if input.targets.is_empty() || !input.targets.iter().all(ProcId::is_valid) {
            Failure::new(
                Status::ERR_BAD_PARAM,
                "the request names no process to receive the input: name at least one",
            )
        } else if !cx.config.capabilities.has(Upcall::PushStdin) {
            not_supported("forwarding of input")
        } else if let Some(waiting) = self.0.get_mut(&asked.to.conn) {
            let bytes: usize = waiting.iter().map(|(_, input)| input.memory()).sum();
            if waiting.is_empty() || bytes + input.memory() <= MAX_WAITING {
                return waiting.push_back((asked, input));
            }
            let message =
                format!("{bytes} bytes of input already wait for their readers: wait for the replies");
            Failure::new(Status::ERR_OUT_OF_RESOURCE, message)
        } else {
            self.0.insert(asked.to.conn, VecDeque::new());
            return pass_on(asked, input, cx);
        };
        cx.reply(asked.to, Err(failure));
    }

    pub(super) fn on_taken(&mut self, to: ReplyTo, result: Result<(), Failure>, cx: &mut Context) {
        cx.reply(to, result.map(|()| Reply::Done));
        match self.0.get_mut(&to.conn).and_then(VecDeque::pop_front) {
            Some((asked, input)) => pass_on(asked, input, cx),
            None => {
                self.0.remove(&to.conn);
            }
        }
    }
}

fn pass_on(asked: Asked, mut input: IofPush, cx: &mut Context) {
    let Asked { by: caller, to, .. } = asked;
    let bytes = input.memory();
    push_identity(&mut input.directives, caller.uid, caller.gid);
    cx.upcall(Owner::Input { to, bytes }, caller, UpcallRequest::PushStdin(input));
}
