//! Former names of requests that are the messages of processes today, for hosts written before.
#![allow(missing_docs, reason = "see the types they stand for")]

pub type AbortRequest = super::Abort;
pub type DisconnectRequest = super::Disconnect;
pub type LookupRequest = super::Lookup;
pub type NotifyEventRequest = super::Event;
pub type PublishRequest = super::Publish;
pub type RegisterEventsRequest = super::RegisterEvents;
pub type UnpublishRequest = super::Unpublish;
