use pmix_types::message::{Commit, Operation};

use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Sends everything put since the last commit to the server, which gives it to other processes according to its
    /// scope.
    ///
    /// If nothing was put since then, it succeeds without contacting the server (PUT-07). If it fails, the next commit
    /// sends the values again.
    ///
    /// # Errors
    /// [`Error::Lost`] if the connection is lost, `ERR_INIT` after finalize, and errors of the server.
    ///
    /// # Cancel safety
    /// Dropping the future does not undo a commit that was sent. The next commit may send the values a second time,
    /// which does no harm.
    #[doc(alias = "PMIx_Commit")]
    pub async fn commit(&self) -> Result<(), Error> {
        let core = self.core();
        core.check()?;
        let has_staged = core.store().has_staged();
        let (true, Some(connection)) = (has_staged, core.any_connection()) else {
            return Ok(());
        };
        let slot = connection.slot_in_time(Commit::NAME).await?;
        let (reply, staged) = {
            let _in_order = core.commit_order();
            let staged = core.store().staged();
            (slot.send(Commit::new(staged.entries.clone())), staged)
        };
        connection.answer(reply).await?;
        // until here they stay staged
        core.store_mut().committed(&staged);
        Ok(())
    }
}
