//! Requests to the resource manager: allocation, monitoring, credentials, sessions, blocks of resources, fabrics.

use bytes::Bytes;

use crate::{
    AllocDirective, Directives, FabricOperation, Info, ResourceBlockDirective, ResourceUnit, Status,
};

requests! {
    /// A wish for resources (ALC-01).
    Allocate {
        /// What to do with the allocation.
        directive: AllocDirective,
    }
    /// A wish for monitoring (MON-01).
    Monitor {
        /// What to monitor, such as `MONITOR_HEARTBEAT`.
        monitor: Info,
        /// Code of the event to raise.
        code: Status,
    }
    /// A credential that is to be checked (CRD-02).
    ValidateCredential {
        /// The credential, opaque.
        credential: Bytes,
    }
    /// A wish to control a session.
    SessionControl {
        /// The session; the highest number for the caller's own.
        session: u32,
    }
    /// A question about a fabric. The directives say which, such as `FABRIC_IDENTIFIER`.
    Fabric {
        /// Whether it is asked for the first time, or again.
        operation: FabricOperation,
    }
    /// A wish to define or change a named block of resources.
    ResourceBlock {
        /// What to do with it.
        directive: ResourceBlockDirective,
        /// Its name.
        block: String,
        /// The resources; empty for all of the block where it is deleted.
        units: Vec<ResourceUnit>,
    }
}

/// A credential with what is known of its issuer (CRD-01).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Credential {
    /// Opaque bytes.
    pub credential: Bytes,
    /// About the issuer; may be empty.
    pub info: Vec<Info>,
}

impl Credential {
    /// Pairs the two.
    pub const fn new(credential: Bytes, info: Vec<Info>) -> Self {
        Self { credential, info }
    }
}
