//! Describes a job for its registration.

use std::collections::BTreeMap;

use crate::map::{MapError, MapForm, NodeMap, Placement, ProcMap};
use crate::{Info, Key, Nspace, Rank, RankSet, TypedKey, Value, ValueType, keys};

/// A host's description of a job, which makes the infos for `register_nspace` with their arrays.
///
/// With a node map and a process map, everything that can be derived from them can be left out: sizes, peers, host
/// names, local ranks and so on.
///
/// # Examples
/// ```
/// use pmix_types::job::JobSpec;
/// use pmix_types::keys;
///
/// let infos = JobSpec::new("job-1".parse()?)
///     .node_map(["n0", "n1"])?
///     .proc_map("0-3;4-7")?
///     .session(42)
///     .info(keys::MAX_PROCS, 8u32)
///     .app_ranks(0, "0-5".parse()?)
///     .app_ranks(1, "6-7".parse()?)
///     .app_info(1, keys::APP_ARGV, "./solver -n 3")
///     .node_info("n1", keys::NODE_SIZE, 6u32)
///     .into_infos();
/// assert!(infos.iter().any(|info| info.is(keys::NODE_MAP)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct JobSpec {
    nspace: Nspace,
    node_map: Option<NodeMap>,
    proc_map: Option<ProcMap>,
    session: Option<u32>,
    session_infos: Vec<Info>,
    infos: Vec<Info>,
    apps: BTreeMap<u32, AppSpec>,
    nodes: BTreeMap<String, Vec<Info>>,
    procs: BTreeMap<Rank, Vec<Info>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct AppSpec {
    ranks: RankSet,
    infos: Vec<Info>,
}

impl JobSpec {
    /// A job with a name only.
    pub const fn new(nspace: Nspace) -> Self {
        Self {
            nspace,
            node_map: None,
            proc_map: None,
            session: None,
            session_infos: Vec::new(),
            infos: Vec::new(),
            apps: BTreeMap::new(),
            nodes: BTreeMap::new(),
            procs: BTreeMap::new(),
        }
    }

    /// The job's name.
    pub const fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    /// The job's nodes, by name.
    ///
    /// # Errors
    /// [`MapError`] for a name that is empty or has a comma in it.
    pub fn node_map<I>(self, names: I) -> Result<Self, MapError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Ok(self.nodes(NodeMap::from_names(names)?))
    }

    /// The ranks on each node in the order of the node map: `;` separates nodes, `,` separates ranks, `-` makes a
    /// range.
    ///
    /// # Errors
    /// [`MapError`] for any other text.
    pub fn proc_map(self, text: &str) -> Result<Self, MapError> {
        Ok(self.procs(ProcMap::parse(text.as_bytes())?))
    }

    /// The same number of consecutive ranks on each node.
    ///
    /// # Errors
    /// [`MapError`] if there are no nodes, or more ranks than a namespace can have.
    pub fn ranks_block(self, nodes: u32, per_node: u32) -> Result<Self, MapError> {
        Ok(self.procs(ProcMap::block(nodes, per_node)?))
    }

    /// The job's nodes, as an existing map.
    pub fn nodes(mut self, map: NodeMap) -> Self {
        self.node_map = Some(map);
        self
    }

    /// The ranks on each node, as an existing map.
    pub fn procs(mut self, map: ProcMap) -> Self {
        self.proc_map = Some(map);
        self
    }

    /// Id of the session the job runs in.
    pub const fn session(mut self, id: u32) -> Self {
        self.session = Some(id);
        self
    }

    /// A value of the session.
    pub fn session_info<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.session_infos.push(Info::new(key, value));
        self
    }

    /// A value of the job.
    pub fn info<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.infos.push(Info::new(key, value));
        self
    }

    /// An info that is registered unchanged: an array of the caller's own, or a key known only at run time.
    pub fn raw(mut self, info: Info) -> Self {
        self.infos.push(info);
        self
    }

    /// Adds ranks to an app. Not needed for a job of one app.
    pub fn app_ranks(mut self, number: u32, ranks: RankSet) -> Self {
        let app = self.apps.entry(number).or_default();
        app.ranks = app.ranks.union(&ranks);
        self
    }

    /// A value of an app.
    pub fn app_info<T: ValueType>(mut self, number: u32, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.apps.entry(number).or_default().infos.push(Info::new(key, value));
        self
    }

    /// A value of a node.
    pub fn node_info<T: ValueType>(
        mut self,
        hostname: impl Into<String>,
        key: impl TypedKey<T>,
        value: impl Into<T>,
    ) -> Self {
        self.nodes.entry(hostname.into()).or_default().push(Info::new(key, value));
        self
    }

    /// A value of a process.
    pub fn proc_info<T: ValueType>(mut self, rank: Rank, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.procs.entry(rank).or_default().push(Info::new(key, value));
        self
    }

    /// A value of a process whose type is not that of its key, or whose key is known only at run time.
    pub fn proc_value(mut self, rank: Rank, info: Info) -> Self {
        self.procs.entry(rank).or_default().push(info);
        self
    }

    /// The infos to register, with maps in their text form.
    pub fn into_infos(mut self) -> Vec<Info> {
        let mut infos = Vec::new();
        if let Some(map) = &self.node_map {
            infos.push(map_info(&keys::NODE_MAP, map.encode(MapForm::Pmix)));
        }
        if let Some(map) = &self.proc_map {
            infos.push(map_info(&keys::PROC_MAP, map.encode(MapForm::Pmix)));
        }
        match self.session {
            Some(id) => {
                self.session_infos.insert(0, Info::new(&keys::SESSION_ID, id));
                infos.push(array(&keys::SESSION_INFO_ARRAY, self.session_infos));
            }
            // an array would need the id
            None => infos.append(&mut self.session_infos),
        }
        infos.append(&mut self.infos);

        let placement = self.proc_map.as_ref().and_then(|map| Placement::new(map).ok());
        for (number, app) in self.apps {
            let mut inside = vec![Info::new(&keys::APPNUM, number)];
            match placement.as_ref().and_then(|placement| map_of(&app.ranks, placement)) {
                Some(map) => inside.push(map_info(&keys::PROC_MAP, map.encode(MapForm::Pmix))),
                None => {
                    for rank in &app.ranks {
                        self.procs.entry(rank).or_default().push(Info::new(&keys::APPNUM, number));
                    }
                }
            }
            inside.extend(app.infos);
            infos.push(array(&keys::APP_INFO_ARRAY, inside));
        }
        for (name, mut inside) in self.nodes {
            inside.insert(0, Info::new(&keys::HOSTNAME, name));
            infos.push(array(&keys::NODE_INFO_ARRAY, inside));
        }
        for (rank, mut inside) in self.procs {
            inside.insert(0, Info::new(&keys::RANK, rank));
            infos.push(array(&keys::PROC_INFO_ARRAY, inside));
        }
        infos
    }
}

/// The part of a placement that has these ranks; `None` if it does not have all of them, or there are none.
fn map_of(ranks: &RankSet, placement: &Placement) -> Option<ProcMap> {
    if ranks.is_empty() || !ranks.is_subset(&placement.all_ranks()) {
        return None;
    }
    let on_node = |node| placement.ranks_on(node).intersection(ranks).iter().collect::<Vec<_>>();
    ProcMap::from_nodes((0..placement.node_count()).map(on_node)).ok()
}

fn map_info(key: &Key<String>, encoded: Vec<u8>) -> Info {
    Info::dynamic(key.key_name(), Value::Regex(encoded.into()))
}

fn array(key: &Key<crate::DataArray>, infos: Vec<Info>) -> Info {
    Info::dynamic(key.key_name(), infos)
}
