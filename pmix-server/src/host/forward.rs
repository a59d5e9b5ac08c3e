//! A shared host is a host: so one object can be the server's host and its owner's own.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pmix_types::{Nspace, ProcId};

use super::*;
use crate::handle::ServerHandle;

macro_rules! forward {
    ($($method:ident($request:ty) -> $answer:ty;)+) => {
        #[async_trait]
        impl<T: HostModule + ?Sized> HostModule for Arc<T> {
            fn capabilities(&self) -> Capabilities {
                (**self).capabilities()
            }

            fn started(&self, handle: &ServerHandle) {
                (**self).started(handle);
            }

            $(async fn $method(&self, cx: &UpcallContext, req: $request) -> $answer {
                (**self).$method(cx, req).await
            })+
        }
    };
}

forward! {
    client_connected(ClientConnected) -> HostResult<()>;
    client_finalized(ClientFinalized) -> HostResult<()>;
    client_lost(ClientLost) -> ();
    abort(AbortRequest) -> HostResult<()>;
    fence(FenceRequest) -> HostResult<Bytes>;
    direct_modex(DirectModexRequest) -> HostResult<Bytes>;
    publish(PublishRequest) -> HostResult<()>;
    lookup(LookupRequest) -> HostResult<Found>;
    unpublish(UnpublishRequest) -> HostResult<()>;
    spawn(SpawnRequest) -> HostResult<Nspace>;
    connect(ConnectRequest) -> HostResult<Connected>;
    disconnect(DisconnectRequest) -> HostResult<()>;
    register_events(RegisterEventsRequest) -> HostResult<()>;
    deregister_events(DeregisterEventsRequest) -> HostResult<()>;
    notify_event(NotifyEventRequest) -> HostResult<()>;
    query(QueryRequest) -> HostResult<QueryResults>;
    tool_connected(ToolConnected) -> HostResult<ProcId>;
    log(LogRequest) -> HostResult<()>;
    allocate(AllocateRequest) -> HostResult<Infos>;
    job_control(JobControlRequest) -> HostResult<Infos>;
    monitor(MonitorRequest) -> HostResult<Infos>;
    get_credential(GetCredentialRequest) -> HostResult<Credential>;
    validate_credential(ValidateCredentialRequest) -> HostResult<Infos>;
    iof_pull(IofPullRequest) -> HostResult<()>;
    push_stdin(PushStdinRequest) -> HostResult<()>;
    group(GroupRequest) -> HostResult<Grouped>;
    fabric(FabricRequest) -> HostResult<Infos>;
    session_control(SessionControlRequest) -> HostResult<Infos>;
    resource_block(ResourceBlockRequest) -> HostResult<()>;
}

#[cfg(test)]
mod tests {
    /// Every entry of the trait must be forwarded: a default would answer in place of the host.
    #[test]
    fn every_entry_is_forwarded() {
        let entries = |text: &str, mark: &str| {
            let names = text.lines().filter_map(|line| line.trim().strip_prefix(mark)?.split('(').next());
            names.map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
        };
        let declared = entries(include_str!("mod.rs"), "async fn ");
        let forwarded: std::collections::BTreeSet<_> = include_str!("forward.rs")
            .lines()
            .filter(|line| line.ends_with(';') && line.contains(") -> "))
            .filter_map(|line| Some(line.trim().split_once('(')?.0.to_owned()))
            .collect();
        assert_eq!(declared, forwarded);
        let named: std::collections::BTreeSet<_> =
            crate::host::Upcall::ALL.iter().map(|upcall| upcall.name().to_owned()).collect();
        assert_eq!(declared, named);
        assert_eq!(declared.len(), 29);
    }
}
