use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use super::Modex;
use crate::ProcId;

directed_requests! {
    /// Entry into a fence.
    Fence {
        /// `COLLECT_DATA`, `TIMEOUT` and the like; may be empty.
        directives,
        /// The participants; `None` for all processes of the caller's namespace (FEN-01).
        procs: Option<Vec<ProcId>>,
    }
}

/// The data that a fence has collected.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_enums)]
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
/// newer ones; the data of a process can then still be had by a get.
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
