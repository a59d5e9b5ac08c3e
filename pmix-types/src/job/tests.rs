//! Tests of job data.

use std::borrow::Cow;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::map::{MapError, MapForm};
use crate::{DataArray, DirectiveError, Directives, Info, Key, KeyVal, Regex2, Status, Value, keys};

mod lookup;
mod register;
mod target;
mod whole;

fn rank(number: u32) -> Rank {
    Rank::new(number).unwrap()
}

fn ranks(text: &str) -> RankSet {
    text.parse().unwrap()
}

fn empty() -> JobData {
    JobData::new("job-1".parse().unwrap())
}

fn registered(infos: &[Info]) -> JobData {
    let mut data = empty();
    data.register(infos, "n0").unwrap();
    data
}

fn refused(infos: &[Info]) -> JobErrorKind {
    let mut data = registered(&maps());
    let before = data.clone();
    let error = data.register(infos, "n0").unwrap_err();
    assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    assert!(error.to_string().starts_with("data of namespace job-1: "), "{error}");
    assert_eq!(data, before, "a refused registration must change nothing");
    error.kind
}

fn array(key: &Key<DataArray>, infos: impl IntoIterator<Item = Info>) -> Info {
    Info::dynamic(key.key_name(), infos.into_iter().collect::<Vec<_>>())
}

fn node(name: &str, infos: impl IntoIterator<Item = Info>) -> Info {
    array(&keys::NODE_INFO_ARRAY, [Info::new(&keys::HOSTNAME, name)].into_iter().chain(infos))
}

fn proc(number: u32, infos: impl IntoIterator<Item = Info>) -> Info {
    array(&keys::PROC_INFO_ARRAY, [Info::new(&keys::RANK, rank(number))].into_iter().chain(infos))
}

fn app(number: u32, infos: impl IntoIterator<Item = Info>) -> Info {
    array(&keys::APP_INFO_ARRAY, [Info::new(&keys::APPNUM, number)].into_iter().chain(infos))
}

/// Three nodes with ranks 0-3, 4 and 6, 5.
fn maps() -> Vec<Info> {
    vec![Info::new(&keys::NODE_MAP, "n0,n1,n2"), Info::new(&keys::PROC_MAP, "0-3;4,6;5")]
}

fn maps_and(more: impl IntoIterator<Item = Info>) -> Vec<Info> {
    maps().into_iter().chain(more).collect()
}

fn on(name: &str) -> Target<'_> {
    Target::Node(NodeRef::Name(name))
}

fn of(number: u32) -> Target<'static> {
    Target::Proc(rank(number))
}

fn find<T>(data: &JobData, key: &Key<T>, target: Target<'_>) -> Option<Value> {
    data.lookup(key.name(), &target)
}
