use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use super::Modex;

/// Rows of the [table of operations](crate::for_each_operation), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! fence_operations {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::event_operations! { [$($then)*] $($before)*
            /// Entry into a fence; the reply is empty if the server keeps what was collected.
            Fence fence -> Option<Fenced> {
                "fence", memory: NAMING, by: engine,
                fields: {
                    /// The participants; `None` for all processes of the caller's namespace (FEN-01).
                    procs: Option<Vec<ProcId>>,
                },
                more: {
                    /// What the caller has already: the [`generation`](Fenced::generation) of the last reply to a fence of these
                    /// participants; 0 if it is to receive everything.
                    since: u64 = 0,
                    /// The span of the caller, if it is traced. A peer may leave it out; an invalid one is ignored.
                    trace: Option<TraceContext> = None,
                },
                directives: "`COLLECT_DATA`, `TIMEOUT` and the like; may be empty.",
                native: { FENCE = 3, c: "PMIX_FENCENB_CMD", message: [procs, directives] },
                upcalls: {
                    /// Carries out a fence with the other servers. Returns the data of all servers, including this one, concatenated in any
                    /// order (FEN-09). Not idempotent.
                    ///
                    /// A server sends what has changed since the last fence of the same participants, if there is an entry for direct modex. A
                    /// server that has missed that one fetches the rest with [`direct_modex`](Self::direct_modex) before the fence ends.
                    ///
                    /// The directive `LOCAL_COLLECTIVE_STATUS` reports that the local part has failed (FEN-13). Inform the other
                    /// nodes, or they wait for ever. With it, `EVENT_AFFECTED_PROCS` names the processes responsible, at most 64.
                    /// Pass them to the other nodes: their hosts answer with [`HostError::with_procs`], so that the participants
                    /// there can identify the dead processes.
                    ///
                    /// A fence that fails or is cancelled on one node must fail on all of them, also on nodes that enter it later: keep
                    /// the outcome of an abandoned operation until each of its nodes has learned it or is gone. Participants may enter
                    /// another fence immediately, so each operation needs its own id, such as a number that every node counts in the
                    /// same way. The same applies to connect, disconnect and groups.
                    Fence fence(FenceRequest) -> Bytes {
                        "fences over several nodes", c: ["fence_nb" "pmix_server_fencenb_fn_t"],
                        attributes: own, directives: directives, passed_up: no,
                        serves: ["PMIx_Fence", "PMIx_Fence_nb"],
                    }
                },
            }
        }
    };
}

/// Rows of the [table of replies](crate::for_each_reply), added to those before.
#[macro_export]
#[doc(hidden)]
macro_rules! fence_replies {
    ([$($then:tt)*] $($before:tt)*) => {
        $crate::event_replies! { [$($then)*] $($before)*
            /// The fence is complete; with the data of all participants if it was collected.
            Fence fence(Fenced),
        }
    };
}

/// The reply to a fence.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Fenced {
    /// The data of the participants; empty if none was collected.
    pub collected: Collected,
    /// Only what has changed after this generation was collected; 0 if everything was. It is the least that a participant
    /// on this node has named in [`Fence::since`](super::Fence::since).
    pub since: u64,
    /// Up to which changes the data goes. Generations grow with each change on a server and mean nothing to others. 0 if
    /// nothing was collected.
    pub generation: u64,
}

impl Fenced {
    /// The reply with all that was collected.
    pub fn new(collected: impl Into<Collected>) -> Self {
        Self { collected: collected.into(), since: 0, generation: 0 }
    }

    /// Sets what is in the data: the changes after the generation `since`, up to `generation`.
    #[must_use]
    pub const fn with_changes(mut self, since: u64, generation: u64) -> Self {
        self.since = since;
        self.generation = generation;
        self
    }
}

/// The data that a fence has collected.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums, reason = "a wire that leaves a form out must not compile")]
pub enum Collected {
    /// The data of each participant.
    Held(Arc<Modex>),
    /// The same data, still encoded as received; empty if there is none. Every participant receives the data of all but
    /// needs little of it, so decoding it on demand saves most of the work.
    Encoded(Bytes),
    /// The same data, encoded, in a file that the server has written once for all participants of one user.
    File(CollectedFile),
}

/// A file with the data that a fence has collected. It cannot be changed, but the server empties it when it has written many
/// newer ones; a get still returns the data of each process then.
#[derive(Clone, Debug)]
pub struct CollectedFile {
    file: Option<Arc<File>>,
    bytes: u64,
}

impl CollectedFile {
    /// A file that holds `bytes` bytes; `None` if it did not arrive, for want of file descriptors.
    pub fn new(file: Option<File>, bytes: u64) -> Self {
        Self { file: file.map(Arc::new), bytes }
    }

    /// The size of the data in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the data.
    ///
    /// # Errors
    /// The error of the operating system; `NotFound` if the file did not arrive, `UnexpectedEof` if it was emptied,
    /// and `OutOfMemory` if there is no room.
    pub fn read(&self) -> io::Result<Bytes> {
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let bytes = usize::try_from(self.bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let mut data = Vec::new();
        data.try_reserve_exact(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        data.resize(bytes, 0);
        file.read_exact_at(&mut data, 0)?;
        Ok(data.into())
    }
}

impl Default for Collected {
    fn default() -> Self {
        Self::Encoded(Bytes::new())
    }
}

impl From<Arc<Modex>> for Collected {
    fn from(modex: Arc<Modex>) -> Self {
        Self::Held(modex)
    }
}

impl From<Modex> for Collected {
    fn from(modex: Modex) -> Self {
        Self::Held(Arc::new(modex))
    }
}
