use pmix_types::message::{Failure, PutEntry};
use pmix_types::{ProcId, Scope, Status, Value};

use crate::core::Core;
use crate::error::{Error, key_name};
use pmix_types::AnyKey;

/// Stages a value of the process itself.
pub(crate) fn put(core: &Core, scope: Scope, key: impl AnyKey, value: Value) -> Result<(), Error> {
    const OPERATION: &str = "put";
    core.check()?;
    let key = key.into_key_name().map_err(key_name(OPERATION))?;
    if key.is_reserved() {
        let problem = "keys that start with \"pmix\" are for hosts and libraries";
        return Err(Error::bad_param(OPERATION, problem).about(None, Some(&key)));
    }
    if ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL, Scope::INTERNAL].contains(&scope) {
        let problem = format!("no values can be put in scope {scope}");
        let failure = Failure::new(Status::ERR_NOT_SUPPORTED, problem);
        return Err(Error::failed(OPERATION, failure).about(None, Some(&key)));
    }
    core.store_mut().put(PutEntry::new(scope, key, value));
    Ok(())
}

/// Files a value of any process for this process alone.
pub(crate) fn store_internal(core: &Core, proc: ProcId, key: impl AnyKey, value: Value) -> Result<(), Error> {
    const OPERATION: &str = "store internal";
    core.check()?;
    let key = key.into_key_name().map_err(key_name(OPERATION))?;
    if !proc.is_valid() {
        return Err(Error::bad_param(OPERATION, "the id names no process").about(Some(&proc), Some(&key)));
    }
    core.store_mut().store_internal(proc, key, value);
    Ok(())
}
