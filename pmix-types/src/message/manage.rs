use bytes::Bytes;

use crate::{AllocDirective, FabricOperation, Info, ResourceBlockDirective, ResourceUnit, Status};

directed_requests! {
    /// A request for resources (ALC-01).
    Allocate {
        /// The resources; may be empty.
        directives,
        /// The operation on the allocation.
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
        /// The session; `None` for the caller's own.
        session: Option<u32>,
    }
    /// A request for data about a fabric.
    Fabric {
        /// The fabric, for example by its `FABRIC_IDENTIFIER`; may be empty.
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
        /// The resources; empty to delete the whole block.
        units: Vec<ResourceUnit>,
    }
}

/// A credential with information about its issuer (CRD-01).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Credential {
    /// Opaque bytes.
    pub credential: Bytes,
    /// About the issuer; may be empty.
    pub info: Vec<Info>,
}

impl Credential {
    /// A credential with this information.
    pub const fn new(credential: Bytes, info: Vec<Info>) -> Self {
        Self { credential, info }
    }
}
