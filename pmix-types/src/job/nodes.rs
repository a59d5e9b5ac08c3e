//! The nodes of a job that values were given for, and the ways to name them.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::map::NodeMap;
use crate::{Rank, RankSet, Value, keys};

use super::table::Table;
use super::{JobData, JobErrorKind, NodeRef, names};

/// Nodes with values of their own, in no order that means anything but always the same one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Nodes {
    entries: Vec<DescribedNode>,
    /// Entries by name and alias.
    by_name: BTreeMap<String, usize>,
    /// Entries by the id they were given.
    by_id: BTreeMap<u32, usize>,
}

/// A node as infos describe it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DescribedNode {
    pub(super) name: Option<String>,
    /// `NODEID` as given; `None` where the position in the node map does as well.
    pub(super) id: Option<u32>,
    /// Index in the node map.
    pub(super) position: Option<u32>,
    /// `LOCAL_PEERS` as given, read.
    pub(super) peers: Option<RankSet>,
    pub(super) values: Table,
}

impl DescribedNode {
    /// Adds a name that the node goes by, if anything is said of the node at all.
    pub(super) fn be_named(&mut self, name: &str) {
        match &self.name {
            Some(given) if given != name => self.add_alias(name),
            None if self.id.is_some() || !self.values.is_empty() => self.name = Some(name.to_owned()),
            _ => {}
        }
    }

    fn aliases(&self) -> impl Iterator<Item = &str> {
        let list = self.values.get(names::HOSTNAME_ALIASES).and_then(Value::as_str).unwrap_or_default();
        list.split(',').map(str::trim).filter(|alias| !alias.is_empty())
    }

    fn add_alias(&mut self, alias: &str) {
        if self.aliases().any(|known| known == alias) {
            return;
        }
        let list: Vec<_> = self.aliases().chain([alias]).collect();
        let list = list.join(",");
        self.values.set(keys::HOSTNAME_ALIASES.key_name(), Value::String(list));
    }

    /// Takes over what a newer description of the same node says.
    fn absorb(&mut self, newer: Self) {
        self.name = self.name.take().or(newer.name);
        self.id = newer.id.or(self.id);
        self.values.extend(newer.values);
    }

    fn find_place(&mut self, node_map: Option<&NodeMap>, node_count: Option<u32>) {
        let Some(node_map) = node_map else {
            // without names there is only the number to go by
            self.position = self.id.filter(|&id| node_count.is_some_and(|count| id < count));
            return;
        };
        let place = |name: &String| u32::try_from(node_map.position(name)?).ok();
        self.position = self.name.as_ref().and_then(place);
        if self.id == self.position {
            self.id = None;
        }
    }

    fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.name.as_ref().map_or(0, String::capacity)
            + self.peers.as_ref().map_or(0, |peers| peers.range_count() * size_of::<[u32; 2]>())
            + self.values.heap_bytes()
    }
}

impl Nodes {
    /// Joins descriptions, older ones first, so that there is one a node, however each names it.
    pub(super) fn join(
        entries: impl IntoIterator<Item = DescribedNode>,
        node_map: Option<&NodeMap>,
        node_count: Option<u32>,
    ) -> Result<Self, JobErrorKind> {
        let entries: Vec<_> = entries.into_iter().collect();
        let namer = Namer::new(&entries, node_map)?;
        let mut joined: BTreeMap<NodeKey, (DescribedNode, BTreeSet<String>)> = BTreeMap::new();
        for mut entry in entries {
            let given = entry.name.take();
            entry.name = namer.settle(given.as_deref(), entry.id);
            let key = match (&entry.name, entry.id) {
                (Some(name), _) => NodeKey::Name(name.clone()),
                (None, id) => NodeKey::Id(id),
            };
            let other_name = given.filter(|given| entry.name.as_ref() != Some(given));
            let (former, other_names) = joined.entry(key).or_default();
            former.absorb(entry);
            other_names.extend(other_name);
        }
        let entries = joined.into_values().map(|(mut entry, other_names)| {
            other_names.iter().for_each(|name| entry.add_alias(name));
            entry.find_place(node_map, node_count);
            entry
        });
        Ok(Self { entries: entries.collect(), ..Self::default() })
    }

    /// Works on each entry, drops those that say nothing any more, and makes the others findable.
    pub(super) fn finish(
        &mut self,
        mut work: impl FnMut(&mut DescribedNode) -> Result<(), JobErrorKind>,
    ) -> Result<(), JobErrorKind> {
        for entry in &mut self.entries {
            work(entry)?;
        }
        let named_only = |entry: &DescribedNode| entry.id.is_none() || entry.name.is_none();
        self.entries.retain(|entry| !(entry.values.is_empty() && named_only(entry)));
        self.entries.shrink_to_fit();
        self.index();
        Ok(())
    }

    fn index(&mut self) {
        for (at, entry) in self.entries.iter().enumerate() {
            for alias in entry.aliases() {
                self.by_name.entry(alias.to_owned()).or_insert(at);
            }
            if let Some(id) = entry.id {
                self.by_id.entry(id).or_insert(at);
            }
        }
        // a name goes before another node's alias
        for (at, entry) in self.entries.iter().enumerate() {
            if let Some(name) = &entry.name {
                self.by_name.insert(name.clone(), at);
            }
        }
    }

    pub(super) fn into_entries(self) -> Vec<DescribedNode> {
        self.entries
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, DescribedNode> {
        self.entries.iter()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let name = |name: &String| name.capacity() + size_of::<(String, usize)>();
        self.entries.iter().map(DescribedNode::heap_bytes).sum::<usize>()
            + self.by_name.keys().map(name).sum::<usize>()
            + self.by_id.len() * size_of::<(u32, usize)>()
    }

    fn by_name(&self, name: &str) -> Option<&DescribedNode> {
        self.entries.get(*self.by_name.get(name)?)
    }

    fn by_id(&self, id: u32) -> Option<&DescribedNode> {
        self.entries.get(*self.by_id.get(&id)?)
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum NodeKey {
    Name(String),
    Id(Option<u32>),
}

/// Finds the one name for each node among those it goes by.
struct Namer<'a> {
    node_map: Option<&'a NodeMap>,
    name_of_alias: HashMap<String, String>,
    name_of_id: HashMap<u32, String>,
    id_of_name: HashMap<String, u32>,
}

impl<'a> Namer<'a> {
    fn new(entries: &[DescribedNode], node_map: Option<&'a NodeMap>) -> Result<Self, JobErrorKind> {
        let mut namer = Self {
            node_map,
            name_of_alias: HashMap::new(),
            name_of_id: HashMap::new(),
            id_of_name: HashMap::new(),
        };
        for entry in entries {
            let Some(name) = &entry.name else { continue };
            let mut all = std::iter::once(name.as_str()).chain(entry.aliases());
            let name = all.find(|name| namer.is_mapped(name)).unwrap_or(name);
            for alias in entry.aliases().chain(entry.name.as_deref()).filter(|alias| *alias != name) {
                let known = namer.name_of_alias.entry(alias.to_owned()).or_insert_with(|| name.to_owned());
                // whichever comes first in the infos, the outcome is the same
                if name < known.as_str() {
                    name.clone_into(known);
                }
            }
        }
        for entry in entries {
            let (Some(name), Some(id)) = (&entry.name, entry.id) else { continue };
            let name = namer.name(name).to_owned();
            let former = namer.name_of_id.insert(id, name.clone());
            if let Some(former) = former.filter(|former| *former != name) {
                let (first, second) = if former < name { (former, name) } else { (name, former) };
                return Err(JobErrorKind::NodeIdTwice { id, first, second });
            }
            namer.id_of_name.insert(name, id);
        }
        Ok(namer)
    }

    /// The node's one name, if there is any to be found.
    fn settle(&self, given: Option<&str>, id: Option<u32>) -> Option<String> {
        match given {
            Some(given) => Some(self.name(given).to_owned()),
            None => self.name_by_id(id?),
        }
    }

    fn name<'b>(&'b self, given: &'b str) -> &'b str {
        if self.is_mapped(given) {
            return given;
        }
        self.name_of_alias.get(given).map_or(given, String::as_str)
    }

    fn name_by_id(&self, id: u32) -> Option<String> {
        if let Some(name) = self.name_of_id.get(&id) {
            return Some(name.clone());
        }
        let mapped = self.node_map?.get(id as usize)?;
        // a node with a number of its own does not go by its position
        (!self.id_of_name.contains_key(&mapped)).then_some(mapped)
    }

    fn is_mapped(&self, name: &str) -> bool {
        self.node_map.is_some_and(|map| map.position(name).is_some())
    }
}

/// A node found: by its entry, its place in the map, or at least a name.
#[derive(Debug)]
pub(super) struct Node<'a> {
    pub(super) entry: Option<&'a DescribedNode>,
    pub(super) position: Option<u32>,
    name: Option<Cow<'a, str>>,
}

impl Node<'_> {
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) fn id(&self) -> Option<u32> {
        self.entry.and_then(|entry| entry.id).or(self.position)
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        match (self.position, other.position) {
            (Some(first), Some(second)) => first == second,
            _ => match (self.entry, other.entry) {
                (Some(first), Some(second)) => std::ptr::eq(first, second),
                _ => self.name.is_some() && self.name == other.name,
            },
        }
    }
}

impl JobData {
    /// The node, if the job knows it.
    pub(super) fn node<'a>(&'a self, named: NodeRef<'a>) -> Option<Node<'a>> {
        match named {
            NodeRef::Name(name) => self.node_named(name),
            NodeRef::Id(id) => self.node_with_id(id),
            NodeRef::Of(rank) => self.node_of_rank(rank),
        }
    }

    /// The node of a process: by the process map, by what is said of the process, or by the `LOCAL_PEERS`
    /// of the nodes.
    pub(super) fn node_of_rank(&self, rank: Rank) -> Option<Node<'_>> {
        if let Some(position) = self.placement.as_ref().and_then(|placement| placement.node_of(rank)) {
            return Some(self.node_at(position));
        }
        let given = |key: &str| self.columns.get(key)?.get(rank);
        if let Some(name) = given(names::HOSTNAME).and_then(Value::as_str) {
            let unknown = || Node { entry: None, position: None, name: Some(name.into()) };
            return Some(self.node_named(name).unwrap_or_else(unknown));
        }
        if let Some(id) = given(names::NODEID).and_then(|value| value.get().ok()) {
            return self.node_with_id(id);
        }
        let host = |entry: &&DescribedNode| entry.peers.as_ref().is_some_and(|peers| peers.contains(rank));
        self.nodes.iter().find(host).map(|entry| self.node_of_entry(entry))
    }

    /// The job's ranks on a node.
    pub(super) fn ranks_on(&self, node: &Node<'_>) -> Option<RankSet> {
        let given = node.entry.and_then(|entry| entry.peers.clone());
        given.or_else(|| Some(self.placement.as_ref()?.ranks_on(node.position?)))
    }

    fn node_named<'a>(&'a self, name: &'a str) -> Option<Node<'a>> {
        if let Some(entry) = self.nodes.by_name(name) {
            return Some(self.node_of_entry(entry));
        }
        let position = self.node_map.as_ref()?.position(name)?;
        Some(Node { entry: None, position: u32::try_from(position).ok(), name: Some(name.into()) })
    }

    fn node_with_id(&self, id: u32) -> Option<Node<'_>> {
        if let Some(entry) = self.nodes.by_id(id) {
            return Some(self.node_of_entry(entry));
        }
        if id >= self.node_count()? {
            return None;
        }
        // a node with a number of its own does not go by its position
        Some(self.node_at(id)).filter(|node| node.id() == Some(id))
    }

    pub(super) fn node_at(&self, position: u32) -> Node<'_> {
        let name = self.node_map.as_ref().and_then(|map| map.get(position as usize));
        let entry = match &name {
            Some(name) => self.nodes.by_name(name),
            None => self.nodes.by_id(position),
        };
        let name = name.map(Cow::Owned).or_else(|| entry?.name.as_deref().map(Cow::Borrowed));
        Node { entry, position: Some(position), name }
    }

    fn node_of_entry<'a>(&self, entry: &'a DescribedNode) -> Node<'a> {
        Node { entry: Some(entry), position: entry.position, name: entry.name.as_deref().map(Cow::Borrowed) }
    }

    /// Number of nodes, by either map.
    pub(super) fn node_count(&self) -> Option<u32> {
        let listed = self.node_map.as_ref().and_then(|map| u32::try_from(map.len()).ok());
        listed.or_else(|| self.proc_map.as_ref().map(crate::map::ProcMap::node_count))
    }
}
