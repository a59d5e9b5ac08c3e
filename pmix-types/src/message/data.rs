use std::sync::Arc;

use crate::job::JobData;
use crate::{KeyName, ProcId, Scope, Value};

/// One key that a process has put.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs)]
pub struct PutEntry {
    /// Who may see it.
    pub scope: Scope,
    /// The key.
    pub key: KeyName,
    /// The value.
    pub value: Value,
}

directed_requests! {
    /// A get that the process cannot answer locally.
    Get {
        /// `IMMEDIATE`, `TIMEOUT`, `GET_REFRESH_CACHE`, realms and the like; may be empty.
        directives,
        /// The process whose data is requested; rank `WILDCARD` for the job, `UNDEF` if the rank is not known.
        proc: ProcId,
        /// The key; `None` for everything that the process has put.
        key: Option<KeyName>,
    }
}

/// The answer to a Get.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GetReply {
    /// The value, if the request was for a single one.
    pub value: Option<Value>,
    /// Further data for the caller to keep: everything that the target has put and the caller may see.
    pub modex: Arc<Modex>,
    /// Job-level data of a namespace that the caller did not know (GET-33).
    pub job: Option<Arc<JobData>>,
}

impl GetReply {
    /// A reply with one value and nothing else.
    pub fn value(value: Value) -> Self {
        Self { value: Some(value), ..Self::default() }
    }
}

/// Data that processes have put and committed.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(clippy::exhaustive_structs)]
pub struct Modex {
    /// Data by process. A process may occur more than once; later entries win.
    pub procs: Vec<ProcData>,
}

/// Data that one process has put and committed.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs)]
pub struct ProcData {
    /// The process.
    pub proc: ProcId,
    /// Its keys with their scopes.
    pub entries: Vec<PutEntry>,
}
