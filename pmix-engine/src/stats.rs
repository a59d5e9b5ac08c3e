/// What a server has done since it started, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Connections that were admitted.
    pub connections: u64,
    /// Connections that were refused, by the door or after their greeting.
    pub refused: u64,
    /// Fences completed, once per node and fence.
    pub fences: u64,
    /// Gets that reached the server; those that processes answer locally are not counted.
    pub gets: u64,
    /// Commits received.
    pub commits: u64,
    /// Bytes that committed keys and values take here.
    pub bytes_committed: u64,
    /// Upcalls made.
    pub upcalls: u64,
    /// Namespaces known now.
    pub nspaces: u64,
    /// Events kept now for processes that register later.
    pub events_kept: u64,
    /// What is waiting now: pending gets, participants of collectives, upcalls under way.
    pub waiting: u64,
}
