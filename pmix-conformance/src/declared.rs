//! Whether a host declares the upcalls that it implements.

use std::time::Duration;

use bytes::Bytes;
use pmix_server::host::*;
use pmix_types::{
    DataRange, Event, GroupOperation, Info, IofChannels, Nspace, ProcId, Rank, Status, for_each_upcall, keys,
};

use super::{Outcome, Verdict};

/// The name of this check, which needs the host itself and not ranks.
pub(super) const NAME: &str = "what_is_implemented_is_declared";

pub(super) fn outcome(verdict: Verdict) -> Outcome {
    Outcome {
        check: NAME.to_owned(),
        rules: vec!["HST-01".to_owned()],
        title: "a host declares the upcalls that it implements".to_owned(),
        verdict,
    }
}

/// Calls each method that the host does not declare. The server would never call it, and the default says that it is not supported.
pub(super) async fn check(host: &dyn HostModule, patience: Duration) -> Verdict {
    let declared = host.capabilities();
    let caller = ProcId::new(Nspace::none(), Rank::from_raw(0));
    let cx = UpcallContext::new(caller.clone(), rustix::process::geteuid().as_raw());
    let mut implemented = Vec::new();
    for upcall in Upcall::ALL.iter().copied().filter(|upcall| !declared.has(*upcall)) {
        let Some(request) = request(upcall, &caller) else { continue };
        match tokio::time::timeout(patience, call(host, &cx, request)).await {
            Ok(Err(error)) if error.status() == Status::ERR_NOT_SUPPORTED => {}
            _ => implemented.push(upcall.name()),
        }
    }
    if implemented.is_empty() {
        return Verdict::Passed;
    }
    Verdict::Failed(format!(
        "the host implements {} but does not declare that, so the server never calls it: put #[host_module] on the impl, or complete \
         capabilities()",
        implemented.join(", ")
    ))
}

/// A request about nothing; `None` for an upcall that every host accepts by default.
fn request(upcall: Upcall, caller: &ProcId) -> Option<UpcallRequest> {
    Some(match upcall {
        Upcall::Fence => UpcallRequest::Fence(FenceRequest::new(Vec::new(), Vec::new(), Bytes::new())),
        Upcall::DirectModex => UpcallRequest::DirectModex(DirectModexRequest::new(caller.clone())),
        Upcall::Publish => UpcallRequest::Publish(Publish::new(Vec::new())),
        Upcall::Lookup => UpcallRequest::Lookup(Lookup::new(Vec::new())),
        Upcall::Unpublish => UpcallRequest::Unpublish(Unpublish::new(Vec::new())),
        Upcall::Spawn => UpcallRequest::Spawn(Spawn::new(Vec::new())),
        Upcall::Connect => UpcallRequest::Connect(ConnectRequest::new(Vec::new(), Vec::new(), Bytes::new())),
        Upcall::Disconnect => UpcallRequest::Disconnect(DisconnectRequest::new(Vec::new(), Vec::new(), None)),
        Upcall::RegisterEvents => UpcallRequest::RegisterEvents(RegisterEvents::new(Vec::new())),
        Upcall::DeregisterEvents => UpcallRequest::DeregisterEvents(DeregisterEventsRequest::new(Vec::new())),
        Upcall::NotifyEvent => {
            let event = Event::new(Status::SUCCESS, caller.clone()).with_range(DataRange::PROC_LOCAL);
            UpcallRequest::NotifyEvent(event)
        }
        Upcall::Query => UpcallRequest::Query(QueryRequest::new(Vec::new())),
        Upcall::ToolConnected => UpcallRequest::ToolConnected(ToolConnected::new(None)),
        Upcall::Log => UpcallRequest::Log(Log::new(Vec::new())),
        Upcall::JobControl => UpcallRequest::JobControl(JobControl::new(Vec::new())),
        Upcall::Monitor => {
            let monitor = Info::new(&keys::MONITOR_CANCEL, "none");
            UpcallRequest::Monitor(Monitor::new(monitor, Status::SUCCESS))
        }
        Upcall::IofPull => {
            let pull = IofPull::new(Vec::new(), IofChannels::STDOUT);
            UpcallRequest::IofPull(IofPullRequest::new(pull, false))
        }
        Upcall::PushStdin => UpcallRequest::PushStdin(IofPush::new(Vec::new(), Bytes::new())),
        Upcall::Group => {
            let operation = GroupOperation::DESTRUCT;
            let (group, nothing) = (String::new(), Bytes::new());
            let request = GroupRequest::new(
                operation,
                group,
                Vec::new(),
                Vec::new(),
                Vec::new(),
                nothing.clone(),
                nothing,
            );
            UpcallRequest::Group(request)
        }
        Upcall::Bootstrap => UpcallRequest::Bootstrap(BootstrapRequest::new(String::new(), None, Vec::new())),
        other => return passed_up(other),
    })
}

/// Requests that go up as processes send them.
macro_rules! passed_up {
    ($($(#[$doc:meta])* $name:ident $method:ident($request:ty) -> $reply:ty {
        $what:literal, c: $c:tt, attributes: $attributes:ident, directives: $directives:ident, passed_up: $passed_up:ident,
        $($rest:tt)*
    })+) => {
        fn passed_up(upcall: Upcall) -> Option<UpcallRequest> {
            match upcall {
                $(Upcall::$name => example!($name $passed_up),)+
                _ => None,
            }
        }
    };
}

macro_rules! example {
    ($name:ident yes) => {
        Some(UpcallRequest::$name($name::example()))
    };
    ($name:ident no) => {
        None
    };
}
for_each_upcall!(passed_up);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_news_of_clients_and_tools_has_no_request() {
        let caller = ProcId::none();
        let left_out = Upcall::ALL.iter().filter(|upcall| request(**upcall, &caller).is_none());
        let mut names: Vec<_> = left_out.map(|upcall| upcall.name()).collect();
        names.sort_unstable();
        assert_eq!(
            names,
            ["client_connected", "client_finalized", "client_lost", "tool_finalized", "tool_lost"]
        );
        for upcall in Upcall::ALL {
            assert!(request(*upcall, &caller).is_none_or(|request| request.upcall() == *upcall));
        }
    }
}
