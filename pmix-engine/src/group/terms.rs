//! What members ask a group to be like.

use pmix_types::{DirectiveError, Directives, Info, Key, keys};

/// Directives of a leader that hold on all nodes, and for another leader that takes its place.
const TERMS: [&Key<bool>; 4] = [
    &keys::GROUP_OPTIONAL,
    &keys::GROUP_NOTIFY_TERMINATION,
    &keys::GROUP_FT_COLLECTIVE,
    &keys::GROUP_ASSIGN_CONTEXT_ID,
];

/// What members have asked for. What one of them asks for holds for all on its node, except for the role of a leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupTerms {
    /// Members that never come do not make the construct fail, and are not told of (GRP-06).
    pub(crate) optional: bool,
    /// Members are told of one that ends without leaving (GRP-06).
    pub(crate) notify: bool,
    /// Members that have ended are not waited for, in the construct and in the destruct.
    pub(crate) adjusts: bool,
    /// The caller is a leader.
    pub(crate) leader: bool,
    /// All members are on this node.
    pub(crate) local_only: bool,
    /// The host takes part even if all members are on this node: it numbers the group (GRP-11).
    pub(crate) by_host: bool,
}

impl GroupTerms {
    /// Takes the directives, except for the one by which the host numbers the group.
    pub(crate) fn take(directives: &mut Directives) -> Result<Self, DirectiveError> {
        Ok(Self {
            optional: directives.take_flag(&keys::GROUP_OPTIONAL)?,
            notify: directives.take_flag(&keys::GROUP_NOTIFY_TERMINATION)?,
            adjusts: directives.take_flag(&keys::GROUP_FT_COLLECTIVE)?,
            leader: directives.take_flag(&keys::GROUP_LEADER)?,
            local_only: directives.take_flag(&keys::GROUP_LOCAL_ONLY)?,
            by_host: directives.flag(&keys::GROUP_ASSIGN_CONTEXT_ID)?,
        })
    }

    /// Whether processes are told, while the group is being made, of members that will not come.
    pub(crate) const fn tells_of_absent(self) -> bool {
        self.notify && !self.optional
    }

    /// Whether the construct goes on without members that have ended (GRP-06).
    pub(crate) const fn is_lenient(self) -> bool {
        self.optional || self.notify || self.adjusts
    }

    /// Whether the group and its destruct go on without members that have ended (GRP-09).
    pub(crate) const fn outlives_members(self) -> bool {
        self.notify || self.adjusts
    }

    pub(crate) const fn join(&mut self, other: Self) {
        self.optional |= other.optional;
        self.notify |= other.notify;
        self.adjusts |= other.adjusts;
        self.local_only |= other.local_only;
        self.by_host |= other.by_host;
    }
}

/// Those of the directives that hold on all nodes.
pub(crate) fn terms_of(directives: &Directives) -> impl Iterator<Item = Info> {
    TERMS.into_iter().filter(|key| directives.flag(key).unwrap_or_default()).map(|key| Info::new(key, true))
}

pub(crate) fn add_terms(directives: &mut Directives, terms: &Directives) {
    for info in terms_of(terms) {
        if directives.get_value(&info.key).is_none() {
            directives.push(info);
        }
    }
}
