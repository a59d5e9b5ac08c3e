//! Strategies for what a process and its server say to each other.

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use pmix_types::job::{AppParts, JobData, NodeParts, Parts};
use pmix_types::map::{NodeMap, ProcMap};
use pmix_types::message::*;
use pmix_types::trace::TraceContext;
use pmix_types::{
    AllocDirective, App, Directives, Event, FabricOperation, GroupOpt, Info, IofChannels, KeyName, KeyVal,
    Nspace, Pdata, Pid, ProcId, Query, Rank, RankSet, ResourceBlockDirective, ResourceUnit, Scope, Status,
    Value, for_each_request,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;

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

fn output() -> impl Strategy<Value = Output> {
    (named_proc(), IofChannels::sample(0), vec(any::<u8>(), 0..9), Directives::sample(1)).prop_map(
        |(source, channels, data, info)| {
            let mut output = Output::new(source, channels, data.into());
            output.info = info;
            output
        },
    )
}

/// A field of a request, which names processes and groups that have names.
trait Field: Sized {
    fn field() -> BoxedStrategy<Self>;
}

macro_rules! fields {
    ($($type:ty: $strategy:expr;)+) => {$(
        impl Field for $type {
            fn field() -> BoxedStrategy<Self> {
                Strategy::boxed($strategy)
            }
        }
    )+};
}

macro_rules! sampled {
    ($($type:ty)+) => {
        fields! { $($type: <$type>::sample(1);)+ }
    };
}

sampled! { i32 u64 String Bytes Status Info Event Directives AllocDirective ResourceBlockDirective IofChannels }

fields! {
    ProcId: named_proc();
    Nspace: named_nspace();
    PutEntry: put_entry();
    KeyName: KeyName::sample(0);
    App: App::sample(1);
    Query: Query::sample(1);
    ResourceUnit: ResourceUnit::sample(0);
    FabricOperation: any::<u8>().prop_map(FabricOperation::from);
    GroupOpt: any::<u8>().prop_map(GroupOpt::from);
    u32: any::<u32>();
    TraceContext: any::<([u8; 16], [u8; 8])>()
        .prop_filter_map("no trace", |(trace, span)| TraceContext::root(trace, span));
}

impl<T: Field + Debug + 'static> Field for Vec<T> {
    fn field() -> BoxedStrategy<Self> {
        vec(T::field(), 0..3).boxed()
    }
}

impl<T: Field + Debug + 'static> Field for Option<T> {
    fn field() -> BoxedStrategy<Self> {
        option::of(T::field()).boxed()
    }
}

macro_rules! requests {
    ($(
        $name:ident $snake:ident { $($columns:tt)* } ($($field:ident)*) ($($rest:ident $(= $directives:literal)?)*)
    )+) => {
        /// A request of each operation, made of its fields.
        #[allow(unused_mut, unused_parens, reason = "for requests with few fields")]
        pub(crate) fn request() -> impl Strategy<Value = Request> {
            Union::new([$(filled!($name ($($field)*) ($($rest)*))),+])
        }
    };
}

macro_rules! filled {
    ($name:ident ($($field:ident)*) ($($rest:ident)*)) => {{
        let new = ($(of(|request: &$name| &request.$field),)* Just(()))
            .prop_map(|($($field,)* ())| $name::new($($field),*));
        (new, ($(of(|request: &$name| &request.$rest),)* Just(())))
            .prop_map(|(mut request, ($($rest,)* ()))| {
                $(request.$rest = $rest;)*
                Request::from(request)
            })
            .boxed()
    }};
}

/// The strategy of a field, by its type.
fn of<R, T: Field>(_: fn(&R) -> &T) -> BoxedStrategy<T> {
    T::field()
}

for_each_request!(requests);

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
