//! Ends of processes, jobs and sessions, with which published data ends.

use pmix_types::{Nspace, Persistence, ProcId, RankSet};

/// The end of processes, a job or a session, and of the data published for that time (PUB-08).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Processes, or an application or a job of theirs.
    Procs {
        /// Their namespace.
        nspace: Nspace,
        /// Their ranks; `None` for all.
        ranks: Option<RankSet>,
        /// The persistence of the data to remove: `PROC` when processes end, `APP` when their application ends.
        persistence: Persistence,
    },
    /// A namespace on one node: removes data of its processes there with the persistence `PROC` or `APP`.
    Nspace {
        /// The namespace.
        nspace: Nspace,
        /// The node.
        node: String,
    },
    /// A tool: removes what it has published through one node with the persistence `PROC` or `APP`, as it is the whole of its
    /// application.
    Tool {
        /// The tool.
        proc: ProcId,
        /// The node that it has left.
        node: String,
    },
    /// The session with this number or, with `None`, that of jobs without a session number.
    Session(Option<u32>),
}

impl Ended {
    /// The end of one process.
    pub fn of_proc(proc: &ProcId) -> Self {
        let ranks = Some([proc.rank].into_iter().collect());
        Self::Procs { nspace: proc.nspace.clone(), ranks, persistence: Persistence::PROC }
    }

    /// The end of a job with all of its processes and applications.
    pub fn of_job(nspace: &Nspace) -> [Self; 2] {
        [Persistence::PROC, Persistence::APP].map(|persistence| Self::Procs {
            nspace: nspace.clone(),
            ranks: None,
            persistence,
        })
    }
}
