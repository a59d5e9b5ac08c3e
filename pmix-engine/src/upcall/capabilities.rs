use std::collections::{BTreeMap, BTreeSet};

use pmix_types::RegAttr;

use super::Upcall;

/// Which upcalls a host serves, and which attributes each of them supports.
///
/// Read once when the server starts. An upcall that is not declared is never made: the server answers as if the host's
/// module did not have that entry (GEN-11).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capabilities {
    served: BTreeMap<Upcall, Vec<RegAttr>>,
    begun_by_server: BTreeSet<Upcall>,
}

impl Capabilities {
    /// No upcalls; processes still get local data (INI-10).
    pub const fn none() -> Self {
        Self { served: BTreeMap::new(), begun_by_server: BTreeSet::new() }
    }

    /// Declares an upcall.
    #[must_use]
    pub fn with(mut self, upcall: Upcall) -> Self {
        self.served.entry(upcall).or_default();
        self
    }

    /// Declares an upcall with the attributes that it supports.
    #[must_use]
    pub fn with_attributes(mut self, upcall: Upcall, attributes: impl IntoIterator<Item = RegAttr>) -> Self {
        self.served.entry(upcall).or_default().extend(attributes);
        self
    }

    /// Declares that the methods of these upcalls never block a thread. The server's own thread then polls each call once, so
    /// that a method that returns without awaiting anything costs no change of threads. A method that has to wait goes on in
    /// the embedder's runtime, where all other methods run from the start. This does not declare that an upcall is served: use
    /// [`with`](Self::with) too.
    ///
    /// Until its first wait, such a method must not do what takes long, wait for another thread or call
    /// `tokio::task::block_in_place`: the server does nothing else meanwhile. `tokio::spawn`, timers and sockets belong to the
    /// embedder's runtime as always. On a server that lets other users in, all methods run in the embedder's runtime, because
    /// what one user requests may take long.
    #[must_use]
    pub fn begun_by_server(mut self, upcalls: impl IntoIterator<Item = Upcall>) -> Self {
        self.begun_by_server.extend(upcalls);
        self
    }

    /// Whether the server's own thread begins an upcall.
    pub fn is_begun_by_server(&self, upcall: Upcall) -> bool {
        self.begun_by_server.contains(&upcall)
    }

    /// Whether an upcall is served.
    pub fn has(&self, upcall: Upcall) -> bool {
        self.served.contains_key(&upcall)
    }

    /// The declared upcalls in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = Upcall> + '_ {
        self.served.keys().copied()
    }

    /// The attributes declared for an upcall; empty if it is not declared.
    pub fn attributes(&self, upcall: Upcall) -> &[RegAttr] {
        self.served.get(&upcall).map_or(&[], Vec::as_slice)
    }
}

impl FromIterator<Upcall> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Upcall>>(upcalls: I) -> Self {
        upcalls.into_iter().fold(Self::none(), Self::with)
    }
}
