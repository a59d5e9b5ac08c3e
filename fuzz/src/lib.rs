//! What peers may send, thrown at what reads it: no input may panic, take long or take much memory, and what is understood
//! must survive to be written and read again.
//!
//! Each [`Target`] has a corpus in `corpus/`, one file an input: messages seen on the wire, one of each kind that our own
//! side sends, and whatever has broken a decoder once. `cargo test -p pmix-fuzz` replays them and changes them at random
//! ten thousand times each, as often as `PMIX_FUZZ_INPUTS` says, or as long as `PMIX_FUZZ_SECONDS` says; with `--profile fuzz` that
//! is fast. `PMIX_FUZZ_SEED` repeats a search. For a search that is led by coverage, with a nightly compiler and cargo-fuzz:
//!
//! ```sh
//! cargo +nightly fuzz run --fuzz-dir fuzz/cargo-fuzz native-server fuzz/corpus/native-server
//! ```

#![allow(clippy::exhaustive_structs, clippy::exhaustive_enums, reason = "nobody else uses them")]
mod campaign;
mod native;
mod pmi1;
mod proto;

pub use campaign::{Campaign, Outcome};
pub use native::asked;

/// A reader of what peers send.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// Takes an input; panics if a rule is broken.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: [Target; 8] = [
    Target { name: "native-connect", run: native::connect },
    Target { name: "native-client", run: native::client },
    Target { name: "native-server", run: native::server },
    Target { name: "pmi1-client", run: pmi1::client },
    Target { name: "pmi1-server", run: pmi1::server },
    Target { name: "native-conversation", run: native::conversation },
    Target { name: "proto-client", run: proto::client },
    Target { name: "proto-server", run: proto::server },
];

/// The target of this name.
///
/// # Panics
/// If there is none.
pub fn target(name: &str) -> Target {
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("there is no target {name}"))
}
