use crate::{Directives, Key, KeyName, ValueType};

/// One question: keys to be answered, and qualifiers that hold for all of them.
///
/// # Standard
/// `pmix_query_t`; rule QRY-01.
///
/// # Examples
/// ```
/// use pmix_types::{Query, keys};
/// let query = Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE, "job-1");
/// assert_eq!(query.keys[0].as_str(), "pmix.qry.ptable");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(alias = "pmix_query_t")]
#[non_exhaustive]
pub struct Query {
    /// What is asked; never empty in a valid query.
    pub keys: Vec<KeyName>,
    /// Of whom or what it is asked; may be empty.
    pub qualifiers: Directives,
}

impl Query {
    /// A query for one key.
    pub fn new<T>(key: &Key<T>) -> Self {
        Self::dynamic([key.key_name()])
    }

    /// A query for keys known at run time only.
    pub fn dynamic(keys: impl IntoIterator<Item = KeyName>) -> Self {
        Self { keys: keys.into_iter().collect(), qualifiers: Directives::new() }
    }

    /// Asks for one more key.
    #[must_use]
    pub fn key<T>(mut self, key: &Key<T>) -> Self {
        self.keys.push(key.key_name());
        self
    }

    /// Adds a qualifier.
    #[must_use]
    pub fn qualifier<T: ValueType>(mut self, key: &Key<T>, value: impl Into<T>) -> Self {
        self.qualifiers = self.qualifiers.with(key, value);
        self
    }
}
