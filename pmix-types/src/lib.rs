//! Vocabulary of the PMIx Standard: identities, values, keys, statuses, states, and the maps that place
//! processes on nodes. No I/O, no async, no clock.
//!
//! Functions that take a key take it by value, as [`keys::JOB_SIZE`], or by reference: see [`TypedKey`] and [`AnyKey`].
//!
//! Ids in the documentation, such as FEN-01, name rules of the Standard: see [`rules`].
//!
//! # Features
//! - `serde`: `serde::Serialize` for the types that tools print as JSON.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod accounts;
mod app;
mod array;
mod attributes;
mod construction;
mod data_type;
mod enums;
mod environment;
mod event_filter;
mod flags;
mod hostname;
mod info;
pub mod job;
mod job_end;
#[cfg(feature = "serde")]
mod json;
mod key;
mod key_arg;
pub mod keys;
mod macros;
pub mod map;
mod memory;
pub mod message;
mod message_first;
mod namespaces;
mod nspace;
mod proc;
mod procs;
mod qualified;
mod query;
mod rank;
mod rank_set;
mod records;
pub mod rules;
mod session_node;
mod status;
mod status_predicates;
mod text;
pub mod trace;
pub mod usage;
mod user_ids;
mod value;
pub mod why;

pub use app::{App, Envar};
pub use array::DataArray;
pub use attributes::{AttributeLevel, AttributeRegistry, Supported};
pub use data_type::DataType;
pub use enums::*;
pub use environment::{change_environment, changes_environment, environment, split_variable};
pub use event_filter::EventFilter;
pub use flags::*;
pub use hostname::{is_same_host, short_hostname};
pub use info::{DirectiveError, Directives, Info};
pub use job_end::JOB_END;
pub use key::{Key, KeyDef, KeyName, KeyNameError, Realm};
pub use key_arg::{AnyKey, KeyOf, TypedKey};
pub use memory::Memory;
pub use namespaces::Namespaces;
pub use nspace::{Nspace, NspaceError};
pub use proc::ProcId;
pub use procs::Procs;
pub use qualified::QualifiedValue;
pub use query::{PROVISIONAL_ABI_VERSIONS, Query, STABLE_ABI_VERSIONS};
pub use rank::{InvalidRank, Rank};
pub use rank_set::{ParseRankSetError, RankSet};
pub use records::*;
pub use session_node::SessionNode;
pub use status::{EventCode, Status, StatusKind};
pub use text::{Escaped, escaped, escaped_json, short_duration, without_os_codes};
pub use user_ids::{Gid, Uid};
pub use value::{Pid, Time, Timeval, Value, ValueError, ValueType};
