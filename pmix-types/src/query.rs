use crate::{DataArray, Directives, Info, Key, KeyName, ValueType, keys};

/// Versions of the Standard's stable binary interface that this library offers to C programs: none, which is written
/// `0.0`. The answer to `QUERY_STABLE_ABI_VERSION`, before init too.
///
/// # Standard
/// `PMIX_QUERY_STABLE_ABI_VERSION`: a comma list of `MAJOR.MINOR`; rule QRY-14.
pub const STABLE_ABI_VERSIONS: &str = "0.0";

/// The same for the provisional binary interface.
///
/// # Standard
/// `PMIX_QUERY_PROVISIONAL_ABI_VERSION`; rule QRY-14.
pub const PROVISIONAL_ABI_VERSIONS: &str = "0.0";

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

    /// The answer to a key that needs neither a server nor init (QRY-14); `None` for all others.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::{Query, keys};
    /// assert_eq!(Query::answer_of_library(keys::QUERY_STABLE_ABI_VERSION.name()), Some("0.0"));
    /// assert_eq!(Query::answer_of_library(keys::QUERY_NAMESPACES.name()), None);
    /// ```
    pub fn answer_of_library(key: &str) -> Option<&'static str> {
        if key == keys::QUERY_STABLE_ABI_VERSION.name() {
            Some(STABLE_ABI_VERSIONS)
        } else if key == keys::QUERY_PROVISIONAL_ABI_VERSION.name() {
            Some(PROVISIONAL_ABI_VERSIONS)
        } else {
            None
        }
    }

    /// The result for this query in the Standard's form: an info that holds the qualifiers, if there are any, and then
    /// an info for each key that was found (QRY-02).
    pub fn results(&self, found: Vec<Info>) -> Info {
        let mut all = Vec::with_capacity(found.len() + 1);
        if !self.qualifiers.is_empty() {
            let qualifiers = DataArray::Info(self.qualifiers.as_slice().to_vec());
            all.push(Info::new(&keys::QUERY_QUALIFIERS, qualifiers));
        }
        all.extend(found);
        Info::new(&keys::QUERY_RESULTS, DataArray::Info(all))
    }

    /// Adds a qualifier.
    #[must_use]
    pub fn qualifier<T: ValueType>(mut self, key: &Key<T>, value: impl Into<T>) -> Self {
        self.qualifiers = self.qualifiers.with(key, value);
        self
    }
}
