use std::collections::{BTreeMap, BTreeSet};

use pmix_client::QueryResults;
use pmix_types::why::{LOOKS, ProcLook, WAITS, Wait};
use pmix_types::{DataArray, KeyName, Nspace, ProcId, ProcInfo, ProcState, Query, Value, keys};

use super::Why;
use super::process::{Link, Process};
use crate::error::Error;
use crate::tool::{Tool, read_namespaces};

type Procs = BTreeMap<ProcId, Process>;

impl Tool {
    /// Queries why jobs wait: their waiting operations, and the state of their processes. Without names, queries all
    /// visible jobs.
    ///
    /// Jobs that do not run are left out: [`Why::jobs`] has the others. Two reports show the processor use of
    /// processes: see [`Why::since`].
    ///
    /// # Errors
    /// As [`Tool::query`], and [`Error::Unsupported`] if the server does not report waits, as with other
    /// implementations of PMIx. A server that cannot examine processes is not an error: [`Process::look`] is `None`.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn why(&self, jobs: &[Nspace]) -> Result<Why, Error> {
        let first = [Query::new(&keys::QUERY_NAMESPACES), Query::new(&WAITS)];
        let first = match self.query(first).await {
            Ok(first) => first,
            Err(error) if is_unknown(&error) => return Err(self.unsupported()),
            Err(error) => return Err(error),
        };
        let Some(waits) = first.get_value(WAITS) else { return Err(self.unsupported()) };
        let running = read_namespaces(&first)?;
        let mut named = jobs.iter().filter(|job| running.contains(job)).cloned().collect::<Vec<_>>();
        let mut waits = Wait::read_all(waits);
        if jobs.is_empty() {
            named.clone_from(&running);
        } else {
            waits.retain(|wait| wait.is_unanswered() || !named.is_empty() && wait.is_of(&named));
        }
        named.sort();
        named.dedup();
        let concerned: BTreeSet<&Nspace> = (waits.iter().flat_map(Wait::nspaces))
            .filter(|nspace| running.contains(nspace))
            .chain(&named)
            .collect();
        let procs = self.processes(concerned).await?;
        Ok(Why::new(named, waits, procs))
    }

    async fn processes(&self, jobs: impl IntoIterator<Item = &Nspace>) -> Result<Procs, Error> {
        let queries: Vec<_> = jobs.into_iter().flat_map(about_processes).collect();
        if queries.is_empty() {
            return Ok(Procs::new());
        }
        match self.query(queries).await {
            Ok(answer) => Ok(joined(&answer)),
            // they have ended in the meantime
            Err(error) if is_unknown(&error) => Ok(Procs::new()),
            Err(error) => Err(error),
        }
    }

    fn unsupported(&self) -> Error {
        self.unsupported_key(WAITS.key_name())
    }
}

fn is_unknown(error: &Error) -> bool {
    error.is_not_found()
        || error.is_not_supported()
        || error.status() == pmix_types::Status::ERR_INVALID_NAMESPACE
}

/// The table as the host knows it, with looks of the kernel; and as the server knows it, who has seen them connect.
fn about_processes(job: &Nspace) -> [Query; 2] {
    let of_host = Query::new(&keys::QUERY_PROC_TABLE).key(&LOOKS).qualifier(&keys::NSPACE, job);
    let of_server = Query::new(&keys::QUERY_LOCAL_PROC_TABLE)
        .qualifier(&keys::NSPACE, job)
        .qualifier(&keys::QUERY_LOCAL_ONLY, true);
    [of_host, of_server]
}

fn joined(answer: &QueryResults) -> Procs {
    let here = tables(answer, keys::QUERY_LOCAL_PROC_TABLE.key_name()).flatten();
    let everywhere = tables(answer, keys::QUERY_PROC_TABLE.key_name());
    let looks = values(answer, LOOKS.key_name()).flat_map(ProcLook::read_all);
    join(here, everywhere, looks)
}

/// Joins what the server knows of its own processes with the table of each job and with looks.
pub(super) fn join<'a>(
    here: impl IntoIterator<Item = &'a ProcInfo>,
    everywhere: impl IntoIterator<Item = &'a [ProcInfo]>,
    looks: impl IntoIterator<Item = ProcLook>,
) -> Procs {
    let mut procs = Procs::new();
    let here: BTreeMap<_, _> = here.into_iter().map(|row| (&row.proc, row)).collect();
    for row in here.values() {
        at(&mut procs, &row.proc).tell(row);
    }
    for table in everywhere {
        // a host that notes who connects knows who has not
        let notes = table.iter().any(|row| row.state == ProcState::CONNECTED);
        for row in table {
            let process = at(&mut procs, &row.proc);
            process.tell(row);
            process.link = link(row.state, notes);
        }
    }
    for (proc, row) in here {
        // the server tells those who have finalized from those who have not connected
        let link = match row.state {
            ProcState::RUNNING => Link::Left,
            state => link(state, true),
        };
        if link != Link::Unknown {
            at(&mut procs, proc).link = link;
        }
    }
    for look in looks {
        at(&mut procs, &look.proc.clone()).see(look);
    }
    procs
}

const fn link(state: ProcState, notes_connections: bool) -> Link {
    match state {
        ProcState::CONNECTED => Link::Connected,
        ProcState::PREPPED | ProcState::LAUNCH_UNDERWAY => Link::NotYet,
        ProcState::RUNNING if notes_connections => Link::NotYet,
        _ => Link::Unknown,
    }
}

fn at<'a>(procs: &'a mut Procs, proc: &ProcId) -> &'a mut Process {
    procs.entry(proc.clone()).or_insert_with(|| Process::new(proc.clone()))
}

fn tables(answer: &QueryResults, key: KeyName) -> impl Iterator<Item = &[ProcInfo]> {
    values(answer, key).filter_map(|value| match value {
        Value::DataArray(array) => match &**array {
            DataArray::ProcInfo(rows) => Some(rows.as_slice()),
            _ => None,
        },
        _ => None,
    })
}

/// All values that were found for a key: one for each job.
fn values(answer: &QueryResults, key: KeyName) -> impl Iterator<Item = &Value> {
    let infos = answer.results().iter().flat_map(|result| &result.infos);
    infos.filter(move |info| info.key == key).map(|info| &info.value)
}
