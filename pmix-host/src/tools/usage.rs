//! What processes use: what the servers and kernels of all nodes say, and what the launcher has forwarded of their output.

use pmix_server::host::HostResult;
use pmix_types::usage::{ProcUsage, USAGE};
use pmix_types::{Directives, Value};

use super::elsewhere::{named_and_visible, of_procs};
use super::why::Why;
use crate::user::User;

impl Why {
    /// What processes use on all nodes that answer; `None` for what the server is to answer or refuse.
    pub(super) async fn usage(&self, requester: &User, qualifiers: &Directives) -> HostResult<Option<Value>> {
        let named = named_and_visible(&self.jobs, &self.site, requester, qualifiers).await;
        let Some(named) = named else { return Ok(None) };
        let own = self.site.server()?.usage(&named);
        let mut all = of_procs(&self.site, requester, &USAGE, &named, own, ProcUsage::read_all).await;
        all.sort_by(|one, other| one.proc.cmp(&other.proc));
        let jobs = self.jobs.entries();
        for one in &mut all {
            let job = jobs.get(&one.proc.nspace);
            one.output = job.map(|job| job.written.get(&one.proc.rank).copied().unwrap_or_default());
        }
        Ok(Some(ProcUsage::write_all(&all)))
    }
}
