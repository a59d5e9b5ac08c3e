//! What a request is about, as far as it is recorded: names and sizes, never what was put, published or said.

use bytes::Bytes;
use pmix_types::message::*;
use pmix_types::trace::TraceContext;
use pmix_types::{
    AllocDirective, App, Directives, Event, FabricOperation, GroupOpt, Info, IofChannels, KeyName, Memory,
    Nspace, ProcId, Query, ResourceBlockDirective, ResourceUnit, Status, for_each_request, for_each_upcall,
};

use crate::upcall::{
    BootstrapRequest, ClientConnected, ClientFinalized, ClientLost, ConnectRequest, DeregisterEventsRequest,
    DirectModexRequest, DisconnectRequest, FenceRequest, GroupRequest, IofPullRequest, QueryRequest,
    ToolConnected, ToolFinalized, ToolLost, UpcallRequest,
};

#[derive(Debug)]
pub(super) enum About {
    Nothing,
    /// Data of a process: under this key, or all of it.
    Data {
        proc: ProcId,
        key: Option<KeyName>,
    },
    /// Values, and the bytes that they take in memory.
    Values {
        count: usize,
        bytes: usize,
    },
    /// Processes that are named; none of them may mean all.
    Procs(usize),
    /// Processes that are to be started.
    Started(u64),
    /// The first key and how many there are.
    Keys {
        first: KeyName,
        count: usize,
    },
    Group(Nspace),
    Event(Status),
    /// The size of bytes.
    Bytes(usize),
    Proc(ProcId),
    Nspace(Nspace),
    /// A process and why.
    Because {
        proc: ProcId,
        reason: Box<str>,
    },
    Text(Box<str>),
}

/// A request, or an upcall, of which the record keeps something.
pub(super) trait Recorded {
    fn about(&self) -> About;
}

/// A field: its type decides what the record keeps of it.
trait Part {
    fn part(&self) -> About;
}

/// The record keeps the first field of a request of which it keeps anything.
macro_rules! by_field {
    ($name:ident [own] $($field:ident)*) => {};
    ($name:ident [] $($field:ident)*) => {
        impl Recorded for $name {
            #[inline]
            fn about(&self) -> About {
                $(
                    let about = self.$field.part();
                    if !matches!(about, About::Nothing) {
                        return about;
                    }
                )*
                About::Nothing
            }
        }
    };
}

macro_rules! requests {
    ($(
        $name:ident $snake:ident { names: [$($names:ident)?], about: [$($about:ident)?], $($columns:tt)* }
        ($($field:ident)*) ($($rest:ident $(= $directives:literal)?)*)
    )+) => {
        $(by_field! { $name [$($about)?] $($field)* $($rest)* })+

        impl Recorded for Request {
            #[inline]
            fn about(&self) -> About {
                match self {
                    $(Self::$name(request) => request.about(),)+
                }
            }
        }
    };
}

for_each_request!(requests);

macro_rules! upcalls {
    ($($(#[$doc:meta])* $name:ident $method:ident($request:ty) -> $reply:ty { $($about:tt)* })+) => {
        impl Recorded for UpcallRequest {
            fn about(&self) -> About {
                match self {
                    $(Self::$name(request) => request.about(),)+
                }
            }
        }
    };
}

for_each_upcall!(upcalls);

macro_rules! unrecorded {
    ($trait:ident $method:ident: $($type:ty),+ $(,)?) => {$(
        impl $trait for $type {
            #[inline]
            fn $method(&self) -> About {
                About::Nothing
            }
        }
    )+};
}
unrecorded!(
    Part part:
    i32, u64, String, Option<u32>, Option<String>, Option<KeyName>, Option<TraceContext>, Vec<Status>, Vec<Query>, Vec<ResourceUnit>, Info, Status,
    ProcId, AllocDirective, Directives, FabricOperation, GroupOpt, IofChannels, ResourceBlockDirective,
);
// the line says for whom these are
unrecorded!(
    Recorded about:
    ClientConnected, ClientFinalized, ClientLost, ToolConnected, ToolFinalized, ToolLost, DeregisterEventsRequest, QueryRequest,
    IofPullRequest,
);

macro_rules! parts {
    ($($trait:ident $method:ident: $type:ty { $about:expr })+) => {$(
        impl $trait for $type {
            #[inline]
            fn $method(&self) -> About {
                let about: fn(&Self) -> About = $about;
                about(self)
            }
        }
    )+};
}
parts! {
    Part part: Vec<PutEntry> { |entries| About::Values { count: entries.len(), bytes: entries.memory() } }
    Part part: Vec<ProcId> { |procs| About::Procs(procs.len()) }
    Part part: Option<Vec<ProcId>> { |procs| About::Procs(procs.as_ref().map_or(0, Vec::len)) }
    Part part: Vec<KeyName> { |keys| About::keys(keys.iter()) }
    Part part: Vec<Info> { |infos| About::keys(infos.iter().map(|info| &info.key)) }
    Part part: Vec<App> { |apps| About::started(apps) }
    Part part: Bytes { |data| About::Bytes(data.len()) }
    Part part: Event { |event| About::Event(event.code) }
    Part part: Nspace { |group| About::Group(group.clone()) }
    Part part: Option<Nspace> { |nspace| nspace.clone().map_or(About::Nothing, About::Nspace) }
    Recorded about: Get { |get| About::Data { proc: get.proc.clone(), key: get.key.clone() } }
    Recorded about: Disconnect {
        |leave| leave.nspace.clone().map_or(About::Procs(leave.procs.len()), About::Nspace)
    }
    Recorded about: IofPush { |push| About::Bytes(push.data.len()) }
    Recorded about: FenceRequest { |fence| About::Procs(fence.procs.len()) }
    Recorded about: ConnectRequest { |connect| About::Procs(connect.procs.len()) }
    Recorded about: DisconnectRequest { |disconnect| About::Procs(disconnect.procs.len()) }
    Recorded about: GroupRequest { |group| About::text(&group.group) }
    Recorded about: BootstrapRequest { |bootstrap| About::text(&bootstrap.group) }
    Recorded about: DirectModexRequest { |modex| About::Data { proc: modex.proc.clone(), key: None } }
    Recorded about: Event { |event| About::Event(event.code) }
}

impl About {
    fn started(apps: &[App]) -> Self {
        Self::Started(apps.iter().map(|app| u64::try_from(app.max_procs).unwrap_or(0)).sum())
    }

    fn keys<'a>(mut keys: impl ExactSizeIterator<Item = &'a KeyName>) -> Self {
        let count = keys.len();
        keys.next().map_or(Self::Nothing, |first| Self::Keys { first: first.clone(), count })
    }

    pub(super) fn because(proc: &ProcId, reason: &str) -> Self {
        Self::Because { proc: proc.clone(), reason: short(reason) }
    }

    pub(super) fn text(text: &str) -> Self {
        Self::Text(short(text))
    }

    /// Bytes that it holds elsewhere, beside its own.
    #[inline]
    pub(super) fn heap(&self) -> usize {
        match self {
            Self::Data { key: Some(key), .. } | Self::Keys { first: key, .. } => key.heap(),
            Self::Because { reason: text, .. } | Self::Text(text) => text.len(),
            // names of namespaces are shared with those who live
            _ => 0,
        }
    }
}

/// The beginning of a text of others.
pub(super) fn short(text: &str) -> Box<str> {
    const MOST: usize = 200;
    let end = (0..=MOST.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_cut_between_characters() {
        for (text, kept) in
            [("x".repeat(300), 200), ("é".repeat(150), 200), (format!("a{}", "é".repeat(150)), 199)]
        {
            assert_eq!((short(&text).len(), text.starts_with(&*short(&text))), (kept, true));
        }
        assert_eq!(&*short("all"), "all");
    }
}
