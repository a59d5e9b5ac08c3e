//! Locality strings, which processes of a node compare to find the hardware that they share.

use pmix_types::{Locality, Status};
use thiserror::Error;

use crate::processors::SOURCE;
use crate::{Level, Processors, Topology};

/// Levels in the order in which they stand in a locality string.
const ORDER: [Level; 7] =
    [Level::Package, Level::L3, Level::L2, Level::L1, Level::Core, Level::Thread, Level::Numa];

/// Invalid locality string.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{0:?} is not a locality string, such as SK0:L30:L20:L10:CR0:HT0:NM0")]
#[non_exhaustive]
pub struct LocalityError(
    /// The text.
    pub String,
);

pmix_types::statuses! {
    LocalityError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
}

impl Topology {
    /// The locality string of a process that is bound to these processors: the value of `PMIX_LOCALITY_STRING`. `None` if
    /// none of them is here. A process that is not bound has no locality string.
    ///
    /// It has the form that OpenPMIx uses with hwloc: for each level the numbers of the objects that the process may use,
    /// such as `SK0:L30:L20-1:L10-1:CR0-1:HT0-1:NM0`.
    ///
    /// # Standard
    /// `PMIx_server_generate_locality_string`.
    #[doc(alias = "PMIx_server_generate_locality_string")]
    pub fn locality_string(&self, processors: &Processors) -> Option<String> {
        if !processors.intersects(self.processors()) {
            return None;
        }
        let used = |level: &Level| {
            let objects = (0..).zip(self.objects(*level));
            let used: Processors =
                objects.filter(|(_, set)| set.intersects(processors)).map(|(number, _)| number).collect();
            (!used.is_empty()).then(|| format!("{}{used}", level.code()))
        };
        Some(ORDER.iter().filter_map(used).collect::<Vec<_>>().join(":"))
    }
}

/// What two processes on one node share, by their locality strings, with or without `hwloc:` before them.
///
/// # Errors
/// [`LocalityError`] for another text.
///
/// # Standard
/// `PMIx_Get_relative_locality`.
///
/// # Examples
/// ```
/// use pmix_topology::relative_locality;
/// use pmix_types::Locality;
///
/// let shared = relative_locality("SK0:L30:L20:L10:CR0:HT0:NM0", "SK0:L30:L21:L11:CR1:HT2:NM0")?;
/// let all = Locality::SHARE_NODE | Locality::SHARE_PACKAGE | Locality::SHARE_L3CACHE | Locality::SHARE_NUMA;
/// assert_eq!(shared, all);
/// # Ok::<(), pmix_topology::LocalityError>(())
/// ```
#[doc(alias = "PMIx_Get_relative_locality")]
pub fn relative_locality(one: &str, other: &str) -> Result<Locality, LocalityError> {
    let (one, other) = (parts(one)?, parts(other)?);
    let mut shared = Locality::SHARE_NODE;
    for (level, objects) in &one {
        if other.iter().any(|(its, those)| its == level && those.intersects(objects)) {
            shared |= level.locality();
        }
    }
    Ok(shared)
}

fn parts(text: &str) -> Result<Vec<(Level, Processors)>, LocalityError> {
    let wrong = || LocalityError(text.chars().take(200).collect());
    let bare = match text.split_once(':') {
        Some((source, rest)) if source.eq_ignore_ascii_case(SOURCE) => rest,
        _ => text,
    };
    let part = |part: &str| {
        let (code, list) = part.split_at_checked(2)?;
        let level = Level::ALL.into_iter().find(|level| level.code() == code)?;
        Some((level, list.parse().ok()?))
    };
    bare.split(':').map(|text| part(text).ok_or_else(wrong)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_locality_string_is_refused() {
        for text in ["", "hwloc:", "XX0", "SK", "SK0:", "SKx", "n0", "SK0:hwloc", "Ä"] {
            let is_bad = relative_locality(text, "SK0").is_err() && relative_locality("SK0", text).is_err();
            // a level without objects is as good as none
            assert_eq!(is_bad, text != "SK", "{text}");
        }
        assert_eq!(relative_locality("SK0", "hwloc:CR1"), Ok(Locality::SHARE_NODE));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(one in ".*", other in "(SK|NM|L3|HT)[0-9,-]*(:CR[0-9]{1,9})*") {
            let _ = relative_locality(&one, &other);
            let _ = relative_locality(&other, &one);
        }
    }
}
