//! The wire of the C library.

#![allow(clippy::expect_used, reason = "to panic is how a target tells what it has found")]

use std::collections::HashSet;

use bytes::{Bytes, BytesMut};
use pmix_native::client::{Caller, Conversation, Delivery};
use pmix_native::conn::{
    ClientAnswer, Connect, Frame, Framing, Rendezvous, ServerUri, ToolAnswer, User, tag,
};
use pmix_native::msg::{Command, Context, Push, Reply, Request};
use pmix_native::{Dialect, Encoding, Version};
use pmix_types::job::{JobData, NodeRef, Target};
use pmix_types::message::{
    Commit, Connect as ConnectAll, Fence, Get, GetCredential, GroupConstruct, GroupDestruct, GroupInvite,
    GroupJoin, IofPull, JobControl, Lookup, Monitor, NotifyEvent, PutEntry, QueryInfo, RegisterEvents,
    Request as Asked, ResolveNodes, ResolvePeers, Spawn,
};
use pmix_types::{
    App, Event, Gid, GroupOpt, Info, IofChannels, ProcId, Query, Rank, Scope, Status, Uid, keys,
};

/// All that is read before the first message, on either side.
pub(crate) fn connect(input: &[u8]) {
    if let Ok(Some(connect)) = Connect::decode(&mut BytesMut::from(input))
        && let Ok(encoded) = connect.encode()
    {
        let again = Connect::decode(&mut BytesMut::from(&*encoded));
        assert_eq!(again.expect("it decodes").expect("it is whole").peer, connect.peer);
    }
    let _ = Framing::default().decode(&mut BytesMut::from(input));
    let _ = ClientAnswer::decode(&mut BytesMut::from(input));
    for assigned in [false, true] {
        let _ = ToolAnswer::decode(&mut BytesMut::from(input), assigned);
    }
    if let Ok(text) = str::from_utf8(input) {
        let _ = text.parse::<Rendezvous>();
        if let Ok(uri) = text.parse::<ServerUri>() {
            assert_eq!(uri.to_string().parse(), Ok(uri));
        }
    }
}

/// A message with what is known when it comes.
///
/// The first byte of an input chooses the encoding, the second the release of the client, the third the command or tag; the
/// rest is the payload.
struct Input<'a> {
    context: Context,
    what: u8,
    payload: &'a [u8],
}

impl<'a> Input<'a> {
    fn read(input: &'a [u8]) -> Option<Self> {
        let [how, release, what, payload @ ..] = input else { return None };
        let dialect = Dialect::ALL[usize::from(how >> 1) % Dialect::ALL.len()];
        let encoding = Encoding { dialect, described: how & 1 == 1 };
        let context = Context::new(encoding, Version::new(u16::from(release % 5) + 2, 0, 0));
        Some(Self { context, what: *what, payload })
    }
}

/// What a client may send: what decodes must encode, and then decode to what encodes to the same bytes.
pub(crate) fn client(input: &[u8]) {
    let Some(Input { context, payload, .. }) = Input::read(input) else { return };
    if let Ok(request) = Request::decode(&context, payload)
        && let Ok(encoded) = request.encode(&context)
    {
        let again = Request::decode(&context, &encoded).expect("what was encoded decodes");
        assert_eq!(again.encode(&context).expect("it was encoded before"), encoded);
    }
}

/// What a server may send, as an answer to a command and as a push under a tag.
pub(crate) fn server(input: &[u8]) {
    let Some(Input { context, what, payload }) = Input::read(input) else { return };
    let command = Command::from_raw(what);
    if let Ok(reply) = Reply::decode(&context, command, payload)
        && let Ok(encoded) = reply.encode(&context)
    {
        Reply::decode(&context, command, &encoded).expect("what was encoded decodes");
    }
    let tag = u32::from(what % 3);
    if let Ok(Some(push)) = Push::decode(&context, tag, payload)
        && let Ok(encoded) = push.encode(&context)
    {
        let again = Push::decode(&context, tag, &encoded).expect("what was encoded decodes");
        assert_eq!(again.expect("it is a push").encode(&context).expect("it was encoded before"), encoded);
    }
}

/// The requests of a process that has started, in the order in which it sends them. The replies that a server may send to them have
/// the tags from [`tag::FIRST_REQUEST`] on.
pub fn asked() -> Vec<Asked> {
    let key = || "demo-1".parse().expect("a key");
    let proc = |rank| ProcId::new("demo".parse().expect("a namespace"), Rank::from_raw(rank));
    let other = || ProcId::wildcard("other".parse().expect("a namespace"));
    let group = || "grp1".parse().expect("a namespace");
    vec![
        Commit::new(vec![PutEntry::new(Scope::GLOBAL, key(), 1)]).into(),
        Fence::new(None).into(),
        Get::new(proc(1), Some(key())).into(),
        Get::new(proc(1), None).into(),
        Get::new(other(), Some(keys::JOB_SIZE.key_name())).into(),
        Lookup::new(vec![key(), "b".parse().expect("a key")]).into(),
        Spawn::new(vec![App::new("/bin/true", 1)]).into(),
        ConnectAll::new(vec![proc(0), other()]).into(),
        RegisterEvents::new(vec![]).into(),
        NotifyEvent::new(Event::new(Status::from_raw(-3001), proc(0))).into(),
        QueryInfo::new(vec![Query::new(&keys::QUERY_NAMESPACES).key(&keys::JOB_SIZE)]).into(),
        JobControl::new(vec![proc(1)]).into(),
        Monitor::new(Info::new(&keys::MONITOR_HEARTBEAT, true), Status::ERROR).into(),
        GetCredential::new().into(),
        IofPull::new(vec![proc(1)], IofChannels::STDOUT).into(),
        GroupConstruct::new(group(), vec![proc(0), other()]).into(),
        GroupDestruct::new(group()).into(),
        GroupInvite::new("grp2".parse().expect("a namespace"), vec![proc(1)]).into(),
        GroupJoin::new("grp3".parse().expect("a namespace"), proc(1), GroupOpt::ACCEPT).into(),
        ResolvePeers::new(None, Some(other().nspace)).into(),
        ResolveNodes::new(Some(other().nspace)).into(),
    ]
}

/// See [`conversation`].
const GIVES_UP: u8 = 0x80;
const EXPIRES: u8 = 0xff;

/// A server's half of a conversation with a client that has asked for one thing of each kind. After the two bytes that choose encoding
/// and release follow messages: which tag, two bytes of length, and the payload. Two tags that no request has stand for what the process
/// itself does: it waits no longer for the requests that the payload names, or their time is over.
pub(crate) fn conversation(input: &[u8]) {
    let [how, release, rest @ ..] = input else { return };
    let Some(Input { context, .. }) = Input::read(&[*how, *release, 0]) else { return };
    let me = ProcId::new("demo".parse().expect("a namespace"), Rank::from_raw(0));
    let mut client =
        Conversation::new(Caller::new(me, User { uid: Uid::new(1), gid: Gid::new(1) }, "n0", context));
    client.start();
    (1..).zip(asked()).for_each(|(id, request)| client.request(id, request));
    let mut answered = HashSet::new();
    let mut hear = |client: &mut Conversation| {
        while let Some(delivery) = client.next_delivery() {
            match delivery {
                Delivery::Reply { id, .. } => assert!(answered.insert(id), "request {id} is answered twice"),
                Delivery::Job(Ok(job)) => look(&job),
                Delivery::Job(Err(_)) | Delivery::Push(_) => {}
            }
        }
        // what it says can be read
        let mut sent = client.take_sent();
        while let Some(frame) = Framing::default().decode(&mut sent).expect("a frame") {
            if frame.tag >= tag::FIRST_REQUEST {
                Request::decode(&context, &frame.payload).expect("a request");
            }
        }
    };
    hear(&mut client);
    let mut rest = rest;
    while let [what, low, high, behind @ ..] = rest {
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(behind.len());
        let (payload, behind) = behind.split_at(length);
        match *what {
            GIVES_UP => client.give_up(&payload.iter().map(|id| u64::from(*id)).collect()),
            EXPIRES => payload.iter().for_each(|id| client.expire(u64::from(*id))),
            _ => {}
        }
        let tag = if *what < 3 { u32::from(*what) } else { tag::FIRST_REQUEST + u32::from(what - 3) };
        client.receive(&Frame { index: 0, tag, payload: Bytes::copy_from_slice(payload) });
        hear(&mut client);
        rest = behind;
    }
}

/// Questions that any job answers somehow.
fn look(job: &JobData) {
    let rank = Rank::from_raw(1);
    for target in
        [Target::Job, Target::Proc(rank), Target::App(0), Target::AppOf(rank), Target::Session(None)]
    {
        for key in
            [keys::JOB_SIZE.name(), keys::LOCAL_RANK.name(), keys::APP_SIZE.name(), keys::NODE_MAP.name()]
        {
            let _ = job.lookup(key, &target);
        }
    }
    for node in [NodeRef::Name("n0"), NodeRef::Id(0), NodeRef::Of(rank)] {
        let _ = job.lookup(keys::LOCAL_PEERS.name(), &Target::Node(node));
    }
}
