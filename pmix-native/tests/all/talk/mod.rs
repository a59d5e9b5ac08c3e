//! A process and its server, which the test plays.

use bytes::BytesMut;
use pmix_native::client::{Caller, Conversation, Delivery};
use pmix_native::conn::{Frame, Framing, User};
use pmix_native::msg::{Body, Context, Entry, NspaceData, Push, Reply as Answer, Request as Ask};
use pmix_native::{Dialect, Encoding, Version};
use pmix_types::message::{Failure, RegisterEvents, Reply, Request};
use pmix_types::{Event, Gid, Info, KeyVal, ProcId, Rank, Status, Uid, keys};

pub(crate) const V4: Version = Version::new(4, 2, 2);
pub(crate) const V5: Version = Version::new(5, 0, 11);

pub(crate) fn proc(rank: u32) -> ProcId {
    ProcId::new("job".parse().unwrap(), Rank::from_raw(rank))
}

/// A process and the server that it talks to.
pub(crate) struct Talk {
    pub(crate) client: Conversation,
    pub(crate) context: Context,
    said: BytesMut,
}

impl Talk {
    /// Rank 0 of a server of this release.
    pub(crate) fn with(version: Version) -> Self {
        let context = Context::new(Encoding::plain(Dialect::V41), version);
        let caller = Caller::new(proc(0), User { uid: Uid::new(7), gid: Gid::new(8) }, "n0", context);
        Self { client: Conversation::new(caller), context, said: BytesMut::new() }
    }

    /// The same in a job of two on one node.
    pub(crate) fn started(version: Version) -> Self {
        let mut talk = Self::with(version);
        talk.client.start();
        let (tag, Ask::Job) = talk.asked() else { panic!("no request for job data") };
        let mut data = NspaceData::new("job".parse().unwrap());
        let pair = |key, value| Entry::from(KeyVal { key, value });
        data.entries.push(pair(keys::JOB_SIZE.key_name(), 2u32.into()));
        let node = vec![
            Info::new(&keys::HOSTNAME, "n0"),
            Info::new(&keys::LOCAL_PEERS, "0,1"),
            Info::new(&keys::LOCAL_SIZE, 2u32),
        ];
        data.entries.push(pair(keys::NODE_INFO_ARRAY.key_name(), node.into()));
        talk.answer(tag, Body::Job(data));
        assert!(matches!(talk.client.next_delivery(), Some(Delivery::Job(Ok(_)))));
        talk
    }

    /// The next request that the server receives.
    pub(crate) fn asked(&mut self) -> (u32, Ask) {
        let frame = self.frame().expect("a request");
        (frame.tag, Ask::decode(&self.context, &frame.payload).unwrap())
    }

    pub(crate) fn frame(&mut self) -> Option<Frame> {
        self.said.extend_from_slice(&self.client.take_sent());
        Framing::default().decode(&mut self.said).unwrap()
    }

    pub(crate) fn answer(&mut self, tag: u32, answer: impl Into<Answer>) {
        let payload = answer.into().encode(&self.context).unwrap();
        self.client.receive(&Frame { index: 0, tag, payload });
    }

    pub(crate) fn push(&mut self, push: &Push) {
        let payload = push.encode(&self.context).unwrap();
        self.client.receive(&Frame { index: 0, tag: push.tag(), payload });
    }

    /// The reply to a request that must come next.
    pub(crate) fn reply(&mut self, id: u64) -> Result<Reply, Failure> {
        match self.client.next_delivery() {
            Some(Delivery::Reply { id: found, outcome }) if found == id => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Asks, is answered, and has the reply.
    pub(crate) fn round(&mut self, request: Request, answer: impl Into<Answer>) -> Result<Reply, Failure> {
        self.client.request(9, request);
        let (tag, _) = self.asked();
        self.answer(tag, answer);
        self.reply(9)
    }

    pub(crate) fn register(&mut self, codes: &[i32]) -> u64 {
        let codes: Vec<_> = codes.iter().copied().map(Status::from_raw).collect();
        self.client.request(1, Request::RegisterEvents(RegisterEvents::new(codes)));
        if let Some(frame) = self.frame() {
            self.answer(frame.tag, Status::SUCCESS);
        }
        match self.reply(1) {
            Ok(Reply::Registered(number)) => number,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn event(&mut self) -> Option<(Vec<u64>, Event)> {
        match self.client.next_delivery() {
            Some(Delivery::Push(pmix_types::message::Push::Event { registrations, event, .. })) => {
                Some((registrations, event))
            }
            None => None,
            other => panic!("{other:?}"),
        }
    }
}
