//! Sorts the infos of a registration by what they belong to. Changes no job data.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use crate::map::{MapError, NodeMap, ProcMap};
use crate::{Info, KeyName, KeyVal, Nspace, ProcId, Rank, Realm, Value, ValueType, keys};

use super::nodes::DescribedNode;
use super::target::home_of;
use super::types::check_type;
use super::{JobErrorKind, names};

/// How deep arrays may lie inside each other. A session of jobs of apps of nodes of processes is five deep.
const MAX_DEPTH: usize = 16;

/// The contents of a list of infos, sorted, in the order given.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) node_map: Option<NodeMap>,
    pub(super) proc_map: Option<ProcMap>,
    pub(super) session_id: Option<u32>,
    pub(super) session: Vec<KeyVal>,
    pub(super) job: Vec<KeyVal>,
    /// Values of an app that do not say of which.
    pub(super) some_app: Vec<KeyVal>,
    pub(super) apps: BTreeMap<u32, Vec<KeyVal>>,
    /// Nodes as a session describes them: what is said elsewhere goes before it.
    pub(super) session_nodes: Vec<DescribedNode>,
    pub(super) nodes: Vec<DescribedNode>,
    /// Values of the node where the registration happens.
    pub(super) local_node: DescribedNode,
    pub(super) columns: HashMap<KeyName, Vec<(Rank, Value)>>,
    pub(super) app_of_rank: Vec<(Rank, u32)>,
}

/// Reads infos as they are given to `register_nspace`.
pub(super) fn read(nspace: &Nspace, infos: &[Info]) -> Result<Draft, JobErrorKind> {
    let mut reader = Reader { nspace, draft: Draft::default() };
    reader.level(infos, Level::Job, 0)?;
    Ok(reader.draft)
}

/// What the values of an array belong to.
#[derive(Clone, Copy)]
enum Level {
    /// The job, or whatever the realm of each key says.
    Job,
    Session,
    App(u32),
    /// Index among the nodes of the draft.
    Node(NodeSlot),
    Proc(Rank),
    /// Another job of the session.
    Other,
}

#[derive(Clone, Copy)]
enum NodeSlot {
    /// Of the nodes described inside a session.
    Session(usize),
    /// Of all others.
    Job(usize),
    /// Of an app: only what is true of the node as such.
    App(usize),
}

struct Reader<'a> {
    nspace: &'a Nspace,
    draft: Draft,
}

impl Reader<'_> {
    fn level(&mut self, infos: &[Info], level: Level, depth: usize) -> Result<(), JobErrorKind> {
        if depth > MAX_DEPTH {
            return Err(JobErrorKind::TooDeep { limit: MAX_DEPTH });
        }
        for info in infos {
            match self.level_inside(info, level)? {
                // it is checked like this one, and registered by itself
                Some(Level::Other) => self.other_job(array_of(info)?, depth + 1)?,
                Some(inner) => self.level(array_of(info)?, inner, depth + 1)?,
                None => self.file(info, level)?,
            }
        }
        Ok(())
    }

    /// What the array in `info` describes; `None` if this is not such an array.
    fn level_inside(&mut self, info: &Info, outer: Level) -> Result<Option<Level>, JobErrorKind> {
        let unnamed = |needs| JobErrorKind::Unnamed { array: info.key.clone(), needs };
        Ok(Some(match info.key.as_str() {
            names::SESSION_INFO_ARRAY => {
                typed_in::<u32>(array_of(info)?, names::SESSION_ID)?.ok_or_else(|| unnamed("SESSION_ID"))?;
                Level::Session
            }
            names::JOB_INFO_ARRAY => match typed_in::<String>(array_of(info)?, names::NSPACE)? {
                Some(job) if matches!(outer, Level::Session) && *self.nspace != *job => Level::Other,
                _ => Level::Job,
            },
            names::APP_INFO_ARRAY => {
                let number = typed_in(array_of(info)?, names::APPNUM)?.ok_or_else(|| unnamed("APPNUM"))?;
                self.draft.apps.entry(number).or_default();
                Level::App(number)
            }
            names::NODE_INFO_ARRAY => {
                let infos = array_of(info)?;
                let node = DescribedNode {
                    name: typed_in(infos, names::HOSTNAME)?,
                    id: typed_in(infos, names::NODEID)?,
                    ..DescribedNode::default()
                };
                if node.name.is_none() && node.id.is_none() {
                    return Err(unnamed("HOSTNAME or NODEID"));
                }
                Level::Node(self.add_node(node, outer))
            }
            names::PROC_INFO_ARRAY => {
                Level::Proc(self.rank_in(array_of(info)?)?.ok_or_else(|| unnamed("RANK"))?)
            }
            _ => return Ok(None),
        }))
    }

    fn add_node(&mut self, node: DescribedNode, outer: Level) -> NodeSlot {
        let (nodes, slot): (_, fn(usize) -> NodeSlot) = match outer {
            Level::Session => (&mut self.draft.session_nodes, NodeSlot::Session),
            Level::App(_) => (&mut self.draft.nodes, NodeSlot::App),
            _ => (&mut self.draft.nodes, NodeSlot::Job),
        };
        nodes.push(node);
        slot(nodes.len() - 1)
    }

    fn rank_in(&self, infos: &[Info]) -> Result<Option<Rank>, JobErrorKind> {
        let rank = typed_in::<Rank>(infos, names::RANK)?;
        let Some(proc) = typed_in::<ProcId>(infos, names::PROCID)? else {
            return rank.map(|rank| one_rank(&keys::RANK.key_name(), rank)).transpose();
        };
        self.check_nspace(&keys::PROCID.key_name(), &proc.nspace)?;
        match rank {
            Some(rank) if rank != proc.rank => {
                Err(contradiction(&keys::RANK.key_name(), rank.to_string(), proc.rank.to_string()))
            }
            _ => one_rank(&keys::PROCID.key_name(), proc.rank).map(Some),
        }
    }

    /// Files a single value.
    fn file(&mut self, info: &Info, level: Level) -> Result<(), JobErrorKind> {
        check_type(info)?;
        match level {
            Level::Job => self.file_by_realm(info),
            Level::Session => self.file_in_session(info),
            Level::App(number) => self.file_in_app(info, number),
            Level::Node(slot) => {
                self.file_in_node(info, slot);
                Ok(())
            }
            Level::Proc(rank) => self.file_in_proc(info, rank),
            Level::Other => Ok(()),
        }
    }

    fn other_job(&self, infos: &[Info], depth: usize) -> Result<(), JobErrorKind> {
        let Some(name) = typed_in::<String>(infos, names::NSPACE)? else { return Ok(()) };
        let nspace = Nspace::new(name.as_str())
            .map_err(|_| JobErrorKind::OtherNspace { key: keys::NSPACE.text().key_name(), found: name })?;
        Reader { nspace: &nspace, draft: Draft::default() }.level(infos, Level::Job, depth)
    }

    fn file_by_realm(&mut self, info: &Info) -> Result<(), JobErrorKind> {
        match info.key.as_str() {
            names::NODE_MAP | names::NODE_MAP_RAW => return self.set_node_map(info),
            names::PROC_MAP | names::PROC_MAP_RAW => return self.set_proc_map(info),
            names::SESSION_ID => return self.set_session_id(info),
            names::NSPACE => return self.check_nspace(&info.key, &typed::<String>(info)?),
            names::HOSTNAME => self.draft.local_node.name = Some(typed(info)?),
            names::NODEID => self.draft.local_node.id = Some(typed(info)?),
            // a directive of the call, nothing to know about the job
            names::REGISTER_NODATA => {}
            key => match home_of(key) {
                Realm::Session => self.draft.session.push(pair(info)),
                Realm::App => self.draft.some_app.push(pair(info)),
                Realm::Node => self.draft.local_node.values.set(info.key.clone(), info.value.clone()),
                _ => self.draft.job.push(pair(info)),
            },
        }
        Ok(())
    }

    fn file_in_session(&mut self, info: &Info) -> Result<(), JobErrorKind> {
        match info.key.as_str() {
            names::SESSION_ID => return self.set_session_id(info),
            // kept as it was given, if it can be read
            names::NODE_MAP | names::NODE_MAP_RAW => drop(parse_node_map(&info.key, &info.value)?),
            _ => {}
        }
        self.draft.session.push(pair(info));
        Ok(())
    }

    fn file_in_app(&mut self, info: &Info, number: u32) -> Result<(), JobErrorKind> {
        if !info.is(&keys::APPNUM) {
            self.draft.apps.entry(number).or_default().push(pair(info));
        }
        Ok(())
    }

    fn file_in_node(&mut self, info: &Info, slot: NodeSlot) {
        let (nodes, at) = match slot {
            NodeSlot::Session(at) => (&mut self.draft.session_nodes, at),
            // how many of an app's processes are on the node is not what the job asks its node
            NodeSlot::App(_) if Realm::default_for(&info.key) != Realm::Node => return,
            NodeSlot::Job(at) | NodeSlot::App(at) => (&mut self.draft.nodes, at),
        };
        if matches!(info.key.as_str(), names::HOSTNAME | names::NODEID) {
            return;
        }
        if let Some(node) = nodes.get_mut(at) {
            node.values.set(info.key.clone(), info.value.clone());
        }
    }

    fn file_in_proc(&mut self, info: &Info, rank: Rank) -> Result<(), JobErrorKind> {
        match info.key.as_str() {
            names::RANK | names::PROCID => return Ok(()),
            names::NSPACE => return self.check_nspace(&info.key, &typed::<String>(info)?),
            names::APPNUM => {
                self.draft.app_of_rank.push((rank, typed(info)?));
                return Ok(());
            }
            names::HOSTNAME => drop(typed::<String>(info)?),
            names::NODEID => drop(typed::<u32>(info)?),
            _ => {}
        }
        match self.draft.columns.get_mut(info.key.as_str()) {
            Some(column) => column.push((rank, info.value.clone())),
            None => drop(self.draft.columns.insert(info.key.clone(), vec![(rank, info.value.clone())])),
        }
        Ok(())
    }

    fn set_session_id(&mut self, info: &Info) -> Result<(), JobErrorKind> {
        let id = typed::<u32>(info)?;
        match self.draft.session_id.replace(id) {
            Some(former) if former != id => {
                Err(contradiction(&info.key, former.min(id).to_string(), former.max(id).to_string()))
            }
            _ => Ok(()),
        }
    }

    fn set_node_map(&mut self, info: &Info) -> Result<(), JobErrorKind> {
        let map = parse_node_map(&info.key, &info.value)?;
        match self.draft.node_map.replace(map.clone()) {
            Some(former) if former != map => Err(contradiction(
                &keys::NODE_MAP.key_name(),
                format!("a list of {} nodes", former.len()),
                format!("another list of {} nodes", map.len()),
            )),
            _ => Ok(()),
        }
    }

    fn set_proc_map(&mut self, info: &Info) -> Result<(), JobErrorKind> {
        let map = parse_proc_map(&info.key, &info.value)?;
        match self.draft.proc_map.replace(map.clone()) {
            Some(former) if former != map => Err(contradiction(
                &keys::PROC_MAP.key_name(),
                format!("a list of {} ranks", former.rank_count()),
                format!("another list of {} ranks", map.rank_count()),
            )),
            _ => Ok(()),
        }
    }

    fn check_nspace(&self, key: &KeyName, found: &str) -> Result<(), JobErrorKind> {
        if *self.nspace == found {
            return Ok(());
        }
        Err(JobErrorKind::OtherNspace { key: key.clone(), found: found.to_owned() })
    }
}

/// Reads a node map in any type it may come in.
pub(super) fn parse_node_map(key: &KeyName, value: &Value) -> Result<NodeMap, JobErrorKind> {
    let bytes = map_bytes(key, value)?;
    let map = if *key == *names::NODE_MAP_RAW {
        plain_text(&bytes).and_then(NodeMap::from_raw)
    } else {
        NodeMap::parse(&bytes)
    };
    map.map_err(|source| JobErrorKind::Map { key: key.clone(), source })
}

/// Reads a process map in any type it may come in.
pub(super) fn parse_proc_map(key: &KeyName, value: &Value) -> Result<ProcMap, JobErrorKind> {
    let bytes = map_bytes(key, value)?;
    let map = if *key == *names::PROC_MAP_RAW {
        plain_text(&bytes).and_then(ProcMap::from_raw)
    } else {
        ProcMap::parse(&bytes)
    };
    map.map_err(|source| JobErrorKind::Map { key: key.clone(), source })
}

fn plain_text(bytes: &[u8]) -> Result<&str, MapError> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    str::from_utf8(bytes).map_err(|error| MapError::NotUtf8 { at: error.valid_up_to() })
}

/// The encoded map, tag first.
fn map_bytes<'a>(key: &KeyName, value: &'a Value) -> Result<Cow<'a, [u8]>, JobErrorKind> {
    let bytes = match value {
        Value::Regex2(map) => {
            let tag = [map.encoding.as_bytes(), b":"].concat();
            let tagged = map.encoding.is_empty() || map.bytes.starts_with(&tag);
            return Ok(if tagged {
                Cow::Borrowed(&map.bytes)
            } else {
                Cow::Owned([&tag, &*map.bytes].concat())
            });
        }
        value => value.as_str().map(str::as_bytes).or_else(|| value.as_bytes().map(|bytes| &**bytes)),
    };
    let needs = "text, an encoded map or bytes";
    bytes.map(Cow::Borrowed).ok_or_else(|| JobErrorKind::Type { key: key.clone(), needs })
}

fn array_of(info: &Info) -> Result<&[Info], JobErrorKind> {
    match info.value.as_array() {
        Some(array) if array.is_empty() => Ok(&[]),
        _ => info
            .value
            .as_infos()
            .ok_or_else(|| JobErrorKind::Type { key: info.key.clone(), needs: "an array of infos" }),
    }
}

fn typed<T: ValueType>(info: &Info) -> Result<T, JobErrorKind> {
    info.get().map_err(|source| JobErrorKind::Value { key: info.key.clone(), source })
}

/// The value of a key in an array. Of several the last one counts, as everywhere.
fn typed_in<T: ValueType>(infos: &[Info], key: &str) -> Result<Option<T>, JobErrorKind> {
    infos.iter().rfind(|info| *info.key == *key).map(typed).transpose()
}

fn one_rank(key: &KeyName, rank: Rank) -> Result<Rank, JobErrorKind> {
    if rank.is_valid() { Ok(rank) } else { Err(JobErrorKind::NotARank { key: key.clone(), rank }) }
}

fn contradiction(key: &KeyName, first: String, second: String) -> JobErrorKind {
    JobErrorKind::Contradiction { key: key.clone(), first, second }
}

fn pair(info: &Info) -> KeyVal {
    KeyVal { key: info.key.clone(), value: info.value.clone() }
}
