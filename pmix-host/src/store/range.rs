//! Ranges: who may see whose data and events.

use pmix_server::host::{HostError, HostResult};
use pmix_types::{DataArray, DataRange, Directives, ProcId, Status, Value, keys};

use crate::user::User;

/// A process that publishes, looks up or unpublishes, with the properties that decide about access.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requester {
    /// The process with its user.
    pub user: User,
    /// Its node.
    pub node: String,
    /// Number of its job's session, if the job was given one.
    pub session: Option<u32>,
}

impl Requester {
    /// A process on this node and in this session.
    pub fn new(user: User, node: impl Into<String>, session: Option<u32>) -> Self {
        Self { user, node: node.into(), session }
    }
}

/// Whether a range around one process includes another (PUB-06). `CUSTOM` includes only the processes that `listed`
/// names, also by their whole namespace; `RM` and unknown ranges include nobody.
///
/// Data is found only if the publisher's range includes the reader and the lookup's range includes the publisher
/// (PUB-07, PUB-10). Jobs without a session number share a session.
///
/// # Examples
/// ```
/// use pmix_host::store::{Requester, User, reaches};
/// use pmix_server::types::{DataRange, ProcId, Rank, Uid};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let on = |nspace: &str, node: &str| -> Result<Requester, Box<dyn std::error::Error>> {
///     let proc = ProcId::new(nspace.parse()?, Rank::new(0)?);
///     Ok(Requester::new(User::new(proc, Uid::new(1000), None), node, None))
/// };
/// let (publisher, reader) = (on("job-1", "node1")?, on("job-2", "node1")?);
/// assert!(reaches(DataRange::LOCAL, &[], &publisher, &reader));
/// assert!(!reaches(DataRange::NAMESPACE, &[], &publisher, &reader));
/// let listed = [ProcId::wildcard("job-2".parse()?)];
/// assert!(reaches(DataRange::CUSTOM, &listed, &publisher, &reader));
/// assert!(!reaches(DataRange::CUSTOM, &listed, &publisher, &publisher));
/// # Ok(()) }
/// ```
pub fn reaches(range: DataRange, listed: &[ProcId], from: &Requester, to: &Requester) -> bool {
    match range {
        DataRange::LOCAL => from.node == to.node,
        DataRange::NAMESPACE => from.user.proc.nspace == to.user.proc.nspace,
        DataRange::SESSION => from.session == to.session,
        DataRange::GLOBAL => true,
        DataRange::CUSTOM => listed.iter().any(|proc| proc.matches(&to.user.proc)),
        DataRange::PROC_LOCAL => from.user.proc == to.user.proc,
        _ => false,
    }
}

pub(super) fn range(directives: &mut Directives) -> HostResult<DataRange> {
    let range = directives.take(&keys::RANGE)?.unwrap_or(DataRange::SESSION);
    let known = [
        DataRange::RM,
        DataRange::LOCAL,
        DataRange::NAMESPACE,
        DataRange::SESSION,
        DataRange::GLOBAL,
        DataRange::CUSTOM,
        DataRange::PROC_LOCAL,
    ];
    if known.contains(&range) { Ok(range) } else { Err(bad_param(format!("{range} is not a range of data"))) }
}

pub(super) fn custom(directives: &mut Directives) -> HostResult<Vec<ProcId>> {
    Ok(match directives.take(&keys::EVENT_CUSTOM_RANGE)? {
        Some(DataArray::Proc(mut procs)) => {
            procs.sort();
            procs.dedup();
            procs
        }
        Some(_) => return Err(bad_param("a custom range must be a list of processes")),
        None => Vec::new(),
    })
}

/// How many keys a lookup waits for: a number, 0 and a bare flag for all. Open MPI gives a boolean.
pub(super) fn wait_count(directives: &mut Directives, all: usize) -> HostResult<Option<usize>> {
    let bad = || bad_param("WAIT must be a number of keys, or 0 for all");
    let wait = match directives.get_value(keys::WAIT.name()) {
        None | Some(Value::Bool(false)) => None,
        Some(Value::Undef | Value::Bool(true)) => Some(all),
        Some(value) => match value.get::<i32>().ok().and_then(|count| usize::try_from(count).ok()) {
            Some(0) => Some(all),
            Some(count) => Some(count.min(all)),
            None => return Err(bad()),
        },
    };
    // read above: it comes in several types
    directives.remove(&keys::WAIT);
    Ok(wait)
}

pub(super) fn bad_param(problem: impl Into<String>) -> HostError {
    HostError::new(Status::ERR_BAD_PARAM, problem)
}
