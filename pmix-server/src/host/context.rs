use std::any::Any;
use std::sync::Arc;

use pmix_types::ProcId;
use tokio_util::sync::CancellationToken;

use super::HostObject;

/// Who asks, and whether it still matters: given with every upcall.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpcallContext {
    /// Number of this upcall, unique in the server's life; for log lines.
    pub id: u64,
    /// The process that asked; for collectives the server itself.
    pub caller: ProcId,
    /// User of the caller, as reported by the kernel (GEN-13).
    pub uid: u32,
    /// Group of the caller (GEN-13), as the kernel says; on the native wire, where the kernel does not say, that of its
    /// registration. `None` for tools there: what they say of their groups proves nothing.
    pub gid: Option<u32>,
    /// The object given when the caller was registered.
    pub object: Option<HostObject>,
    pub(crate) cancel: CancellationToken,
}

impl UpcallContext {
    /// A context as a server makes it, numbered 0: for tests that call the methods of a host. `uid` is the user of the
    /// caller; its group and object are fields.
    ///
    /// # Examples
    /// ```
    /// use pmix_server::UpcallContext;
    /// use pmix_server::types::{ProcId, Rank};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let cx = UpcallContext::new(ProcId::new("job-1".parse()?, Rank::new(0)?), 1000);
    /// assert!(!cx.is_cancelled());
    /// cx.cancel();
    /// assert!(cx.is_cancelled());
    /// # Ok(()) }
    /// ```
    pub fn new(caller: ProcId, uid: u32) -> Self {
        Self { id: 0, caller, uid, gid: None, object: None, cancel: CancellationToken::new() }
    }

    /// Says that the answer is no longer wanted, as the server does: for tests of hosts, and for hosts that wrap others.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits until the answer is no longer wanted: the time of all who asked is over, or those who asked are gone.
    ///
    /// The answer may still be given; it is dropped. Cancel-safe.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Whether the answer is no longer wanted.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// The object given when the caller was registered, as its own type.
    pub fn object_as<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.object.clone()?.downcast().ok()
    }
}
