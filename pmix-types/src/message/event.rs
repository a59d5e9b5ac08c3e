/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! event_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::publish_operations! { [$($then)*] $($before)*
            /// An event registration; the reply is its number.
            RegisterEvents register_events -> u64 {
                "register events", memory: PLAIN, by: events,
                fields: {
                    /// Codes; empty for all (a default handler).
                    codes: Vec<Status>,
                },
                directives: "Filters and the like; may be empty.",
                native: { REGISTER_EVENTS = 13, c: "PMIX_REGEVENTS_CMD", message: [codes, directives] },
                upcalls: {
                    /// Asks the host to notify the server of events with these codes, which only the host can see. Called for a code
                    /// when the first process registers for it (HST-06).
                    RegisterEvents register_events(RegisterEvents) -> () {
                        "registration of system events", c: ["register_events" "pmix_server_register_events_fn_t"],
                        attributes: own, directives: directives, passed_up: no,
                        serves: ["PMIx_Register_event_handler"],
                    }
                },
            }
            /// Ends an event registration.
            DeregisterEvents deregister_events -> () {
                "deregister events", memory: PLAIN, by: events,
                fields: {
                    /// Number of the registration.
                    registration: u64,
                },
                native: { DEREGISTER_EVENTS = 14, c: "PMIX_DEREGEVENTS_CMD" },
                upcalls: {
                    /// The last registration for these codes has ended (HST-06).
                    DeregisterEvents deregister_events(DeregisterEventsRequest) -> () {
                        "registration of system events", c: ["deregister_events" "pmix_server_deregister_events_fn_t"],
                        attributes: own, directives: directives, passed_up: no,
                        serves: ["PMIx_Deregister_event_handler"],
                    }
                },
            }
            /// Notifies of an event; answered once it is accepted (EVT-17).
            NotifyEvent notify_event -> () {
                "notify event", memory: DATA, by: engine,
                fields: {
                    /// The event.
                    event: Event,
                },
                native: { NOTIFY = 12, c: "PMIX_NOTIFY_CMD", message: [event] },
                upcalls: {
                    /// Sends an event to the other servers within its range. Never called with an event that came from the host (HST-07).
                    NotifyEvent notify_event(Event) -> () {
                        "events across servers", c: ["notify_event" "pmix_server_notify_event_fn_t"],
                        attributes: own, directives: none, passed_up: no,
                        serves: ["PMIx_Notify_event"],
                    }
                },
            }
        }
    };
}

/// Rows of the [table of replies](crate::for_each_reply), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! event_replies {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::publish_replies! { [$($then)*] $($before)*
            /// The registration is in force under this number.
            Registered registered(u64),
        }
    };
}
