//! Each command of the native wire, by its number: served, passed to the host, or refused; as `COMMANDS.md` of
//! `pmix-native` says.

use bytes::{BufMut, Bytes, BytesMut};
use pmix_client::types::{
    AllocDirective, App, Cpuset, DataRange, Directives, Info, IofChannels, KeyVal, Query, Scope, Status,
    Value, keys,
};
use pmix_client::{Nspace, ProcId, Rank};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_native::conn::{Peer as Who, Role, ToolIdentity};
use pmix_native::msg::{
    Body, Command, CommitPart, Context, DeviceDistances, GroupDestruct, IofDeregister, IofPull, Log, Lookup,
    Publish, Request,
};
use pmix_native::{Dialect, Encoding};
use pmix_server::topology::{DeviceFilter, Topology};
use pmix_server::{HostModule, NativeWire, ServerBuilder, Upcall};
use pmix_tests::{NativeSession, TestNode, Willing, native_user};
use pmix_types::message::{
    Abort, Allocate, Connect, Disconnect, Fence, Finalize, Get, GetCredential, GroupConstruct, GroupLeave,
    IofPush, JobControl, Monitor, NotifyEvent, QueryInfo, RegisterEvents, Request as Operation, ResolveNodes,
    ResolvePeers, SessionControl, Spawn, ValidateCredential,
};
use pmix_types::{Event, Uid};

/// Who serves a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    /// The server, whatever its host does.
    Server,
    /// The host, if it has this entry.
    Host(Upcall),
    /// Nobody.
    No,
}
use Served::{Host, No, Server};

/// What becomes of each number of the C library, and of one that nobody has.
const COMMANDS: [(u8, Served); 41] = [
    (0, Server),
    (1, Host(Upcall::Abort)),
    (2, Server),
    (3, Server),
    (4, Server),
    (5, Server),
    (6, Host(Upcall::Publish)),
    (7, Host(Upcall::Lookup)),
    (8, Host(Upcall::Unpublish)),
    (9, Host(Upcall::Spawn)),
    (10, Server),
    (11, Server),
    (12, Server),
    (13, Server),
    (14, Server),
    (15, Server),
    (16, Host(Upcall::Log)),
    (17, Host(Upcall::Allocate)),
    (18, Host(Upcall::JobControl)),
    (19, Host(Upcall::Monitor)),
    (20, Host(Upcall::GetCredential)),
    (21, Host(Upcall::ValidateCredential)),
    (22, Host(Upcall::IofPull)),
    (23, Host(Upcall::PushStdin)),
    (24, Server),
    (25, No),
    (26, No),
    (27, Server),
    (28, Server),
    (29, Server),
    (30, No),
    (31, No),
    (32, Server),
    (33, Server),
    (34, No),
    (35, Host(Upcall::SessionControl)),
    (36, No),
    (37, Server),
    (38, Server),
    (39, No),
    (200, No),
];

/// What becomes of each number: those of requests of our own, which no server of the C library knows, are answered here or by the host.
fn commands() -> impl Iterator<Item = (u8, Served)> {
    let examples = Operation::examples().into_iter();
    let own = examples.filter_map(|request| {
        let number = Command::of(&request)?.to_raw();
        let is_listed = COMMANDS.iter().any(|(listed, _)| *listed == number);
        (!is_listed).then(|| (number, Upcall::of(&request).map_or(Server, Host)))
    });
    COMMANDS.into_iter().chain(own)
}

/// The first number that no command of the C library has.
const FIRST_OWN: u8 = 40;

/// Commands whose answer is a status alone.
const BARE: &[Command] = &[
    Command::ABORT,
    Command::COMMIT,
    Command::FENCE,
    Command::FINALIZE,
    Command::PUBLISH,
    Command::UNPUBLISH,
    Command::DISCONNECT,
    Command::NOTIFY,
    Command::REGISTER_EVENTS,
    Command::DEREGISTER_EVENTS,
    Command::LOG,
    Command::IOF_PUSH,
    Command::GROUP_DESTRUCT,
    Command::GROUP_LEAVE,
    Command::IOF_DEREGISTER,
];

fn me() -> ProcId {
    ProcId::new(Nspace::new("job").unwrap(), Rank::from_raw(0))
}

/// A well-formed request with this number. `pulled` is the server's number of an output subscription.
fn request(number: u8, pulled: u64) -> Option<Request> {
    let job = || vec![ProcId::wildcard(me().nspace)];
    let key = || "k".parse().unwrap();
    let info = || Info::dynamic(key(), Value::Uint32(1));
    let code = Status::from_raw(-3000);
    let group = || "g".parse().unwrap();
    Some(match Command::from_raw(number) {
        Command::REQ => Request::Job,
        Command::ABORT => Abort::new(1, String::new()).into(),
        Command::COMMIT => {
            let pair = KeyVal { key: key(), value: Value::Uint32(1) };
            Request::Commit(vec![CommitPart::new(Scope::GLOBAL, vec![pair])])
        }
        Command::FENCE => Fence::new(Some(job())).into(),
        Command::GET => Get::new(me(), Some(key())).into(),
        Command::FINALIZE => Finalize::new().into(),
        Command::PUBLISH => {
            let mut publish = Publish::new(Uid::ROOT);
            publish.info = vec![info()].into();
            Request::Publish(publish)
        }
        Command::LOOKUP => Request::Lookup(Lookup::new(Uid::ROOT, vec![key()])),
        Command::UNPUBLISH => Request::Unpublish(Lookup::new(Uid::ROOT, vec![key()])),
        Command::SPAWN => Spawn::new(vec![App::new("true", 1)]).into(),
        Command::CONNECT => Connect::new(job()).into(),
        Command::DISCONNECT => Disconnect::new(job()).into(),
        Command::NOTIFY => NotifyEvent::new(Event::new(code, me()).with_range(DataRange::LOCAL)).into(),
        Command::REGISTER_EVENTS => RegisterEvents::new(vec![code]).into(),
        Command::DEREGISTER_EVENTS => Request::DeregisterEvents(vec![code]),
        Command::QUERY => QueryInfo::new(vec![Query::new(&keys::QUERY_NAMESPACES)]).into(),
        Command::LOG => {
            let text = Info::new(&keys::LOG_STDERR, "a line of a test\n");
            let mut log = Log::new(vec![text].into());
            log.time = Some(Default::default());
            Request::Log(log)
        }
        Command::ALLOCATE => Allocate::new(AllocDirective::NEW).into(),
        Command::JOB_CONTROL => {
            let mut control = JobControl::new(job());
            control.directives = vec![Info::new(&keys::JOB_CTRL_RESUME, true)].into();
            control.into()
        }
        Command::MONITOR => Monitor::new(info(), code).into(),
        Command::GET_CREDENTIAL => GetCredential::new().into(),
        Command::VALIDATE_CREDENTIAL => ValidateCredential::new("secret".into()).into(),
        Command::IOF_PULL => Request::IofPull(IofPull::new(job(), IofChannels::STDOUT, 5)),
        Command::IOF_PUSH => IofPush::new(vec![me()], "line\n".into()).into(),
        Command::IOF_DEREGISTER => Request::IofDeregister(IofDeregister::new(pulled)),
        Command::GROUP_CONSTRUCT => GroupConstruct::new(group(), job())
            .with_directives(Directives::new().with(&keys::GROUP_ASSIGN_CONTEXT_ID, true))
            .into(),
        Command::GROUP_LEAVE => GroupLeave::new(group()).into(),
        Command::GROUP_DESTRUCT => Request::GroupDestruct(GroupDestruct::new(group())),
        Command::FABRIC_REGISTER => Request::FabricRegister(Default::default()),
        Command::FABRIC_UPDATE => Request::FabricUpdate(0),
        Command::DEVICE_DISTANCES => {
            let cpuset = Cpuset { source: "hwloc".into(), list: Some("0".into()) };
            Request::DeviceDistances(DeviceDistances::new(Value::Undef, cpuset))
        }
        Command::REFRESH => Request::Refresh(me()),
        Command::SESSION_CONTROL => SessionControl::new(Some(1)).into(),
        Command::RESOLVE_PEERS => ResolvePeers::new(None, Some(me().nspace)).into(),
        Command::RESOLVE_NODES => ResolveNodes::new(Some(me().nspace)).into(),
        command => {
            Operation::examples().into_iter().find(|example| Command::of(example) == Some(command))?.into()
        }
    })
}

/// A command of which nothing is known but its number, with something behind it.
fn unknown(context: &Context, number: u8) -> Bytes {
    let mut payload = BytesMut::from(&*Request::Other(Command::from_raw(number)).encode(context).unwrap());
    payload.put_slice(b"\x02\x0aknows\0");
    payload.freeze()
}

/// What must come with a success.
fn check_body(number: u8, body: &Body) {
    let is_as_due = match (Command::from_raw(number), body) {
        (Command::REQ, Body::Job(job)) => *job.nspace == *me().nspace,
        (Command::GET, Body::Get(found)) => !found.is_empty(),
        (Command::REFRESH, Body::Refreshed(entries)) => entries.len() == 1,
        (Command::LOOKUP, Body::Lookup(found)) => found.len() == 1,
        (Command::SPAWN, Body::Spawn(spawned)) => spawned.nspace == "child",
        (Command::QUERY, Body::Info(found)) => !found.is_empty(),
        (_, Body::Info(info)) => *info == Willing::said(),
        (Command::GET_CREDENTIAL, Body::Credential(got)) => {
            got.credential == "secret" && got.info == Willing::said()
        }
        (Command::IOF_PULL, Body::Iof(_)) => true,
        // without a host nobody numbers it
        (Command::GROUP_CONSTRUCT, Body::Group(group)) => {
            matches!(group.context_id, None | Some(0 | 7)) && matches!(&*group.members, [] | [_])
        }
        (Command::DEVICE_DISTANCES, Body::Distances(found)) => {
            let first = "0".parse().unwrap();
            *found == Topology::read().compute_distances(&first, &DeviceFilter::default())
        }
        (Command::RESOLVE_PEERS, Body::Peers(procs)) => *procs == [me()],
        (Command::RESOLVE_NODES, Body::Nodes(nodes)) => nodes.as_deref() == Some("n0"),
        // of no other job there is anything to tell
        (Command::CONNECT, body) => matches!(body, Body::Empty) || *body == Body::Connect(Vec::new()),
        (command, body) => (BARE.contains(&command) || number >= FIRST_OWN) && *body == Body::Empty,
    };
    assert!(
        is_as_due,
        "command {number}, neither in `check_body` nor, for a status alone, in `BARE`: {body:?}"
    );
}

/// Sends every command as a process of the job; goodbye comes last.
async fn sends_all(node: &TestNode, encoding: Encoding, version: &str, has_host: bool) {
    let mut session = NativeSession::open(node, Who::Client(me()), encoding, version).await;
    let mut pulled = 1;
    let (goodbye, all): (Vec<_>, Vec<_>) = commands().partition(|(number, _)| *number == 5);
    for (number, served) in all.into_iter().chain(goodbye) {
        // there is no wish to be ended if none could be made
        let served = if number == 29 && !has_host { No } else { served };
        let due = match served {
            Server => Status::SUCCESS,
            Host(_) if has_host => Status::SUCCESS,
            Host(_) | No => Status::ERR_NOT_SUPPORTED,
        };
        let Some(request) = request(number, pulled) else {
            let answer = session.ask_bytes(unknown(&session.context, number)).await;
            let refusal = pmix_native::msg::Reply::from(due).encode(&session.context).unwrap();
            assert_eq!(answer, refusal, "command {number}");
            continue;
        };
        if number == 28 {
            // the one before has left the group
            assert_eq!(session.ask(&self::request(24, 0).unwrap()).await.status, Status::SUCCESS);
        }
        if !request.command().is_answered() {
            session.tell(&request).await;
            continue;
        }
        let reply = session.ask(&request).await;
        if number == 29 && !has_host {
            assert_ne!(reply.status, Status::SUCCESS);
            continue;
        }
        assert_eq!(reply.status, due, "command {number}, {encoding:?}, {version}, host: {has_host}");
        match reply.body {
            Body::Iof(id) => pulled = id,
            body if reply.status == Status::SUCCESS => check_body(number, &body),
            body => assert_eq!(body, Body::Empty, "command {number}"),
        }
    }
}

fn encodings() -> impl Iterator<Item = Encoding> {
    Dialect::ALL.into_iter().flat_map(|dialect| [Encoding::plain(dialect), Encoding::described(dialect)])
}

#[tokio::test]
async fn each_command_is_served_as_listed_in_each_dialect() {
    let node = TestNode::builder(1).host(Willing).server(|server| server.native_wire(NativeWire::On));
    let node = node.start().await;
    for encoding in encodings() {
        sends_all(&node, encoding, "4.2.2", true).await;
    }
    for version in ["3.2.5", "5.0.11", "6.1.0"] {
        sends_all(&node, Encoding::plain(Dialect::V41), version, true).await;
    }
}

#[tokio::test]
async fn gen_11_what_is_the_hosts_is_refused_without_one_in_each_dialect() {
    let node = TestNode::builder(1).server(|server| server.native_wire(NativeWire::On)).start().await;
    for encoding in encodings() {
        sends_all(&node, encoding, "4.2.2", false).await;
    }
}

#[tokio::test]
async fn tol_09b_tools_are_told_their_name_and_ask() {
    for encoding in encodings() {
        let server = |server: ServerBuilder| server.native_wire(NativeWire::On).tool_support(true);
        let node = TestNode::builder(1).host(Willing).server(server).start().await;
        let identity = ToolIdentity::Assign;
        let tool = Who::Tool { role: Role::Tool, user: native_user(), identity };
        let mut session = NativeSession::open(&node, tool, encoding, "4.2.2").await;
        assert_eq!(session.proc.to_string(), "tool:0");
        let Body::Job(job) = session.ask(&Request::Job).await.body else { panic!("no job data") };
        assert_eq!(job.nspace, "tool");
        let reply = session.ask(&request(15, 0).unwrap()).await;
        let Body::Info(found) = reply.body else { panic!("{reply:?}") };
        assert_eq!(found[0].value.as_str(), Some("job"));
        assert_eq!(session.ask(&Finalize::new().into()).await.status, Status::SUCCESS);
    }
}

/// The document says of each command what the tests above have seen, and of the standard host what it declares.
#[test]
fn the_document_lists_each_command_as_it_is() {
    let document = include_str!("../../../../pmix-native/COMMANDS.md");
    let standard = StandardHost::new(LocalLauncher::new("n0"), MemoryExchange::single("n0")).capabilities();
    for (number, served) in COMMANDS.into_iter().filter(|(number, _)| *number < FIRST_OWN) {
        let name = Command::from_raw(number).name();
        let by = match served {
            Server => "server",
            Host(upcall) if standard.has(upcall) => "host",
            Host(_) => "host, not `StandardHost`",
            No => "refused",
        };
        let start = format!("| {number} | ");
        let row = document.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{start}"));
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        assert_eq!(cells[3], by, "{row}");
        if let Some(name) = name {
            assert_eq!(cells[2], format!("`{name}`"), "{row}");
        }
    }
}
