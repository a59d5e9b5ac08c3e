//! What the servers of all nodes have counted, as their hosts tell each other.

use std::time::Duration;

use pmix_server::{CollectiveStats, ServerStats};
use pmix_types::{DataArray, DataType, Info, Key, Query, Value};

use super::elsewhere::ask_nodes;
use crate::internode::Site;
use crate::user::{User, own_uid};

/// The key by which a host asks another one.
pub(super) const COUNTS: Key<DataArray> = Key::new("rs.pmix.counts", DataType::DATA_ARRAY);

/// A part of what a server has counted, by its name between hosts.
type Part<T> = (&'static str, fn(&mut ServerStats) -> &mut T);

/// Each number.
const NUMBERS: [Part<u64>; 16] = [
    ("connections", |stats| &mut stats.connections),
    ("refused", |stats| &mut stats.refused),
    ("clients", |stats| &mut stats.clients),
    ("tools", |stats| &mut stats.tools),
    ("requests", |stats| &mut stats.requests),
    ("fences", |stats| &mut stats.fences),
    ("gets", |stats| &mut stats.gets),
    ("commits", |stats| &mut stats.commits),
    ("bytes_committed", |stats| &mut stats.bytes_committed),
    ("events", |stats| &mut stats.events),
    ("events_delivered", |stats| &mut stats.events_delivered),
    ("output_dropped", |stats| &mut stats.output_dropped),
    ("upcalls", |stats| &mut stats.upcalls),
    ("nspaces", |stats| &mut stats.nspaces),
    ("events_kept", |stats| &mut stats.events_kept),
    ("waiting", |stats| &mut stats.waiting),
];

/// Each kind of collective: how many have succeeded and failed, their time in nanoseconds, and how many took how long.
const COLLECTIVES: [Part<CollectiveStats>; 5] = [
    ("fence", |stats| &mut stats.fence),
    ("connect", |stats| &mut stats.connect),
    ("disconnect", |stats| &mut stats.disconnect),
    ("group_construct", |stats| &mut stats.group_construct),
    ("group_destruct", |stats| &mut stats.group_destruct),
];

/// A number is not more than this, so that sums of what other nodes tell have room.
const MOST: u64 = 1 << 53;

/// What the servers of this node and of these others have counted; `None` of one that does not answer.
pub(crate) async fn of_all(site: &Site, mut nodes: Vec<String>) -> Vec<(String, Option<ServerStats>)> {
    let Ok(server) = site.server() else { return Vec::new() };
    let query = Query::new(&COUNTS);
    let caller = User::new(server.proc_id().clone(), own_uid(), None);
    nodes.retain(|node| node != site.node());
    let (own, others) = tokio::join!(server.stats(), ask_nodes(site, nodes, &caller, &query));
    let others = others.into_iter().map(|(node, answer)| {
        let counted = answer.inspect_err(
            |error| tracing::debug!(node, %error, "a node does not say what its server has counted"),
        );
        (node, counted.ok().and_then(|value| read(&value)))
    });
    std::iter::once((site.node().to_owned(), Some(own))).chain(others).collect()
}

/// What is told to another host.
pub(super) fn write(mut stats: ServerStats) -> Value {
    let mut fields = Vec::new();
    for (name, number) in NUMBERS {
        fields.push(Info::new(&Key::<u64>::new(name, DataType::UINT64), *number(&mut stats)));
    }
    for (name, of) in COLLECTIVES {
        let CollectiveStats { completed, failed, time, took, .. } = *of(&mut stats);
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let row = [completed, failed, nanos].into_iter().chain(took).collect();
        fields.push(Info::new(&Key::<DataArray>::new(name, DataType::DATA_ARRAY), DataArray::Uint64(row)));
    }
    DataArray::Info(fields).into()
}

/// What another host tells; `None` if it makes no sense. What is left out, as by an older one, is 0.
fn read(value: &Value) -> Option<ServerStats> {
    let mut stats = ServerStats::default();
    for info in value.as_infos()? {
        let name = &*info.key;
        if let Some((_, number)) = NUMBERS.iter().find(|(known, _)| *known == name)
            && let Ok(told) = info.get::<u64>()
        {
            *number(&mut stats) = told.min(MOST);
        }
        if let Some((_, of)) = COLLECTIVES.iter().find(|(known, _)| *known == name)
            && let Ok(DataArray::Uint64(row)) = info.get()
            && let [completed, failed, nanos, took @ ..] = row.as_slice()
        {
            let counted = of(&mut stats);
            (counted.completed, counted.failed) = ((*completed).min(MOST), (*failed).min(MOST));
            counted.time = Duration::from_nanos(*nanos);
            counted.took.iter_mut().zip(took).for_each(|(known, told)| *known = (*told).min(MOST));
        }
    }
    Some(stats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_host_tells_another_one_reads_and_nothing_is_left_out() {
        let mut stats = ServerStats::default();
        let mut next = 0;
        let mut number = || {
            next += 1;
            next
        };
        NUMBERS.iter().for_each(|(_, of)| *of(&mut stats) = number());
        for (_, of) in COLLECTIVES {
            let counted = of(&mut stats);
            (counted.completed, counted.failed) = (number(), number());
            counted.time = Duration::new(number(), 7);
            counted.took.iter_mut().for_each(|took| *took = number());
        }
        assert_eq!(read(&write(stats)), Some(stats));
        // each field is in the tables
        let text = format!("{stats:?}");
        assert!(!text.contains(": 0,") && !text.contains(": 0 "), "{text}");
    }

    #[test]
    fn what_cannot_be_read_is_0_and_sums_of_what_is_told_have_room() {
        assert_eq!(read(&Value::Bool(true)), None);
        let odd = [
            Info::new(&Key::<String>::new("gets", DataType::STRING), "many"),
            Info::new(&Key::<u64>::new("fence", DataType::UINT64), 3_u64),
            Info::new(&Key::<DataArray>::new("connect", DataType::DATA_ARRAY), DataArray::Uint64(vec![1, 2])),
            Info::new(&Key::<u64>::new("commits", DataType::UINT64), 5_u64),
            Info::new(&Key::<u64>::new("events", DataType::UINT64), u64::MAX),
            Info::new(
                &Key::<DataArray>::new("disconnect", DataType::DATA_ARRAY),
                DataArray::Uint64((1..100).collect()),
            ),
        ];
        let told = read(&DataArray::Info(odd.into()).into()).unwrap();
        assert_eq!((told.gets, told.commits, told.events, told.connect.completed), (0, 5, MOST, 0));
        assert_eq!((told.disconnect.failed, told.disconnect.took.last()), (2, Some(&17)));
    }
}
