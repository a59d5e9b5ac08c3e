#![doc = include_str!("../README.md")]
//!
//! # Examples
//! ```
//! use pmix_topology::{Processors, Topology, relative_locality};
//! use pmix_types::{BindEnvelope, Locality};
//!
//! let topology = Topology::read();
//! let mine = Processors::bound(BindEnvelope::PROCESS)?;
//! if let Some(place) = topology.locality_string(&mine) {
//!     assert!(relative_locality(&place, &place)?.contains(Locality::SHARE_NODE));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod devices;
mod distances;
mod locality;
mod processors;
mod read;
#[cfg(feature = "host-names")]
mod this_host;
mod topology;

pub use distances::DeviceFilter;
pub use locality::{LocalityError, relative_locality};
pub use processors::{ProcessorError, Processors};
#[cfg(feature = "host-names")]
pub use this_host::ThisHost;
pub use topology::{Level, Topology};
