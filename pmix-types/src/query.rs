use crate::{AttributeLevel, DataArray, Directives, Info, KeyName, TypedKey, ValueType, keys};

/// Versions of the Standard's stable ABI that this library provides: none, which is written `0.0`. The answer to
/// `QUERY_STABLE_ABI_VERSION`, also before init.
///
/// # Standard
/// `PMIX_QUERY_STABLE_ABI_VERSION`: a comma list of `MAJOR.MINOR`; rule QRY-14.
pub const STABLE_ABI_VERSIONS: &str = "0.0";

/// The same for the provisional ABI.
///
/// # Standard
/// `PMIX_QUERY_PROVISIONAL_ABI_VERSION`; rule QRY-14.
pub const PROVISIONAL_ABI_VERSIONS: &str = "0.0";

/// One query: keys, and qualifiers that apply to all of them.
///
/// # Standard
/// `pmix_query_t`; rule QRY-01.
///
/// # Examples
/// ```
/// use pmix_types::{Nspace, Query, keys};
/// let query = Query::new(keys::QUERY_PROC_TABLE).qualifier(keys::NSPACE, Nspace::new("job-1")?);
/// assert_eq!(query.keys[0].as_str(), "pmix.qry.ptable");
/// # Ok::<(), pmix_types::NspaceError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(alias = "pmix_query_t")]
#[non_exhaustive]
pub struct Query {
    /// The keys; never empty in a valid query.
    pub keys: Vec<KeyName>,
    /// The qualifiers, such as the namespace that the query is about; may be empty.
    pub qualifiers: Directives,
}

impl Query {
    /// A query for one key.
    pub fn new<T>(key: impl TypedKey<T>) -> Self {
        Self::dynamic([key.key().key_name()])
    }

    /// A query for keys known at run time only.
    pub fn dynamic(keys: impl IntoIterator<Item = KeyName>) -> Self {
        Self { keys: keys.into_iter().collect(), qualifiers: Directives::new() }
    }

    /// Adds a key.
    #[must_use]
    pub fn key<T>(mut self, key: impl TypedKey<T>) -> Self {
        self.keys.push(key.key().key_name());
        self
    }

    /// A query for the attributes that functions support, given by their names in the Standard, such as `PMIx_Get`.
    /// Without names, it is for the supported functions. The answer has all levels, unless [`Query::level`] selects
    /// some (ATT-05).
    ///
    /// # Examples
    /// ```
    /// use pmix_types::{AttributeLevel, Query, keys};
    /// let query = Query::attributes(["PMIx_Get"]).level(AttributeLevel::Host);
    /// assert_eq!(query.keys, [keys::QUERY_ATTRIBUTE_SUPPORT.name(), "PMIx_Get"]);
    /// assert!(query.qualifiers.contains(keys::HOST_ATTRIBUTES));
    /// ```
    #[doc(alias = "PMIX_QUERY_ATTRIBUTE_SUPPORT")]
    pub fn attributes<'a>(functions: impl IntoIterator<Item = &'a str>) -> Self {
        // what cannot be a key is no function either
        let functions = functions.into_iter().filter_map(|function| KeyName::new(function).ok());
        Self::dynamic([keys::QUERY_ATTRIBUTE_SUPPORT.key_name()].into_iter().chain(functions))
    }

    /// Limits a query for attribute support to this level; further calls add levels.
    #[must_use]
    pub fn level(mut self, level: AttributeLevel) -> Self {
        self.qualifiers.push(Info::dynamic(level.attributes_key().key_name(), true));
        self
    }

    /// Whether the keys after the first are names of functions (ATT-05).
    pub fn is_for_attributes(&self) -> bool {
        self.keys.first().is_some_and(|key| *key == *keys::QUERY_ATTRIBUTE_SUPPORT.name())
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
    pub fn qualifier<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.qualifiers = self.qualifiers.with(key, value);
        self
    }
}
