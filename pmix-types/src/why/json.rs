//! Times are numbers of seconds, and failures objects: `{"status": "ERR_TIMEOUT", "message": "..."}`.

use std::time::Duration;

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::Status;

pub(super) fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    time.as_secs_f64().serialize(serializer)
}

pub(super) fn seconds_left<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(|time| time.as_secs_f64()).serialize(serializer)
}

pub(super) fn failure<S: Serializer>(
    failure: &Option<(Status, String)>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let Some((status, message)) = failure else { return serializer.serialize_none() };
    let mut object = serializer.serialize_struct("Failure", 2)?;
    object.serialize_field("status", status)?;
    object.serialize_field("message", message)?;
    object.end()
}
