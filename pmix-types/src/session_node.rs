//! The nodes of a session, as the answer to `QUERY_ALLOCATION`.

use crate::why::{push, read, rows};
use crate::{DataArray, DataType, Info, Key, Value, keys};

const MACHINE: Key<String> = Key::new("rs.pmix.node.machine", DataType::STRING);
const PROCESSORS: Key<u32> = Key::new("rs.pmix.node.processors", DataType::UINT32);
const LOST: Key<String> = Key::new("rs.pmix.node.lost", DataType::STRING);
const DRAINS: Key<bool> = Key::new("rs.pmix.node.drains", DataType::BOOL);

/// A node on which jobs may run, as its resource manager sees it.
///
/// The value of [`QUERY_ALLOCATION`](keys::QUERY_ALLOCATION) has an array for each node, under the key `NODE_INFO`: its `HOSTNAME`
/// first, then its `NUM_SLOTS` and `NODE_SIZE`. Only servers of this family add the other fields, under keys of our own that begin with
/// `rs.pmix.node.`.
///
/// # Examples
/// ```
/// use pmix_types::SessionNode;
///
/// let mut node = SessionNode::new("n1");
/// (node.slots, node.lost) = (Some(8), Some("its daemon has ended".into()));
/// assert_eq!(SessionNode::read_all(&SessionNode::write_all([&node])), [node]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct SessionNode {
    /// Its name; `node` in JSON.
    #[cfg_attr(feature = "serde", serde(rename = "node"))]
    pub name: String,
    /// The machine it is on, which other nodes may share.
    pub machine: Option<String>,
    /// The processors of that machine that may be used.
    pub processors: Option<u32>,
    /// How many processes of a job it takes; `None` if any number, or if not known.
    pub slots: Option<u32>,
    /// How many processes of all jobs run there.
    pub procs: Option<u32>,
    /// Why it is lost; `None` while it can be reached.
    pub lost: Option<String>,
    /// Whether it takes no further jobs, and leaves when those that run there have ended.
    pub drains: bool,
}

impl SessionNode {
    /// A node of which nothing but the name is known yet.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// The nodes in a value of [`QUERY_ALLOCATION`](keys::QUERY_ALLOCATION); none in any other value. Nodes without a name are
    /// left out, and fields that cannot be read are empty.
    #[must_use]
    pub fn read_all(value: &Value) -> Vec<Self> {
        rows(value)
            .filter_map(|fields| {
                Some(Self {
                    name: read(&fields, &keys::HOSTNAME)?,
                    machine: read(&fields, &MACHINE),
                    processors: read(&fields, &PROCESSORS),
                    slots: read(&fields, &keys::NUM_SLOTS).or_else(|| read(&fields, &keys::MAX_PROCS)),
                    procs: read(&fields, &keys::NODE_SIZE),
                    lost: read(&fields, &LOST),
                    drains: read(&fields, &DRAINS).unwrap_or_default(),
                })
            })
            .collect()
    }

    /// The value of [`QUERY_ALLOCATION`](keys::QUERY_ALLOCATION) for all of these.
    #[must_use]
    pub fn write_all<'a>(nodes: impl IntoIterator<Item = &'a Self>) -> Value {
        let row = |node: &Self| Info::dynamic(keys::NODE_INFO.key_name(), DataArray::Info(node.fields()));
        DataArray::Info(nodes.into_iter().map(row).collect()).into()
    }

    fn fields(&self) -> Vec<Info> {
        let mut fields = vec![Info::new(&keys::HOSTNAME, self.name.as_str())];
        push(&mut fields, &keys::NUM_SLOTS, self.slots);
        push(&mut fields, &keys::NODE_SIZE, self.procs);
        push(&mut fields, &MACHINE, self.machine.clone());
        push(&mut fields, &PROCESSORS, self.processors);
        push(&mut fields, &LOST, self.lost.clone());
        push(&mut fields, &DRAINS, self.drains.then_some(true));
        fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_as_they_were_written_and_in_the_form_of_others() {
        let mut whole = SessionNode::new("n0");
        (whole.machine, whole.processors) = (Some("m".into()), Some(64));
        (whole.slots, whole.procs, whole.lost) = (Some(8), Some(3), Some("cut off".into()));
        whole.drains = true;
        let written = SessionNode::write_all([&whole, &SessionNode::new("n1")]);
        assert_eq!(SessionNode::read_all(&written), [whole, SessionNode::new("n1")]);
        // the name comes first, as C tools expect
        let rows = written.as_infos().unwrap();
        assert!(rows.iter().all(|row| *row.key == *keys::NODE_INFO.name()));
        assert!(rows.iter().all(|row| row.value.as_infos().unwrap()[0].is(&keys::HOSTNAME)));
        // another name of the slots, an unknown key, and a node without a name
        let of_others = |infos| Info::dynamic(keys::NODE_INFO.key_name(), DataArray::Info(infos));
        let value = DataArray::Info(vec![
            of_others(vec![Info::new(&keys::HOSTNAME, "n2"), Info::new(&keys::MAX_PROCS, 4_u32)]),
            of_others(vec![Info::new(&keys::NUM_SLOTS, 4_u32)]),
        ]);
        let mut other = SessionNode::new("n2");
        other.slots = Some(4);
        assert_eq!(SessionNode::read_all(&value.into()), [other]);
        assert_eq!(SessionNode::read_all(&"n0".into()), []);
    }
}
