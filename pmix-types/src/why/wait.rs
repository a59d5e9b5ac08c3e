use std::time::Duration;

#[cfg(feature = "serde")]
use super::json;
use super::{ProcSet, push, read, rows};
use crate::{DataArray, DataType, Info, Key, Nspace, ProcId, Status, Value};

const WAIT: Key<DataArray> = Key::new("rs.pmix.wait", DataType::DATA_ARRAY);
const ID: Key<u64> = Key::new("rs.pmix.wait.id", DataType::UINT64);
const OPERATION: Key<String> = Key::new("rs.pmix.wait.operation", DataType::STRING);
const ABOUT: Key<String> = Key::new("rs.pmix.wait.about", DataType::STRING);
const NODE: Key<String> = Key::new("rs.pmix.wait.node", DataType::STRING);
const WAITED: Key<f64> = Key::new("rs.pmix.wait.waited", DataType::DOUBLE);
const LEFT: Key<f64> = Key::new("rs.pmix.wait.left", DataType::DOUBLE);
const EXPECTED: Key<DataArray> = Key::new("rs.pmix.wait.expected", DataType::DATA_ARRAY);
const ARRIVED: Key<DataArray> = Key::new("rs.pmix.wait.arrived", DataType::DATA_ARRAY);
const MISSING: Key<DataArray> = Key::new("rs.pmix.wait.missing", DataType::DATA_ARRAY);
const EXCUSED: Key<DataArray> = Key::new("rs.pmix.wait.excused", DataType::DATA_ARRAY);
const FETCHING: Key<DataArray> = Key::new("rs.pmix.wait.fetching", DataType::DATA_ARRAY);
const AT_HOST: Key<bool> = Key::new("rs.pmix.wait.at_host", DataType::BOOL);
const STATUS: Key<Status> = Key::new("rs.pmix.wait.status", DataType::STATUS);
const ERROR: Key<String> = Key::new("rs.pmix.wait.error", DataType::STRING);

/// The [`Wait::operation`] of a process that waits for a debugger to release it.
pub const WAITS_FOR_DEBUGGER: &str = "debugger release";

/// An operation that is not complete.
///
/// A collective has one for each round that is open. All other operations are requests of one process.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Wait {
    /// Number of the operation, unique with its node as long as the server runs.
    pub id: u64,
    /// What waits, in the words of error messages: `fence`, `connect`, `get`, `lookup`, `spawn`, ...
    pub operation: String,
    /// The subject: the key of a get, the keys of a lookup, the id of a group.
    pub about: Option<String>,
    /// The node of the server that knows it; of a collective the first one that does.
    pub node: String,
    /// How long it has waited: since its first participant entered, or since it was requested.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::seconds"))]
    pub waited: Duration,
    /// How long until it times out; `None` if it has no time limit.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::seconds_left"))]
    pub left: Option<Duration>,
    /// All participants, whether or not they have entered. For a request: the process that sent it.
    pub expected: ProcSet,
    /// Those who have entered.
    pub arrived: ProcSet,
    /// Those who are awaited: participants, or the process whose data a get wants.
    pub missing: ProcSet,
    /// Participants without which it continues.
    pub excused: ProcSet,
    /// Processes on other nodes whose data a server fetches for it, the next ones of perhaps more.
    pub fetching: ProcSet,
    /// Whether the server has asked its host to carry it out, and waits for the answer.
    pub at_host: bool,
    /// The failure, if the operation has failed already and is kept only until all participants have heard of it.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::failure"))]
    pub error: Option<(Status, String)>,
}

impl Wait {
    /// An operation known on this node.
    #[must_use]
    pub fn new(id: u64, operation: impl Into<String>, node: impl Into<String>, waited: Duration) -> Self {
        Self { id, operation: operation.into(), node: node.into(), waited, ..Self::default() }
    }

    /// Whether it is one that processes enter together.
    #[must_use]
    pub fn is_collective(&self) -> bool {
        self.expected.len() > 1 || self.expected != self.arrived
    }

    /// Whether this stands for a node that has not answered: what waits there is not known.
    #[must_use]
    pub fn is_unanswered(&self) -> bool {
        self.error.is_some() && self.nspaces().next().is_none()
    }

    /// Whether a process waits for a debugger to release it: it is ready for one, in init or where it has said so itself.
    #[must_use]
    pub fn is_for_debugger(&self) -> bool {
        self.operation == WAITS_FOR_DEBUGGER
    }

    /// The waits in a value of [`WAITS`](super::WAITS); none in any other value. Fields that cannot be read are left
    /// empty.
    #[must_use]
    pub fn read_all(value: &Value) -> Vec<Self> {
        rows(value)
            .map(|fields| {
                let procs =
                    |key| read(&fields, key).map(|array| ProcSet::from_array(&array)).unwrap_or_default();
                let seconds =
                    |key| read(&fields, key).and_then(|time| Duration::try_from_secs_f64(time).ok());
                let status = read(&fields, &STATUS);
                Self {
                    id: read(&fields, &ID).unwrap_or_default(),
                    operation: read(&fields, &OPERATION).unwrap_or_default(),
                    about: read(&fields, &ABOUT),
                    node: read(&fields, &NODE).unwrap_or_default(),
                    waited: seconds(&WAITED).unwrap_or_default(),
                    left: seconds(&LEFT),
                    expected: procs(&EXPECTED),
                    arrived: procs(&ARRIVED),
                    missing: procs(&MISSING),
                    excused: procs(&EXCUSED),
                    fetching: procs(&FETCHING),
                    at_host: read(&fields, &AT_HOST).unwrap_or_default(),
                    error: status.map(|status| (status, read(&fields, &ERROR).unwrap_or_default())),
                }
            })
            .collect()
    }

    /// The value of [`WAITS`](super::WAITS) for all of these.
    #[must_use]
    pub fn write_all<'a>(waits: impl IntoIterator<Item = &'a Self>) -> Value {
        let rows = waits.into_iter().map(|wait| Info::new(&WAIT, DataArray::Info(wait.fields())));
        DataArray::Info(rows.collect()).into()
    }

    fn fields(&self) -> Vec<Info> {
        let mut fields = vec![
            Info::new(&ID, self.id),
            Info::new(&OPERATION, self.operation.as_str()),
            Info::new(&NODE, self.node.as_str()),
            Info::new(&WAITED, self.waited.as_secs_f64()),
            Info::new(&AT_HOST, self.at_host),
        ];
        push(&mut fields, &ABOUT, self.about.clone());
        push(&mut fields, &LEFT, self.left.map(|left| left.as_secs_f64()));
        for (key, procs) in [
            (&EXPECTED, &self.expected),
            (&ARRIVED, &self.arrived),
            (&MISSING, &self.missing),
            (&EXCUSED, &self.excused),
            (&FETCHING, &self.fetching),
        ] {
            push(&mut fields, key, (!procs.is_empty()).then(|| procs.to_array()));
        }
        if let Some((status, message)) = &self.error {
            fields.extend([Info::new(&STATUS, *status), Info::new(&ERROR, message.as_str())]);
        }
        fields
    }

    /// Puts together what the servers of all nodes know: each knows who has entered on its own node. Collectives of the
    /// same participants are one, in the order in which they have begun; the rest stays as it is.
    #[must_use]
    pub fn merged(nodes: impl IntoIterator<Item = Vec<Self>>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for waits in nodes {
            // of several rounds of the same participants, the first here is the first there
            let mut taken = vec![false; merged.len()];
            for wait in waits {
                let same =
                    |(index, known): &(usize, &Self)| !taken[*index] && known.is_same_collective(&wait);
                match merged.iter().enumerate().find(same).map(|(index, _)| index) {
                    Some(index) => {
                        taken[index] = true;
                        merged[index].join(&wait);
                    }
                    None => {
                        merged.push(wait);
                        taken.push(true);
                    }
                }
            }
        }
        merged
    }

    fn is_same_collective(&self, other: &Self) -> bool {
        let is_alike = self.operation == other.operation && self.about == other.about;
        is_alike && self.is_collective() && self.expected == other.expected
    }

    fn join(&mut self, other: &Self) {
        self.waited = self.waited.max(other.waited);
        self.left = self.left.into_iter().chain(other.left).min();
        self.arrived.add_all(&other.arrived);
        self.excused.add_all(&other.excused);
        self.missing.add_all(&other.missing);
        self.missing.remove_all(&self.arrived);
        self.missing.remove_all(&self.excused);
        self.fetching.add_all(&other.fetching);
        self.at_host |= other.at_host;
        if self.error.is_none() {
            self.error.clone_from(&other.error);
        }
    }

    /// The namespaces of those who take part or are awaited, some perhaps twice.
    pub fn nspaces(&self) -> impl Iterator<Item = &Nspace> {
        let all = [&self.expected, &self.arrived, &self.missing, &self.excused];
        all.into_iter().flat_map(|procs| procs.iter().map(|(nspace, _)| nspace))
    }

    /// Whether processes of one of these namespaces take part or are awaited; true if none is named.
    pub fn is_of<T: AsRef<str>>(&self, named: &[T]) -> bool {
        let is_named = |nspace: &Nspace| named.iter().any(|name| name.as_ref() == nspace.as_str());
        named.is_empty() || self.nspaces().any(is_named)
    }

    /// Whether a process takes part, or is awaited.
    #[must_use]
    pub fn concerns(&self, proc: &ProcId) -> bool {
        self.expected.contains(proc) || self.missing.contains(proc)
    }
}
