//! Input for processes: passed to the host in the order it came.

use std::collections::{BTreeMap, VecDeque};

use pmix_types::message::{Failure, IofPush, Reply};
use pmix_types::{Memory, ProcId, Status};

use super::connect::push_identity;
use super::ids::ReplyTo;
use super::upcall::Upcall;
use super::{Asked, ConnId, Engine, UpcallPurpose, UpcallRequest, not_supported};

/// Bytes of input from one connection that may wait for the host; one may be larger.
const MAX_WAITING: usize = 16 << 20;

/// Input that waits until the host has taken what came before it; upcalls are not kept in order. A connection is
/// here while the host is asked for it.
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
}

impl Engine {
    pub(super) fn on_iof_push(&mut self, asked: Asked, input: IofPush) {
        let failure = if input.targets.is_empty() || !input.targets.iter().all(ProcId::is_valid) {
            Failure::new(Status::ERR_BAD_PARAM, "input needs processes that read it: name at least one")
        } else if !self.cx.config.capabilities.has(Upcall::PushStdin) {
            not_supported("forwarding of input")
        } else if let Some(waiting) = self.inputs.0.get_mut(&asked.to.conn) {
            let bytes: usize = waiting.iter().map(|(_, input)| input.memory()).sum();
            if waiting.is_empty() || bytes + input.memory() <= MAX_WAITING {
                return waiting.push_back((asked, input));
            }
            let message =
                format!("{bytes} bytes of input wait for their readers already: wait for the answers");
            Failure::new(Status::ERR_OUT_OF_RESOURCE, message)
        } else {
            self.inputs.0.insert(asked.to.conn, VecDeque::new());
            return self.pass_input(asked, input);
        };
        self.cx.reply(asked.to, Err(failure));
    }

    fn pass_input(&mut self, asked: Asked, mut input: IofPush) {
        let Asked { by: caller, to, .. } = asked;
        push_identity(&mut input.directives, (caller.uid, caller.gid));
        self.cx.upcall(UpcallPurpose::Input(to), caller, UpcallRequest::PushStdin(input));
    }

    pub(super) fn on_input_taken(&mut self, to: ReplyTo, result: Result<(), Failure>) {
        self.cx.reply(to, result.map(|()| Reply::Done));
        match self.inputs.0.get_mut(&to.conn).and_then(VecDeque::pop_front) {
            Some((asked, input)) => self.pass_input(asked, input),
            None => {
                self.inputs.0.remove(&to.conn);
            }
        }
    }
}
