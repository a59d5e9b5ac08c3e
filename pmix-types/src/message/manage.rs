use bytes::Bytes;

use crate::{AllocDirective, FabricOperation, Info, ResourceBlockDirective, ResourceUnit, Status};

directed_requests! {
    /// A request for resources (ALC-01).
    Allocate {
        /// What to allocate; may be empty.
        directives,
        /// What to do with the allocation.
        directive: AllocDirective,
    }
    /// A request for monitoring (MON-01).
    Monitor {
        /// How to monitor, and how often; may be empty.
        directives,
        /// What to monitor, such as `MONITOR_HEARTBEAT`.
        monitor: Info,
        /// Code of the event to raise.
        code: Status,
    }
    /// A credential to be validated (CRD-02).
    ValidateCredential {
        /// May be empty.
        directives,
        /// The credential, opaque.
        credential: Bytes,
    }
    /// A request to control a session.
    SessionControl {
        /// What to do with it.
        directives,
        /// The session; the highest number for the caller's own.
        session: u32,
    }
    /// A request for data about a fabric.
    Fabric {
        /// The fabric, such as by `FABRIC_IDENTIFIER`; may be empty.
        directives,
        /// Whether information is requested for the first time or updated.
        operation: FabricOperation,
    }
    /// A request to define or change a named block of resources.
    ResourceBlock {
        /// May be empty.
        directives,
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
