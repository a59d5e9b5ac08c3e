//! Operations of several nodes, as all of them name them.

use std::collections::BTreeMap;
use std::fmt;

use pmix_server::host::HostResult;
use pmix_types::message::{Connect, Disconnect, Failure, Fence, GroupConstruct, GroupDestruct, Request};
use pmix_types::{DataArray, Directives, Info, Nspace, ProcId, RankSet, Status, keys};

/// What the participants do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Fence,
    Connect,
    Disconnect,
    Construct,
    Destruct,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fence => "fence",
            Self::Connect => "connect",
            Self::Disconnect => "disconnect",
            Self::Construct => "group construct",
            Self::Destruct => "group destruct",
        })
    }
}

/// An operation of several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    pub(crate) procs: Vec<ProcId>,
    /// Id of the group, or that of a connect.
    pub(crate) id: Option<String>,
    /// Processes that end before they enter it do not fail it.
    pub(crate) is_optional: bool,
}

/// An operation that a node has entered and others have not.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    pub(crate) operation: Operation,
    pub(crate) nodes: Vec<String>,
    /// Its number among those of the same participants, from 1.
    pub(crate) round: u64,
}

/// What tells operations apart: kind, processes and id; the same on every node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Participants {
    kind: Kind,
    procs: Spelled,
    id: Option<String>,
}

/// Processes by namespace, with or without all of each.
type Spelled = BTreeMap<Nspace, (bool, RankSet)>;

impl Operation {
    pub(crate) fn participants(&self) -> Participants {
        Participants { kind: self.kind, procs: by_nspace(&self.procs), id: self.id.clone() }
    }

    /// The request by which processes enter it, with what identifies it.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a group without a valid id.
    pub(crate) fn to_request(&self) -> Result<Request, Failure> {
        let procs = self.procs.clone();
        let group = || {
            Nspace::new(self.id.as_deref().unwrap_or_default())
                .map_err(|error| Failure::new(Status::ERR_BAD_PARAM, error.to_string()))
        };
        let connecting = || {
            let mut directives = Directives::new();
            directives.extend(self.id.clone().map(|id| Info::new(&keys::CONNECT_ID, id)));
            directives.extend(self.is_optional.then(|| Info::new(&keys::CONNECT_OPTIONAL, true)));
            directives
        };
        Ok(match self.kind {
            Kind::Fence => Request::Fence(Fence::new(Some(procs))),
            Kind::Connect => {
                let mut connect = Connect::new(procs);
                connect.directives = connecting();
                Request::Connect(connect)
            }
            Kind::Disconnect => {
                let mut disconnect = Disconnect::new(procs);
                disconnect.directives = connecting();
                Request::Disconnect(disconnect)
            }
            Kind::Construct => {
                let mut construct = GroupConstruct::new(group()?, procs);
                construct.directives.extend(self.is_optional.then(|| Info::new(&keys::GROUP_OPTIONAL, true)));
                Request::GroupConstruct(construct)
            }
            Kind::Destruct => {
                let mut destruct = GroupDestruct::new(group()?);
                destruct.directives.push(Info::new(&keys::GROUP_MEMBERSHIP, DataArray::Proc(procs)));
                Request::GroupDestruct(destruct)
            }
        })
    }

    /// The operation that such a request enters.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for a request that enters none, and for a destruct without its members.
    pub(crate) fn of_request(request: &Request) -> HostResult<Self> {
        let (kind, procs, id, is_optional) = match request {
            Request::Fence(fence) => (Kind::Fence, fence.procs.clone().unwrap_or_default(), None, false),
            Request::Connect(connect) => {
                let directives = &connect.directives;
                let is_optional = directives.flag(&keys::CONNECT_OPTIONAL)?;
                (Kind::Connect, connect.procs.clone(), directives.get(&keys::CONNECT_ID)?, is_optional)
            }
            Request::Disconnect(disconnect) => {
                let directives = &disconnect.directives;
                let is_optional = directives.flag(&keys::CONNECT_OPTIONAL)?;
                (Kind::Disconnect, disconnect.procs.clone(), directives.get(&keys::CONNECT_ID)?, is_optional)
            }
            Request::GroupConstruct(construct) => {
                let is_optional = construct.directives.flag(&keys::GROUP_OPTIONAL)?;
                (Kind::Construct, construct.procs.clone(), Some(construct.group.to_string()), is_optional)
            }
            Request::GroupDestruct(destruct) => {
                let Some(DataArray::Proc(procs)) = destruct.directives.get(&keys::GROUP_MEMBERSHIP)? else {
                    return Err(Status::ERR_BAD_PARAM.into());
                };
                (Kind::Destruct, procs, Some(destruct.group.to_string()), false)
            }
            _ => return Err(Status::ERR_BAD_PARAM.into()),
        };
        Ok(Self { kind, procs, id, is_optional })
    }
}

/// The name of the operation in an exchange, before its round: `fence job:0-3 other:* `, the id of a connect last.
impl fmt::Display for Participants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id.as_deref().unwrap_or_default();
        write!(f, "{} {} {id}", self.kind, text_of(&self.procs))
    }
}

/// Processes as text, the same on every node: `job:0-3 other:*`.
pub(crate) fn spelled(procs: &[ProcId]) -> String {
    text_of(&by_nspace(procs))
}

fn by_nspace(procs: &[ProcId]) -> Spelled {
    let mut all = Spelled::new();
    for proc in procs {
        let (is_all, ranks) = all.entry(proc.nspace.clone()).or_default();
        if proc.rank.is_wildcard() {
            *is_all = true;
        } else {
            ranks.insert(proc.rank);
        }
    }
    all
}

fn text_of(procs: &Spelled) -> String {
    let mut words = Vec::new();
    for (nspace, (is_all, ranks)) in procs {
        if *is_all {
            words.push(format!("{nspace}:*"));
        }
        if !ranks.is_empty() {
            words.push(format!("{nspace}:{ranks}"));
        }
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use pmix_types::Rank;

    use super::*;

    fn operation(kind: Kind, id: Option<&str>, is_optional: bool) -> Operation {
        let proc = |rank| ProcId::new("job".parse().unwrap(), Rank::from_raw(rank));
        let all = ProcId::wildcard("other".parse().unwrap());
        Operation { kind, procs: vec![all, proc(1), proc(0)], id: id.map(Into::into), is_optional }
    }

    #[test]
    fn an_operation_is_the_one_that_its_request_enters() {
        for operation in [
            operation(Kind::Fence, None, false),
            operation(Kind::Connect, None, true),
            operation(Kind::Connect, Some("id"), false),
            operation(Kind::Disconnect, Some("id"), true),
            operation(Kind::Construct, Some("group"), true),
            operation(Kind::Destruct, Some("group"), false),
        ] {
            let request = operation.to_request().unwrap();
            assert_eq!(Operation::of_request(&request).unwrap(), operation);
        }
        let nameless = operation(Kind::Construct, None, false).to_request().unwrap_err();
        assert_eq!(nameless.status, Status::ERR_BAD_PARAM);
    }

    #[test]
    fn nodes_name_an_operation_alike_whatever_the_order_of_its_processes() {
        let given = operation(Kind::Connect, Some("id"), false);
        let mut turned = given.clone();
        turned.procs.reverse();
        assert_eq!(given.participants(), turned.participants());
        assert_eq!(given.participants().to_string(), "connect job:0-1 other:* id");
        assert_ne!(given.participants(), operation(Kind::Disconnect, Some("id"), false).participants());
        assert_ne!(given.participants(), operation(Kind::Connect, None, false).participants());
    }
}
