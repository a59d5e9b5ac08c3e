//! Groups by invitation, as far as they concern the server: it carries the events.

use pmix_types::message::{Failure, GroupReply, NotifyEvent, RegisterEvents, Reply, Request};
use pmix_types::{Directives, Event, EventFilter, GroupOpt, Nspace, ProcId, Status};

use super::{Conversation, OWN, Pending};
use crate::client::answer::Form;
use crate::client::groups::spelled_out;
use crate::client::invite::{CODES, Effects, Outcome};
use crate::msg::Command;

impl Conversation {
    /// Invites others, or answers an invitation. First the server must know that this process listens.
    pub(super) fn invite(&mut self, id: u64, request: Request) -> Result<(), Failure> {
        if self.listener.is_none() {
            let ask = RegisterEvents::new(CODES.to_vec());
            return self.ask(id, &ask.into(), Form::Listen(request.into()));
        }
        let me = self.caller.proc.clone();
        let (event, group, effects) = match request {
            Request::GroupInvite(mut invite) => {
                invite.procs = spelled_out(&invite.procs, |nspace| self.jobs.get(nspace));
                let group = invite.group.clone();
                self.check_new_group(&group, &invite.procs)?;
                let (event, effects) = self.invitations.lead(id, &me, invite)?;
                (event, group, effects)
            }
            Request::GroupJoin(join) => {
                let (group, accepts) = (join.group.clone(), join.answer == GroupOpt::ACCEPT);
                let event = self.invitations.answer(id, &me, join)?;
                if !accepts {
                    return self.ask(id, &NotifyEvent::new(event).into(), Form::DONE);
                }
                (event, group, Effects::default())
            }
            _ => return Ok(()),
        };
        let told = self.ask(id, &NotifyEvent::new(event).into(), Form::Invited(group.clone()));
        if told.is_err() {
            self.invitations.end(&group, id);
        } else {
            self.carry_out(effects);
        }
        told
    }

    /// The server sends what invitations bring.
    pub(super) fn listen(&mut self) -> Result<(), Failure> {
        if self.listener.is_none() {
            let filter = EventFilter::new(CODES.to_vec(), &mut Directives::new())?;
            self.listener = Some(self.events.add(filter));
        }
        Ok(())
    }

    /// What an event means for invitations.
    pub(super) fn hear_of_invitations(&mut self, event: &Event) {
        let is_group = |group: &Nspace| !self.groups.members(group).is_empty();
        let is_job = |nspace: &Nspace| self.jobs.get(nspace).is_some();
        let effects = self.invitations.hear(event, &self.caller.proc, is_group, is_job);
        self.carry_out(effects);
    }

    /// The time of a request is over whose clock runs in this process: see [`own_limit`](crate::client::own_limit). It is answered,
    /// if it was not before.
    pub fn expire(&mut self, id: u64) {
        if let Some(effects) = self.invitations.expire(id, &self.caller.proc) {
            return self.carry_out(effects);
        }
        if id == OWN {
            return;
        }
        // a request awaits one answer of the server at most; an invitation that has ended has had its own
        let awaited = |pending: &Pending| pending.id == id && !matches!(pending.form, Form::Invited(_));
        let Some(tag) = self.pending.iter().find(|(_, pending)| awaited(pending)).map(|(tag, _)| *tag) else {
            return;
        };
        let message = match self.pending.remove(&tag) {
            Some(Pending { command: Command::CONNECT | Command::DISCONNECT, .. }) => {
                "not all participants have entered in time"
            }
            _ => "the server did not answer in time",
        };
        self.reply(id, Err(Failure::new(Status::ERR_TIMEOUT, message)));
    }

    /// Tells the others, and answers the requests whose invitations have come to an end.
    fn carry_out(&mut self, Effects { news, outcomes }: Effects) {
        for (group, event) in news {
            if let Err(failure) = self.ask(OWN, &NotifyEvent::new(event).into(), Form::Invited(group.clone()))
            {
                tracing::warn!(%group, %failure, "the members of a group cannot be told of it");
            }
        }
        for Outcome { id, group, members, is_partial } in outcomes {
            let reply = members.map(|members| self.made(group, members, is_partial));
            self.reply(id, reply);
        }
    }

    fn made(&mut self, group: Nspace, members: Vec<ProcId>, is_partial: bool) -> Reply {
        self.groups.insert(group, members.clone());
        let mut reply = GroupReply::default();
        (reply.members, reply.partial) = (members, is_partial);
        Reply::Group(reply.into())
    }
}
