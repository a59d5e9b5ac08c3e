//! The level that a get is about.

use crate::{DirectiveError, Directives, Key, Rank, Realm, keys};

use super::names;

/// The session, job, app, node or process that a value belongs to.
///
/// # Standard
/// The realms of rules GET-40..45.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target<'a> {
    /// The session with this id; `None` for the job's own.
    Session(Option<u32>),
    /// The job.
    Job,
    /// The app with this number.
    App(u32),
    /// The app that this process belongs to.
    AppOf(Rank),
    /// A node.
    Node(NodeRef<'a>),
    /// A process.
    Proc(Rank),
}

/// A reference to a node. The variants are interchangeable (GET-49).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeRef<'a> {
    /// By its name or one of its `HOSTNAME_ALIASES`.
    Name(&'a str),
    /// By its `NODEID`.
    Id(u32),
    /// By a process that runs on it.
    Of(Rank),
}

/// The requester, as far as [`target_of`] needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Requester<'a> {
    /// Rank of the requester if it asks about its own namespace; `None` if it asks about another.
    pub rank: Option<Rank>,
    /// Name of the node the requester runs on.
    pub hostname: &'a str,
}

impl<'a> Requester<'a> {
    /// A requester on the node of that name, with its rank if it asks about its own namespace.
    pub const fn new(rank: Option<Rank>, hostname: &'a str) -> Self {
        Self { rank, hostname }
    }
}

/// The target of a get, from its key, the process it names, and its directives.
///
/// `rank` is that of the named process; [`Rank::WILDCARD`] for the job. A directive such as `NODE_INFO` takes
/// precedence, together with its qualifier (`SESSION_ID`, `APPNUM`, `HOSTNAME`, `NODEID`). Without such a directive,
/// the realm of the key decides, and the qualifiers still select the session, app or node. Without qualifiers, a node
/// value is that of the named process's node, or of the requester's node if the rank is the wildcard.
///
/// The keys `PROCID` and `NSPACE`, which request the identity of the requester itself (GET-46), are not handled here.
///
/// # Errors
/// [`DirectiveError`] for a directive with a value of the wrong type, for two instances with different
/// values, and for two directives that name different realms.
///
/// # Standard
/// Rules GET-40..45.
///
/// # Examples
/// ```
/// use pmix_types::job::{Requester, NodeRef, Target, target_of};
/// use pmix_types::{Directives, Rank, keys};
///
/// let requester = Requester::new(Some(Rank::new(3)?), "n0");
/// let plain = Directives::new();
/// let target = target_of(keys::JOB_SIZE.name(), Rank::WILDCARD, &plain, &requester)?;
/// assert_eq!(target, Target::Job);
///
/// let other_node = Directives::new().with(keys::NODE_INFO, true).with(keys::HOSTNAME, "n7");
/// let target = target_of(keys::LOCAL_SIZE.name(), Rank::WILDCARD, &other_node, &requester)?;
/// assert_eq!(target, Target::Node(NodeRef::Name("n7")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn target_of<'a>(
    key: &str,
    rank: Rank,
    directives: &'a Directives,
    requester: &Requester<'a>,
) -> Result<Target<'a>, DirectiveError> {
    let question = Question { rank, directives, requester };
    match asked_realm(directives)? {
        Some(Realm::Session) => question.session(),
        Some(Realm::Job) => Ok(Target::Job),
        Some(Realm::App) => question.app(),
        // GET-44: the directive without qualifier means the local node, whatever the process
        Some(Realm::Node) => {
            Ok(question.named_node()?.unwrap_or(Target::Node(NodeRef::Name(requester.hostname))))
        }
        Some(_) => Ok(Target::Proc(rank)),
        None => match home_of(key) {
            Realm::Session => question.session(),
            Realm::Job => Ok(Target::Job),
            Realm::App => question.app(),
            Realm::Node => question.node(),
            _ if rank.is_wildcard() => Ok(Target::Job),
            _ => Ok(Target::Proc(rank)),
        },
    }
}

/// Realm in which a value of this key is held: that of the Standard's table, but the node for values that
/// the table gives to the job and that differ from node to node.
pub(super) fn home_of(key: &str) -> Realm {
    match key {
        names::LOCAL_PEERS | names::LOCAL_CPUSETS | names::LOCAL_SIZE | names::LOCALLDR => Realm::Node,
        _ => Realm::default_for(key),
    }
}

/// The realm a directive names.
fn asked_realm(directives: &Directives) -> Result<Option<Realm>, DirectiveError> {
    let all = [
        (&keys::SESSION_INFO, Realm::Session),
        (&keys::JOB_INFO, Realm::Job),
        (&keys::APP_INFO, Realm::App),
        (&keys::NODE_INFO, Realm::Node),
        (&keys::PROC_INFO, Realm::Proc),
    ];
    let mut asked = None;
    for (key, realm) in all {
        if directives.flag(key)? && asked.replace(realm).is_some() {
            return Err(DirectiveError::Contradiction { key: key.key_name() });
        }
    }
    Ok(asked)
}

struct Question<'a, 'b> {
    rank: Rank,
    directives: &'a Directives,
    requester: &'b Requester<'a>,
}

impl<'a> Question<'a, '_> {
    fn session(&self) -> Result<Target<'a>, DirectiveError> {
        Ok(Target::Session(self.directives.get(&keys::SESSION_ID)?))
    }

    fn app(&self) -> Result<Target<'a>, DirectiveError> {
        Ok(match self.directives.get(&keys::APPNUM)? {
            Some(number) => Target::App(number),
            None if self.rank.is_valid() => Target::AppOf(self.rank),
            None => self.requester.rank.map_or(Target::App(0), Target::AppOf),
        })
    }

    fn node(&self) -> Result<Target<'a>, DirectiveError> {
        Ok(match self.named_node()? {
            Some(target) => target,
            None if self.rank.is_valid() => Target::Node(NodeRef::Of(self.rank)),
            None => Target::Node(NodeRef::Name(self.requester.hostname)),
        })
    }

    fn named_node(&self) -> Result<Option<Target<'a>>, DirectiveError> {
        let name = self.text(&keys::HOSTNAME)?.map(NodeRef::Name);
        let id = self.directives.get(&keys::NODEID)?.map(NodeRef::Id);
        Ok(name.or(id).map(Target::Node))
    }

    /// A text directive, borrowed.
    fn text(&self, key: &Key<String>) -> Result<Option<&'a str>, DirectiveError> {
        // the typed read also finds a wrong type and contradictions
        self.directives.get(key)?;
        Ok(self.directives.get_value(key.name()).and_then(|value| value.as_str()))
    }
}
