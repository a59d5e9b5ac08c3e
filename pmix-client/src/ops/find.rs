//! How a get finds its values: here, or by asking the server.

use std::sync::Arc;
use std::time::Duration;

use pmix_types::message::{Failure, Get, GetReply};
use pmix_types::{Directives, Info, Nspace, Status, keys};
use tokio::time::{Instant, sleep_until};

use crate::core::Core;
use crate::error::{Error, directive};
use crate::store::{Lookup, Resolution};

const OPERATION: &str = "get";

/// The directives with the limit as the server keeps it: in whole seconds, rounded up.
pub(super) fn with_limit(mut directives: Directives, limit: Option<Duration>) -> Directives {
    if let Some(limit) = limit {
        let seconds = limit.as_secs().saturating_add(u64::from(limit.subsec_nanos() > 0));
        directives.push(Info::new(&keys::TIMEOUT, i32::try_from(seconds).unwrap_or(i32::MAX)));
    }
    directives
}

/// Looks here, then asks the server, for so long at most. What comes after the limit is dropped, as if the caller had
/// dropped the future: a get changes nothing.
pub(super) async fn find(core: &Core, lookup: &Lookup, limit: Option<Duration>) -> Result<Resolution, Error> {
    core.check()?;
    let is_read = core.store().is_read();
    if !is_read {
        // what fences have collected is read by the first get that needs it
        core.store_mut().read_collected();
    }
    let found = core.store().find(lookup).map_err(directive(OPERATION))?;
    let get = match found {
        Resolution::Remote(get) => get,
        Resolution::Nothing => match core.store().find_lost(lookup) {
            Some(get) => get,
            None => return Ok(found),
        },
        Resolution::Value(_) | Resolution::All(_) => return Ok(found),
    };
    if core.is_singleton() {
        return find_alone(core, &get.proc.nspace, lookup);
    }
    // what is here, as most is, needs no room for the state of a request
    Box::pin(find_there(core, lookup, get, limit)).await
}

/// Asks the server, and keeps what it says.
async fn find_there(
    core: &Core,
    lookup: &Lookup,
    get: Get,
    limit: Option<Duration>,
) -> Result<Resolution, Error> {
    let age = core.store().age();
    let asked = ask_server(core, get);
    let reply = match limit.filter(|limit| limit.subsec_nanos() > 0) {
        Some(limit) => tokio::time::timeout(limit, asked).await.unwrap_or_else(|_| Err(late(limit))),
        None => asked.await,
    };
    let reply = match reply {
        Ok(reply) => reply,
        // what there is stays as it was
        Err(error) if lookup.is_refresh() && error.is_not_found() => GetReply::default(),
        Err(error) => return Err(error),
    };
    let GetReply { mut value, modex, job, .. } = reply;
    let modex = Arc::unwrap_or_clone(modex);
    let all = if lookup.key().is_none() { lookup.all_of(&modex) } else { Vec::new() };
    // what was fetched anew is the answer, even if a fence has brought something else meanwhile
    let fresh = if lookup.is_refresh() { lookup.value_in(&modex) } else { value.take() };
    {
        let mut store = core.store_mut();
        store.keep_asked(modex, age);
        if let Some(job) = job {
            store.keep_job(job);
        }
    }
    if let Some(fresh) = fresh {
        return Ok(Resolution::Value(fresh));
    }
    let local = core.store().find(&lookup.clone().local()).map_err(directive(OPERATION))?;
    Ok(match (local, value) {
        (Resolution::Nothing, Some(value)) => Resolution::Value(value),
        // it is filed under the name of the process, which may have been named by a group, or is outdated by now
        (Resolution::Nothing, None) if lookup.key().is_none() => Resolution::All(all),
        (local, _) => local,
    })
}

/// The shortest time between two requests for the same value: a server that does not wait at all is not asked without a pause.
const AGAIN: Duration = Duration::from_millis(500);

async fn ask_server(core: &Core, get: Get) -> Result<GetReply, Error> {
    let connection = core.connection(OPERATION)?;
    if connection.is_native() && !is_limited(&get) {
        loop {
            let since = Instant::now();
            match connection.call(get.clone()).await {
                // servers of the C library do not wait longer than two seconds for a process that has not put it yet
                Err(error) if error.is_timeout() => sleep_until(since + AGAIN).await,
                outcome => break outcome,
            }
            core.check()?;
        }
    } else {
        connection.call(get).await
    }
}

/// Whether the caller has set a limit itself.
fn is_limited(get: &Get) -> bool {
    !matches!(get.directives.get(&keys::TIMEOUT), Ok(None | Some(0)))
        || get.directives.flag(&keys::IMMEDIATE).unwrap_or(true)
}

fn late(limit: Duration) -> Error {
    Error::failed(OPERATION, Failure::new(Status::ERR_TIMEOUT, format!("not available within {limit:?}")))
}

/// Without a server all that can be known of the own job is known.
fn find_alone(core: &Core, nspace: &Nspace, lookup: &Lookup) -> Result<Resolution, Error> {
    if *nspace != core.proc().nspace {
        return Err(Error::singleton(OPERATION));
    }
    let last = lookup.clone().last_level().map_err(directive(OPERATION))?;
    core.store().find(&last).map_err(directive(OPERATION))
}

/// Why a get fails that has found nothing.
pub(super) fn nothing(core: &Core, lookup: &Lookup) -> Error {
    let problem = match lookup.key() {
        Some(key) if key.is_reserved() => "the job has no value for this key",
        Some(_) if core.is_singleton() => "it has not been put",
        _ => "this process holds no such value",
    };
    Error::failed(OPERATION, Failure::new(Status::ERR_NOT_FOUND, problem))
}
