use std::time::Duration;

/// What a server has done since it started, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Connections that were admitted.
    pub connections: u64,
    /// Connections that were refused, by the door or after their greeting.
    pub refused: u64,
    /// Connections of clients now.
    pub clients: u64,
    /// Connections of tools now.
    pub tools: u64,
    /// Requests of processes.
    pub requests: u64,
    /// Fences completed, once per node and fence.
    pub fences: u64,
    /// Fences.
    pub fence: CollectiveStats,
    /// Connects.
    pub connect: CollectiveStats,
    /// Disconnects.
    pub disconnect: CollectiveStats,
    /// Constructions of groups, without those by invitation.
    pub group_construct: CollectiveStats,
    /// Destructions of groups.
    pub group_destruct: CollectiveStats,
    /// Gets that reached the server; those that processes answer locally are not counted.
    pub gets: u64,
    /// Commits received.
    pub commits: u64,
    /// Bytes that committed keys and values take here.
    pub bytes_committed: u64,
    /// Events of processes here, and of the host.
    pub events: u64,
    /// Events delivered, once for each receiver.
    pub events_delivered: u64,
    /// Bytes of output that were dropped because no tool pulled them in time.
    pub output_dropped: u64,
    /// Upcalls made.
    pub upcalls: u64,
    /// Namespaces known now.
    pub nspaces: u64,
    /// Events kept now for processes that register later.
    pub events_kept: u64,
    /// What is waiting now: pending gets, participants of collectives, upcalls under way.
    pub waiting: u64,
}

/// What became of all operations of one kind, once per node and operation, and how long they took: from the first entry on the node
/// to the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectiveStats {
    /// Those that have succeeded.
    pub completed: u64,
    /// Those that have failed.
    pub failed: u64,
    /// The time of all of them together.
    pub time: Duration,
    /// A histogram: `took[i]` counts the operations that took at most [`BOUNDS[i]`](Self::BOUNDS) and longer than `BOUNDS[i - 1]`; the
    /// last element counts those that took longer than the last bound.
    pub took: [u64; Self::BOUNDS.len() + 1],
}

impl CollectiveStats {
    /// The upper bounds of the buckets of [`took`](Self::took), inclusive and ascending: 100 µs to 100 s.
    pub const BOUNDS: [Duration; 13] = [
        Duration::from_micros(100),
        Duration::from_micros(300),
        Duration::from_millis(1),
        Duration::from_millis(3),
        Duration::from_millis(10),
        Duration::from_millis(30),
        Duration::from_millis(100),
        Duration::from_millis(300),
        Duration::from_secs(1),
        Duration::from_secs(3),
        Duration::from_secs(10),
        Duration::from_secs(30),
        Duration::from_secs(100),
    ];

    pub(crate) fn count(&mut self, is_ok: bool, took: Duration) {
        *(if is_ok { &mut self.completed } else { &mut self.failed }) += 1;
        self.time += took;
        self.took[Self::BOUNDS.partition_point(|bound| *bound < took)] += 1;
    }
}
