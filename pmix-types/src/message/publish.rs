use super::Failure;
use crate::{AnyKey, KeyOf, Pdata, ProcId, Status, Value, ValueType};

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! publish_operations {
    ($then:ident $($before:tt)*) => {
        $crate::spawn_operations! { $then $($before)*
            /// Data to be published; answered once others can find it (PUB-03).
            Publish publish -> () {
                "publish", memory: DATA,
                fields: {
                    /// Keys and values. They may include directives, which are distinguished from data by their keys (PUB-02).
                    data: Vec<Info>,
                },
                directives: "`RANGE`, `PERSISTENCE` and the like; may be empty.",
            }
            /// A lookup of published data.
            Lookup lookup -> LookupReply {
                "lookup", memory: PLAIN,
                fields: {
                    /// The keys; never empty.
                    keys: Vec<KeyName>,
                },
                directives: "`RANGE`, `WAIT`, `TIMEOUT` and the like; may be empty.",
            }
            /// A request to unpublish data.
            Unpublish unpublish -> () {
                "unpublish", memory: PLAIN,
                fields: {
                    /// The keys; empty for all data of the caller (PUB-15).
                    keys: Vec<KeyName>,
                },
                directives: "`RANGE` and the like; may be empty.",
            }
        }
    };
}

/// The answer to a lookup.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LookupReply {
    /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found.
    pub status: Status,
    /// The data found, with its publishers; never empty.
    pub found: Vec<Pdata>,
}

impl LookupReply {
    /// A reply with this status and data.
    pub const fn new(status: Status, found: Vec<Pdata>) -> Self {
        Self { status, found }
    }

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
