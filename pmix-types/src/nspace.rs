use std::borrow::Borrow;
use std::convert::Infallible;
use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::Uid;
use crate::text::find_control;

/// Name of a namespace: the identity of a job, tool or server. Cheap to clone.
///
/// It has 1 to 255 bytes without control characters (those that [`escaped`](crate::escaped) escapes), as names are
/// printed and logged. In records where the namespace may be missing, it is an `Option`, or a value made by
/// [`Nspace::none`], for which [`Nspace::is_empty`] is true.
///
/// # Examples
/// ```
/// use pmix_types::Nspace;
///
/// let nspace: Nspace = "job-1".parse()?;
/// assert_eq!(nspace, "job-1"); // reads and compares as text
/// assert!(Nspace::new("").is_err() && Nspace::new("two\nlines").is_err());
/// # Ok::<(), pmix_types::NspaceError>(())
/// ```
///
/// # Standard
/// `pmix_nspace_t`, `PMIX_MAX_NSLEN`; rules GEN-02, IDN-03..05.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "pmix_nspace_t")]
pub struct Nspace(Arc<str>);

/// Text that is not a valid namespace.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NspaceError {
    /// The text is empty.
    #[error("a namespace needs at least one character")]
    Empty,
    /// Longer than [`Nspace::MAX_LEN`].
    #[error("a namespace has at most {max} bytes; this one has {0}", max = Nspace::MAX_LEN)]
    TooLong(usize),
    /// Contains a NUL byte, which C peers would treat as its end.
    #[error("a namespace must not contain a NUL byte; this one has one at byte {0}")]
    Nul(usize),
    /// Contains a control character, which would affect the terminal on which the name is printed.
    #[error("a namespace must not contain a control character; this one has one at byte {0}")]
    Control(usize),
}

impl Nspace {
    /// Longest namespace in bytes.
    #[doc(alias = "PMIX_MAX_NSLEN")]
    pub const MAX_LEN: usize = 255;

    /// Checks a name.
    ///
    /// # Errors
    /// [`NspaceError`] if the text is empty, longer than 255 bytes, or contains NUL or another control character.
    pub fn new(text: impl AsRef<str>) -> Result<Self, NspaceError> {
        let text = text.as_ref();
        match text.len() {
            0 => return Err(NspaceError::Empty),
            len if len > Self::MAX_LEN => return Err(NspaceError::TooLong(len)),
            _ => {}
        }
        match find_control(text) {
            Some(at) if text.as_bytes()[at] == 0 => Err(NspaceError::Nul(at)),
            Some(at) => Err(NspaceError::Control(at)),
            None => Ok(Self(text.into())),
        }
    }

    /// The namespace, with rank 0, under which data is published for a user outside of any job, as by `pmix publish`. Servers of this family let
    /// only tools of this user, of the server's own user and of root connect under it.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::Nspace;
    ///
    /// assert_eq!(Nspace::publisher(1000).as_str(), "pmix.publisher.1000");
    /// ```
    pub fn publisher(uid: impl Into<Uid>) -> Self {
        let uid = uid.into();
        Self(format!("pmix.publisher.{uid}").into())
    }

    /// The empty namespace: "none", as in the source of an event made by the host.
    pub fn none() -> Self {
        Self("".into())
    }

    /// Whether this is [`Nspace::none`].
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of this namespace as seen from another cluster: `cluster:nspace` (IDN-05).
    ///
    /// # Errors
    /// [`NspaceError::TooLong`] if the joined name would have more than 252 bytes, and [`NspaceError::Empty`] if the
    /// cluster or this namespace is empty.
    pub fn qualified(&self, cluster: &str) -> Result<Self, NspaceError> {
        if cluster.is_empty() || self.is_empty() {
            return Err(NspaceError::Empty);
        }
        let joined = format!("{cluster}:{self}");
        if joined.len() >= Self::MAX_LEN - 2 {
            return Err(NspaceError::TooLong(joined.len()));
        }
        Self::new(joined)
    }

    /// Splits `cluster:nspace` at its first colon, but only if `is_cluster` accepts the part before it: a namespace may
    /// itself contain colons (IDN-05).
    pub fn split_cluster(&self, is_cluster: impl FnOnce(&str) -> bool) -> (Option<&str>, &str) {
        match self.0.split_once(':') {
            Some((cluster, rest)) if !rest.is_empty() && is_cluster(cluster) => (Some(cluster), rest),
            _ => (None, &self.0),
        }
    }
}

impl Deref for Nspace {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Nspace {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Nspace {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Nspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Nspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl From<&Self> for Nspace {
    fn from(nspace: &Self) -> Self {
        nspace.clone()
    }
}

/// What converts into a namespace without fail can be given where a call takes a name that may be invalid.
impl From<Infallible> for NspaceError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl FromStr for Nspace {
    type Err = NspaceError;
    fn from_str(text: &str) -> Result<Self, NspaceError> {
        Self::new(text)
    }
}

impl TryFrom<&str> for Nspace {
    type Error = NspaceError;
    fn try_from(text: &str) -> Result<Self, NspaceError> {
        Self::new(text)
    }
}

impl TryFrom<String> for Nspace {
    type Error = NspaceError;
    fn try_from(text: String) -> Result<Self, NspaceError> {
        Self::new(text)
    }
}

impl PartialEq<str> for Nspace {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl PartialEq<&str> for Nspace {
    fn eq(&self, other: &&str) -> bool {
        &*self.0 == *other
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Nspace {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

crate::message_first!(NspaceError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gen_02b_length_is_1_to_255_bytes_without_nul() {
        assert_eq!(Nspace::new(""), Err(NspaceError::Empty));
        assert!(Nspace::new("a".repeat(255)).is_ok());
        assert_eq!(Nspace::new("a".repeat(256)), Err(NspaceError::TooLong(256)));
        assert_eq!(Nspace::new("a\0b"), Err(NspaceError::Nul(1)));
    }

    #[test]
    fn a_namespace_holds_no_control_character() {
        for name in ["ä\u{1b}[2J", "ä\n", "ä\u{7f}", "ä\u{9b}2J", "ä\u{2028}x", "ä\u{202e}x", "ä\u{2066}"]
        {
            assert_eq!(Nspace::new(name), Err(NspaceError::Control(2)), "{name:?}");
        }
        // names as OpenPMIx and others make them
        for name in ["prterun-node1-4711@1", "run.node1.12", "north:job 7/1", "prte.日本.0"] {
            assert!(Nspace::new(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn idn_05a_idn_05b_idn_05c_cluster_is_split_off_only_if_known() {
        let job: Nspace = "job:7".parse().unwrap();
        let far = job.qualified("north").unwrap();
        assert_eq!(far, "north:job:7");
        assert_eq!(far.split_cluster(|c| c == "north"), (Some("north"), "job:7"));
        assert_eq!(job.split_cluster(|c| c == "north"), (None, "job:7"));
        // nothing is left for a namespace
        let odd: Nspace = "north:".parse().unwrap();
        assert_eq!(odd.split_cluster(|c| c == "north"), (None, "north:"));
        let long = Nspace::new("x".repeat(250)).unwrap();
        assert!(matches!(long.qualified("ab"), Err(NspaceError::TooLong(253))));
    }
}
