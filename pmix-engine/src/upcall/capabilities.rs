use std::collections::BTreeMap;

use pmix_types::RegAttr;

use super::Upcall;

/// Which upcalls a host serves, and which attributes each of them supports.
///
/// Read once when the server starts. An upcall that is not declared is never made: the server answers as if the host's
/// module did not have that entry (GEN-11).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capabilities(BTreeMap<Upcall, Vec<RegAttr>>);

impl Capabilities {
    /// No upcalls; processes still get local data (INI-10).
    pub const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Declares an upcall.
    #[must_use]
    pub fn with(mut self, upcall: Upcall) -> Self {
        self.0.entry(upcall).or_default();
        self
    }

    /// Declares an upcall with the attributes that it supports.
    #[must_use]
    pub fn with_attributes(mut self, upcall: Upcall, attributes: impl IntoIterator<Item = RegAttr>) -> Self {
        self.0.entry(upcall).or_default().extend(attributes);
        self
    }

    /// Whether an upcall is served.
    pub fn has(&self, upcall: Upcall) -> bool {
        self.0.contains_key(&upcall)
    }

    /// The declared upcalls in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = Upcall> + '_ {
        self.0.keys().copied()
    }

    /// The attributes declared for an upcall; empty if it is not declared.
    pub fn attributes(&self, upcall: Upcall) -> &[RegAttr] {
        self.0.get(&upcall).map_or(&[], Vec::as_slice)
    }
}

impl FromIterator<Upcall> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Upcall>>(upcalls: I) -> Self {
        upcalls.into_iter().fold(Self::none(), Self::with)
    }
}
