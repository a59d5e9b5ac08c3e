//! The one line that a starter hands a daemon on its standard input: never in arguments or the environment, which others
//! can read.
//!
//! The line of one daemon has its node and its token. A program that starts all daemons, and gives all the same input, has a
//! line for all: each knows its node from its environment, and makes its token of what the line has in that place.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pmix_host::Records;
use pmix_server::{NativeWire, Pmi1Wire};
use serde::{Deserialize, Serialize};

use super::trust::token_of;
use crate::traces::Traces;

/// Longest line.
pub(crate) const MAX_START_LINE: usize = 64 << 10;

/// What a daemon is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Addresses of the head, of which one can be reached.
    pub(crate) heads: Vec<SocketAddr>,
    /// The certificate of the session's authority, in base64 of DER.
    pub(crate) authority: String,
    /// The node of the daemon; `None` in a line for several.
    pub(crate) node: Option<String>,
    pub(crate) incarnation: u64,
    /// The token of the daemon; in a line for several, what each makes its own of.
    pub(crate) token: String,
    /// Milliseconds that processes have to end before they are killed.
    pub(crate) grace: u64,
    /// Milliseconds that what processes leave in the background may go on.
    pub(crate) linger: u64,
    /// Milliseconds without a sign of the head after which the daemon ends.
    pub(crate) head_grace: u64,
    /// Children of a node in the tree of an operation.
    pub(crate) tree_degree: usize,
    /// The directory for what the server has on record when a job fails; none if it is missing.
    pub(crate) record: Option<String>,
    /// The interface at which daemons listen; all if it is missing.
    pub(crate) interface: Option<String>,
    pub(crate) native: Native,
    pub(crate) pmi1: bool,
    /// Whether processes of other users run there.
    #[serde(default)]
    pub(crate) multi_user: bool,
    /// Whether the head may have a successor, for which the daemon waits.
    #[serde(default)]
    pub(crate) awaits_successor: bool,
    /// Whether fences are traced, and how.
    #[serde(default)]
    pub(crate) traces: Option<Traces>,
}

/// Which programs of the C library are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Native {
    Off,
    On,
    WithoutOpenMpi4,
}

impl From<NativeWire> for Native {
    fn from(wire: NativeWire) -> Self {
        match wire {
            NativeWire::Off => Self::Off,
            NativeWire::WithoutOpenMpi4 => Self::WithoutOpenMpi4,
            _ => Self::On,
        }
    }
}

impl Line {
    /// Its text, with the newline.
    pub(crate) fn text(&self) -> String {
        // a structure of plain fields can always be written
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// Reads it; `place` is where it comes from.
    ///
    /// # Errors
    /// What is wrong with it, without its text: it holds a secret.
    pub(crate) fn read(text: &str, place: &dyn Display) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err(format!(
                "there is no start line in {place}: pmixrun starts this program; `pmixd --head` starts a DVM"
            ));
        }
        let wrong = |error: serde_json::Error| {
            format!(
                "the start line in {place} cannot be read ({:?}): it is not from pmixrun",
                error.classify()
            )
        };
        serde_json::from_str(text).map_err(wrong)
    }

    /// The node that this line is for, and the token that it has: `here` is the node that the daemon is known to be on.
    ///
    /// # Errors
    /// It is for another node, or for several while it is not known which one this is.
    pub(crate) fn identity(&self, here: Option<&str>) -> Result<(String, String), String> {
        match (&self.node, here) {
            (Some(node), Some(here)) if node != here => {
                let [node, here] = [node, here].map(pmix_types::escaped);
                Err(format!("the start line is for node {node}, and this is {here}"))
            }
            (Some(node), _) => Ok((node.clone(), self.token.clone())),
            (None, Some(here)) => {
                let token = token_of(&self.token, here).map_err(|error| error.to_string())?;
                Ok((here.to_owned(), token))
            }
            (None, None) => Err("the start line is for several nodes: name this one by --node-from".into()),
        }
    }

    pub(crate) fn encode_authority(der: &[u8]) -> String {
        STANDARD.encode(der)
    }

    /// # Errors
    /// It is not base64.
    pub(crate) fn authority(&self) -> Result<Vec<u8>, String> {
        STANDARD.decode(&self.authority).map_err(|_| "the certificate of the session cannot be read".into())
    }

    pub(crate) const fn grace(&self) -> Duration {
        Duration::from_millis(self.grace)
    }

    pub(crate) const fn linger(&self) -> Duration {
        Duration::from_millis(self.linger)
    }

    pub(crate) const fn head_grace(&self) -> Duration {
        Duration::from_millis(self.head_grace)
    }

    pub(crate) fn records(&self) -> Records {
        self.record.as_ref().map_or(Records::Off, |directory| Records::Directory(directory.into()))
    }

    pub(crate) const fn native(&self) -> NativeWire {
        match self.native {
            Native::Off => NativeWire::Off,
            Native::On => NativeWire::On,
            Native::WithoutOpenMpi4 => NativeWire::WithoutOpenMpi4,
        }
    }

    pub(crate) const fn pmi1(&self) -> Pmi1Wire {
        if self.pmi1 { Pmi1Wire::Inherited } else { Pmi1Wire::Off }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_it_was_written_and_what_is_wrong_with_it_does_not_tell_the_token() {
        let line = Line {
            heads: vec!["10.0.0.1:7".parse().unwrap(), "[::1]:7".parse().unwrap()],
            authority: Line::encode_authority(&[1, 2, 3]),
            node: Some("n1\n".into()),
            incarnation: 1,
            token: "secret".into(),
            grace: 5000,
            linger: 60_000,
            head_grace: 30_000,
            tree_degree: 32,
            record: Some("/records".into()),
            interface: Some("eth0".into()),
            native: Native::WithoutOpenMpi4,
            pmi1: true,
            multi_user: true,
            awaits_successor: true,
            traces: Traces::given("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "/spans"),
        };
        let text = line.text();
        assert_eq!(text.matches('\n').count(), 1);
        assert_eq!(Line::read(&text, &"x").unwrap(), line);
        assert_eq!(line.authority().unwrap(), [1, 2, 3]);
        for wrong in [&text[..text.len() - 9], "\n", "secret\n"] {
            let error = Line::read(wrong, &"x").unwrap_err();
            assert!(!error.contains("secret") && !error.contains('\n'), "{error}");
        }
        let own = ("n1\n".to_owned(), "secret".to_owned());
        assert_eq!(line.identity(None), Ok(own.clone()));
        assert_eq!(line.identity(Some("n1\n")), Ok(own));
        let other = line.identity(Some("n2")).unwrap_err();
        assert_eq!(other, "the start line is for node n1\\n, and this is n2");
        let of_all = Line { node: None, ..line };
        let of_all = Line::read(&of_all.text(), &"x").unwrap();
        let n2 = ("n2".to_owned(), token_of("secret", "n2").unwrap());
        assert_eq!(of_all.identity(Some("n2")), Ok(n2));
        let error = of_all.identity(None).unwrap_err();
        assert!(error.contains("--node-from") && !error.contains("secret"), "{error}");
    }
}
