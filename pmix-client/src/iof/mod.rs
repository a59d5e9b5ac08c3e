//! Output of other processes, and input for them.

mod input;
mod output;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use pmix_types::message::Output;

use crate::events::Queue;
use crate::sync::lock;

pub use input::InputSink;
pub use output::{OutputBuilder, OutputChunk, OutputError, OutputStream};

/// Output on its way to a reader.
pub(crate) type OutputQueue = Queue<OutputChunk>;

/// The output streams of a process by registration.
#[derive(Debug, Default)]
pub(crate) struct Outputs(Mutex<BTreeMap<u64, Arc<OutputQueue>>>);

impl Outputs {
    pub(crate) fn add(&self, registration: u64, queue: Arc<OutputQueue>) {
        lock(&self.0).insert(registration, queue);
    }

    pub(crate) fn remove(&self, registration: u64) -> Option<Arc<OutputQueue>> {
        lock(&self.0).remove(&registration)
    }

    pub(crate) fn deliver(&self, registration: u64, output: Output) {
        if let Some(queue) = lock(&self.0).get(&registration) {
            queue.push(output.into());
        }
    }

    /// Output was lost on the way.
    pub(crate) fn lag(&self, registration: u64, bytes: u64) {
        if let Some(queue) = lock(&self.0).get(&registration) {
            queue.miss(bytes);
        }
    }

    /// Ends all streams because the connection is lost, for this reason.
    pub(crate) fn lose(&self, reason: OutputError) {
        for queue in std::mem::take(&mut *lock(&self.0)).into_values() {
            queue.end([Err(reason)]);
        }
    }

    /// Ends all streams in peace.
    pub(crate) fn end(&self) {
        for queue in std::mem::take(&mut *lock(&self.0)).into_values() {
            queue.end([]);
        }
    }
}
