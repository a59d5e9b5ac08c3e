//! Job data that a server has written out node by node and rank by rank, read back into [`JobData`].

use pmix_types::job::{JobData, check_types};
use pmix_types::{DataArray, DataType, Info, KeyVal, Rank, RankSet, Value, keys};

use super::expand::expanded;
use crate::msg::{Entry, NspaceData};

/// A node map in a form of old libraries, which no client needs.
const NODE_BLOB: &str = "pmix.mblob";
/// Parts that may be left out because they contradict others, before the rest is left out too.
const MAX_REFUSED: usize = 64;

/// The description of a job from what a server has sent, added to what is already `known` of it.
///
/// Lone values of nodes belong to this node, `hostname`. Values that make no sense are left out and logged. Where every node has its
/// list of processes, the maps are made of them, so that further values can be derived.
///
/// # Examples
/// ```
/// use pmix_native::client::job_data;
/// use pmix_native::msg::NspaceData;
/// use pmix_types::job::Target;
/// use pmix_types::{KeyVal, keys};
///
/// let mut data = NspaceData::new("job-1".parse()?);
/// data.entries.push(KeyVal { key: keys::JOB_SIZE.key_name(), value: 2u32.into() }.into());
/// let job = job_data(None, data, "n0");
/// assert_eq!(job.lookup(keys::JOB_SIZE.name(), &Target::Job), Some(2u32.into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn job_data(known: Option<&JobData>, data: NspaceData, hostname: &str) -> JobData {
    let mut job = known.cloned().unwrap_or_else(|| JobData::new(data.nspace.clone()));
    let mut infos = Vec::with_capacity(data.entries.len() + 2);
    let apps = count_of(&data, keys::APP_INFO_ARRAY.name());
    for entry in data.entries {
        match entry {
            Entry::Pair(pair) if pair.key == NODE_BLOB => {}
            Entry::Pair(pair) => infos.extend(arranged(pair, apps)),
            // said of the whole job in the form of a rank
            Entry::Rank(data) if !data.rank.is_valid() => infos.extend(data.pairs.into_iter().map(info)),
            Entry::Rank(data) => infos.push(rank_array(data.rank, data.pairs)),
        }
    }
    let mut infos: Vec<_> = infos.into_iter().filter_map(sensible).collect();
    if job.node_map().is_none() {
        infos.extend(maps(&infos));
    }
    let mut left = MAX_REFUSED;
    register(&mut job, &infos, hostname, &mut left);
    job
}

/// Registers as many of the infos as go together.
fn register(job: &mut JobData, infos: &[Info], hostname: &str, left: &mut usize) {
    let Err(error) = job.register(infos, hostname) else { return };
    let Some(fewer) = left.checked_sub(1) else { return };
    *left = fewer;
    if infos.len() > 1 {
        let (first, second) = infos.split_at(infos.len() / 2);
        register(job, first, hostname, left);
        register(job, second, hostname, left);
    } else {
        tracing::warn!(nspace = %job.nspace(), %error, "the server has sent job data that makes no sense");
    }
}

fn count_of(data: &NspaceData, key: &str) -> usize {
    data.entries.iter().filter(|entry| matches!(entry, Entry::Pair(pair) if pair.key == *key)).count()
}

fn info(pair: KeyVal) -> Info {
    Info::dynamic(pair.key, expanded(pair.value))
}

/// The value in the type of its key, where a host has given a rank as a plain number. Slurm does.
fn typed(info: Info) -> Info {
    let is_rank = keys::find(&info.key).is_some_and(|key| key.data_type == Some(DataType::PROC_RANK));
    if !is_rank || matches!(info.value, Value::Rank(_)) {
        return info;
    }
    let number = info.value.get::<u32>().or_else(|error| {
        let number = info.value.get::<i32>().map_err(|_| error.clone())?;
        u32::try_from(number).map_err(|_| error)
    });
    match number {
        Ok(number) => Info::dynamic(info.key, Value::Rank(Rank::from_raw(number))).with_flags(info.flags),
        Err(_) => info,
    }
}

/// A value of the job, in the form in which hosts register it.
fn arranged(pair: KeyVal, apps: usize) -> Vec<Info> {
    let info = info(pair);
    let Some(inner) = info.value.as_infos() else { return vec![info] };
    let has = |key: &str| inner.iter().any(|info| *info.key == *key);
    // an array without the name of what it is about is about the session, app or node of this process
    if info.is(&keys::SESSION_INFO_ARRAY) && !has(keys::SESSION_ID.name())
        || info.is(&keys::NODE_INFO_ARRAY) && !has(keys::HOSTNAME.name()) && !has(keys::NODEID.name())
    {
        return inner.to_vec();
    }
    if info.is(&keys::APP_INFO_ARRAY) && !has(keys::APPNUM.name()) {
        if apps > 1 {
            tracing::debug!("the server does not say of which app it speaks");
            return Vec::new();
        }
        let numbered = [Info::new(&keys::APPNUM, 0u32)].into_iter().chain(inner.iter().cloned());
        return vec![Info::new(&keys::APP_INFO_ARRAY, DataArray::Info(numbered.collect()))];
    }
    vec![info]
}

fn rank_array(rank: Rank, pairs: Vec<KeyVal>) -> Info {
    let rank = Info::new(&keys::RANK, rank);
    let infos =
        [rank].into_iter().chain(pairs.into_iter().filter(|pair| pair.key != *keys::RANK.name()).map(info));
    Info::new(&keys::PROC_INFO_ARRAY, DataArray::Info(infos.collect()))
}

/// What of an info has the types that its keys ask for.
fn sensible(info: Info) -> Option<Info> {
    let Some(inner) = info.value.as_infos() else {
        let info = typed(info);
        return match check_types(std::slice::from_ref(&info)) {
            Ok(()) => Some(info),
            Err(error) => {
                tracing::debug!(%error, "the server has sent job data of another type");
                None
            }
        };
    };
    if check_types(inner).is_ok() {
        return Some(info);
    }
    let rest: Vec<_> = inner.iter().cloned().filter_map(sensible).collect();
    Some(Info::dynamic(info.key, DataArray::Info(rest)))
}

/// The maps that the data of the nodes amount to, if it is complete and the server has sent no maps itself.
fn maps(infos: &[Info]) -> Vec<Info> {
    let given = [&keys::NODE_MAP.key_name(), &keys::PROC_MAP.key_name()];
    if infos.iter().any(|info| given.contains(&&info.key)) {
        return Vec::new();
    }
    let nodes: Vec<_> = infos.iter().filter(|info| info.is(&keys::NODE_INFO_ARRAY)).collect();
    let text = |node: &Info, key: &str| {
        let value = node.value.as_infos()?.iter().rfind(|info| *info.key == *key)?.value.as_str()?;
        Some(value.to_owned())
    };
    let number = |key: &str| infos.iter().find(|info| *info.key == *key)?.value.get::<u32>().ok();
    let names: Option<Vec<_>> = nodes.iter().map(|node| text(node, keys::HOSTNAME.name())).collect();
    let Some(names) = names.filter(|names| !names.is_empty() && names.iter().all(|name| is_plain(name)))
    else {
        return Vec::new();
    };
    let lists: Option<Vec<_>> = nodes.iter().map(|node| text(node, keys::LOCAL_PEERS.name())).collect();
    let lists = lists.filter(|lists| is_whole(lists, number(keys::JOB_SIZE.name())));
    let told = number(keys::NUM_NODES.name());
    let are_all = match told {
        Some(told) => usize::try_from(told) == Ok(names.len()),
        None => lists.is_some(),
    };
    if !are_all {
        return Vec::new();
    }
    let mut maps = vec![Info::new(&keys::NODE_MAP_RAW, names.join(","))];
    maps.extend(lists.map(|lists| Info::new(&keys::PROC_MAP_RAW, lists.join(";"))));
    maps
}

/// Whether a name can be part of a list of names.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.contains([',', ';', '[', ']', ':'])
}

/// Whether the lists of ranks name each rank of the job once.
fn is_whole(lists: &[String], size: Option<u32>) -> bool {
    let mut all = RankSet::new();
    let mut count = 0;
    for list in lists {
        let Ok(ranks) = list.parse::<RankSet>() else { return false };
        count += ranks.len();
        all = all.union(&ranks);
    }
    let last = all.last().map_or(0, |last| u64::from(last.to_raw()) + 1);
    count == all.len() && count == last && size.is_none_or(|size| u64::from(size) == count)
}

/// The value of a key among pairs that a server has sent.
pub(super) fn value_in(entries: &[Entry], key: &str) -> Option<Value> {
    entries.iter().find_map(|entry| match entry {
        Entry::Pair(pair) if pair.key == *key => Some(expanded(pair.value.clone())),
        _ => None,
    })
}
