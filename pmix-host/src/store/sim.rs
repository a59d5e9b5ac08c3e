//! The store for tests that play several servers: without locks, tasks and disk.

use super::*;
use pmix_server::host::{Lookup, Publish, Unpublish};

/// All that is published in a cluster.
#[derive(Debug, Default)]
pub(crate) struct SimStore(Store);

/// Who asks, with all that decides what it can find.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    pub(crate) proc: ProcId,
    pub(crate) uid: u32,
    pub(crate) gid: Option<u32>,
    pub(crate) node: String,
    pub(crate) session: Option<u32>,
}

/// A lookup that waits.
#[derive(Debug)]
pub(crate) struct Wait(Place);

impl SimStore {
    pub(crate) fn publish(&mut self, asker: Asker, request: Publish) -> HostResult<()> {
        let numbers = self.0.admit(asker.into(), request.data, request.directives)?;
        self.0.show(&numbers);
        Ok(())
    }

    pub(crate) fn look(&mut self, asker: Asker, request: Lookup) -> Result<HostResult<Found>, Wait> {
        match Look::new(asker.into(), request.keys, request.directives) {
            Ok(look) => self.0.look(look).map_err(Wait),
            Err(error) => Ok(Err(error)),
        }
    }

    pub(crate) fn unpublish(&mut self, asker: Asker, request: Unpublish) -> HostResult<()> {
        let asker = Party::from(asker).user;
        self.0.unpublish(&asker, &request.keys, request.directives).map(|_| ())
    }

    /// What a lookup that waited has been given.
    pub(crate) fn served(wait: &mut Wait) -> Option<Found> {
        wait.0.answer.try_recv().ok()
    }

    pub(crate) fn leave(&mut self, wait: &Wait) {
        self.0.leave(wait.0.number);
    }

    pub(crate) fn proc_has_ended(&mut self, proc: &ProcId) {
        let ranks = Some([proc.rank].into_iter().collect());
        self.0.forget(&Over::Procs { nspace: proc.nspace.clone(), ranks, persistence: Persistence::PROC });
    }

    pub(crate) fn job_has_ended(&mut self, nspace: &Nspace) {
        for persistence in [Persistence::PROC, Persistence::APP] {
            self.0.forget(&Over::Procs { nspace: nspace.clone(), ranks: None, persistence });
        }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.0.waiting()
    }
}

impl From<Asker> for Party {
    fn from(Asker { proc, uid, gid, node, session }: Asker) -> Self {
        Self { user: User { proc, uid, gid }, node, session }
    }
}
