//! Qualifiers that are given several times: all of their values count (QRY-06).

use std::collections::BTreeSet;

use pmix_types::message::Failure;
use pmix_types::{DataArray, Directives, Info, Key, Status, Value, ValueType, keys};

/// Number of combinations of qualifiers that one query may have.
const MAX_READINGS: usize = 1024;

/// Every value of a qualifier in the order given, without repeats.
pub(super) fn all<T: ValueType + PartialEq>(
    qualifiers: &Directives,
    key: &Key<T>,
) -> Result<Vec<T>, Failure> {
    let mut values = Vec::new();
    for info in qualifiers.iter().filter(|info| info.is(key)) {
        let bad = |error| Failure::new(Status::ERR_BAD_PARAM, format!("qualifier {}: {error}", key.name()));
        let value = info.get().map_err(bad)?;
        if !values.contains(&value) {
            values.push(value);
        }
        if values.len() > MAX_READINGS {
            return Err(too_many());
        }
    }
    Ok(values)
}

/// The qualifiers, once for each combination of values: one that is given twice appears once with each value.
pub(super) fn readings(qualifiers: &Directives) -> Result<Vec<Directives>, Failure> {
    let names = [
        keys::NSPACE.name(),
        keys::RANK.name(),
        keys::PROCID.name(),
        keys::SESSION_ID.name(),
        keys::APPNUM.name(),
        keys::HOSTNAME.name(),
        keys::NODEID.name(),
    ];
    let naming = |info: &&Info| names.contains(&info.key.as_str());
    let others = qualifiers.iter().filter(|info| !naming(info)).cloned();
    let mut readings = vec![others.collect::<Vec<_>>()];
    for name in names {
        let mut values: Vec<&Info> = Vec::new();
        for info in qualifiers.iter().filter(|info| *info.key == *name) {
            if values.iter().all(|known| known.value != info.value) {
                values.push(info);
            }
            if values.len() > MAX_READINGS {
                return Err(too_many());
            }
        }
        if values.is_empty() {
            continue;
        }
        if readings.len() * values.len() > MAX_READINGS {
            return Err(too_many());
        }
        let with = |reading: &Vec<Info>, info: &Info| reading.iter().chain([info]).cloned().collect();
        readings =
            readings.iter().flat_map(|reading| values.iter().map(move |info| with(reading, info))).collect();
    }
    Ok(readings.into_iter().map(Directives::from).collect())
}

/// Refuses a query whose qualifiers name too many processes and namespaces to look at each: every rank that is named is one of every
/// namespace.
pub(super) fn check(qualifiers: &Directives) -> Result<(), Failure> {
    let (nspaces, ranks) =
        (distinct(qualifiers, keys::NSPACE.name()), distinct(qualifiers, keys::RANK.name()));
    let combined = if ranks == 0 { nspaces } else { nspaces.max(1).saturating_mul(ranks) };
    let procs = distinct(qualifiers, keys::PROCID.name());
    if combined.saturating_add(procs) > MAX_READINGS { Err(too_many()) } else { Ok(()) }
}

/// How many values a qualifier has, without repeats; values of another type than its own all count.
fn distinct(qualifiers: &Directives, key: &str) -> usize {
    let (mut names, mut ranks, mut procs, mut others) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), 0);
    for info in qualifiers.iter().filter(|info| *info.key == *key) {
        match &info.value {
            Value::String(name) => _ = names.insert(name.as_str()),
            Value::Rank(rank) => _ = ranks.insert(*rank),
            Value::Proc(proc) => _ = procs.insert(proc),
            _ => others += 1,
        }
    }
    names.len() + ranks.len() + procs.len() + others
}

fn too_many() -> Failure {
    let message =
        format!("the qualifiers of a query have more than {MAX_READINGS} combinations: send several queries");
    Failure::new(Status::ERR_BAD_PARAM, message)
}

/// Joins several answers: arrays are concatenated, single values put into an array; all have the same type.
pub(super) fn joined(mut values: Vec<Value>) -> Option<Value> {
    if values.len() < 2 {
        return values.pop();
    }
    let elements = values.into_iter().flat_map(|value| match value {
        Value::DataArray(array) => array.iter().collect(),
        single => vec![single],
    });
    let elements: Vec<_> = elements.collect();
    let Some(first) = elements.first() else { return Some(DataArray::Undef.into()) };
    let mut array = DataArray::empty(first.data_type())?;
    for element in elements {
        // values of one key have the same type, unless a host gave them different ones
        let _ = array.push(element);
    }
    Some(array.into())
}
