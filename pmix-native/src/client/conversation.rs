mod begin;
mod conclude;
mod invite;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use pmix_types::job::JobData;
use pmix_types::message::{Failure, Output, Push, PutEntry, Reply, Request};
use pmix_types::{DataRange, Event, KeyName, ProcId, Status};

use super::answer::Form;
use super::ask::{knows, unknown};
use super::events::Registrations;
use super::groups::Groups;
use super::invite::Invitations;
use super::jobs::Jobs;
use crate::Version;
use crate::conn::{Frame, Framing, User, tag};
use crate::msg::{Command, Context, IofDelivery, Push as NativePush, Request as Ask};

use conclude::decode;

/// What libpmix adds to events for its servers' own use.
const SERVER_MARK: &str = "pmix.srvr.internal.notify";

/// Who talks, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Caller {
    /// The process.
    pub proc: ProcId,
    /// The owner of what it publishes.
    pub user: User,
    /// Name of its node, until its job says another.
    pub hostname: String,
    /// The encoding, and the release that the process has said it has: that of the server.
    pub context: Context,
    /// The index that the server has assigned.
    pub index: u32,
    /// Largest payload of a message that the server may send.
    pub max_payload: usize,
}

impl Caller {
    /// A process with the defaults of this crate.
    pub fn new(proc: ProcId, user: User, hostname: impl Into<String>, context: Context) -> Self {
        let hostname = hostname.into();
        Self { proc, user, hostname, context, index: 0, max_payload: Framing::MAX_PAYLOAD }
    }
}

/// What a conversation brings.
#[derive(Debug)]
pub enum Delivery {
    /// The data of the own job, which [`Conversation::start`] has asked for.
    Job(Result<Arc<JobData>, Failure>),
    /// The reply to a request.
    Reply {
        /// The caller's id of the request.
        id: u64,
        /// What came of it.
        outcome: Result<Reply, Failure>,
    },
    /// What the server says unasked.
    Push(Push),
}

/// The client's side of a connection after the handshake: requests go in and bytes come out; frames go in and deliveries come
/// out. It does no I/O and knows no clock.
///
/// What the C library does in the process is done here: it keeps what was put, as each commit sends all of it, it knows the data of
/// jobs and the members of groups, it delivers events to the registrations that want them, also those of the process itself.
#[derive(Debug)]
pub struct Conversation {
    caller: Caller,
    next_tag: u32,
    pending: HashMap<u32, Pending>,
    committed: BTreeMap<KeyName, PutEntry>,
    jobs: Jobs,
    events: Registrations,
    groups: Groups,
    invitations: Invitations,
    /// The registration of this library itself for what invitations bring.
    listener: Option<u64>,
    /// Output subscriptions: the own number, and the server's.
    outputs: BTreeMap<u64, u64>,
    last_output: u64,
    sent: BytesMut,
    deliveries: VecDeque<Delivery>,
}

/// The number of what this library asks by itself: no request of the process has it.
const OWN: u64 = 0;

#[derive(Debug)]
struct Pending {
    /// The caller's id.
    id: u64,
    command: Command,
    form: Form,
}

impl Conversation {
    /// A conversation in which nothing has been said after the handshake.
    pub fn new(caller: Caller) -> Self {
        Self {
            next_tag: tag::FIRST_REQUEST,
            pending: HashMap::new(),
            committed: BTreeMap::new(),
            jobs: Jobs::new(caller.proc.clone(), caller.hostname.clone()),
            events: Registrations::default(),
            groups: Groups::default(),
            invitations: Invitations::default(),
            listener: None,
            outputs: BTreeMap::new(),
            last_output: 0,
            sent: BytesMut::new(),
            deliveries: VecDeque::new(),
            caller,
        }
    }

    /// Asks for the data of the own job, as the first request of each process.
    pub fn start(&mut self) {
        if let Err(failure) = self.ask(OWN, &Ask::Job, Form::Job) {
            self.deliveries.push_back(Delivery::Job(Err(failure)));
        }
    }

    /// The name of this node, as the own job has it if it says so.
    pub fn hostname(&self) -> String {
        self.jobs.hostname()
    }

    /// Whether no request waits for its reply.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes the bytes that are to be sent.
    pub fn take_sent(&mut self) -> BytesMut {
        self.sent.split()
    }

    /// The next thing that has come.
    pub fn next_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// A request of the process, under a number of its own choice but 0, which [`Delivery::Reply`] will have. Each is answered once, unless
    /// the connection ends.
    pub fn request(&mut self, id: u64, request: Request) {
        if let Err(failure) = self.begin(id, request, false) {
            self.reply(id, Err(failure));
        }
    }

    /// Nobody waits for the replies to these requests any more: they are dropped when they come. What was asked stands.
    pub fn give_up(&mut self, ids: &HashSet<u64>) {
        // an invitation goes on
        let goes_on = |form: &Form| matches!(form, Form::Listen(_) | Form::Invited(_));
        let is_given_up = |pending: &Pending| pending.id != OWN && ids.contains(&pending.id);
        self.pending.retain(|_, pending| !is_given_up(pending) || goes_on(&pending.form));
    }

    /// A message of the server.
    pub fn receive(&mut self, frame: &Frame) {
        if frame.tag < tag::FIRST_REQUEST {
            self.receive_push(frame);
            return;
        }
        let Some(Pending { id, command, form }) = self.pending.remove(&frame.tag) else {
            tracing::debug!(tag = frame.tag, "dropped a reply to a request that was given up");
            return;
        };
        let answer = decode(&self.caller.context, command, &frame.payload);
        let is_job = matches!(form, Form::Job);
        // the request of an invitation may be answered already, or is by what comes later
        let invited = if let Form::Invited(group) = &form { Some(group.clone()) } else { None };
        let outcome = answer.and_then(|answer| self.conclude(id, command, answer, form));
        match outcome {
            Ok(None) => {}
            Ok(Some(reply)) => self.reply(id, Ok(reply)),
            Err(failure) if id == OWN && invited.is_some() => {
                tracing::warn!(%failure, "the members of a group were not told of it");
            }
            Err(failure) if is_job => self.deliveries.push_back(Delivery::Job(Err(failure))),
            Err(failure) => {
                if let Some(group) = invited
                    && !self.invitations.end(&group, id)
                {
                    return;
                }
                self.reply(id, Err(failure));
            }
        }
    }

    /// A message of the server that is larger than allowed and was skipped: the request that it answers fails.
    pub fn skip(&mut self, tag: u32, bytes: usize) {
        let limit = self.caller.max_payload;
        let message = format!("the reply has {bytes} bytes, the limit is {limit}");
        let failure = Failure::new(Status::ERR_OUT_OF_RESOURCE, message);
        match self.pending.remove(&tag) {
            Some(Pending { form: Form::Job, .. }) => self.deliveries.push_back(Delivery::Job(Err(failure))),
            Some(Pending { id, form: Form::Invited(group), .. }) => {
                if self.invitations.end(&group, id) {
                    self.reply(id, Err(failure));
                }
            }
            Some(Pending { id, .. }) => self.reply(id, Err(failure)),
            None => tracing::warn!(tag, bytes, "the server has sent a message that is too large"),
        }
    }

    const fn server(&self) -> Version {
        self.caller.context.client
    }

    fn reply(&mut self, id: u64, outcome: Result<Reply, Failure>) {
        self.deliveries.push_back(Delivery::Reply { id, outcome });
    }

    fn ask(&mut self, id: u64, ask: &Ask, form: Form) -> Result<(), Failure> {
        let command = ask.command();
        if !knows(self.server(), command) {
            return Err(unknown(self.server(), &command.to_string()));
        }
        let payload = self.encode(ask)?;
        let tag = self.free_tag();
        self.send(tag, payload)?;
        self.pending.insert(tag, Pending { id, command, form });
        Ok(())
    }

    fn encode(&self, ask: &Ask) -> Result<Bytes, Failure> {
        let failed = |error: crate::codec::CodecError| {
            let message =
                format!("dialect {} cannot encode it: {error}", self.caller.context.encoding.dialect);
            Failure::new(error.status(), message)
        };
        ask.encode(&self.caller.context).map_err(failed)
    }

    fn send(&mut self, tag: u32, payload: Bytes) -> Result<(), Failure> {
        let frame = Frame { index: self.caller.index, tag, payload };
        let failed =
            |error: crate::conn::FrameError| Failure::new(Status::ERR_OUT_OF_RESOURCE, error.to_string());
        Framing::default().encode(&frame, &mut self.sent).map_err(failed)
    }

    /// A tag of no pending request.
    fn free_tag(&mut self) -> u32 {
        loop {
            let tag = self.next_tag;
            self.next_tag = tag.checked_add(1).unwrap_or(tag::FIRST_REQUEST);
            if !self.pending.contains_key(&tag) {
                return tag;
            }
        }
    }

    fn receive_push(&mut self, frame: &Frame) {
        match NativePush::decode(&self.caller.context, frame.tag, &frame.payload) {
            Ok(Some(NativePush::Event(event))) => self.deliver(event),
            Ok(Some(NativePush::Iof(delivery))) => self.deliver_output(delivery),
            Ok(None) => tracing::debug!(tag = frame.tag, "the server has sent an unknown message"),
            Err(error) => {
                tracing::warn!(tag = frame.tag, %error, "the server has sent a message that cannot be read")
            }
        }
    }

    fn deliver_output(&mut self, delivery: IofDelivery) {
        let IofDelivery { source, channels, id, info, data } = delivery;
        // what nobody here has asked for, such as the server's own output
        if self.outputs.contains_key(&id) {
            let mut output = Output::new(source, channels, data);
            output.info = info;
            self.deliveries.push_back(Delivery::Push(Push::Output { registration: id, output }));
        }
    }

    /// Servers do not send an event back to its source.
    fn deliver_own(&mut self, event: Event) {
        let me = &self.caller.proc;
        let is_in_range = match event.range {
            DataRange::RM => false,
            DataRange::CUSTOM => event.custom_range().iter().any(|proc| proc.matches(me)),
            _ => true,
        };
        if is_in_range {
            self.deliver(event);
        }
    }

    fn deliver(&mut self, mut event: Event) {
        self.hear_of_invitations(&event);
        if event.info.get_value(SERVER_MARK).is_some() {
            event.info = event.info.into_vec().into_iter().filter(|info| info.key != *SERVER_MARK).collect();
        }
        let mut registrations =
            self.events.wanting(&event, &self.caller.proc, |proc| self.jobs.is_local(proc));
        registrations.retain(|number| Some(*number) != self.listener);
        if !registrations.is_empty() {
            self.deliveries.push_back(Delivery::Push(Push::Event { registrations, event, is_kept: false }));
        }
    }
}
