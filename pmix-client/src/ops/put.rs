use pmix_types::message::{Failure, PutEntry};
use pmix_types::{AnyKey, Info, KeyName, ProcId, QualifiedValue, Scope, Status, Value};

use crate::core::Core;
use crate::error::{Error, key_name};

const PUT: &str = "put";

/// Stages a value of the process itself.
pub(crate) fn put(core: &Core, scope: Scope, key: impl AnyKey, value: Value) -> Result<(), Error> {
    let key = checked(core, scope, key)?;
    core.store_mut().put(PutEntry::new(scope, key, value));
    Ok(())
}

/// Stages a value that is got with its qualifiers alone.
pub(crate) fn put_qualified(
    core: &Core,
    scope: Scope,
    key: impl AnyKey,
    value: Value,
    qualifiers: impl IntoIterator<Item = Info>,
) -> Result<(), Error> {
    let key = checked(core, scope, key)?;
    let qualified = QualifiedValue::new(key.clone(), value, qualifiers);
    if qualified.qualifiers.is_empty() {
        return Err(Error::bad_param(PUT, "there are no qualifiers").about(None, Some(&key)));
    }
    let name = qualified.name().map_err(|error| {
        Error::bad_param(PUT, format!("with its qualifiers, {error}")).about(None, Some(&key))
    })?;
    core.store_mut().put(PutEntry::new(scope, name, qualified));
    Ok(())
}

fn checked(core: &Core, scope: Scope, key: impl AnyKey) -> Result<KeyName, Error> {
    core.check()?;
    let key = key.into_key_name().map_err(key_name(PUT))?;
    if key.is_reserved() {
        let problem = "keys that start with \"pmix\" are for hosts and libraries";
        return Err(Error::bad_param(PUT, problem).about(None, Some(&key)));
    }
    if QualifiedValue::is_name(&key) || key.claim().is_some() {
        let problem = "such keys are names under which libraries store values";
        return Err(Error::bad_param(PUT, problem).about(None, Some(&key)));
    }
    if ![Scope::LOCAL, Scope::REMOTE, Scope::GLOBAL, Scope::INTERNAL].contains(&scope) {
        let problem = format!("no values can be put in scope {scope}");
        let failure = Failure::new(Status::ERR_NOT_SUPPORTED, problem);
        return Err(Error::failed(PUT, failure).about(None, Some(&key)));
    }
    Ok(key)
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
