//! A host that does everything.

use bytes::Bytes;
use pmix_client::types::{Info, Pdata, Status, Value, for_each_upcall, keys};
use pmix_client::{Nspace, ProcId};
use pmix_server::host::*;
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};

use tokio::sync::mpsc;

use crate::names::{nspace, proc};

/// Does what it is asked for, whatever that is. It has no events, fences and data of its own: for those its server is enough.
#[derive(Clone, Copy, Debug)]
pub struct Willing;

/// As [`Willing`], and tells what it was asked.
#[derive(Clone, Debug)]
pub struct Recorder(pub mpsc::UnboundedSender<String>);

/// What they can be asked for, apart from what goes to the host as it comes.
const SERVED: [Upcall; 11] = [
    Upcall::Publish,
    Upcall::Lookup,
    Upcall::Unpublish,
    Upcall::Spawn,
    Upcall::Log,
    Upcall::JobControl,
    Upcall::Monitor,
    Upcall::IofPull,
    Upcall::PushStdin,
    Upcall::Group,
    Upcall::ToolConnected,
];

macro_rules! willing {
    ($($(#[$doc:meta])* $name:ident $method:ident($request:ty) -> $reply:ty { $($about:tt)* })+) => {
        #[async_trait]
        impl HostModule for Willing {
            fn capabilities(&self) -> Capabilities {
                Upcall::ALL.iter().copied().filter(|upcall| SERVED.contains(upcall) || upcall.is_passed_up()).collect()
            }

            $(async fn $method(&self, _: &UpcallContext, _: $request) -> HostResult<$reply> {
                Said::said()
            })+
        }

        #[async_trait]
        impl HostModule for Recorder {
            fn capabilities(&self) -> Capabilities {
                Willing.capabilities()
            }

            $(async fn $method(&self, _: &UpcallContext, request: $request) -> HostResult<$reply> {
                self.0.send(format!("{request:?}")).unwrap();
                Said::said()
            })+
        }
    };
}

for_each_upcall!(willing);

/// An answer of a host that does what it is asked for.
pub trait Said: Sized {
    /// The answer.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for an answer to what no host is asked in tests of this kind.
    fn said() -> HostResult<Self>;
}

macro_rules! said {
    ($($reply:ty: $said:expr;)+) => {$(
        impl Said for $reply {
            fn said() -> HostResult<Self> {
                $said
            }
        }
    )+};
}

said! {
    (): Ok(());
    Infos: Ok(Willing::said());
    LookupResult: Ok(vec![Pdata::new(proc("job", 0), "k".parse().unwrap(), Value::Uint32(7))]);
    Nspace: Ok(nspace("child"));
    Credential: Ok(Credential::new("secret".into(), Willing::said()));
    Grouped: Ok(numbered());
    ProcId: Ok(proc("tool", 0));
    Bytes: Err(Status::ERR_NOT_SUPPORTED.into());
    Connected: Err(Status::ERR_NOT_SUPPORTED.into());
    QueryResults: Err(Status::ERR_NOT_SUPPORTED.into());
    Bootstrapped: Err(Status::ERR_NOT_SUPPORTED.into());
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
