//! A host that does everything.

use pmix_client::types::{Info, Pdata, Value, keys};
use pmix_client::{Nspace, ProcId};
use pmix_server::host::*;
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};

use crate::names::{nspace, proc};

/// Does what it is asked for, whatever that is. It has no events, fences and data of its own: for those its server is enough.
#[derive(Clone, Copy, Debug)]
pub struct Willing;

/// What it can be asked for.
const SERVED: [Upcall; 15] = [
    Upcall::Abort,
    Upcall::Publish,
    Upcall::Lookup,
    Upcall::Unpublish,
    Upcall::Spawn,
    Upcall::Log,
    Upcall::Allocate,
    Upcall::JobControl,
    Upcall::Monitor,
    Upcall::GetCredential,
    Upcall::ValidateCredential,
    Upcall::IofPull,
    Upcall::PushStdin,
    Upcall::SessionControl,
    Upcall::Group,
];

macro_rules! willing {
    ($($name:ident($request:ty, $reply:ty) $answer:expr;)+) => {
        #[async_trait]
        impl HostModule for Willing {
            fn capabilities(&self) -> Capabilities {
                SERVED.into_iter().chain([Upcall::ToolConnected]).collect()
            }

            $(async fn $name(&self, _: &UpcallContext, _: $request) -> HostResult<$reply> {
                Ok($answer)
            })+
        }
    };
}

willing! {
    abort(Abort, ()) ();
    publish(Publish, ()) ();
    lookup(Lookup, Found) vec![Pdata::new(proc("job", 0), "k".parse().unwrap(), Value::Uint32(7))];
    unpublish(Unpublish, ()) ();
    spawn(Spawn, Nspace) nspace("child");
    log(Log, ()) ();
    allocate(Allocate, Infos) Willing::said();
    job_control(JobControl, Infos) Willing::said();
    monitor(Monitor, Infos) Willing::said();
    get_credential(GetCredential, Credential) Credential::new("secret".into(), Willing::said());
    validate_credential(ValidateCredential, Infos) Willing::said();
    iof_pull(IofPullRequest, ()) ();
    push_stdin(IofPush, ()) ();
    session_control(SessionControl, Infos) Willing::said();
    group(GroupRequest, Grouped) numbered();
    tool_connected(ToolConnected, ProcId) proc("tool", 0);
}

impl Willing {
    /// What it says of everything that it is asked about.
    pub fn said() -> Vec<Info> {
        vec![Info::new(&keys::ALLOC_ID, "of the host")]
    }
}

/// The group as it was asked for, with a number.
fn numbered() -> Grouped {
    let mut grouped = Grouped::default();
    grouped.context_id = Some(7);
    grouped
}
