//! Job data in parts, for sending it.

use crate::map::{NodeMap, ProcMap};
use crate::{KeyName, KeyVal, Nspace, Rank, RankSet, Value};

use super::apps::KnownApp;
use super::nodes::{DescribedNode, Nodes};
use super::table::Column;
use super::{JobData, JobError, JobErrorKind};

/// Everything that was given for a job and cannot be derived from the rest.
///
/// [`JobData::from_parts`] makes the same job data from it.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "a wire that leaves a part out must not compile")]
pub struct Parts {
    /// Name of the job.
    pub nspace: Nspace,
    /// Its nodes.
    pub node_map: Option<NodeMap>,
    /// The ranks on these nodes.
    pub proc_map: Option<ProcMap>,
    /// Values of the host's resources, for every job.
    pub resources: Vec<KeyVal>,
    /// Values of the session, its id among them.
    pub session: Vec<KeyVal>,
    /// Values of the job.
    pub job: Vec<KeyVal>,
    /// Apps with values or ranks.
    pub apps: Vec<AppParts>,
    /// Nodes with data other than their name.
    pub nodes: Vec<NodeParts>,
    /// Values of processes: for each key, the ranks that have one, with the value.
    pub procs: Vec<(KeyName, Vec<(Rank, Value)>)>,
}

/// The data given for an app.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "a wire that leaves a part out must not compile")]
pub struct AppParts {
    /// Its `APPNUM`.
    pub number: u32,
    /// Processes that have this number.
    pub ranks: RankSet,
    /// Its values.
    pub values: Vec<KeyVal>,
}

/// The data given for a node.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_structs, reason = "a wire that leaves a part out must not compile")]
pub struct NodeParts {
    /// Its name, unless only its number is known.
    pub name: Option<String>,
    /// Its `NODEID`, unless that is its position in the node map.
    pub id: Option<u32>,
    /// Its values, without those two.
    pub values: Vec<KeyVal>,
}

impl Parts {
    /// The parts of a job with a name only.
    pub const fn new(nspace: Nspace) -> Self {
        Self {
            nspace,
            node_map: None,
            proc_map: None,
            resources: Vec::new(),
            session: Vec::new(),
            job: Vec::new(),
            apps: Vec::new(),
            nodes: Vec::new(),
            procs: Vec::new(),
        }
    }
}

impl JobData {
    /// A copy of everything that was given and cannot be derived from the rest.
    pub fn parts(&self) -> Parts {
        let apps = self.apps.iter().map(|(number, app)| AppParts {
            number: *number,
            ranks: app.given.clone(),
            values: app.values.to_key_vals(),
        });
        let nodes = self.nodes.iter().map(|entry| NodeParts {
            name: entry.name.clone(),
            id: entry.id,
            values: entry.values.to_key_vals(),
        });
        let procs = self.columns.iter().map(|(key, column)| (key.clone(), column.as_slice().to_vec()));
        Parts {
            nspace: self.nspace.clone(),
            node_map: self.node_map.clone(),
            proc_map: self.proc_map.clone(),
            resources: self.resources.to_key_vals(),
            session: self.session.to_key_vals(),
            job: self.job.to_key_vals(),
            apps: apps.collect(),
            nodes: nodes.collect(),
            procs: procs.collect(),
        }
    }

    /// Puts job data together again.
    ///
    /// # Errors
    /// [`JobError`] for contradictory parts, as in [`register`](Self::register).
    pub fn from_parts(parts: Parts) -> Result<Self, JobError> {
        let nspace = parts.nspace.clone();
        let mut data = Self::new(parts.nspace);
        data.node_map = parts.node_map;
        data.proc_map = parts.proc_map;
        data.resources = parts.resources.into_iter().collect();
        data.session = parts.session.into_iter().collect();
        data.job = parts.job.into_iter().collect();
        for AppParts { number, ranks, values } in parts.apps {
            data.apps.insert(
                number,
                KnownApp { given: ranks, mapped: None, values: values.into_iter().collect() },
            );
        }
        data.assemble(parts.nodes, parts.procs).map_err(|kind| JobError::new(&nspace, kind))?;
        Ok(data)
    }

    fn assemble(
        &mut self,
        nodes: Vec<NodeParts>,
        procs: Vec<(KeyName, Vec<(Rank, Value)>)>,
    ) -> Result<(), JobErrorKind> {
        self.place()?;
        let entries = nodes.into_iter().map(|NodeParts { name, id, values }| DescribedNode {
            name,
            id,
            values: values.into_iter().collect(),
            ..DescribedNode::default()
        });
        self.nodes = Nodes::join(entries, self.node_map.as_ref(), self.node_count())?;
        for (key, values) in procs {
            if let Some((rank, _)) = values.iter().find(|(rank, _)| !rank.is_valid()) {
                return Err(JobErrorKind::NotARank { key, rank: *rank });
            }
            let mut column = Column::default();
            column.extend(values);
            self.columns.insert(key, column);
        }
        self.settle()
    }
}
