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
    let mut slot = slot_of(name.as_bytes());
    loop {
        // there are free slots
        let definition = BY_SLOT[slot]?;
        if definition.name == name {
            return Some(definition);
        }
        slot = (slot + 1) % SLOTS;
    }
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

// Sorted when this is compiled, because each process that starts needs them, and sorting them takes a tenth of its init. The
// sort is stable, and within a family the table puts better constants first.
static BY_NAME: [&KeyDef; COUNT] = sorted(By::Name);
static BY_CONSTANT: [&KeyDef; COUNT] = sorted(By::Constant);

/// All names that differ, each in its slot or in the next that is free: each get of a value looks for its key.
static BY_SLOT: [Option<&KeyDef>; SLOTS] = {
    let sorted = sorted(By::Name);
    let (mut slots, mut at) = ([None; SLOTS], 0);
    while at < COUNT {
        // of several with one name the first is the best
        if at == 0 || By::Name.puts_before(sorted[at - 1], sorted[at]) {
            let mut slot = slot_of(sorted[at].name.as_bytes());
            while slots[slot].is_some() {
                slot = (slot + 1) % SLOTS;
            }
            slots[slot] = Some(sorted[at]);
        }
        at += 1;
    }
    slots
};

/// At least twice as many as there are names.
const SLOTS: usize = (2 * COUNT).next_power_of_two();

/// Where to look for a name first: by its end, as most begin alike.
const fn slot_of(name: &[u8]) -> usize {
    let mut end = 0;
    let mut at = name.len().saturating_sub(8);
    while at < name.len() {
        end = (end << 8) ^ name[at] as u64;
        at += 1;
    }
    // the golden ratio spreads what is alike
    (end.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % SLOTS
}

#[derive(Clone, Copy)]
enum By {
    Name,
    Constant,
}

impl By {
    /// Whether one comes before another, and not beside it.
    const fn puts_before(self, one: &KeyDef, other: &KeyDef) -> bool {
        let (one, other) = match self {
            Self::Name => (one.name.as_bytes(), other.name.as_bytes()),
            Self::Constant => (one.constant.as_bytes(), other.constant.as_bytes()),
        };
        let mut at = 0;
        while at < one.len() && at < other.len() {
            if one[at] != other[at] {
                return one[at] < other[at];
            }
            at += 1;
        }
        one.len() < other.len()
    }
}

/// All definitions, merged from runs of 1, 2, 4, .. of them.
const fn sorted(by: By) -> [&'static KeyDef; COUNT] {
    let mut definitions = unsorted();
    let mut run = 1;
    while run < COUNT {
        let (runs, mut start) = (definitions, 0);
        while start < COUNT {
            let middle = least(start + run, COUNT);
            let end = least(start + 2 * run, COUNT);
            let (mut left, mut right, mut at) = (start, middle, start);
            while at < end {
                let is_left = left < middle && (right == end || !by.puts_before(runs[right], runs[left]));
                let from = if is_left { &mut left } else { &mut right };
                definitions[at] = runs[*from];
                *from += 1;
                at += 1;
            }
            start = end;
        }
        run *= 2;
    }
    definitions
}

const fn unsorted() -> [&'static KeyDef; COUNT] {
    let mut definitions = [&FAMILIES[0][0]; COUNT];
    let (mut family, mut at, mut count) = (0, 0, 0);
    while family < FAMILIES.len() {
        if at < FAMILIES[family].len() {
            definitions[count] = &FAMILIES[family][at];
            count += 1;
            at += 1;
        } else {
            (family, at) = (family + 1, 0);
        }
    }
    definitions
}

const fn least(one: usize, other: usize) -> usize {
    if one < other { one } else { other }
}

const COUNT: usize = {
    let (mut family, mut count) = (0, 0);
    while family < FAMILIES.len() {
        count += FAMILIES[family].len();
        family += 1;
    }
    count
};

#[expect(unused_qualifications, reason = "without its family the name is ambiguous")]
const FAMILIES: &[&[KeyDef]] = &[
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
