//! Strategies for what a process and its server say to each other.

use std::sync::Arc;

use bytes::Bytes;
use pmix_types::job::{AppParts, JobData, NodeParts, Parts};
use pmix_types::map::{NodeMap, ProcMap};
use pmix_types::message::{
    Abort, Allocate, Changes, Collected, Commit, Connect, ConnectReply, Credential, DeregisterEvents,
    Disconnect, Fabric, Failure, Fence, Fenced, Finalize, Get, GetCredential, GetReply, GroupConstruct,
    GroupDestruct, GroupInvite, GroupJoin, GroupLeave, GroupReply, Hello, Identity, IofDeregister, IofPull,
    IofPush, JobControl, Log, Lookup, LookupReply, Modex, Monitor, NotifyEvent, Output, ProcData, Publish,
    Push, PutEntry, QueryInfo, QueryReply, RegisterEvents, Reply, Request, ResolveNodes, ResolvePeers,
    ResourceBlock, SessionControl, Spawn, SpawnReply, Unpublish, ValidateCredential, Welcome,
};
use pmix_types::trace::TraceContext;
use pmix_types::{
    App, Directives, Event, Info, IofChannels, KeyName, KeyVal, Pdata, Pid, ProcId, Query, Rank, RankSet,
    ResourceUnit, Scope, Status, Value,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::{Sample, named_nspace, named_proc, text, values};

fn put_entry() -> impl Strategy<Value = PutEntry> {
    (Scope::sample(0), KeyName::sample(0), Value::sample(1))
        .prop_map(|(scope, key, value)| PutEntry::new(scope, key, value))
}

fn proc_data() -> impl Strategy<Value = ProcData> {
    (named_proc(), vec(put_entry(), 0..3)).prop_map(|(proc, entries)| ProcData::new(proc, entries))
}

pub(crate) fn modex() -> impl Strategy<Value = Modex> {
    vec(proc_data(), 0..3).prop_map(Modex::new)
}

pub(crate) fn changes() -> impl Strategy<Value = Changes> {
    let ranks = vec(0..40u32, 0..5).prop_map(|ranks| ranks.into_iter().map(Rank::from_raw).collect());
    let others = btree_map(named_nspace(), ranks, 0..3);
    (any::<(u64, u64, u64)>(), vec(proc_data(), 0..3), others).prop_map(
        |((server, since, generation), procs, others)| {
            let mut changes = Changes::new(server, since, generation);
            (changes.procs, changes.others) = (procs, others);
            changes
        },
    )
}

pub(crate) fn hello() -> impl Strategy<Value = Hello> {
    let identity = prop_oneof![
        named_proc().prop_map(Identity::Client),
        option::of(named_proc()).prop_map(Identity::Tool)
    ];
    (identity, Pid::sample(0), Directives::sample(1)).prop_map(|(identity, pid, directives)| {
        let mut hello = Hello::new(identity, pid);
        hello.directives = directives;
        hello
    })
}

fn get() -> impl Strategy<Value = Get> {
    (named_proc(), option::of(KeyName::sample(0)), Directives::sample(1)).prop_map(
        |(proc, key, directives)| {
            let mut get = Get::new(proc, key);
            get.directives = directives;
            get
        },
    )
}

fn fence() -> impl Strategy<Value = Fence> {
    let trace = option::of((any::<[u8; 16]>(), any::<[u8; 8]>()));
    let parts = (option::of(vec(named_proc(), 0..3)), any::<u64>(), trace, Directives::sample(1));
    parts.prop_map(|(procs, since, trace, directives)| {
        let mut fence = Fence::new(procs);
        fence.since = since;
        fence.trace = trace.and_then(|(trace, span)| TraceContext::root(trace, span));
        fence.directives = directives;
        fence
    })
}

fn abort() -> impl Strategy<Value = Abort> {
    (any::<i32>(), text(), vec(named_proc(), 0..3)).prop_map(|(status, message, procs)| {
        let mut abort = Abort::new(status, message);
        abort.procs = procs;
        abort
    })
}

fn register_events() -> impl Strategy<Value = RegisterEvents> {
    (vec(Status::sample(0), 0..3), Directives::sample(1)).prop_map(|(codes, directives)| {
        let mut register = RegisterEvents::new(codes);
        register.directives = directives;
        register
    })
}

fn iof_pull() -> impl Strategy<Value = IofPull> {
    (vec(named_proc(), 0..3), IofChannels::sample(0), Directives::sample(1)).prop_map(
        |(procs, channels, directives)| {
            let mut pull = IofPull::new(procs, channels);
            pull.directives = directives;
            pull
        },
    )
}

fn iof_push() -> impl Strategy<Value = IofPush> {
    (vec(named_proc(), 0..3), vec(any::<u8>(), 0..9), Directives::sample(1)).prop_map(
        |(targets, data, directives)| {
            let mut push = IofPush::new(targets, data.into());
            push.directives = directives;
            push
        },
    )
}

fn output() -> impl Strategy<Value = Output> {
    (named_proc(), IofChannels::sample(0), vec(any::<u8>(), 0..9), Directives::sample(1)).prop_map(
        |(source, channels, data, info)| {
            let mut output = Output::new(source, channels, data.into());
            output.info = info;
            output
        },
    )
}

/// A request that is one list and directives.
macro_rules! list_request {
    ($request:ident, $items:expr) => {
        (vec($items, 0..3), Directives::sample(1)).prop_map(|(items, directives)| {
            let mut request = $request::new(items);
            request.directives = directives;
            Request::$request(request)
        })
    };
}

fn list_requests() -> impl Strategy<Value = Request> {
    prop_oneof![
        list_request!(Publish, Info::sample(1)),
        list_request!(Lookup, KeyName::sample(0)),
        list_request!(Unpublish, KeyName::sample(0)),
        list_request!(Spawn, App::sample(1)),
        list_request!(Connect, named_proc()),
        list_request!(Disconnect, named_proc()),
        (named_nspace(), Directives::sample(1)).prop_map(|(nspace, directives)| {
            let mut request = Disconnect::leave(nspace);
            request.directives = directives;
            Request::Disconnect(request)
        }),
        group_request(),
        list_request!(JobControl, named_proc()),
        list_request!(Log, Info::sample(1)),
    ]
}

fn group_request() -> impl Strategy<Value = Request> {
    let parts = (named_nspace(), vec(named_proc(), 0..3), named_proc(), any::<u8>(), Directives::sample(1));
    (0..5, parts).prop_map(|(which, (group, procs, leader, answer, given))| {
        let mut request = match which {
            0 => Request::GroupConstruct(GroupConstruct::new(group, procs)),
            1 => Request::GroupInvite(GroupInvite::new(group, procs)),
            2 => Request::GroupJoin(GroupJoin::new(group, leader, answer.into())),
            3 => Request::GroupLeave(GroupLeave::new(group)),
            _ => Request::GroupDestruct(GroupDestruct::new(group)),
        };
        match &mut request {
            Request::GroupConstruct(GroupConstruct { directives, .. })
            | Request::GroupInvite(GroupInvite { directives, .. })
            | Request::GroupJoin(GroupJoin { directives, .. })
            | Request::GroupLeave(GroupLeave { directives, .. })
            | Request::GroupDestruct(GroupDestruct { directives, .. }) => *directives = given,
            other => panic!("{} is none of them", other.operation()),
        }
        request
    })
}

fn manage_requests() -> impl Strategy<Value = Request> {
    let bytes = || vec(any::<u8>(), 0..5).prop_map(Bytes::from);
    let request = prop_oneof![
        any::<u8>().prop_map(|number| Request::Allocate(Allocate::new(number.into()))),
        (Info::sample(1), Status::sample(0))
            .prop_map(|(info, code)| Request::Monitor(Monitor::new(info, code))),
        Just(Request::GetCredential(GetCredential::new())),
        bytes().prop_map(|bytes| Request::ValidateCredential(ValidateCredential::new(bytes))),
        any::<u8>().prop_map(|number| Request::Fabric(Fabric::new(number.into()))),
        any::<Option<u32>>().prop_map(|session| Request::SessionControl(SessionControl::new(session))),
        (any::<u8>(), text(), vec(ResourceUnit::sample(0), 0..3)).prop_map(|(number, block, units)| {
            Request::ResourceBlock(ResourceBlock::new(number.into(), block, units))
        }),
    ];
    (request, Directives::sample(1)).prop_map(|(mut request, given)| {
        match &mut request {
            Request::Allocate(Allocate { directives, .. })
            | Request::Monitor(Monitor { directives, .. })
            | Request::GetCredential(GetCredential { directives, .. })
            | Request::ValidateCredential(ValidateCredential { directives, .. })
            | Request::SessionControl(SessionControl { directives, .. })
            | Request::Fabric(Fabric { directives, .. })
            | Request::ResourceBlock(ResourceBlock { directives, .. }) => *directives = given,
            other => panic!("{} is none of them", other.operation()),
        }
        request
    })
}

fn resolve() -> impl Strategy<Value = Request> {
    (any::<bool>(), option::of(text()), option::of(named_nspace())).prop_map(|(peers, node, nspace)| {
        match peers {
            true => Request::ResolvePeers(ResolvePeers::new(node, nspace)),
            false => Request::ResolveNodes(ResolveNodes::new(nspace)),
        }
    })
}

pub(crate) fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        8 => list_requests(),
        6 => manage_requests(),
        2 => resolve(),
        1 => vec(put_entry(), 0..3).prop_map(|entries| Commit::new(entries).into()),
        1 => get().prop_map(Request::Get),
        1 => fence().prop_map(Request::Fence),
        1 => abort().prop_map(Request::Abort),
        1 => vec(Query::sample(1), 0..3).prop_map(|queries| QueryInfo::new(queries).into()),
        2 => prop_oneof![
            register_events().prop_map(Request::RegisterEvents),
            any::<u64>().prop_map(|number| DeregisterEvents::new(number).into()),
        ],
        1 => Event::sample(1).prop_map(|event| NotifyEvent::new(event).into()),
        2 => prop_oneof![
            iof_pull().prop_map(Request::IofPull),
            any::<u64>().prop_map(|number| IofDeregister::new(number).into()),
            iof_push().prop_map(Request::IofPush),
        ],
        1 => Directives::sample(1).prop_map(|directives| Finalize::new().with_directives(directives).into()),
    ]
}

fn get_reply() -> impl Strategy<Value = GetReply> {
    (option::of(Value::sample(1)), modex(), option::of(job())).prop_map(|(value, modex, job)| {
        let mut reply = GetReply::default();
        (reply.value, reply.modex, reply.job) = (value, Arc::new(modex), job.map(Arc::new));
        reply
    })
}

pub(crate) fn reply() -> impl Strategy<Value = Reply> {
    let query_reply = (Status::sample(0), vec(Info::sample(1), 0..3));
    prop_oneof![
        Just(Reply::Done),
        get_reply().prop_map(Reply::Get),
        (modex(), any::<(u64, u64)>()).prop_map(|(modex, (since, generation))| {
            let collected = Collected::Encoded(pmix_proto::modex::encode(&modex));
            Reply::Fence(Fenced::new(collected).with_changes(since, generation))
        }),
        query_reply.prop_map(|(status, results)| Reply::Query(QueryReply::new(status, results))),
        any::<u64>().prop_map(Reply::Registered),
        (Status::sample(0), vec(Pdata::sample(1), 0..3))
            .prop_map(|(status, found)| Reply::Lookup(LookupReply::new(status, found))),
        (named_nspace(), option::of(job())).prop_map(|(nspace, job)| {
            let mut reply = SpawnReply::new(nspace);
            reply.job = job.map(Arc::new);
            Reply::Spawn(reply)
        }),
        (vec(job(), 0..3), option::of(named_nspace()), option::of(Rank::sample(0))).prop_map(
            |(jobs, nspace, rank)| {
                let mut reply = ConnectReply::default();
                (reply.jobs, reply.nspace, reply.rank) =
                    (jobs.into_iter().map(Arc::new).collect(), nspace, rank);
                Reply::Connect(reply)
            }
        ),
        (vec(ProcId::sample(0), 0..3), option::of(any::<u64>()), any::<bool>(), modex(), vec(job(), 0..3))
            .prop_map(|(members, context_id, partial, modex, jobs)| {
                let mut reply = GroupReply::default();
                (reply.members, reply.context_id, reply.partial) = (members, context_id, partial);
                (reply.modex, reply.jobs) = (Arc::new(modex), jobs.into_iter().map(Arc::new).collect());
                Reply::Group(Arc::new(reply))
            }),
        vec(Info::sample(1), 0..3).prop_map(Reply::Info),
        (vec(any::<u8>(), 0..5), vec(Info::sample(1), 0..3))
            .prop_map(|(bytes, info)| Reply::Credential(Credential::new(bytes.into(), info))),
        prop_oneof![
            vec(ProcId::sample(0), 0..3).prop_map(Reply::Procs),
            vec(text(), 0..3).prop_map(Reply::Nodes),
        ],
    ]
}

pub(crate) fn failure() -> impl Strategy<Value = Failure> {
    (Status::sample(0), text(), vec(ProcId::sample(0), 0..3))
        .prop_map(|(status, message, procs)| Failure::new(status, message).with_procs(procs))
}

pub(crate) fn push() -> impl Strategy<Value = Push> {
    prop_oneof![
        (vec(any::<u64>(), 0..4), Event::sample(1), any::<bool>())
            .prop_map(|(registrations, event, is_kept)| Push::Event { registrations, event, is_kept }),
        any::<u64>().prop_map(|missed| Push::Lagged { missed }),
        (any::<u64>(), output()).prop_map(|(registration, output)| Push::Output { registration, output }),
        any::<(u64, u64)>().prop_map(|(registration, bytes)| Push::OutputLost { registration, bytes }),
        Just(Push::Stopping),
    ]
}

pub(crate) fn welcome() -> impl Strategy<Value = Welcome> {
    (named_proc(), named_proc(), text(), option::of(job())).prop_map(|(proc, server, hostname, job)| {
        let welcome = Welcome::new(proc, server, hostname);
        match job {
            Some(job) => welcome.with_job(Arc::new(job)),
            None => welcome,
        }
    })
}

/// Own keys, so that no value contradicts the maps.
fn key_vals() -> impl Strategy<Value = Vec<KeyVal>> {
    let key_val = ("my[.]k[0-9]", Value::sample(1));
    vec(key_val.prop_map(|(key, value)| KeyVal { key: key.parse().unwrap(), value }), 0..3)
}

/// Values of a key by rank: of one type or of several.
fn column() -> impl Strategy<Value = Vec<(Rank, Value)>> {
    let types = values(1);
    let one_type =
        (0..types.len()).prop_flat_map(move |index| btree_map(0..12u32, types[index].clone(), 1..6)).boxed();
    let mixed = btree_map(0..12u32, Value::sample(1), 1..6);
    prop_oneof![one_type, mixed]
        .prop_map(|values| values.into_iter().map(|(rank, value)| (Rank::from_raw(rank), value)).collect())
}

pub(crate) fn job() -> impl Strategy<Value = JobData> {
    let maps = (1..4u32, 1..4u32).prop_map(|(nodes, per_node)| {
        let names: Vec<_> = (0..nodes).map(|node| format!("n{node}")).collect();
        (NodeMap::from_names(names).unwrap(), ProcMap::block(nodes, per_node).unwrap())
    });
    let columns = btree_map("my[.]k[0-9]", column(), 0..3);
    let values = (key_vals(), key_vals(), key_vals(), key_vals(), key_vals());
    (named_nspace(), option::of(maps), values, columns).prop_map(|(nspace, maps, values, columns)| {
        let mut parts = Parts::new(nspace);
        let (of_app, of_node);
        (parts.resources, parts.session, parts.job, of_app, of_node) = values;
        if let Some((nodes, procs)) = maps {
            let ranks = RankSet::from_range(0..=0).unwrap();
            parts.apps.push(AppParts { number: 0, ranks, values: of_app });
            parts.nodes.push(NodeParts { name: Some("n0".into()), id: None, values: of_node });
            (parts.node_map, parts.proc_map) = (Some(nodes), Some(procs));
            let known = |(rank, _): &(Rank, Value)| {
                parts.proc_map.as_ref().is_some_and(|map| u64::from(rank.to_raw()) < map.rank_count())
            };
            parts.procs = columns
                .into_iter()
                .map(|(key, column)| (key.parse().unwrap(), column.into_iter().filter(known).collect()))
                .collect();
        }
        JobData::from_parts(parts).unwrap()
    })
}
