//! Ids of things that come and go in the engine.

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(clippy::exhaustive_structs, reason = "it is the number and nothing else")]
        pub struct $name(pub u64);
    )+};
}

id! {
    /// A connection, numbered by the front end that accepted it.
    ConnId;
    /// A request, numbered by the process on its connection.
    RequestId;
    /// An upcall to the host.
    UpcallId;
    /// A call of the host into the library.
    CallId;
}

/// Where the answer to a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplyTo {
    pub(super) conn: ConnId,
    pub(super) id: RequestId,
}

/// Hands out ids of one kind.
#[derive(Debug, Default)]
pub(crate) struct Counter(u64);

impl Counter {
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }

    /// The last that was handed out; 0 if there was none.
    pub(crate) const fn last(&self) -> u64 {
        self.0
    }
}
