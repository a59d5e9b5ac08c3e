//! Waiting in init for a debugger (INI-09).

use pmix_types::{DataArray, DataRange, ProcId, Rank, Status, Value, keys};

use super::events::EventsBuilder;
use super::get::GetBuilder;
use super::notify::NotifyBuilder;
use crate::core::Core;
use crate::error::Error;
use crate::events::EventError;

/// The name by which other implementations of the Standard know this place, too.
const BREAKPOINT: &str = "pmix-init";

/// Waits until the process is released, if its job data says that it stops in init.
///
/// The host is told when the registration for the release stands, so that whoever hears of it may release the process
/// at once; a release that came before that is kept by the server (EVT-13).
pub(crate) async fn stop_in_init(core: &Core) -> Result<(), Error> {
    if !is_to_stop(core).await? {
        return Ok(());
    }
    let mut releases = EventsBuilder::of(core.clone(), [Status::DEBUGGER_RELEASE]).await?;
    let notice =
        NotifyBuilder::of(core.clone(), Status::READY_FOR_DEBUG.into()).range(DataRange::RM).non_default();
    notice.info(keys::BREAKPOINT, BREAKPOINT).await?;
    tracing::info!(proc = %core.proc(), "waiting in init for a debugger");
    match releases.recv().await {
        // what was left out was a release, too, as far as this process has asked for anything yet
        Some(Ok(_) | Err(EventError::Lagged { .. })) => releases.close().await,
        Some(Err(EventError::Disconnected)) | None => Err(core.connection("init")?.end_error()),
    }
}

/// The process's own data counts, or else that of its job.
async fn is_to_stop(core: &Core) -> Result<bool, Error> {
    let me = core.proc();
    let get = |proc: ProcId| GetBuilder::of(core.clone(), proc.into(), keys::DEBUG_STOP_IN_INIT).optional();
    let found = match get(me.clone()).await {
        Err(error) if error.is_not_found() => get(ProcId::wildcard(me.nspace.clone())).await,
        found => found,
    };
    match found {
        Ok(value) => Ok(concerns(&value, me.rank)),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// A flag is for all, a rank or several are for these.
fn concerns(value: &Value, rank: Rank) -> bool {
    match value {
        Value::Rank(wanted) => wanted.matches(rank),
        Value::DataArray(array) => match &**array {
            DataArray::Rank(wanted) => wanted.iter().any(|wanted| wanted.matches(rank)),
            _ => false,
        },
        flag => flag.is_true().unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ini_09_the_value_names_ranks_or_is_for_all() {
        let ranks = |ranks: &[u32]| {
            let ranks = ranks.iter().copied().map(Rank::from_raw).collect();
            Value::DataArray(Box::new(DataArray::Rank(ranks)))
        };
        let one = Rank::from_raw(1);
        let stopping =
            [Value::Undef, Value::Bool(true), Value::Rank(one), Value::Rank(Rank::WILDCARD), ranks(&[0, 1])];
        for value in stopping {
            assert!(concerns(&value, one), "{value:?}");
        }
        for value in [Value::Bool(false), Value::Rank(Rank::from_raw(0)), ranks(&[0, 2]), ranks(&[])] {
            assert!(!concerns(&value, one), "{value:?}");
        }
    }
}
