use super::{Failure, LookupReply};
use crate::{AnyKey, KeyOf, Pdata, ProcId, Value, ValueType};

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! publish_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::spawn_operations! { [$($then)*] $($before)*
            /// Data to be published; answered once others can find it (PUB-03).
            Publish publish -> () {
                "publish", memory: DATA, by: forwards,
                fields: {
                    /// Keys and values. They may include directives, which are distinguished from data by their keys (PUB-02).
                    data: Vec<Info>,
                },
                directives: "`RANGE`, `PERSISTENCE` and the like; may be empty.",
                native: { PUBLISH = 6, c: "PMIX_PUBLISHNB_CMD" },
                upcalls: {
                    /// Publishes all of the data, or nothing.
                    ///
                    /// - `RANGE` limits the readers (PUB-06), `SESSION` by default; with `CUSTOM`, only the processes in
                    ///   `EVENT_CUSTOM_RANGE`, and the publisher only if it is one of them. Decide by the caller's process, node and
                    ///   session.
                    /// - `PERSISTENCE` limits how long it stays published (PUB-08), `APP` by default; with `FIRST_READ`, the first
                    ///   lookup removes it.
                    /// - Only processes of the publisher's user find it, unless `ACCESS_PERMISSIONS`, or `ACCESS_USERIDS` and
                    ///   `ACCESS_GRPIDS` alone, name users and groups: then these users and groups and the publisher (PUB-09). Decide
                    ///   by [`UpcallContext::uid`] and [`gid`](UpcallContext::gid), never by `USERID` and `GRPID`, which processes set.
                    ///
                    /// `pmix_host::store::Store` follows these rules, and those of lookup and unpublish.
                    ///
                    /// # Errors
                    /// `ERR_DUPLICATE_KEY` if the same user has published one of the keys in that range (PUB-04), `ERR_BAD_PARAM` for a range
                    /// or persistence that does not exist.
                    Publish publish(Publish) -> () {
                        "publish", c: ["publish" "pmix_server_publish_fn_t"],
                        attributes: PUBLISH, directives: directives, passed_up: no,
                        serves: ["PMIx_Publish", "PMIx_Publish_nb"],
                    }
                },
            }
            /// A lookup of published data.
            Lookup lookup -> LookupReply {
                "lookup", memory: PLAIN, by: forwards,
                fields: {
                    /// The keys; never empty.
                    keys: Vec<KeyName>,
                },
                directives: "`RANGE`, `WAIT`, `TIMEOUT` and the like; may be empty.",
                native: { LOOKUP = 7, c: "PMIX_LOOKUPNB_CMD" },
                upcalls: {
                    /// Finds published data whose range includes the caller, if the range of the lookup also includes the publisher
                    /// (PUB-07, PUB-10). Of several values of a key, returns the one with the narrowest range (PUB-14).
                    ///
                    /// With `WAIT` it waits until that many keys are published, or all of them if the value is 0 or no number (PUB-13);
                    /// Open MPI passes a boolean. Without `WAIT` it answers with the keys that are published now. A lookup that is
                    /// [cancelled](UpcallContext::cancelled) must not remove data that may be read once.
                    ///
                    /// # Errors
                    /// `ERR_NOT_FOUND` if nothing is found, `ERR_NO_PERMISSIONS` if all of the keys are published for other users only
                    /// (PUB-12).
                    Lookup lookup(Lookup) -> LookupResult {
                        "lookup", c: ["lookup" "pmix_server_lookup_fn_t"],
                        attributes: LOOKUP, directives: directives, passed_up: no,
                        serves: ["PMIx_Lookup", "PMIx_Lookup_nb"],
                    }
                },
            }
            /// A request to unpublish data.
            Unpublish unpublish -> () {
                "unpublish", memory: PLAIN, by: forwards,
                fields: {
                    /// The keys; empty for all data of the caller (PUB-15).
                    keys: Vec<KeyName>,
                },
                directives: "`RANGE` and the like; may be empty.",
                native: { UNPUBLISH = 8, c: "PMIX_UNPUBLISHNB_CMD" },
                upcalls: {
                    /// Removes data that this very process has published in the range of the request: the given keys, or all keys if
                    /// none is given (PUB-15). Keys that are not published are skipped (PUB-16).
                    Unpublish unpublish(Unpublish) -> () {
                        "unpublish", c: ["unpublish" "pmix_server_unpublish_fn_t"],
                        attributes: LOOKUP, directives: directives, passed_up: no,
                        serves: ["PMIx_Unpublish", "PMIx_Unpublish_nb"],
                    }
                },
            }
        }
    };
}

/// Rows of the [table of replies](crate::for_each_reply), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! publish_replies {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::spawn_replies! { [$($then)*] $($before)*
            /// The answer to a lookup.
            Lookup lookup(LookupReply) {
                /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found.
                status: Status,
                /// The data found, with its publishers; never empty.
                found: Vec<Pdata>,
            },
        }
    };
}

impl LookupReply {
    /// The value of a key, as the type of the key or the one that the caller chooses; `None` if it was not found.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for an invalid key; for a value of another type, the status that the Standard has for that.
    pub fn get<T: ValueType>(&self, key: impl KeyOf<T>) -> Result<Option<T>, Failure> {
        let key = key.into_key_name()?;
        let read = |value: &Value| value.get().map_err(|error| Failure::mistyped(&key, error));
        self.data(&key).map(|data| read(&data.value)).transpose()
    }

    /// The process that has published a key (PUB-11); `None` if it was not found.
    pub fn publisher(&self, key: impl AnyKey) -> Option<&ProcId> {
        self.data(&key.into_key_name().ok()?).map(|data| &data.proc)
    }

    fn data(&self, key: &str) -> Option<&Pdata> {
        self.found.iter().find(|data| *data.key == *key)
    }
}
