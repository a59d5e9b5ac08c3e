//! Environment of a launched process: the variables that a server sets and the process reads.
//!
//! ```
//! use std::collections::HashMap;
//! use pmix_native::env::{Launch, Launched};
//! use pmix_types::{ProcId, Rank};
//!
//! let proc = ProcId::new("job.1".parse()?, Rank::from_raw(3));
//! let launch = Launch::new("srv.0;tcp4://127.0.0.1:4711".parse()?, proc.clone(), "node1");
//! let child: HashMap<_, _> = launch.variables().into_iter().collect();
//! assert_eq!(child["PMIX_RANK"], "3");
//!
//! let launched = Launched::read(|name| child.get(name).cloned())?.ok_or("singleton")?;
//! assert_eq!((launched.proc, launched.uri), (proc, launch.uri));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::num::ParseIntError;
use std::path::PathBuf;

use pmix_types::{NspaceError, ProcId, Rank, Status};
use thiserror::Error;

use crate::conn::{ServerUri, UriError};
use crate::{Dialect, Encoding, Version};

const NAMESPACE: &str = "PMIX_NAMESPACE";
const RANK: &str = "PMIX_RANK";
const STORE: &str = "PMIX_GDS_MODULE";
const SECURITY: &str = "PMIX_SECURITY_MODE";
const BUFFER_TYPE: &str = "PMIX_BFROP_BUFFER_TYPE";
const VERSION: &str = "PMIX_VERSION";
const HOSTNAME: &str = "PMIX_HOSTNAME";
const SERVER_TMPDIR: &str = "PMIX_SERVER_TMPDIR";
const SYSTEM_TMPDIR: &str = "PMIX_SYSTEM_TMPDIR";

const PLAIN: &str = "PMIX_BFROP_BUFFER_NON_DESC";
const DESCRIBED: &str = "PMIX_BFROP_BUFFER_FULLY_DESC";

/// The data store that uses messages. With another one, a process expects shared memory.
const HASH: &str = "hash";

/// The release that servers built on this crate claim to be.
pub const RELEASE: Version = Version::new(4, 2, 2);

/// Open MPI 4 checks whether it was launched before it uses PMIx; this variable says that it was. It also disables Open MPI's
/// own binding of processes, and has no other effect.
const OPEN_MPI_4_MARKER: (&str, &str) = ("JSM_JSRUN_PORT", "0");

/// Prefixes of variables that a process must not inherit from the environment of its launcher.
pub const REMOVED_PREFIXES: [&str; 3] = ["PMIX_", "OMPI_", "PRTE_"];

/// Whether a variable of this name must be removed from the environment of a process.
pub fn is_removed(name: &str) -> bool {
    REMOVED_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) || name == OPEN_MPI_4_MARKER.0
}

/// The environment for a launched process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launch {
    /// Its server.
    pub uri: ServerUri,
    /// Its own name.
    pub proc: ProcId,
    /// Name of its node, exactly as in the job's data.
    pub hostname: String,
    /// Security mechanisms that the server accepts, best first.
    pub security: Vec<String>,
    /// Whether messages include type information.
    pub described: bool,
    /// Release that the server claims to be.
    pub version: Version,
    /// Directory of the session, with rendezvous files.
    pub server_tmpdir: Option<PathBuf>,
    /// Directory of the system, with rendezvous files.
    pub system_tmpdir: Option<PathBuf>,
    /// Whether to tell programs of Open MPI 4 that they were launched; otherwise they run as singletons.
    pub open_mpi_4: bool,
}

impl Launch {
    /// The environment of a process on this node, with native security and without directories.
    pub fn new(uri: ServerUri, proc: ProcId, hostname: impl Into<String>) -> Self {
        Self {
            uri,
            proc,
            hostname: hostname.into(),
            security: vec!["native".into()],
            described: false,
            version: RELEASE,
            server_tmpdir: None,
            system_tmpdir: None,
            open_mpi_4: false,
        }
    }

    /// The variables to set, after removing those for which [`is_removed`] is true.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![
            (NAMESPACE, self.proc.nspace.to_string()),
            (RANK, self.proc.rank.to_raw().to_string()),
            (STORE, HASH.to_owned()),
            (SECURITY, self.security.join(",")),
            (BUFFER_TYPE, if self.described { DESCRIBED } else { PLAIN }.to_owned()),
            (VERSION, self.version.to_string()),
            (HOSTNAME, self.hostname.clone()),
        ];
        let uri = self.uri.to_string();
        variables.extend(Dialect::ALL.map(|dialect| (dialect.uri_variable(), uri.clone())));
        for (name, directory) in [(SERVER_TMPDIR, &self.server_tmpdir), (SYSTEM_TMPDIR, &self.system_tmpdir)]
        {
            variables.extend(directory.iter().map(|path| (name, path.to_string_lossy().into_owned())));
        }
        if self.open_mpi_4 {
            let (name, value) = OPEN_MPI_4_MARKER;
            variables.push((name, value.to_owned()));
        }
        variables
    }
}

/// A server, as the environment of its processes describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offered {
    /// The variable that has named it; empty if none has.
    pub variable: &'static str,
    /// Name and address.
    pub uri: ServerUri,
    /// The encoding: the newest dialect that the server offers.
    pub encoding: Encoding,
    /// Release of the server.
    pub version: Version,
    /// Security mechanisms that the server accepts, best first; empty if unknown.
    pub security: Vec<String>,
    /// The data store to name when connecting: `hash`, unless the server offers others only.
    pub store: String,
    /// Name of the node, if known.
    pub hostname: Option<String>,
}

/// The environment that a process has read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Launched {
    /// Its server.
    pub uri: ServerUri,
    /// Its own name.
    pub proc: ProcId,
    /// The encoding: the newest dialect that the server offers.
    pub encoding: Encoding,
    /// Release of the server.
    pub version: Version,
    /// Security mechanisms that the server accepts, best first; empty if unknown.
    pub security: Vec<String>,
    /// Name of the node, if known.
    pub hostname: Option<String>,
    /// Directory of the session, if known.
    pub server_tmpdir: Option<PathBuf>,
    /// Directory of the system, if known.
    pub system_tmpdir: Option<PathBuf>,
}

/// An invalid variable.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EnvError {
    /// The namespace is set, but this variable is not.
    #[error("{NAMESPACE} is set, but {0} is not")]
    Missing(&'static str),
    /// The namespace is invalid.
    #[error("{NAMESPACE}: {0}")]
    Nspace(#[from] NspaceError),
    /// The rank is not a number.
    #[error("{RANK}: {0}")]
    Rank(#[from] ParseIntError),
    /// The URI of the server is malformed.
    #[error("{variable}: {source}")]
    Uri {
        /// Name of the variable.
        variable: &'static str,
        /// The error.
        source: UriError,
    },
}

pmix_types::statuses! {
    EnvError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
}

impl Offered {
    /// A server of which only the address is known: the newest dialect, and the release of [`RELEASE`].
    pub fn new(uri: ServerUri) -> Self {
        Self {
            variable: "",
            uri,
            encoding: Encoding::plain(Dialect::V41),
            version: RELEASE,
            security: Vec::new(),
            store: HASH.to_owned(),
            hostname: None,
        }
    }

    /// Reads the environment; `None` if it names no server that offers a supported dialect.
    ///
    /// # Errors
    /// [`EnvError::Uri`].
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, EnvError> {
        let offered = Dialect::ALL.into_iter().find_map(|dialect| {
            Some((dialect, variable(dialect.uri_variable()).filter(|uri| !uri.is_empty())?))
        });
        let Some((dialect, uri)) = offered else { return Ok(None) };
        let name = dialect.uri_variable();
        let uri = uri.parse().map_err(|source| EnvError::Uri { variable: name, source })?;
        let list = |name| {
            let list = variable(name).unwrap_or_default();
            let parts = list.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect::<Vec<_>>()
        };
        let version = variable(VERSION).and_then(|text| text.parse().ok());
        let stores = list(STORE);
        let has_hash = stores.iter().any(|store| store == HASH);
        Ok(Some(Self {
            variable: name,
            uri,
            encoding: Encoding { dialect, described: variable(BUFFER_TYPE).as_deref() == Some(DESCRIBED) },
            version: version.unwrap_or_else(|| Version::of_dialect(dialect)),
            security: list(SECURITY),
            store: stores.into_iter().find(|_| !has_hash).unwrap_or_else(|| HASH.to_owned()),
            hostname: variable(HOSTNAME),
        }))
    }
}

impl Launched {
    /// Reads the environment; `None` for a process without a launcher, or whose server offers no supported dialect.
    ///
    /// # Errors
    /// [`EnvError`].
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, EnvError> {
        let (Some(nspace), Some(server)) = (variable(NAMESPACE), Offered::read(&variable)?) else {
            return Ok(None);
        };
        let rank = variable(RANK).ok_or(EnvError::Missing(RANK))?;
        let Offered { uri, encoding, version, security, hostname, .. } = server;
        Ok(Some(Self {
            uri,
            proc: ProcId::new(nspace.parse()?, Rank::from_raw(rank.parse()?)),
            encoding,
            version,
            security,
            hostname,
            server_tmpdir: variable(SERVER_TMPDIR).map(PathBuf::from),
            system_tmpdir: variable(SYSTEM_TMPDIR).map(PathBuf::from),
        }))
    }
}

pmix_types::message_first!(EnvError);

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn launch() -> Launch {
        let proc = ProcId::new("a.b".parse().unwrap(), Rank::from_raw(1));
        Launch::new("srv.0;tcp4://127.0.0.1:1".parse().unwrap(), proc, "vm")
    }

    fn read(variables: &HashMap<&str, String>) -> Result<Option<Launched>, EnvError> {
        Launched::read(|name| variables.get(name).cloned())
    }

    #[test]
    fn a_child_finds_what_its_launcher_has_set() {
        let mut launch = launch();
        launch.described = true;
        launch.server_tmpdir = Some("/tmp/s".into());
        launch.system_tmpdir = Some("/tmp".into());
        launch.security = vec!["munge".into(), "native".into()];
        let launched = read(&launch.variables().into_iter().collect()).unwrap().unwrap();
        assert_eq!((launched.uri, launched.proc), (launch.uri, launch.proc));
        assert_eq!(launched.encoding, Encoding::described(Dialect::V41));
        assert_eq!(launched.version, Version::new(4, 2, 2));
        assert_eq!(launched.security, ["munge", "native"]);
        assert_eq!(launched.hostname.as_deref(), Some("vm"));
        assert_eq!(launched.server_tmpdir, Some("/tmp/s".into()));
        assert_eq!(launched.system_tmpdir, Some("/tmp".into()));
    }

    #[test]
    fn the_newest_dialect_offered_is_taken() {
        let mut variables: HashMap<_, _> = launch().variables().into_iter().collect();
        variables.remove("PMIX_VERSION");
        for dialect in Dialect::ALL {
            let launched = read(&variables).unwrap().unwrap();
            assert_eq!(launched.encoding, Encoding::plain(dialect));
            assert_eq!(launched.version, Version::of_dialect(dialect));
            variables.remove(dialect.uri_variable());
        }
        assert_eq!(read(&variables), Ok(None));
    }

    #[test]
    fn the_hash_store_is_named_wherever_there_is_a_choice() {
        let mut variables: HashMap<_, _> = launch().variables().into_iter().collect();
        let mut store = |list: Option<&str>| {
            match list {
                Some(list) => variables.insert(STORE, list.to_owned()),
                None => variables.remove(STORE),
            };
            Offered::read(|name| variables.get(name).cloned()).unwrap().unwrap().store
        };
        for list in [None, Some(""), Some("hash"), Some("ds21,ds12,hash"), Some("shmem2, hash")] {
            assert_eq!(store(list), "hash", "{list:?}");
        }
        assert_eq!(store(Some("ds21,ds12")), "ds21", "a server that insists has its way");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let good: HashMap<_, _> = launch().variables().into_iter().collect();
        let changed = |name, value: &str| {
            let mut variables = good.clone();
            variables.insert(name, value.to_owned());
            read(&variables).unwrap_err().to_string()
        };
        assert!(changed(RANK, "x").starts_with("PMIX_RANK: "));
        assert!(changed(NAMESPACE, "").starts_with("PMIX_NAMESPACE: "));
        assert!(changed("PMIX_SERVER_URI41", "x").starts_with("PMIX_SERVER_URI41: "));
        let mut variables = good.clone();
        variables.remove(RANK);
        assert_eq!(read(&variables), Err(EnvError::Missing(RANK)));
    }

    #[test]
    fn everything_set_is_also_removed_from_what_is_inherited() {
        let mut launch = launch();
        launch.open_mpi_4 = true;
        let variables = launch.variables();
        assert!(variables.contains(&("JSM_JSRUN_PORT", "0".into())));
        assert!(variables.iter().all(|(name, _)| is_removed(name)));
        assert!(is_removed("OMPI_COMM_WORLD_RANK") && !is_removed("PATH"));
    }
}
