//! Keys that releases of the C library know.

use std::collections::BTreeSet;
use std::fs;

use pmix_tests::libpmix;
use pmix_types::{KeyName, keys};

/// The table of `pmix-server`, by which such keys are left out of job data.
const UNKNOWN_TO_4: &str = include_str!("../../../pmix-server/src/native/job/unknown_to_4.txt");

#[test]
fn reg_20_the_table_of_keys_that_libpmix_4_does_not_know_is_as_the_library_says() {
    let Some(library) = libpmix() else { return };
    let library = fs::read(library).unwrap();
    let texts: BTreeSet<&[u8]> = library.split(|byte| *byte == 0).collect();
    let is_reserved = |name: &str| KeyName::new(name).is_ok_and(|key| key.is_reserved());
    let reserved = keys::all().iter().map(|key| key.name).filter(|name| is_reserved(name));
    let unknown: Vec<_> = reserved.filter(|name| !texts.contains(name.as_bytes())).collect();
    let unknown: BTreeSet<_> = unknown.into_iter().collect();
    let table: BTreeSet<_> = UNKNOWN_TO_4.lines().collect();
    let missing: Vec<_> = unknown.difference(&table).collect();
    let known: Vec<_> = table.difference(&unknown).collect();
    assert!(missing.is_empty() && known.is_empty(), "missing: {missing:?}; known to it: {known:?}");
}
