//! What a request is about, as far as it is recorded: names and sizes, never what was put, published or said.

use pmix_types::message::{Commit, NotifyEvent, Request, ResolveNodes};
use pmix_types::{App, KeyName, Memory, Nspace, ProcId, Status};

use super::super::UpcallRequest;

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
    /// Bytes of input.
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

impl About {
    #[inline]
    pub(super) fn of(request: &Request) -> Self {
        match request {
            Request::Get(get) => Self::Data { proc: get.proc.clone(), key: get.key.clone() },
            Request::Fence(fence) => Self::Procs(fence.procs.as_ref().map_or(0, Vec::len)),
            Request::Commit(Commit { entries, .. }) => {
                Self::Values { count: entries.len(), bytes: entries.memory() }
            }
            other => Self::of_rare(other),
        }
    }

    fn of_rare(request: &Request) -> Self {
        match request {
            Request::Publish(publish) => Self::keys(publish.data.iter().map(|info| &info.key)),
            Request::Lookup(lookup) => Self::keys(lookup.keys.iter()),
            Request::Unpublish(unpublish) => Self::keys(unpublish.keys.iter()),
            Request::NotifyEvent(NotifyEvent { event, .. }) => Self::Event(event.code),
            Request::Spawn(spawn) => Self::started(&spawn.apps),
            Request::Connect(connect) => Self::Procs(connect.procs.len()),
            Request::Disconnect(disconnect) => match &disconnect.nspace {
                Some(nspace) => Self::Nspace(nspace.clone()),
                None => Self::Procs(disconnect.procs.len()),
            },
            Request::GroupConstruct(construct) => Self::Group(construct.group.clone()),
            Request::GroupInvite(invite) => Self::Group(invite.group.clone()),
            Request::GroupJoin(join) => Self::Group(join.group.clone()),
            Request::GroupDestruct(destruct) => Self::Group(destruct.group.clone()),
            Request::GroupLeave(leave) => Self::Group(leave.group.clone()),
            Request::Abort(abort) => Self::Procs(abort.procs.len()),
            Request::JobControl(control) => Self::Procs(control.targets.len()),
            Request::IofPull(pull) => Self::Procs(pull.procs.len()),
            Request::IofPush(push) => Self::Bytes(push.data.len()),
            Request::ResolveNodes(ResolveNodes { nspace: Some(nspace), .. }) => Self::Nspace(nspace.clone()),
            _ => Self::Nothing,
        }
    }

    pub(super) fn of_upcall(request: &UpcallRequest) -> Self {
        match request {
            UpcallRequest::Fence(fence) => Self::Procs(fence.procs.len()),
            UpcallRequest::Connect(connect) => Self::Procs(connect.procs.len()),
            UpcallRequest::Disconnect(disconnect) => Self::Procs(disconnect.procs.len()),
            UpcallRequest::Group(group) => Self::text(&group.group),
            UpcallRequest::Bootstrap(bootstrap) => Self::text(&bootstrap.group),
            UpcallRequest::DirectModex(modex) => Self::Data { proc: modex.proc.clone(), key: None },
            UpcallRequest::NotifyEvent(event) => Self::Event(event.code),
            UpcallRequest::Publish(publish) => Self::keys(publish.data.iter().map(|info| &info.key)),
            UpcallRequest::Lookup(lookup) => Self::keys(lookup.keys.iter()),
            UpcallRequest::Unpublish(unpublish) => Self::keys(unpublish.keys.iter()),
            UpcallRequest::Spawn(spawn) => Self::started(&spawn.apps),
            UpcallRequest::JobControl(control) => Self::Procs(control.targets.len()),
            UpcallRequest::Abort(abort) => Self::Procs(abort.procs.len()),
            UpcallRequest::PushStdin(push) => Self::Bytes(push.data.len()),
            _ => Self::Nothing,
        }
    }

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
