/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! event_operations {
    ($then:ident $($before:tt)*) => {
        $crate::publish_operations! { $then $($before)*
            /// An event registration; the reply is its number.
            RegisterEvents register_events -> u64 {
                "register events", memory: PLAIN,
                fields: {
                    /// Codes; empty for all (a default handler).
                    codes: Vec<Status>,
                },
                directives: "Filters and the like; may be empty.",
            }
            /// Ends an event registration.
            DeregisterEvents deregister_events -> () {
                "deregister events", memory: PLAIN,
                fields: {
                    /// Number of the registration.
                    registration: u64,
                },
            }
            /// Notifies of an event; answered once it is accepted (EVT-17).
            NotifyEvent notify_event -> () {
                "notify event", memory: DATA,
                fields: {
                    /// The event.
                    event: Event,
                },
            }
        }
    };
}
