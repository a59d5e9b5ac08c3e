use std::collections::BTreeMap;
use std::sync::Arc;

use super::Failure;
use crate::job::JobData;
use crate::{
    KeyName, KeyVal, Nspace, ProcId, QualifiedValue, RankSet, Scope, Status, Value, ValueType, keys,
};

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! data_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::fence_operations! { [$($then)*] $($before)*
            /// Commits the data that the process has put (PUT-06).
            Commit commit -> () {
                "commit", memory: DATA, by: data,
                fields: {
                    /// The keys and values; may be empty.
                    entries: Vec<PutEntry>,
                },
                functions: ["PMIx_Commit"],
                native: { COMMIT = 2, c: "PMIX_COMMIT_CMD" },
            }
            /// A get that the process cannot answer locally.
            Get get -> GetReply {
                "get", memory: PLAIN, by: engine,
                fields: {
                    /// The process whose data is requested; rank `WILDCARD` for the job, `UNDEF` if the rank is not known.
                    proc: ProcId,
                    /// The key; `None` for everything that the process has put.
                    key: Option<KeyName>,
                },
                directives: "`IMMEDIATE`, `TIMEOUT`, `GET_REFRESH_CACHE`, realms and the like; may be empty.",
                about: own,
                native: { GET = 4, c: "PMIX_GETNB_CMD", message: [proc, directives, key] },
                upcalls: {
                    /// Fetches the data of a process from its server, whose host obtains it with
                    /// [`ServerHandle::dmodex_request`](crate::ServerHandle::dmodex_request) (DMX-01). Idempotent.
                    ///
                    /// Pass `REQUIRED_KEY` and `IMMEDIATE` to it: a fence that fetches what an earlier one has not brought requests with
                    /// `IMMEDIATE` what a process has put by now. Without it, the fence waits until the process commits something. Fail with
                    /// `ERR_NOT_FOUND` only if no server has the process: the fence then assumes that none of its data is left.
                    DirectModex direct_modex(DirectModexRequest) -> Bytes {
                        "direct modex", c: ["direct_modex" "pmix_server_dmodex_req_fn_t"],
                        attributes: own, directives: directives, passed_up: no,
                        serves: ["PMIx_Get", "PMIx_Get_nb"],
                    }
                },
            }
        }
    };
}

/// Rows of the [table of replies](crate::for_each_reply), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! data_replies {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::fence_replies! { [$($then)*] $($before)*
            /// The data that a get has found.
            Get get(GetReply),
        }
    };
}

/// One key that a process has put.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PutEntry {
    /// Who may see it.
    pub scope: Scope,
    /// The key, or the [name](QualifiedValue::name) of a value with qualifiers.
    pub key: KeyName,
    /// The value; of one with qualifiers, all of it.
    pub value: Value,
}

impl PutEntry {
    /// A value under a key, for those in the scope.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::{ProcId, Rank, Scope, message::{Modex, ProcData, PutEntry}};
    ///
    /// let entry = PutEntry::new(Scope::GLOBAL, "endpoint".parse()?, "10.0.0.1:7000");
    /// let data = ProcData::new(ProcId::new("job-1".parse()?, Rank::new(0)?), vec![entry]);
    /// assert_eq!(Modex::new(vec![data.clone()]).procs, [data]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(scope: Scope, key: KeyName, value: impl Into<Value>) -> Self {
        Self { scope, key, value: value.into() }
    }

    /// A pair as programs in C put it. The key [`QUALIFIED_VALUE`](keys::QUALIFIED_VALUE) stands for a key and its qualifiers.
    /// The C library lets programs put reserved keys: those of the process itself are stored under
    /// [another name](KeyName::claimed), behind what the host says.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a reserved key that is not about a process, for a `QUALIFIED_VALUE` that is not an array of infos or has
    /// no elements, and if the key and its qualifiers, as text, are longer than a key may be.
    pub fn from_pair(scope: Scope, pair: KeyVal) -> Result<Self, Failure> {
        let refused = |why: String| Failure::new(Status::ERR_BAD_PARAM, why);
        let KeyVal { mut key, mut value } = pair;
        if key == *keys::QUALIFIED_VALUE.name() {
            let name = QualifiedValue::name_in(&value);
            let name = name.ok_or_else(|| refused(format!("{key} is not an array of infos")))?;
            key = name.map_err(|error| refused(format!("{key}: with its qualifiers, {error}")))?;
            if !QualifiedValue::is_name(&key) {
                value = value
                    .as_infos()
                    .and_then(|infos| infos.first())
                    .map_or(Value::Undef, |info| info.value.clone());
            }
        } else if QualifiedValue::is_name(&key) {
            return Err(refused(format!("{key} is a name for values with qualifiers")));
        }
        if key.is_reserved() {
            key = key
                .claimed()
                .ok_or_else(|| refused(format!("{key} is a reserved key, and not about a process")))?;
        }
        Ok(Self::new(scope, key, value))
    }

    /// The pair as programs in C put it, see [`from_pair`](Self::from_pair).
    #[must_use]
    pub fn to_pair(&self) -> KeyVal {
        let key = match self.key.claim() {
            Some(reserved) => reserved,
            None if self.is_qualified() => keys::QUALIFIED_VALUE.key_name(),
            None => self.key.clone(),
        };
        KeyVal { key, value: self.value.clone() }
    }

    /// Whether the value has qualifiers.
    #[must_use]
    pub fn is_qualified(&self) -> bool {
        QualifiedValue::is_name(&self.key)
    }

    /// Whether the key fits the value: only a value with qualifiers is stored under the name of one.
    #[must_use]
    pub fn is_named_rightly(&self) -> bool {
        let name = || QualifiedValue::name_in(&self.value)?.ok();
        !self.is_qualified() || name().as_ref() == Some(&self.key)
    }

    /// The value that a get returns: without the qualifiers, if it has some.
    #[must_use]
    pub fn plain(&self) -> &Value {
        QualifiedValue::plain(&self.key, &self.value)
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

    /// The value, by its type.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if there is none; for a value of another type, the status that the Standard has for that.
    pub fn get<T: ValueType>(&self, key: &KeyName) -> Result<T, Failure> {
        let nothing = || Failure::new(Status::ERR_NOT_FOUND, format!("there is no value for {key}"));
        let value = self.value.as_ref().ok_or_else(nothing)?;
        value.get().map_err(|error| Failure::mistyped(key, error))
    }
}

/// Data that processes have put and committed.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Modex {
    /// Data by process. A process may occur more than once; later entries win.
    pub procs: Vec<ProcData>,
}

impl Modex {
    /// The data of these processes.
    pub const fn new(procs: Vec<ProcData>) -> Self {
        Self { procs }
    }
}

/// What a server sends to those of other nodes: a part of the data that its processes have committed.
///
/// It is about the processes in `procs` and in `others`. A receiver that does not have all their data of generation `since`
/// cannot build on it, and has to ask for everything.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Changes {
    /// A number that the server has drawn when it started. Generations of different servers cannot be compared.
    pub server: u64,
    /// The generation after which the changes have been made; 0: this is all that the processes have put.
    pub since: u64,
    /// The generation up to which the receiver has everything once it has applied these changes.
    pub generation: u64,
    /// Data by process.
    pub procs: Vec<ProcData>,
    /// Processes of which there is nothing to tell.
    pub others: BTreeMap<Nspace, RankSet>,
}

impl Changes {
    /// The changes after one generation of a server up to another, about no process yet.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::{ProcId, Rank, message::{Changes, ProcData}};
    ///
    /// let mut changes = Changes::new(4711, 0, 12);
    /// changes.procs.push(ProcData::new(ProcId::new("job-1".parse()?, Rank::new(0)?), vec![]));
    /// assert!(changes.others.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn new(server: u64, since: u64, generation: u64) -> Self {
        Self { server, since, generation, procs: Vec::new(), others: BTreeMap::new() }
    }
}

/// Data that one process has put and committed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProcData {
    /// The process.
    pub proc: ProcId,
    /// Its keys with their scopes.
    pub entries: Vec<PutEntry>,
}

impl ProcData {
    /// What a process has put.
    pub const fn new(proc: ProcId, entries: Vec<PutEntry>) -> Self {
        Self { proc, entries }
    }
}
