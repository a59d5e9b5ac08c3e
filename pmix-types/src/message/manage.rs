use bytes::Bytes;

use crate::Info;

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! manage_operations {
    ($then:ident $($before:tt)*) => {
        $crate::query_operations! { $then $($before)*
            /// A request for resources (ALC-01).
            Allocate allocate -> Vec<Info> {
                "allocation", memory: PLAIN,
                fields: {
                    /// The operation on the allocation.
                    directive: AllocDirective,
                },
                directives: "The resources; may be empty.",
            }
            /// A request for monitoring (MON-01).
            Monitor monitor -> Vec<Info> {
                "monitoring", memory: PLAIN,
                fields: {
                    /// What to monitor, such as `MONITOR_HEARTBEAT`.
                    monitor: Info,
                    /// Code of the event to raise.
                    code: Status,
                },
                directives: "How to monitor, and how often; may be empty.",
            }
            /// A request for a credential (CRD-01).
            GetCredential get_credential -> Credential {
                "get credential", memory: PLAIN,
                fields: {},
                directives: "`CRED_TYPE` and the like; may be empty.",
            }
            /// A credential to be validated (CRD-02).
            ValidateCredential validate_credential -> Vec<Info> {
                "validate credential", memory: PLAIN,
                fields: {
                    /// The credential, opaque.
                    credential: Bytes,
                },
                directives: "May be empty.",
            }
            /// A request to control a session.
            SessionControl session_control -> Vec<Info> {
                "session control", memory: PLAIN,
                fields: {
                    /// The session; `None` for the caller's own.
                    session: Option<u32>,
                },
                directives: "What to do with it.",
            }
            /// A request for data about a fabric.
            Fabric fabric -> Vec<Info> {
                "fabric", memory: PLAIN,
                fields: {
                    /// Whether information is requested for the first time or updated.
                    operation: FabricOperation,
                },
                directives: "The fabric, for example by its `FABRIC_IDENTIFIER`; may be empty.",
            }
            /// A request to define or change a named block of resources.
            ResourceBlock resource_block -> () {
                "resource block", memory: PLAIN,
                fields: {
                    /// What to do with it.
                    directive: ResourceBlockDirective,
                    /// Its name.
                    block: String,
                    /// The resources; empty to delete the whole block.
                    units: Vec<ResourceUnit>,
                },
                directives: "May be empty.",
            }
        }
    };
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
