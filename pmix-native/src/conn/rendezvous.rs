use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::connect::User;
use super::uri::{ServerUri, UriError};

/// The contents of a rendezvous file, by which tools find a server. Create the file with mode 0640, and remove it when the
/// server ends: a stale file makes tools fail.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rendezvous {
    /// Address of the server.
    pub uri: ServerUri,
    /// Release of the server's library; `None` for one of 2.0.
    pub version: Option<String>,
    /// Process id of the server, if known.
    pub pid: Option<u32>,
    /// User of the server, if known.
    pub user: Option<User>,
    /// Start time in the format of C's `ctime`, if known.
    pub started: Option<String>,
}

/// A text that is not a rendezvous file.
#[derive(Clone, PartialEq, Eq, Error)]
#[error("first line: {0}")]
#[non_exhaustive]
pub struct RendezvousError(#[from] UriError);

pmix_types::statuses! {
    RendezvousError, "`ERR_BAD_PARAM`", |this| this.0.status();
}

/// Names of the files that a server writes. All except the first belong in its temporary directory for the session.
pub mod file_names {
    use pmix_types::Nspace;

    /// The file of the system server, in the system's temporary directory.
    pub fn system(host: &str) -> String {
        format!("pmix.sys.{host}")
    }

    /// The file of a session's server.
    pub fn session(host: &str) -> String {
        format!("pmix.{host}.tool")
    }

    /// The file of a server by its process id.
    pub fn by_pid(host: &str, pid: u32) -> String {
        format!("pmix.{host}.tool.{pid}")
    }

    /// The file of a server by its namespace.
    pub fn by_nspace(host: &str, nspace: &Nspace) -> String {
        format!("pmix.{host}.tool.{nspace}")
    }
}

impl Rendezvous {
    /// A file with only the address of the server.
    pub const fn new(uri: ServerUri) -> Self {
        Self { uri, version: None, pid: None, user: None, started: None }
    }
}

impl FromStr for Rendezvous {
    type Err = RendezvousError;

    /// Parses the contents of a file. Only the first line is required; malformed others are ignored.
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
    /// The contents of the file, up to the first unknown field.
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
    use pmix_types::{Gid, Uid};

    use super::*;

    const FILE: &str =
        "prte-vm-7754@0.0;tcp4://127.0.0.1:58679\n5.0.11rc1\n7754\n0:0\nSat Nov 21 08:01:56 2026\n\n";

    #[test]
    fn files_come_back() {
        let parsed: Rendezvous = FILE.parse().unwrap();
        assert_eq!(parsed.version.as_deref(), Some("5.0.11rc1"));
        assert_eq!((parsed.pid, parsed.user), (Some(7754), Some(User { uid: Uid::ROOT, gid: Gid::ROOT })));
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
