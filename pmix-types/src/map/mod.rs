//! Node maps, process maps and the placement of ranks on nodes.
//!
//! A [`NodeMap`] is an ordered list of node names, a [`ProcMap`] lists the ranks on each of them, and a [`Placement`]
//! answers questions about a process map in both directions: the node of a rank, and the ranks of a node. All three
//! stay compressed: their memory depends on the number of regular pieces in a job's layout, not on its nodes and
//! ranks.
//!
//! # Encoded forms
//! An encoded map starts with a tag that names its form, see [`MapForm`]:
//!
//! | Form | Node map | Process map |
//! | --- | --- | --- |
//! | `raw:` | `n1,n2,n3,login` | `0-3;4-7;8,10` |
//! | `pmix:` | `pmix[n[1:1-3],login]` | `pmix[0-3*2+4;8,10]` |
//! | `blob:` | binary, for this library only | binary, for this library only |
//!
//! The two text forms end with a NUL byte, which parsers do not require. Text without a tag is parsed as a plain list,
//! or as an expression if it starts with `pmix[`.
//!
//! In an expression, `prefix[width:first-last,...]suffix` stands for names that differ in one number,
//! written with `width` digits. For ranks, `first-last/step` is an arithmetic series (downwards if `last` is
//! lower), and `ranks*count+shift` stands for `count` nodes, each with ranks `shift` greater (after `-`:
//! less) than the node before.
//!
//! # Standard
//! Keys `NODE_MAP` and `PROC_MAP`, and the output of `generate_regex` and `generate_ppn`.

mod blob;
mod cursor;
mod error;
mod name_index;
mod node_builder;
mod node_map;
mod node_set;
mod node_text;
mod pieces;
mod placement;
mod proc_builder;
mod proc_map;
mod proc_text;
mod run;
mod template;
#[cfg(test)]
mod tests;

pub use error::MapError;
pub use node_map::{NodeMap, NodeNames};
pub use node_set::NodeSet;
pub use placement::Placement;
pub use proc_map::ProcMap;

use cursor::Cursor;

/// Maximum number of nodes in a map: far more than any cluster has. The limit keeps a few bytes of a peer from
/// expanding without bound.
pub const MAX_NODES: u32 = 1 << 24;

/// The encoded form of a map, named by its tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MapForm {
    /// `raw:` and the plain list. Every implementation must be able to read it.
    Raw,
    /// `pmix:` and a text expression, the shortest form that is readable for people.
    #[default]
    Pmix,
    /// `blob:`, a NUL byte and a compact binary that only this library reads.
    Blob,
}

/// The tag of a form is taken off, what follows is told apart.
enum Framed<'a> {
    Raw(Cursor<'a>),
    Pmix(Cursor<'a>),
    Blob { bytes: &'a [u8], at: usize },
}

impl<'a> Framed<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self, MapError> {
        const BLOB: &[u8] = blob::TAG;

        if bytes.starts_with(BLOB) {
            return Ok(Self::Blob { bytes, at: BLOB.len() });
        }
        let text = bytes.strip_suffix(b"\0").unwrap_or(bytes);
        let text = str::from_utf8(text).map_err(|error| MapError::NotUtf8 { at: error.valid_up_to() })?;
        Ok(match () {
            () if text.starts_with("raw:") => Self::Raw(Cursor::new(text, "raw:".len())),
            () if text.starts_with("pmix:") => Self::Pmix(Cursor::new(text, "pmix:".len())),
            () if text.starts_with("pmix[") => Self::Pmix(Cursor::new(text, 0)),
            () => Self::Raw(Cursor::new(text, 0)),
        })
    }
}

/// Puts a tag before a text and the NUL of a C string behind it.
fn tagged(tag: &str, text: &str) -> Vec<u8> {
    [tag.as_bytes(), text.as_bytes(), b"\0"].concat()
}
