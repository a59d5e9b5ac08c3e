use pmix_types::message::{Commit, Operation};

use crate::core::Core;
use crate::error::Error;

/// Sends what is staged. It stays staged until the server has it.
pub(crate) async fn commit(core: &Core) -> Result<(), Error> {
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
    core.store_mut().committed(&staged);
    Ok(())
}
