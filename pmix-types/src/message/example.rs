//! A request of each operation, about nothing, for checks of wires and hosts.

use bytes::Bytes;

use super::*;
use crate::trace::TraceContext;
use crate::{
    AllocDirective, App, DataRange, Event, FabricOperation, GroupOpt, Info, IofChannels, KeyName, Nspace,
    ProcId, Query, ResourceBlockDirective, ResourceUnit, Status, for_each_request, keys,
};

/// A field of a request, about nothing.
trait Example {
    fn example() -> Self;
}

macro_rules! examples {
    ($($type:ty: $example:expr;)+) => {$(
        impl Example for $type {
            fn example() -> Self {
                $example
            }
        }
    )+};
}

examples! {
    i32: 0;
    u64: 0;
    String: String::new();
    Bytes: Bytes::new();
    ProcId: ProcId::none();
    Nspace: Nspace::new("nothing").unwrap_or_else(|_| Nspace::none());
    Status: Status::SUCCESS;
    Info: Info::new(&keys::MONITOR_CANCEL, "nothing");
    Event: Event::new(Status::SUCCESS, ProcId::none()).with_range(DataRange::PROC_LOCAL);
    AllocDirective: AllocDirective::NEW;
    FabricOperation: FabricOperation::REQUEST_INFO;
    ResourceBlockDirective: ResourceBlockDirective::DEFINE;
    GroupOpt: GroupOpt::DECLINE;
    IofChannels: IofChannels::STDOUT;
}

macro_rules! empty {
    ($($type:ty),+) => {
        examples! { $($type: <$type>::default();)+ }
    };
}

empty!(
    Vec<ProcId>,
    Vec<Info>,
    Vec<KeyName>,
    Vec<Status>,
    Vec<App>,
    Vec<Query>,
    Vec<PutEntry>,
    Vec<ResourceUnit>,
    Option<Vec<ProcId>>,
    Option<KeyName>,
    Option<Nspace>,
    Option<String>,
    Option<u32>,
    Option<TraceContext>
);

macro_rules! requests {
    ($($name:ident $snake:ident { $($columns:tt)* } ($($field:ident)*) ($($rest:tt)*))+) => {
        $(impl $name {
            /// A request about nothing.
            #[doc(hidden)]
            pub fn example() -> Self {
                Self::new($({ let _ = stringify!($field); Example::example() }),*)
            }
        })+

        impl Request {
            /// A request of each operation, about nothing: it names no process and asks for no change.
            #[doc(hidden)]
            pub fn examples() -> Vec<Self> {
                vec![$($name::example().into()),+]
            }
        }
    };
}
for_each_request!(requests);
