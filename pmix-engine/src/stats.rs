/// What a server has done since it started, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Connections let in.
    pub connections: u64,
    /// Connections turned away, at the door or as the process at the other end said who it is.
    pub refused: u64,
    /// Fences completed, once per node and fence.
    pub fences: u64,
    /// Gets that reached the server; those answered inside the processes are not seen here.
    pub gets: u64,
    /// Commits received.
    pub commits: u64,
    /// Bytes of keys and values committed, as they are held.
    pub bytes_committed: u64,
    /// Upcalls made.
    pub upcalls: u64,
    /// Namespaces known now.
    pub nspaces: u64,
    /// Events kept now for processes that ask for them later.
    pub events_kept: u64,
    /// Requests waiting for an answer now: held gets, entered fences, upcalls under way.
    pub waiting: u64,
}
