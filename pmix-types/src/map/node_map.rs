//! The ordered list of a job's nodes.

use std::fmt;
use std::iter::FusedIterator;

use super::blob;
use super::name_index::NameIndex;
use super::node_builder::NodeMapBuilder;
use super::template::Template;
use super::{Framed, MapError, MapForm, node_text, tagged};

/// An ordered list of node names, kept compressed: consecutive names, such as `node001` to `node999`, take the memory
/// of one.
///
/// Order and duplicates are preserved. A name is any text without commas and NUL; it is not trimmed. Two maps are equal
/// if they list the same names.
///
/// # Examples
/// ```
/// use pmix_types::map::{MapForm, NodeMap};
///
/// let nodes = NodeMap::from_names(["node08", "node09", "node10", "login"])?;
/// assert_eq!(nodes.len(), 4);
/// assert_eq!(nodes.get(2).as_deref(), Some("node10"));
/// assert_eq!(nodes.position("login"), Some(3));
///
/// let bytes = nodes.encode(MapForm::Pmix);
/// assert_eq!(bytes, b"pmix:pmix[node[2:8-10],login]\0");
/// assert_eq!(NodeMap::parse(&bytes)?, nodes);
/// # Ok::<(), pmix_types::map::MapError>(())
/// ```
///
/// # Standard
/// Value of `NODE_MAP`; `parse` and `encode` do the work of `generate_regex` and its inverse.
#[doc(alias = "PMIx_generate_regex")]
#[doc(alias = "PMIX_NODE_MAP")]
#[derive(Clone)]
pub struct NodeMap {
    pub(super) templates: Box<[Template]>,
    pub(super) runs: Box<[Run]>,
    pub(super) index: NameIndex,
    pub(super) len: u32,
}

/// Names that follow each other in the list and count up from `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) template: u32,
    /// Index of the first name; the run ends where the next one starts.
    pub(super) offset: u32,
    pub(super) first: u64,
}

impl Run {
    /// Names in run number `at` of a list of `len` names.
    pub(super) fn count(runs: &[Self], at: usize, len: u32) -> u32 {
        runs.get(at + 1).map_or(len, |next| next.offset) - runs[at].offset
    }
}

impl NodeMap {
    /// Compresses a list of names.
    ///
    /// # Errors
    /// [`MapError::EmptyName`] and [`MapError::NameCharacter`] for names that a list cannot contain,
    /// [`MapError::TooManyNodes`].
    pub fn from_names<I>(names: I) -> Result<Self, MapError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let mut builder = NodeMapBuilder::default();
        let mut at = 0;
        for name in names {
            let name = name.as_ref();
            builder.push_name(name, at)?;
            at += name.len() + 1;
        }
        Ok(builder.finish())
    }

    /// Parses any of the [encoded forms](super#encoded-forms), or a plain comma-separated list without a tag. Empty
    /// input is an empty list.
    ///
    /// The memory taken is bounded by the length of the input, not by the number of nodes it stands for.
    ///
    /// # Errors
    /// [`MapError`], with the position.
    #[doc(alias = "PMIx_parse_regex2")]
    pub fn parse(bytes: &[u8]) -> Result<Self, MapError> {
        match Framed::open(bytes)? {
            Framed::Raw(text) => node_text::parse_list(text),
            Framed::Pmix(text) => node_text::parse_expression(text),
            Framed::Blob { bytes, at } => blob::parse_nodes(bytes, at),
        }
    }

    /// Parses a plain comma-separated list only: what looks like a tag is part of the first name.
    ///
    /// # Errors
    /// Those of [`from_names`](Self::from_names).
    ///
    /// # Standard
    /// Value of `NODE_MAP_RAW`.
    #[doc(alias = "PMIX_NODE_MAP_RAW")]
    pub fn from_raw(list: &str) -> Result<Self, MapError> {
        node_text::parse_list(super::Cursor::new(list, 0))
    }

    /// The names as a plain comma-separated list. Its length grows with the number of nodes.
    ///
    /// # Standard
    /// Value of `NODE_MAP_RAW`.
    pub fn to_raw(&self) -> String {
        node_text::list(self)
    }

    /// The map in the given form, tag first. Text ends with a NUL.
    ///
    /// An expression cannot contain names with square brackets: for such a map, [`MapForm::Pmix`] writes the
    /// [raw](MapForm::Raw) form.
    #[doc(alias = "PMIx_generate_regex2")]
    pub fn encode(&self, form: MapForm) -> Vec<u8> {
        match form {
            MapForm::Pmix if !node_text::has_brackets(self) => tagged("pmix:", &node_text::expression(self)),
            MapForm::Raw | MapForm::Pmix => tagged("raw:", &self.to_raw()),
            MapForm::Blob => blob::nodes(self),
        }
    }

    /// Number of nodes, including duplicates.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// True if there is no node.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Name of the node at `index`.
    pub fn get(&self, index: usize) -> Option<String> {
        let offset = u32::try_from(index).ok().filter(|&offset| offset < self.len)?;
        let at = self.runs.partition_point(|run| run.offset <= offset) - 1;
        Some(self.name(at, offset))
    }

    /// Index of the first node with this name.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.index.position(&self.templates, &self.runs, name)
    }

    /// The names in order, each created on demand.
    pub fn iter(&self) -> NodeNames<'_> {
        NodeNames { map: self, run: 0, next: 0 }
    }

    /// Number of pieces that the list consists of, which determines its memory and the length of an expression.
    pub fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Approximate size of the memory that the map holds on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let texts: usize = self.templates.iter().map(Template::heap_bytes).sum();
        texts + size_of_val(&*self.templates) + size_of_val(&*self.runs) + self.index.heap_bytes()
    }

    /// The runs as template, first number and count of names.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (&Template, u64, u32)> {
        self.runs.iter().enumerate().map(|(at, run)| {
            (&self.templates[run.template as usize], run.first, Run::count(&self.runs, at, self.len))
        })
    }

    fn name(&self, run: usize, offset: u32) -> String {
        let run = &self.runs[run];
        let template = &self.templates[run.template as usize];
        let mut name = String::with_capacity(template.name_len());
        template.write(run.first + u64::from(offset - run.offset), &mut name);
        name
    }
}

impl Default for NodeMap {
    fn default() -> Self {
        NodeMapBuilder::default().finish()
    }
}

impl PartialEq for NodeMap {
    fn eq(&self, other: &Self) -> bool {
        // the same list may have come in other runs
        self.len == other.len
            && (self.templates == other.templates && self.runs == other.runs || self.iter().eq(other))
    }
}

impl Eq for NodeMap {}

/// Shows the compressed form.
impl fmt::Debug for NodeMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeMap({} nodes, {})", self.len, node_text::expression(self))
    }
}

impl<'a> IntoIterator for &'a NodeMap {
    type Item = String;
    type IntoIter = NodeNames<'a>;

    fn into_iter(self) -> NodeNames<'a> {
        self.iter()
    }
}

/// The names of a [`NodeMap`] in order.
#[derive(Clone, Debug)]
pub struct NodeNames<'a> {
    map: &'a NodeMap,
    run: usize,
    next: u32,
}

impl Iterator for NodeNames<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        if self.next == self.map.len {
            return None;
        }
        if self.map.runs.get(self.run + 1).is_some_and(|run| run.offset == self.next) {
            self.run += 1;
        }
        self.next += 1;
        Some(self.map.name(self.run, self.next - 1))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.map.len - self.next) as usize;
        (left, Some(left))
    }
}

impl ExactSizeIterator for NodeNames<'_> {}

impl FusedIterator for NodeNames<'_> {}
