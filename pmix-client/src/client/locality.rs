use pmix_topology::relative_locality;
use pmix_types::{Locality, ProcId, keys};

use super::Client;
use crate::error::Error;

/// Where processes run.
impl Client {
    /// Returns the locality of another process relative to this one: the shared node, and the hardware to which both
    /// are bound.
    ///
    /// Only the node is known to be shared if one of them is not bound, or if the launcher's locality strings differ
    /// in format from OpenPMIx. [`Locality::NONLOCAL`] alone means another node.
    ///
    /// [`topology`](crate::topology) also provides the distances from processors to devices.
    ///
    /// # Errors
    /// Those of [`Client::get`]: `ERR_NOT_FOUND` for a process whose node is not known.
    ///
    /// # Cancel safety
    /// Safe: replies are dropped.
    ///
    /// # Standard
    /// `PMIx_Get_relative_locality` of the values of `LOCALITY_STRING` (GET-47).
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Locality, ProcId, Rank};
    ///
    /// let neighbour = ProcId::new(client.proc_id().nspace.clone(), Rank::new(1)?);
    /// if client.locality(neighbour).await?.contains(Locality::SHARE_NUMA) {
    ///     println!("its memory is near");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Get_relative_locality")]
    pub async fn locality(&self, proc: impl Into<ProcId>) -> Result<Locality, Error> {
        let proc = proc.into();
        let own = self.get(None, keys::HOSTNAME).await?;
        if self.get(&proc, keys::HOSTNAME).await? != own {
            return Ok(Locality::NONLOCAL);
        }
        let (Some(mine), Some(its)) = (self.place_of(self.proc_id()).await?, self.place_of(&proc).await?)
        else {
            return Ok(Locality::SHARE_NODE);
        };
        Ok(relative_locality(&mine, &its).unwrap_or(Locality::SHARE_NODE))
    }

    /// `None` for a process that is not bound.
    async fn place_of(&self, proc: &ProcId) -> Result<Option<String>, Error> {
        match self.get(proc, keys::LOCALITY_STRING).await {
            // of one that is not bound it may be empty
            Ok(place) => Ok(Some(place).filter(|place| !place.is_empty())),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}
