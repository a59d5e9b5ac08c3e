//! Whether this head is that of its DVM: always, unless others could be, of whom etcd chooses one at a time.

#[cfg(feature = "etcd")]
use std::sync::Arc;
use std::time::Duration;

use crate::cli::EtcdPlace;
#[cfg(feature = "etcd")]
use crate::dvm::Before;
use crate::dvm::{Durable, Lasting};
#[cfg(feature = "etcd")]
use crate::etcd::{Etcd, EtcdStore, EtcdSuccession, Mandate};
use crate::nodes::{KeptNode, Session};

/// Why a head does not know that it is the head of its DVM.
#[derive(Debug)]
#[cfg_attr(not(feature = "etcd"), allow(dead_code, reason = "there is none without etcd"))]
pub(crate) enum Doubt {
    /// Another one is.
    Superseded(String),
    /// It can reach neither etcd nor all of its nodes: another one may be.
    CutOff(String),
}

/// A head's claim to its DVM.
#[derive(Debug)]
pub(crate) struct Claim {
    /// `None` without etcd.
    #[cfg(feature = "etcd")]
    mandate: Option<Mandate>,
}

#[cfg(feature = "etcd")]
impl Claim {
    /// Waits until no other head has it; tells who has it meanwhile. `None` if the DVM is stopped while it waits.
    ///
    /// # Errors
    /// etcd cannot be used.
    pub(crate) async fn make(
        place: Option<&EtcdPlace>,
        tell: impl FnMut(&str),
    ) -> Result<Option<Self>, String> {
        let Some(place) = place else { return Ok(Some(Self { mandate: None })) };
        let etcd = Etcd::new(place).map_err(|error| error.to_string())?;
        let who = format!(
            "process {} on {}",
            std::process::id(),
            rustix::system::uname().nodename().to_string_lossy()
        );
        let mandate = Mandate::acquire(etcd, who, tell).await.map_err(|error| error.to_string())?;
        Ok(mandate.map(|mandate| Self { mandate: Some(mandate) }))
    }

    /// What keeps the published data, with what it has.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) async fn durable(&self) -> Result<Option<Durable>, String> {
        let Some(mandate) = &self.mandate else { return Ok(None) };
        let (store, records) = EtcdStore::open(mandate).await.map_err(|error| error.to_string())?;
        Ok(Some(Durable { store: Arc::new(store), records }))
    }

    /// What lets this head have a successor, and what the one before has left; `None` for a head that has none.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) async fn lasting(&self) -> Result<Option<Lasting>, String> {
        let Some(succession) = self.succession() else { return Ok(None) };
        let (kept, ended) = succession.read().await.map_err(|error| error.to_string())?;
        let before = kept.map(|kept| Before { session: kept.session, nodes: kept.nodes, jobs: kept.jobs });
        let epoch = succession.epoch();
        if epoch == 0 {
            return Err("according to etcd, this process is not the head of the DVM any more".to_owned());
        }
        Ok(Some(Lasting { epoch, before, ended, jobs: Arc::new(succession) }))
    }

    /// Keeps the session, so that there can be a successor.
    ///
    /// # Errors
    /// It cannot be kept.
    pub(crate) async fn keep(&self, session: &Session) -> Result<(), String> {
        let Some(succession) = self.succession() else { return Ok(()) };
        let kept = succession.keep(&session.to_keep(), &session.nodes_to_keep()).await;
        kept.map_err(|error| format!("cannot keep the nodes for a successor: {error}"))
    }

    /// Keeps what is known of a node now.
    pub(crate) async fn keep_node(&self, node: &KeptNode) {
        if let Some(succession) = self.succession() {
            succession.keep_node(node).await;
        }
    }

    /// Waits until it is certain that this is the head, for at most this time.
    ///
    /// # Errors
    /// Why it is not, or is not known to be.
    pub(crate) fn confirm(&self, within: Duration) -> impl Future<Output = Result<(), Doubt>> + Send + use<> {
        let succession = self.succession();
        async move {
            match succession {
                Some(succession) => succession.confirm(within).await,
                None => Ok(()),
            }
        }
    }

    /// The session is over, and there is nothing to take over.
    pub(crate) async fn clear(&self) {
        if let Some(succession) = self.succession()
            && let Err(error) = succession.clear().await
        {
            tracing::warn!(%error, "the state of this DVM could not be removed from etcd: the next head will look for its nodes");
        }
    }

    /// The whole DVM is stopped: heads that wait for this one end as well.
    pub(crate) async fn stop(&self) {
        if let Some(succession) = self.succession()
            && let Err(error) = succession.stop().await
        {
            tracing::warn!(%error, "heads that wait for this one may take over");
        }
    }

    fn succession(&self) -> Option<EtcdSuccession> {
        self.mandate.as_ref().map(EtcdSuccession::new)
    }

    /// Waits until another head has it; returns why.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub(crate) async fn lost(&mut self) -> String {
        match &mut self.mandate {
            Some(mandate) => mandate.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Gives it up.
    pub(crate) async fn end(self) {
        if let Some(mandate) = self.mandate {
            mandate.end().await;
        }
    }
}

#[cfg(not(feature = "etcd"))]
#[allow(clippy::unused_async, clippy::unused_self, clippy::needless_pass_by_ref_mut, reason = "as with etcd")]
impl Claim {
    pub(crate) async fn make(_: Option<&EtcdPlace>, _: impl FnMut(&str)) -> Result<Option<Self>, String> {
        Ok(Some(Self {}))
    }

    pub(crate) async fn durable(&self) -> Result<Option<Durable>, String> {
        Ok(None)
    }

    pub(crate) async fn lasting(&self) -> Result<Option<Lasting>, String> {
        Ok(None)
    }

    pub(crate) async fn keep(&self, _: &Session) -> Result<(), String> {
        Ok(())
    }

    pub(crate) async fn keep_node(&self, _: &KeptNode) {}

    pub(crate) fn confirm(&self, _: Duration) -> impl Future<Output = Result<(), Doubt>> + Send + use<> {
        std::future::ready(Ok(()))
    }

    pub(crate) async fn clear(&self) {}

    pub(crate) async fn stop(&self) {}

    pub(crate) async fn lost(&mut self) -> String {
        std::future::pending().await
    }

    pub(crate) async fn end(self) {}
}
