//! Asks a server for its jobs and their processes.

use std::collections::BTreeMap;
use std::sync::Arc;

use pmix_client::{Client, QueryResults};
use pmix_types::usage::{ProcUsage, USAGE};
use pmix_types::{DataArray, Nspace, ProcInfo, Query, Status, Value, keys};

use super::jobs::Jobs;
use crate::error::Error;
use crate::query;
use crate::tool::read_namespaces;

/// Jobs in one request, so that no answer becomes too large for a message because of many small jobs.
const AT_A_TIME: usize = 256;

/// What is asked, and where.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    /// Of the server that is watched, whichever is the primary one now.
    pub(super) client: Client,
    /// Empty for all jobs.
    pub(super) only: Arc<[Nspace]>,
    /// What processes use is asked, too.
    pub(super) has_usage: bool,
}

/// What a server has answered.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) jobs: Jobs,
    pub(super) usage: Vec<ProcUsage>,
}

impl Ask {
    /// The jobs that run now. One that ends meanwhile is left out.
    pub(super) async fn jobs(self) -> Result<Answer, Error> {
        let Some(names) = self.query(vec![Query::new(&keys::QUERY_NAMESPACES)]).await? else {
            return Ok(Answer::default());
        };
        let mut names = read_namespaces(&names)?;
        names.retain(|nspace| self.only.is_empty() || self.only.contains(nspace));
        let mut found = Answer::default();
        for names in names.chunks(AT_A_TIME) {
            if let Some(answer) = self.query(names.iter().map(|nspace| self.about(nspace)).collect()).await? {
                read_tables(&answer, names, &mut found.jobs);
                let infos = answer.results().iter().flat_map(|result| &result.infos);
                let values = infos.filter(|info| info.is(&USAGE)).map(|info| &info.value);
                found.usage.extend(values.flat_map(ProcUsage::read_all));
            }
        }
        Ok(found)
    }

    fn about(&self, nspace: &Nspace) -> Query {
        let query = Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE, nspace);
        if self.has_usage { query.key(&USAGE) } else { query }
    }

    /// `None` if there is nothing of that kind: OpenPMIx answers so if there are no jobs, every server if they have ended.
    async fn query(&self, queries: Vec<Query>) -> Result<Option<QueryResults>, Error> {
        let answer = query::query(self.client.clone(), queries).await;
        match answer {
            Ok(results) => Ok(Some(results)),
            Err(error) if error.is_not_found() || error.status() == Status::ERR_INVALID_NAMESPACE => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Adds those of these jobs that are in an answer.
fn read_tables(answer: &QueryResults, names: &[Nspace], jobs: &mut Jobs) {
    let mut found = BTreeMap::<Nspace, Vec<ProcInfo>>::new();
    for result in answer.results() {
        // a job without processes yet is there nevertheless
        let named = result.qualifiers.get(&keys::NSPACE.text()).ok().flatten();
        if let Some(nspace) = named.and_then(|name| Nspace::new(name).ok()) {
            found.entry(nspace).or_default();
        }
        let tables = result.infos.iter().filter_map(|info| match &info.value {
            Value::DataArray(array) => match &**array {
                DataArray::ProcInfo(rows) => Some(rows),
                _ => None,
            },
            _ => None,
        });
        for row in tables.flatten() {
            match found.get_mut(&row.proc.nspace) {
                Some(rows) => rows.push(row.clone()),
                None => drop(found.insert(row.proc.nspace.clone(), vec![row.clone()])),
            }
        }
    }
    for (nspace, rows) in found {
        if names.contains(&nspace) {
            jobs.insert(nspace, rows);
        }
    }
}
