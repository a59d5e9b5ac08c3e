//! Replies on their way in.

use pmix_types::message::{Failure, Get, Reply};
use pmix_types::{ProcId, Status};

use super::{Conversation, Delivery};
use crate::client::answer::{self, Form, Found};
use crate::client::ask::{asks_for_attributes, unknown};
use crate::msg::{Body, Command, Context, Reply as Answer};

impl Conversation {
    /// The reply to a request, if there is one; nothing for the data of the own job.
    pub(super) fn conclude(
        &mut self,
        id: u64,
        command: Command,
        answer: Answer,
        form: Form,
    ) -> Result<Option<Reply>, Failure> {
        let Answer { status, body } = answer;
        let is_done = status.is_success() || status == Status::OPERATION_SUCCEEDED;
        let form = match form {
            Form::Learn { nspace, then } => {
                if let Body::Get(found) = body {
                    let wanted = Get::new(ProcId::wildcard(nspace), None);
                    // what goes on says what it lacks
                    let _ = answer::get(&mut self.jobs, &wanted, found);
                }
                return self.begin(id, *then, true).map(|()| None);
            }
            // what the answer to the invitation itself says is of no interest: the others answer it
            Form::Invited(_) if is_done => return Ok(None),
            Form::Listen(then) if is_done => {
                self.listen()?;
                return self.invite(id, *then).map(|()| None);
            }
            Form::Lookup(lookup) => return self.looked_up(id, status, body, lookup).map(|()| None),
            form => form,
        };
        // only this reply carries what there is
        let is_partial = is_partial(status) && command == Command::QUERY;
        // so libpmix says that it has passed on the end of the input
        let is_end = status == Status::ERR_IOF_COMPLETE && command == Command::IOF_PUSH;
        if !is_done && !is_end && !is_partial {
            return Err(self.refusal(status, &form));
        }
        let status = if is_partial { Status::ERR_PARTIAL_SUCCESS } else { Status::SUCCESS };
        Ok(Some(match form {
            Form::Job => {
                let Body::Job(mut data) = body else {
                    return Err(Failure::new(Status::ERR_COMM_FAILURE, "the server has sent no job data"));
                };
                if data.nspace.is_empty() {
                    data.nspace = self.caller.proc.nspace.clone();
                }
                if data.nspace != self.caller.proc.nspace {
                    let message = format!("the server has sent the data of job {}", data.nspace);
                    return Err(Failure::new(Status::ERR_COMM_FAILURE, message));
                }
                let job = self.jobs.learn(data);
                self.deliveries.push_back(Delivery::Job(Ok(job)));
                return Ok(None);
            }
            Form::Plain(read) => read(&mut self.jobs, body)?,
            Form::Get(wanted) => {
                let found = if let Body::Get(found) = body { found } else { Vec::new() };
                answer::get(&mut self.jobs, &wanted, found)?
            }
            Form::Refresh(wanted) => {
                let found = if let Body::Refreshed(found) = body { found } else { Vec::new() };
                answer::refreshed(&mut self.jobs, &wanted, found)?
            }
            Form::Query(queries) => answer::query(status, &queries, answer::infos(body)),
            Form::Group(made) => {
                let reply = answer::group(&mut self.jobs, &made, body);
                self.groups.insert(made.id, reply.members.clone());
                Reply::Group(reply.into())
            }
            Form::GroupEnd(group) => {
                self.groups.remove(&group);
                Reply::Done
            }
            Form::Registration(filter) => Reply::Registered(self.events.add(filter)),
            Form::Notified(event) => {
                self.deliver_own(event);
                Reply::Done
            }
            Form::Pull(own) => {
                let server = if let Body::Iof(number) = body { number } else { 0 };
                self.outputs.insert(own, server);
                Reply::Registered(own)
            }
            Form::PullEnd(own) => {
                self.outputs.remove(&own);
                Reply::Done
            }
            // they have their answers above
            Form::Learn { .. } | Form::Lookup(_) | Form::Listen(_) | Form::Invited(_) => Reply::Done,
        }))
        .inspect(|_| tracing::trace!(id, %command, "reply"))
    }

    /// Why a request fails: the wire has a status only, but what servers of a release leave out can be said.
    fn refusal(&self, status: Status, form: &Form) -> Failure {
        match form {
            Form::Query(queries)
                if status == Status::ERR_NOT_SUPPORTED && queries.iter().any(asks_for_attributes) =>
            {
                unknown(self.server(), "query of the attributes of functions")
            }
            _ => status.into(),
        }
    }

    fn looked_up(&mut self, id: u64, status: Status, body: Body, mut lookup: Found) -> Result<(), Failure> {
        let is_first = lookup.left.is_none();
        if is_first && is_partial(status) && matches!(body, Body::Empty) && lookup.asked.len() > 1 {
            lookup.left = Some(lookup.asked.iter().rev().cloned().collect());
        } else if status.is_success() || is_partial(status) {
            lookup.add(body);
        } else if is_first || status != Status::ERR_NOT_FOUND {
            return Err(status.into());
        }
        self.look_up_next(id, lookup)
    }
}

const fn is_partial(status: Status) -> bool {
    matches!(status, Status::ERR_PARTIAL_SUCCESS | Status::QUERY_PARTIAL_SUCCESS)
}

/// Reads a reply. What follows a failure is of no interest, and need not be readable.
pub(super) fn decode(context: &Context, command: Command, payload: &[u8]) -> Result<Answer, Failure> {
    let error = match Answer::decode(context, command, payload) {
        Ok(answer) => return Ok(answer),
        Err(error) => error,
    };
    match Answer::decode(context, Command::FENCE, payload) {
        Ok(Answer { status, .. }) if command != Command::REQ && status.is_error() => Err(status.into()),
        _ => {
            let message = format!("the reply of the server cannot be read: {error}");
            Err(Failure::new(error.status(), message))
        }
    }
}
