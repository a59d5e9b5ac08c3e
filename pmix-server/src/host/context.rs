use std::any::Any;
use std::sync::Arc;

use pmix_types::trace::TraceContext;
use pmix_types::{Gid, ProcId, Uid};
use tokio_util::sync::CancellationToken;

use super::HostObject;

/// The caller of an upcall, and whether its answer is still wanted. Passed with every upcall.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UpcallContext {
    /// Number of this upcall, unique during the server's lifetime; for log lines.
    pub id: u64,
    /// The process that made the request; for collectives, the server itself.
    pub caller: ProcId,
    /// User of the caller, as reported by the kernel (GEN-13).
    pub uid: Uid,
    /// Group of the caller, as reported by the kernel (GEN-13). On the native wire the kernel does not report it, so this is
    /// the group with which the process was registered, and `None` for tools, since their own claim proves nothing.
    pub gid: Option<Gid>,
    /// The object with which the caller was registered.
    pub object: Option<HostObject>,
    /// The span of this upcall, if its operation is traced ([`pmix_types::trace`]): what the host does is below it.
    pub trace: Option<TraceContext>,
    pub(crate) cancel: CancellationToken,
}

impl UpcallContext {
    /// Creates a context like that of a server, with number 0, for tests that call the methods of a host. `uid` is the user of
    /// the caller; set its group and object through the fields.
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
    pub fn new(caller: ProcId, uid: impl Into<Uid>) -> Self {
        let uid = uid.into();
        Self { id: 0, caller, uid, gid: None, object: None, trace: None, cancel: CancellationToken::new() }
    }

    /// Marks the answer as no longer wanted, as the server does. For tests of hosts, and for hosts that wrap others.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Waits until the answer is no longer wanted: the callers have timed out or disconnected.
    ///
    /// The host may still answer; the server drops that answer. Cancel-safe.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Whether the answer is no longer wanted.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// The object with which the caller was registered, downcast to its type; `None` if it has another type.
    pub fn object_as<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.object.clone()?.downcast().ok()
    }
}
