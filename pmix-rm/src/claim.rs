//! Whether this head is that of its DVM: always, unless others could be, of whom etcd chooses one at a time.

use crate::cli::EtcdPlace;
use crate::dvm::Durable;
#[cfg(feature = "etcd")]
use crate::etcd::{Etcd, EtcdStore, Mandate};

/// A head's claim to its DVM.
#[derive(Debug)]
pub(crate) struct Claim {
    /// `None` without etcd.
    #[cfg(feature = "etcd")]
    mandate: Option<Mandate>,
}

#[cfg(feature = "etcd")]
impl Claim {
    /// Waits until no other head has it; tells who has it meanwhile.
    ///
    /// # Errors
    /// etcd cannot be used.
    pub(crate) async fn make(place: Option<&EtcdPlace>, tell: impl FnMut(&str)) -> Result<Self, String> {
        let Some(place) = place else { return Ok(Self { mandate: None }) };
        let etcd = Etcd::new(place).map_err(|error| error.to_string())?;
        let who = format!(
            "process {} on {}",
            std::process::id(),
            rustix::system::uname().nodename().to_string_lossy()
        );
        let mandate = Mandate::acquire(etcd, who, tell).await.map_err(|error| error.to_string())?;
        Ok(Self { mandate: Some(mandate) })
    }

    /// What keeps the published data, with what it has.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) async fn durable(&self) -> Result<Option<Durable>, String> {
        let Some(mandate) = &self.mandate else { return Ok(None) };
        let (store, records) = EtcdStore::open(mandate).await.map_err(|error| error.to_string())?;
        Ok(Some(Durable { store: std::sync::Arc::new(store), records }))
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
    pub(crate) async fn make(_: Option<&EtcdPlace>, _: impl FnMut(&str)) -> Result<Self, String> {
        Ok(Self {})
    }

    pub(crate) async fn durable(&self) -> Result<Option<Durable>, String> {
        Ok(None)
    }

    pub(crate) async fn lost(&mut self) -> String {
        std::future::pending().await
    }

    pub(crate) async fn end(self) {}
}
