//! Why job data is refused.

use thiserror::Error;

use crate::map::MapError;
use crate::{KeyName, Nspace, ParseRankSetError, Rank, ValueError};

/// Invalid job data. Nothing of the call has been applied.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("data of namespace {nspace}: {kind}")]
#[non_exhaustive]
pub struct JobError {
    /// The namespace of the data.
    pub nspace: Nspace,
    /// What is wrong with it.
    pub kind: JobErrorKind,
}

impl JobError {
    pub(super) fn new(nspace: &Nspace, kind: JobErrorKind) -> Self {
        Self { nspace: nspace.clone(), kind }
    }
}

/// What is wrong with job data.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JobErrorKind {
    /// A node or process map that cannot be read, or that does not fit the other.
    #[error("{key}: {source}")]
    Map {
        /// The key of the map.
        key: KeyName,
        /// What is wrong with it.
        source: MapError,
    },
    /// A value of the wrong type or size.
    #[error("{key}: {source}")]
    Value {
        /// The key of the value.
        key: KeyName,
        /// What is wrong with it.
        source: ValueError,
    },
    /// Text that is not a list of ranks.
    #[error("{key}: {source}")]
    Ranks {
        /// The key of the text.
        key: KeyName,
        /// What is wrong with it.
        source: ParseRankSetError,
    },
    /// A value of a type that its key does not allow.
    #[error("{key} needs {needs}")]
    Type {
        /// The key.
        key: KeyName,
        /// The values that the key allows.
        needs: &'static str,
    },
    /// An array without the key of its subject.
    #[error("{array} does not say what it is about; add {needs} to it")]
    Unnamed {
        /// Key of the array.
        array: KeyName,
        /// The keys of which it needs one.
        needs: &'static str,
    },
    /// Arrays nested too deep.
    #[error("arrays are nested more than {limit} deep; give them side by side")]
    TooDeep {
        /// The greatest depth that is read.
        limit: usize,
    },
    /// A value of an app, without the number of the app.
    #[error("{key} belongs to an app and the job has several; put it into an APP_INFO_ARRAY with APPNUM")]
    WhichApp {
        /// The key.
        key: KeyName,
    },
    /// Data of another job.
    #[error("{key} names namespace {found}; register that one by itself")]
    OtherNspace {
        /// The key that names it.
        key: KeyName,
        /// The other namespace.
        found: String,
    },
    /// A rank that is not that of one process.
    #[error("{key} is {rank}, which is not the rank of one process")]
    NotARank {
        /// The key.
        key: KeyName,
        /// The number given.
        rank: Rank,
    },
    /// Two nodes with one number.
    #[error("NODEID {id} is given to node {first} and to node {second}; give each node its own")]
    NodeIdTwice {
        /// The number.
        id: u32,
        /// Name of one node.
        first: String,
        /// Name of the other.
        second: String,
    },
    /// Two different values for something that has only one.
    #[error("{key} is given as {first} and as {second}; give it once")]
    Contradiction {
        /// The key.
        key: KeyName,
        /// One value.
        first: String,
        /// The other.
        second: String,
    },
}

crate::message_first!(JobError);
