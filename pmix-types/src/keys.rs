//! The Standard's keys, each with the type of its values.
//!
//! All constants are in this module. They are generated from the Standard's table by `cargo run -p pmix-types --example
//! gen`; keys that the Standard has removed are left out.
//!
//! ```
//! use pmix_types::{Realm, keys};
//!
//! let definition = keys::find("pmix.job.size").ok_or("no such key")?;
//! assert_eq!(definition.constant, "JOB_SIZE");
//! assert_eq!(definition.realm, Realm::Job);
//! assert_eq!(keys::find_constant("PMIX_JOB_SIZE"), Some(definition));
//! # Ok::<(), &str>(())
//! ```

use std::sync::LazyLock;

use crate::KeyDef;

mod alloc;
mod connection;
mod control;
mod data;
mod debug;
pub mod env;
mod event;
mod fabric;
mod group;
mod iof;
mod job;
mod library;
mod log;
mod proc;
mod query;
mod spawn;
mod storage;
mod usage;

pub use self::{
    alloc::*, connection::*, control::*, data::*, debug::*, event::*, fabric::*, group::*, iof::*, job::*,
    library::*, log::*, proc::*, query::*, spawn::*, storage::*, usage::*,
};

/// The definition of a key by its name, for example `pmix.job.size`.
///
/// If the Standard has two constants with this name, the one that is not deprecated is returned.
#[must_use]
pub fn find(name: &str) -> Option<&'static KeyDef> {
    let first = BY_NAME.partition_point(|definition| definition.name < name);
    BY_NAME.get(first).filter(|definition| definition.name == name).copied()
}

/// The definition of a key by its constant, with or without `PMIX_`, for example `PMIX_JOB_SIZE`.
#[must_use]
#[doc(alias = "PMIx_Get_attribute_string")]
pub fn find_constant(constant: &str) -> Option<&'static KeyDef> {
    let constant = constant.strip_prefix("PMIX_").unwrap_or(constant);
    let found = BY_CONSTANT.binary_search_by_key(&constant, |definition| definition.constant).ok()?;
    BY_CONSTANT.get(found).copied()
}

/// All keys, sorted by name.
#[must_use]
pub fn all() -> &'static [&'static KeyDef] {
    &BY_NAME
}

// The sort is stable, and within a family the table puts better constants first.
static BY_NAME: LazyLock<Vec<&KeyDef>> = LazyLock::new(|| {
    let mut definitions: Vec<_> = FAMILIES.iter().copied().flatten().collect();
    definitions.sort_by_key(|definition| definition.name);
    definitions
});

static BY_CONSTANT: LazyLock<Vec<&KeyDef>> = LazyLock::new(|| {
    let mut definitions: Vec<_> = FAMILIES.iter().copied().flatten().collect();
    definitions.sort_unstable_by_key(|definition| definition.constant);
    definitions
});

#[expect(unused_qualifications, reason = "without its family the name is ambiguous")]
static FAMILIES: &[&[KeyDef]] = &[
    alloc::DEFINITIONS,
    connection::DEFINITIONS,
    control::DEFINITIONS,
    data::DEFINITIONS,
    debug::DEFINITIONS,
    event::DEFINITIONS,
    fabric::DEFINITIONS,
    group::DEFINITIONS,
    iof::DEFINITIONS,
    job::DEFINITIONS,
    library::DEFINITIONS,
    log::DEFINITIONS,
    proc::DEFINITIONS,
    query::DEFINITIONS,
    spawn::DEFINITIONS,
    storage::DEFINITIONS,
    usage::DEFINITIONS,
];

/// Turns the generated rows of a family into constants and their definitions.
macro_rules! keys {
    ($(
        $(#[doc = $doc:literal])+
        #[doc(alias = $c_name:literal)]
        $NAME:ident: $Value:ty = $name:literal, $data_type:ident, $realm:ident, $since:literal
            $(, deprecated $deprecated:literal)?;
    )+) => {
        $(
            $(#[doc = $doc])+
            #[doc = concat!("\n\nKey `", $name, "`, since ", $since, $("; ", $deprecated,)? ".")]
            #[doc(alias = $c_name)]
            pub const $NAME: $crate::Key<$Value> = $crate::Key::new($name, $crate::DataType::$data_type);
        )+

        pub(super) const DEFINITIONS: &[$crate::KeyDef] = &[$( $crate::KeyDef {
            constant: stringify!($NAME),
            name: $name,
            data_type: super::fixed($crate::DataType::$data_type),
            realm: $crate::Realm::$realm,
            since: $since,
            deprecated: concat!($($deprecated)?),
            doc: concat!($($doc),+).trim_ascii_start(),
        } ),+];
    };
}
use keys;

const fn fixed(data_type: crate::DataType) -> Option<crate::DataType> {
    match data_type {
        crate::DataType::UNDEF => None,
        data_type => Some(data_type),
    }
}
