use crate::Nspace;

/// The argument of calls about one namespace or all: a namespace by value or by reference, or `None` for all that are
/// known.
///
/// # Examples
/// ```
/// use pmix_types::{Namespaces, Nspace};
///
/// fn named(nspaces: impl Into<Namespaces>) -> Option<Nspace> {
///     nspaces.into().one()
/// }
/// let nspace = Nspace::new("job-1")?;
/// assert_eq!(named(&nspace).as_ref(), Some(&nspace));
/// assert_eq!(named(Some(&nspace)), named(nspace));
/// assert_eq!(named(None), None);
/// # Ok::<(), pmix_types::NspaceError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Namespaces(Option<Nspace>);

impl Namespaces {
    /// The one namespace, or `None` for all.
    pub fn one(self) -> Option<Nspace> {
        self.0
    }
}

impl From<Nspace> for Namespaces {
    fn from(nspace: Nspace) -> Self {
        Self(Some(nspace))
    }
}

impl From<&Nspace> for Namespaces {
    fn from(nspace: &Nspace) -> Self {
        Self(Some(nspace.clone()))
    }
}

impl From<Option<&Nspace>> for Namespaces {
    fn from(nspace: Option<&Nspace>) -> Self {
        Self(nspace.cloned())
    }
}
