/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! manage_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::query_operations! { [$($then)*] $($before)*
            /// A request for resources (ALC-01).
            Allocate allocate -> Vec<Info> {
                "allocation", memory: PLAIN,
                fields: {
                    /// The operation on the allocation.
                    directive: AllocDirective,
                },
                directives: "The resources; may be empty.",
                native: { ALLOCATE = 17, c: "PMIX_ALLOC_CMD", message: [directive, directives] },
                upcalls: {
                    /// Creates, extends, releases or reacquires an allocation (ALC-01). The answer to `NEW` has an `ALLOC_ID`, by which
                    /// later requests name the allocation; it can be released once. With `ALLOC_TIME` it lasts that many seconds. A host
                    /// with allocations also answers [queries](Self::query) of `TIME_REMAINING`, qualified by `ALLOC_ID`, with the seconds
                    /// left as a `u32` (ALC-02).
                    ///
                    /// # Errors
                    /// `ERR_OUT_OF_RESOURCE` if not enough is free, `ERR_NOT_FOUND` for an unknown or released allocation.
                    Allocate allocate(Allocate) -> Infos {
                        "allocation", c: ["allocate" "pmix_server_alloc_fn_t"],
                        attributes: PASSED_UP, directives: directives, passed_up: yes,
                        serves: ["PMIx_Allocation_request", "PMIx_Allocation_request_nb"],
                    }
                },
            }
            /// A request for monitoring (MON-01).
            Monitor monitor -> Vec<Info> {
                "monitoring", memory: PLAIN, by: engine,
                fields: {
                    /// What to monitor, such as `MONITOR_HEARTBEAT`.
                    monitor: Info,
                    /// Code of the event to raise.
                    code: Status,
                },
                directives: "How to monitor, and how often; may be empty.",
                native: { MONITOR = 19, c: "PMIX_MONITOR_CMD", message: [monitor, code, directives] },
                upcalls: {
                    /// Monitors what the library cannot monitor, and other nodes (HST-09).
                    Monitor monitor(Monitor) -> Infos {
                        "monitoring", c: ["monitor" "pmix_server_monitor_fn_t"],
                        attributes: PASSED_UP, directives: directives, passed_up: no,
                        serves: ["PMIx_Process_monitor", "PMIx_Process_monitor_nb", "PMIx_Heartbeat"],
                    }
                },
            }
            /// A request for a credential (CRD-01).
            GetCredential get_credential -> Credential {
                "get credential", memory: PLAIN,
                fields: {},
                directives: "`CRED_TYPE` and the like; may be empty.",
                native: { GET_CREDENTIAL = 20, c: "PMIX_GET_CREDENTIAL_CMD", since: [3, 0, 0], message: [directives] },
                upcalls: {
                    /// Issues a credential for the calling process (CRD-01), whose uid and gid are those of [`UpcallContext`], never
                    /// those in the directives. `CRED_TYPE` lists the acceptable types in order of preference; the answer names the
                    /// type issued.
                    ///
                    /// # Errors
                    /// `ERR_NOT_SUPPORTED` if a required `CRED_TYPE` names no known type.
                    GetCredential get_credential(GetCredential) -> Credential {
                        "get credential", c: ["get_credential" "pmix_server_get_cred_fn_t"],
                        attributes: PASSED_UP, directives: directives, passed_up: yes,
                        serves: ["PMIx_Get_credential", "PMIx_Get_credential_nb"],
                    }
                },
            }
            /// A credential to be validated (CRD-02).
            ValidateCredential validate_credential -> Vec<Info> {
                "validate credential", memory: PLAIN,
                fields: {
                    /// The credential, opaque.
                    credential: Bytes,
                },
                directives: "May be empty.",
                native: { VALIDATE_CREDENTIAL = 21, c: "PMIX_VALIDATE_CRED_CMD", since: [3, 0, 0], message: [credential, directives] },
                upcalls: {
                    /// Validates a credential and returns facts about its holder (CRD-02): at least `USERID`, the uid for which it was
                    /// issued, and `GRPID` if it is known.
                    ///
                    /// # Errors
                    /// `ERR_INVALID_CRED` if it is forged, expired or garbage.
                    ValidateCredential validate_credential(ValidateCredential) -> Infos {
                        "validate credential", c: ["validate_credential" "pmix_server_validate_cred_fn_t"],
                        attributes: PASSED_UP, directives: directives, passed_up: yes,
                        serves: ["PMIx_Validate_credential", "PMIx_Validate_credential_nb"],
                    }
                },
            }
            /// A request to control a session.
            SessionControl session_control -> Vec<Info> {
                "session control", memory: PLAIN,
                fields: {
                    /// The session; `None` for the caller's own.
                    session: Option<u32>,
                },
                directives: "What to do with it.",
                native: { SESSION_CONTROL = 35, c: "PMIX_SESSION_CTRL_CMD", since: [6, 0, 0], message: [session, directives] },
                upcalls: {
                    /// Controls a session as the directives say. `req.session` is its number, or `None` for the session of the
                    /// caller. The answer may hold results, or be empty. Refuse required directives that you do not know.
                    SessionControl session_control(SessionControl) -> Infos {
                        "session control", c: ["session_control" "pmix_server_session_control_fn_t"],
                        attributes: PASSED_UP, directives: directives, passed_up: yes,
                        serves: ["PMIx_Session_control"],
                    }
                },
            }
            /// A request for data about a fabric.
            Fabric fabric -> Vec<Info> {
                "fabric", memory: PLAIN,
                fields: {
                    /// Whether information is requested for the first time or updated.
                    operation: FabricOperation,
                },
                directives: "The fabric, for example by its `FABRIC_IDENTIFIER`; may be empty.",
                native: { FABRIC_REGISTER = 30, c: "PMIX_FABRIC_REGISTER_CMD", since: [4, 0, 0] },
                upcalls: {
                    /// Describes a fabric: its devices and the distances between them. The directives name the fabric by
                    /// `FABRIC_IDENTIFIER`, `FABRIC_VENDOR` and `FABRIC_PLANE`, or, after the first answer, by its `FABRIC_INDEX`. The first
                    /// answer must contain that index.
                    Fabric fabric(Fabric) -> Infos {
                        "fabric", c: ["fabric" "pmix_server_fabric_fn_t"],
                        attributes: PASSED_UP, directives: directives, passed_up: yes,
                        serves: [
                            "PMIx_Fabric_register", "PMIx_Fabric_register_nb",
                            "PMIx_Fabric_update", "PMIx_Fabric_update_nb",
                        ],
                    }
                },
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
                upcalls: {
                    /// Defines, changes or deletes the block of resources named `req.block`, as `req.directive` says. `req.units` are
                    /// the resources; empty to delete the whole block.
                    ResourceBlock resource_block(ResourceBlock) -> () {
                        "resource block", c: ["resource_block" "pmix_server_resource_block_fn_t"],
                        attributes: PASSED_UP, directives: directives, passed_up: yes,
                        serves: ["PMIx_Resource_block", "PMIx_Resource_block_nb"],
                    }
                },
            }
        }
    };
}

/// Rows of the [table of replies](crate::for_each_reply), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! manage_replies {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::query_replies! { [$($then)*] $($before)*
            /// Results of the request; may be empty.
            Info info(Vec<Info>),
            /// A credential with information about its issuer (CRD-01).
            Credential credential(Credential) {
                /// Opaque bytes.
                credential: Bytes,
                /// About the issuer; may be empty.
                info: Vec<Info>,
            },
        }
    };
}
