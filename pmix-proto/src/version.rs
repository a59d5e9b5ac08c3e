use std::fmt;
use std::ops::RangeInclusive;

use pmix_types::{Status, escaped};
use thiserror::Error;

/// Newest version of the protocol that this crate supports.
pub const VERSION: u32 = 1;

/// Oldest version of the protocol that this crate supports.
pub const OLDEST_VERSION: u32 = 1;

/// Name and release of this implementation, for messages to people.
#[doc(alias = "PMIx_Get_version")]
pub const IMPLEMENTATION: &str = concat!("pmix-rs ", env!("CARGO_PKG_VERSION"));

/// The highest version that both sides support.
///
/// `theirs` is the range of the other side, `implementation` its name and release.
///
/// # Errors
/// [`VersionMismatch`] if there is no common version.
///
/// # Examples
/// ```
/// use pmix_proto::{VERSION, negotiate};
///
/// assert_eq!(negotiate(1..=u32::MAX, "other 9.0"), Ok(VERSION));
/// let error = negotiate(1000..=1001, "other 9.0").unwrap_err();
/// assert!(error.to_string().contains("other 9.0 speaks versions 1000 to 1001"));
/// ```
pub fn negotiate(theirs: RangeInclusive<u32>, implementation: &str) -> Result<u32, VersionMismatch> {
    let (oldest, newest) = theirs.into_inner();
    let highest = newest.min(VERSION);
    if highest >= oldest.max(OLDEST_VERSION) {
        Ok(highest)
    } else {
        Err(VersionMismatch { oldest, newest, implementation: implementation.to_owned() })
    }
}

/// There is no common version of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "no common protocol version: {} speaks {}, {IMPLEMENTATION} speaks {}",
    Brief(implementation),
    Versions(*oldest, *newest),
    Versions(OLDEST_VERSION, VERSION)
)]
#[non_exhaustive]
pub struct VersionMismatch {
    /// Oldest version of the other side.
    pub oldest: u32,
    /// Newest version of the other side.
    pub newest: u32,
    /// Name and release of the other side, as received.
    pub implementation: String,
}

pmix_types::statuses! {
    VersionMismatch, "`ERR_HANDSHAKE_FAILED`", |_this| Status::ERR_HANDSHAKE_FAILED;
}

struct Versions(u32, u32);

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(oldest, newest) = self;
        if oldest == newest {
            write!(f, "version {newest}")
        } else {
            write!(f, "versions {oldest} to {newest}")
        }
    }
}

/// A name from a peer, shortened for a log line.
struct Brief<'a>(&'a str);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LONGEST: usize = 100;

        if self.0.trim().is_empty() {
            return f.write_str("the other side");
        }
        let end = self.0.char_indices().nth(LONGEST).map_or(self.0.len(), |(end, _)| end);
        write!(f, "{}", escaped(&self.0[..end]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_common_version_is_used() {
        assert_eq!(negotiate(0..=7, ""), Ok(VERSION));
        assert_eq!(negotiate(1..=1, ""), Ok(1));
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges, reason = "what a broken peer may send")]
    fn ranges_without_common_version_are_refused() {
        for theirs in [0..=0, 2..=9, 5..=1, u32::MAX..=0] {
            assert!(negotiate(theirs.clone(), "x").is_err(), "{theirs:?}");
        }
    }

    #[test]
    fn mismatch_names_versions_and_implementations_of_both_in_one_line() {
        let error = negotiate(2..=9, "other\n3.0").unwrap_err().to_string();
        let ours = env!("CARGO_PKG_VERSION");
        let expected = format!(
            "no common protocol version: other\\n3.0 speaks versions 2 to 9, pmix-rs {ours} speaks version 1"
        );
        assert_eq!(error, expected);
    }
}
