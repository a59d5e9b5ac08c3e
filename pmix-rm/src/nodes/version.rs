//! The versions of the protocol between head and daemons: each side speaks its own minor version and the one before.

use pmix_proto::IMPLEMENTATION;
use pmix_proto::nodes::Versions;
use pmix_types::escaped;
use thiserror::Error;

/// The minor version of this release; the first one is 1. It changes with the first change after a release.
pub(super) const OWN: u32 = 1;

/// Longest name of an implementation that is shown.
const MAX_SHOWN: usize = 60;

/// What a side that speaks `own` and the version before says.
pub(super) fn spoken(own: u32) -> Versions {
    Versions { oldest: oldest(own), newest: own, implementation: IMPLEMENTATION.to_owned() }
}

fn oldest(own: u32) -> u32 {
    own.saturating_sub(1).max(1)
}

/// The two sides have no version in common.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{} speaks pmix.host.v1 in the minor versions {} to {}, {IMPLEMENTATION} in {} to {own}: install releases that are closer \
     to each other",
    brief(&theirs.implementation),
    theirs.oldest,
    theirs.newest,
    oldest(*own)
)]
pub(super) struct Mismatch {
    own: u32,
    theirs: Versions,
}

fn brief(name: &str) -> String {
    let name: String = name.chars().take(MAX_SHOWN).collect();
    if name.trim().is_empty() { "the other side".to_owned() } else { escaped(&name).to_string() }
}

/// The highest version that both speak, where this side speaks `own` and the one before.
pub(super) fn negotiate(own: u32, theirs: &Versions) -> Result<u32, Mismatch> {
    let highest = own.min(theirs.newest);
    if highest >= theirs.oldest.max(oldest(own)) && theirs.oldest > 0 {
        return Ok(highest);
    }
    Err(Mismatch { own, theirs: theirs.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_speaks_its_own_version_and_the_one_before_and_refuses_older_ones_naming_both() {
        for (own, other, common) in
            [(1, 1, Some(1)), (1, 2, Some(1)), (2, 1, Some(1)), (5, 4, Some(4)), (5, 3, None), (3, 5, None)]
        {
            assert_eq!(negotiate(own, &spoken(other)).ok(), common, "{own} and {other}");
        }
        let older = Versions { oldest: 2, newest: 3, implementation: "other\n1".into() };
        let refusal = negotiate(5, &older).unwrap_err().to_string();
        assert!(
            refusal.starts_with(r"other\n1 speaks pmix.host.v1 in the minor versions 2 to 3, pmix-rs"),
            "{refusal}"
        );
        assert!(refusal.contains("in 4 to 5") && !refusal.contains('\n'), "{refusal}");
        negotiate(1, &Versions::default()).unwrap_err();
    }
}
