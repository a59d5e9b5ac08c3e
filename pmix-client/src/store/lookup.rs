use pmix_types::message::{Get, Modex};
use pmix_types::{DirectiveError, Directives, Info, KeyName, ProcId, QualifiedValue, Scope, Value, keys};

use super::entries::{info, is_in};

/// A Get, its directives read.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// Whose data; `None` for the caller's own (GET-01).
    pub(super) proc: Option<ProcId>,
    /// Which key; `None` for all that the process has put.
    pub(super) key: Option<KeyName>,
    /// Under which name such a value is stored; `None` if it can be under none.
    pub(super) name: Option<KeyName>,
    pub(super) is_qualified: bool,
    /// As they go to the server.
    pub(super) directives: Directives,
    pub(super) optional: bool,
    pub(super) refresh: bool,
    pub(super) session_info: bool,
    pub(super) scope: Option<Scope>,
    /// A required directive that this process cannot carry out, so that another level must (GEN-05).
    pub(super) beyond: Option<DirectiveError>,
}

impl Lookup {
    pub(crate) fn new(
        proc: Option<ProcId>,
        key: Option<KeyName>,
        directives: Directives,
    ) -> Result<Self, DirectiveError> {
        if directives.is_empty() {
            return Ok(Self::plain(proc, key));
        }
        let directives = without_memory_notions(directives)?;
        let mut known = directives.clone();
        let qualifiers = known.take_each(Info::is_qualifier);
        let name = key.as_ref().and_then(|key| QualifiedValue::name_of(key, &qualifiers).ok());
        let is_qualified = !qualifiers.is_empty();
        let optional = known.take_flag(&keys::OPTIONAL)?;
        let refresh = known.take_flag(&keys::GET_REFRESH_CACHE)?;
        if optional && refresh {
            return Err(DirectiveError::Contradiction { key: keys::OPTIONAL.key_name() });
        }
        let scope = known.take(&keys::DATA_SCOPE)?;
        let session_info = known.take_flag(&keys::SESSION_INFO)?;
        for flag in [&keys::IMMEDIATE, &keys::JOB_INFO, &keys::APP_INFO, &keys::NODE_INFO, &keys::PROC_INFO] {
            known.take_flag(flag)?;
        }
        for number in [&keys::SESSION_ID, &keys::APPNUM, &keys::NODEID] {
            known.take(number)?;
        }
        known.take(&keys::HOSTNAME)?;
        known.take(&keys::TIMEOUT)?;
        let beyond = known.deny_unprocessed().err();
        Ok(Self { proc, key, name, is_qualified, directives, optional, refresh, session_info, scope, beyond })
    }

    /// What an answer to it has brought, whoever it is that the question has named.
    pub(crate) fn all_of(&self, modex: &Modex) -> Vec<Info> {
        let entries = modex.procs.iter().flat_map(|data| &data.entries);
        entries.filter(|entry| is_in(entry, self.scope)).map(info).collect()
    }

    /// The value of its key in what an answer to it has brought.
    pub(crate) fn value_in(&self, modex: &Modex) -> Option<Value> {
        let name = self.name.as_ref()?;
        let mut entries = modex.procs.iter().flat_map(|data| &data.entries);
        entries
            .find(|entry| entry.key == *name && is_in(entry, self.scope))
            .map(|entry| entry.plain().clone())
    }

    /// Without directives, as most are.
    fn plain(proc: Option<ProcId>, key: Option<KeyName>) -> Self {
        Self {
            proc,
            name: key.clone(),
            key,
            is_qualified: false,
            directives: Directives::new(),
            optional: false,
            refresh: false,
            session_info: false,
            scope: None,
            beyond: None,
        }
    }

    pub(crate) const fn proc(&self) -> Option<&ProcId> {
        self.proc.as_ref()
    }

    pub(crate) const fn key(&self) -> Option<&KeyName> {
        self.key.as_ref()
    }

    pub(crate) const fn is_refresh(&self) -> bool {
        self.refresh
    }

    /// The same question to what this process holds by now.
    pub(crate) fn local(mut self) -> Self {
        self.optional = true;
        self.refresh = false;
        self.beyond = None;
        self
    }

    /// The question where no other level can be asked: all that is required must be carried out here.
    ///
    /// # Errors
    /// [`DirectiveError::Unsupported`] for a required directive that cannot be carried out here.
    pub(crate) fn last_level(self) -> Result<Self, DirectiveError> {
        match self.beyond {
            Some(beyond) => Err(beyond),
            None => Ok(self.local()),
        }
    }

    pub(super) fn request(&self, proc: ProcId) -> Get {
        let mut get = Get::new(proc, self.key.clone());
        get.directives = self.directives.clone();
        get
    }
}

/// `GET_STATIC_VALUES` and `GET_POINTER_VALUES` are about C memory: refused if required, else dropped
/// (GET-09).
fn without_memory_notions(mut directives: Directives) -> Result<Directives, DirectiveError> {
    for key in [&keys::GET_STATIC_VALUES, &keys::GET_POINTER_VALUES] {
        if directives.iter().any(|info| info.is(key) && info.is_required()) {
            return Err(DirectiveError::Unsupported { key: key.key_name() });
        }
        directives.remove(key);
    }
    Ok(directives)
}
