use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::connect::User;
use super::uri::{ServerUri, UriError};

/// What a server writes into a file for tools to find it. The file wants mode 0640, and to be gone with its server:
/// a stale one makes tools fail.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs)]
pub struct Rendezvous {
    /// Where the server is.
    pub uri: ServerUri,
    /// Release of the server's library; `None` for one of 2.0.
    pub version: Option<String>,
    /// Process id of the server, if said.
    pub pid: Option<u32>,
    /// Who runs the server, if said.
    pub user: Option<User>,
    /// When it was started, as C's `ctime` writes it, if said.
    pub started: Option<String>,
}

/// A text that is not the content of a rendezvous file.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("first line: {0}")]
#[non_exhaustive]
pub struct RendezvousError(#[from] UriError);

/// Names of the files a server writes. All go below its temporary directory for the session, except the first.
pub mod file_names {
    use pmix_types::Nspace;

    /// Of the one server of the system, in the system's temporary directory.
    pub fn system(host: &str) -> String {
        format!("pmix.sys.{host}")
    }

    /// Of a session's server.
    pub fn session(host: &str) -> String {
        format!("pmix.{host}.tool")
    }

    /// Of a server for those who know its process id.
    pub fn by_pid(host: &str, pid: u32) -> String {
        format!("pmix.{host}.tool.{pid}")
    }

    /// Of a server for those who know its namespace.
    pub fn by_nspace(host: &str, nspace: &Nspace) -> String {
        format!("pmix.{host}.tool.{nspace}")
    }
}

impl Rendezvous {
    /// A file that only tells where the server is.
    pub const fn new(uri: ServerUri) -> Self {
        Self { uri, version: None, pid: None, user: None, started: None }
    }
}

impl FromStr for Rendezvous {
    type Err = RendezvousError;

    /// Reads the content of a file. Only the first line is needed; others are taken if they make sense.
    fn from_str(text: &str) -> Result<Self, RendezvousError> {
        let mut lines = text.lines();
        let uri = lines.next().unwrap_or_default().parse()?;
        let mut next = || lines.next().map(str::trim).filter(|line| !line.is_empty());
        Ok(Self {
            uri,
            version: next().map(str::to_owned),
            pid: next().and_then(|line| line.parse().ok()),
            user: next().and_then(parse_user),
            started: next().map(str::to_owned),
        })
    }
}

fn parse_user(line: &str) -> Option<User> {
    let (uid, gid) = line.split_once(':')?;
    Some(User { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
}

impl fmt::Display for Rendezvous {
    /// The content of the file, up to the first line that is not known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.uri)?;
        let Some(version) = &self.version else { return Ok(()) };
        writeln!(f, "{version}")?;
        let Some(pid) = self.pid else { return Ok(()) };
        writeln!(f, "{pid}")?;
        let Some(user) = self.user else { return Ok(()) };
        writeln!(f, "{}:{}", user.uid, user.gid)?;
        let Some(started) = &self.started else { return Ok(()) };
        writeln!(f, "{started}\n")
    }
}

pmix_types::message_first!(RendezvousError);

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "prte-vm-7754@0.0;tcp4://127.0.0.1:58679\n5.0.11rc1\n7754\n0:0\nSat Nov 21 08:01:56 2026\n\n";

    #[test]
    fn files_come_back() {
        let parsed: Rendezvous = FILE.parse().unwrap();
        assert_eq!(parsed.version.as_deref(), Some("5.0.11rc1"));
        assert_eq!((parsed.pid, parsed.user), (Some(7754), Some(User { uid: 0, gid: 0 })));
        assert_eq!(parsed.to_string(), FILE);
    }

    #[test]
    fn only_the_first_line_is_needed() {
        let parsed: Rendezvous = FILE.lines().next().unwrap().parse().unwrap();
        assert_eq!(parsed, Rendezvous::new(parsed.uri.clone()));
        assert_eq!(parsed.to_string().parse(), Ok(parsed));
        assert!("".parse::<Rendezvous>().is_err());
    }

    #[test]
    fn names_hold_host_and_what_is_known() {
        assert_eq!(file_names::system("vm"), "pmix.sys.vm");
        assert_eq!(file_names::session("vm"), "pmix.vm.tool");
        assert_eq!(file_names::by_pid("vm", 7), "pmix.vm.tool.7");
        assert_eq!(file_names::by_nspace("vm", &"a.b".parse().unwrap()), "pmix.vm.tool.a.b");
    }
}
