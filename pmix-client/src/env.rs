//! What a launcher tells its processes: where the server is, how to speak to it, and who they are.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use pmix_types::{Nspace, ProcId, Rank};
#[cfg(feature = "native-wire")]
use pmix_types::{Status, message::Failure};

use crate::error::{Error, NotLaunched};

/// Where the server is, as `<namespace>.<rank>;unix:<absolute path of the socket>`.
pub(crate) const URI: &str = "PMIX_GRPC_URI";
/// The same server, as `<namespace>.<rank>;framed:<absolute path of the socket>`, if it also speaks the framed wire. Launchers
/// below ours may set the variable above and leave this one, so it counts only if both name the same socket.
pub(crate) const FRAMED_URI: &str = "PMIX_FRAMED_URI";
/// Namespace of the process.
pub(crate) const NAMESPACE: &str = "PMIX_NAMESPACE";
/// Rank of the process, decimal.
pub(crate) const RANK: &str = "PMIX_RANK";

/// All that a process needs to find its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    pub(crate) server: Server,
    pub(crate) proc: ProcId,
}

/// A server and how to speak to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// One of ours.
    Ours(ServerUri),
    /// One that speaks the wire of the C library.
    #[cfg(feature = "native-wire")]
    Native(Box<pmix_native::env::Offered>),
}

/// The release of OpenPMIx from which on tools are let near a server.
#[cfg(feature = "native-wire")]
const ADMITS_TOOLS: pmix_native::Version = pmix_native::Version::new(5, 0, 0);

/// Identity and address of a server of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerUri {
    pub(crate) server: ProcId,
    pub(crate) path: PathBuf,
    pub(crate) wire: Wire,
}

/// How to speak to a server of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Grpc,
    Framed,
}

/// What was set by hand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ByHand<'a> {
    pub(crate) uri: Option<&'a str>,
    /// Speaks the native wire even if the server has announced ours.
    pub(crate) prefers_native: bool,
    /// Release of the server at the URI, if it is one of the C library.
    pub(crate) release: Option<&'a str>,
    pub(crate) is_tool: bool,
}

impl Launch {
    /// Reads variables through `variable`; settings made by hand come first.
    pub(crate) fn read(
        by_hand: ByHand<'_>,
        proc: Option<&ProcId>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Error> {
        let server = Server::read(by_hand, &variable)?;
        let proc = match proc {
            Some(proc) => proc.clone(),
            None => read_proc(&variable)?,
        };
        Ok(Self { server, proc })
    }
}

impl Server {
    /// What was set by hand, else what the variables say. A launcher of another family that was started by a process of ours leaves
    /// our variable alone, so of two servers the other one is the nearer.
    pub(crate) fn read(
        by_hand: ByHand<'_>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Error> {
        if let Some(uri) = by_hand.uri {
            return Self::by_hand(uri, by_hand);
        }
        let ours = match required(URI, &variable) {
            Err(Error::NotLaunched(_)) => None,
            uri => Some(parse_uri(URI, &uri?)?.on_the_fastest_wire(&variable)),
        };
        #[cfg(feature = "native-wire")]
        {
            let text = |name: &str| variable(name)?.into_string().ok();
            match (pmix_native::env::Offered::read(text), &ours) {
                (Ok(Some(native)), None) => return Self::native(native, None, by_hand),
                (Ok(Some(native)), Some(ours))
                    if by_hand.prefers_native || native.uri.server != ours.server =>
                {
                    return Self::native(native, None, by_hand);
                }
                (Err(error), None) => return Err(invalid(&error)),
                _ => {}
            }
        }
        if by_hand.prefers_native {
            return Err(Error::not_launched(NATIVE_URIS[0], foreign(variable)));
        }
        ours.map(Self::Ours).ok_or_else(|| Error::not_launched(URI, foreign(variable)))
    }

    fn by_hand(uri: &str, by_hand: ByHand<'_>) -> Result<Self, Error> {
        #[cfg(feature = "native-wire")]
        if let Ok(uri) = uri.parse() {
            let mut server = pmix_native::env::Offered::new(uri);
            let parse = |release: &str| {
                let problem = |_| format!("is {release:?}, which is not a release such as 5.0.1");
                release.parse().map_err(|error| Error::config("server_release", problem(error)))
            };
            let release = by_hand.release.map(parse).transpose()?;
            server.version = release.unwrap_or(server.version);
            return Self::native(server, release, by_hand);
        }
        #[cfg(not(feature = "native-wire"))]
        let _ = by_hand.release;
        let uri = parse_uri("uri", uri)?;
        // tools find servers by files that name their sockets alone; those of this family speak the framed wire on all of them
        Ok(Self::Ours(if by_hand.is_tool { ServerUri { wire: Wire::Framed, ..uri } } else { uri }))
    }

    /// A server of the C library, unless a tool would take it down.
    #[cfg(feature = "native-wire")]
    fn native(
        server: pmix_native::env::Offered,
        release: Option<pmix_native::Version>,
        by_hand: ByHand<'_>,
    ) -> Result<Self, Error> {
        // Open MPI 4 numbers its jobs
        let is_open_mpi_4 = server.uri.server.nspace.bytes().all(|byte| byte.is_ascii_digit());
        let is_old = release.map_or(is_open_mpi_4, |release| release < ADMITS_TOOLS);
        if by_hand.is_tool && is_old {
            let id = &server.uri.server;
            let release =
                release.map_or_else(|| "OpenPMIx 4".to_owned(), |release| format!("OpenPMIx {release}"));
            let message = format!(
                "server {id} runs {release}, as Open MPI 4's mpirun does: it crashes, and its jobs with it, when a tool attaches; \
                 tools attach only to servers of OpenPMIx {ADMITS_TOOLS} or later"
            );
            return Err(Error::failed("init", Failure::new(Status::ERR_NOT_SUPPORTED, message)));
        }
        Ok(Self::Native(Box::new(server)))
    }

    /// Whether it is spoken to as the C library does.
    pub(crate) const fn is_native(&self) -> bool {
        !matches!(self, Self::Ours(_))
    }

    /// Identity of the server.
    pub(crate) fn id(&self) -> &ProcId {
        match self {
            Self::Ours(uri) => &uri.server,
            #[cfg(feature = "native-wire")]
            Self::Native(server) => &server.uri.server,
        }
    }
}

impl fmt::Display for Server {
    /// The address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(uri) => uri.path.display().fmt(f),
            #[cfg(feature = "native-wire")]
            Self::Native(server) => server.uri.address.fmt(f),
        }
    }
}

impl ServerUri {
    /// The same server on the framed wire, if it announces that.
    fn on_the_fastest_wire(self, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let framed = variable(FRAMED_URI).and_then(|uri| uri.to_str()?.parse().ok());
        framed
            .filter(|framed: &Self| (&framed.server, &framed.path) == (&self.server, &self.path))
            .unwrap_or(self)
    }
}

/// A variable of the native wire that makes no sense.
#[cfg(feature = "native-wire")]
fn invalid(error: &pmix_native::env::EnvError) -> Error {
    match error {
        pmix_native::env::EnvError::Uri { variable, source } => {
            Error::config(variable, format!("is not the address of a server: {source}"))
        }
        other => Error::config("environment", other.to_string()),
    }
}

/// Whether no variable names a server of any kind.
pub(crate) fn is_alone(missed: &NotLaunched) -> bool {
    missed.variable == URI && missed.found.is_none()
}

/// Where servers of the C library say how they can be reached, in the order in which they are read.
pub(crate) const NATIVE_URIS: [&str; 4] =
    ["PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3", "PMIX_SERVER_URI21"];

/// What other servers tell their processes: old ones of the C library, those of PMI-1 and PMI-2, and, if this library was compiled
/// without the native wire, all of the C library.
const FOREIGN: [&str; 10] = [
    "PMIX_SERVER_URI2",
    "PMIX_SERVER_URI",
    "PMIX_NAMESPACE",
    "PMIX_RANK",
    "PMI_FD",
    "PMI_PORT",
    "PMI_RANK",
    "PMI2_RANK",
    "PMI2_SPAWNED",
    "PMI_JOBID",
];

/// A variable of another kind of server, if one is there.
fn foreign(variable: impl Fn(&str) -> Option<OsString>) -> Option<&'static str> {
    let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
    NATIVE_URIS.into_iter().chain(FOREIGN).find(is_set)
}

/// The process's own environment.
pub(crate) fn process_variable(name: &str) -> Option<OsString> {
    env::var_os(name)
}

fn read_proc(variable: impl Fn(&str) -> Option<OsString>) -> Result<ProcId, Error> {
    let nspace = Nspace::try_from(required(NAMESPACE, &variable)?)
        .map_err(|error| Error::config(NAMESPACE, format!("is not a valid namespace: {error}")))?;
    let rank = required(RANK, &variable)?;
    let rank = rank
        .parse::<u32>()
        .ok()
        .and_then(|rank| Rank::new(rank).ok())
        .ok_or_else(|| Error::config(RANK, format!("is {rank:?}, which is not the rank of a process")))?;
    Ok(ProcId::new(nspace, rank))
}

fn required(name: &'static str, variable: impl Fn(&str) -> Option<OsString>) -> Result<String, Error> {
    let value = variable(name).ok_or_else(|| Error::not_launched(name, None))?;
    value.into_string().map_err(|value| Error::config(name, format!("is not UTF-8: {value:?}")))
}

fn parse_uri(setting: &'static str, text: &str) -> Result<ServerUri, Error> {
    text.parse().map_err(|problem| {
        Error::config(
            setting,
            format!("is {text:?}, which {problem}; the form is <namespace>.<rank>;unix:<path of the socket>"),
        )
    })
}

impl FromStr for ServerUri {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (server, address) = text.split_once(';').ok_or("has no semicolon")?;
        let (nspace, rank) = server.rsplit_once('.').ok_or("has no dot before the semicolon")?;
        let nspace = Nspace::new(nspace).map_err(|_| "does not start with a namespace")?;
        let rank = rank.parse().map(Rank::from_raw).map_err(|_| "has no rank before the semicolon")?;
        let (wire, path) = match (address.strip_prefix("unix:"), address.strip_prefix("framed:")) {
            (Some(path), _) => (Wire::Grpc, path),
            (_, Some(path)) => (Wire::Framed, path),
            (None, None) => return Err("is not the address of a Unix socket"),
        };
        if !path.starts_with('/') {
            return Err("has no absolute path");
        }
        Ok(Self { server: ProcId::new(nspace, rank), path: path.into(), wire })
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::Status;

    use super::*;

    const GOOD: &str = "srv.node.1.0;unix:/run/user/0/s;1";

    const NATIVE: &str = "prte.1.0;tcp4://127.0.0.1:4711";

    fn by_hand(uri: &str) -> ByHand<'_> {
        ByHand { uri: Some(uri), ..ByHand::default() }
    }

    #[track_caller]
    fn ours(launch: &Launch) -> &ServerUri {
        match &launch.server {
            Server::Ours(uri) => uri,
            #[cfg(feature = "native-wire")]
            other => panic!("{other} is not a server of ours"),
        }
    }

    fn vars<'a>(set: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    }

    #[test]
    fn ini_02_the_environment_tells_server_and_own_id() {
        let launch =
            Launch::read(ByHand::default(), None, vars(&[(URI, GOOD), (NAMESPACE, "job.7"), (RANK, "12")]))
                .unwrap();
        assert_eq!(launch.server.id().to_string(), "srv.node.1:0");
        assert_eq!(ours(&launch).path, PathBuf::from("/run/user/0/s;1"));
        assert_eq!(launch.proc.to_string(), "job.7:12");
    }

    #[test]
    fn the_framed_wire_is_taken_if_the_same_server_announces_it() {
        let wire_with = |framed: &str| {
            let set = [(URI, GOOD), (FRAMED_URI, framed), (NAMESPACE, "job.7"), (RANK, "12")];
            let launch = Launch::read(ByHand::default(), None, vars(&set)).unwrap();
            assert_eq!(ours(&launch).path, PathBuf::from("/run/user/0/s;1"));
            ours(&launch).wire
        };
        assert_eq!(wire_with("srv.node.1.0;framed:/run/user/0/s;1"), Wire::Framed);
        // of a server further up, or of nothing that we know
        for other in [
            "srv.node.1.0;framed:/run/user/0/s;2",
            "srv.node.2.0;framed:/run/user/0/s;1",
            "",
            "1",
            GOOD,
            "a.0;new:/s",
        ] {
            assert_eq!(wire_with(other), Wire::Grpc, "{other}");
        }
        let set = Launch::read(
            by_hand("a.0;framed:/a"),
            Some(&ProcId::new("j".parse().unwrap(), Rank::from_raw(0))),
            vars(&[]),
        );
        assert_eq!(ours(&set.unwrap()).wire, Wire::Framed);
    }

    #[test]
    fn what_another_launcher_has_set_is_found_unless_it_is_empty_or_there_is_a_server_of_ours() {
        let found = |set: &[(&str, &str)]| match Launch::read(ByHand::default(), None, vars(set)) {
            Err(Error::NotLaunched(missed)) if missed.variable == URI => missed.found,
            other => panic!("{other:?}"),
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("PMI_RANK", ""), ("PATH", "/bin")]), None);
        for name in FOREIGN {
            assert_eq!(found(&[(name, "0")]), Some(name));
        }
        // what says most comes first
        let old = [(NAMESPACE, "prterun-n-1"), (RANK, "0"), ("PMIX_SERVER_URI2", "prterun-n-1.0;tcp4://..")];
        assert_eq!(found(&old), Some("PMIX_SERVER_URI2"));
        let both =
            [(URI, GOOD), (NAMESPACE, "job"), (RANK, "0"), ("PMIX_SERVER_URI41", "..."), ("PMI_RANK", "1")];
        assert_eq!(Launch::read(ByHand::default(), None, vars(&both)).unwrap().proc.to_string(), "job:0");
    }

    #[cfg(not(feature = "native-wire"))]
    #[test]
    fn without_the_native_wire_its_servers_are_named_as_not_spoken_to() {
        let set = [(NATIVE_URIS[0], NATIVE), (NAMESPACE, "job"), (RANK, "0")];
        let error = Launch::read(ByHand::default(), None, vars(&set)).unwrap_err();
        assert!(
            matches!(&error, Error::NotLaunched(missed) if missed.found == Some(NATIVE_URIS[0])),
            "{error}"
        );
        assert!(error.to_string().contains("native-wire"), "{error}");
    }

    #[cfg(feature = "native-wire")]
    #[test]
    fn ini_02_a_server_of_the_c_library_is_taken_in_the_newest_dialect_unless_there_is_one_of_ours() {
        let launch = |set: &[(&str, &str)], prefers_native| {
            let who = [(NAMESPACE, "job"), (RANK, "3")];
            let all: Vec<_> = set.iter().chain(&who).copied().collect();
            Launch::read(ByHand { prefers_native, ..ByHand::default() }, None, vars(&all))
        };
        let dialect = |set: &[(&str, &str)]| match launch(set, false).unwrap().server {
            Server::Native(server) => Some(server.encoding.dialect.name()),
            Server::Ours(_) => None,
        };
        let [v41, v4, v3, v21] = NATIVE_URIS.map(|name| (name, NATIVE));
        assert_eq!(dialect(&[v21, v3, v4, v41]), Some("v41"));
        assert_eq!(dialect(&[v21, v3, v4, ("PMIX_SERVER_URI41", "")]), Some("v4"));
        assert_eq!(dialect(&[v21, v3]), Some("v3"));
        assert_eq!(dialect(&[v21]), Some("v21"));
        // ours announces both, and so does a launcher of another family that a process of ours has started
        let same = "srv.node.1.0;tcp4://127.0.0.1:4711";
        assert_eq!(dialect(&[(URI, GOOD), ("PMIX_SERVER_URI41", same)]), None);
        assert_eq!(dialect(&[(URI, GOOD), v41]), Some("v41"), "the nearer launcher");
        let forced = launch(&[(URI, GOOD), ("PMIX_SERVER_URI41", same)], true).unwrap();
        assert!(forced.server.is_native());
        let none = launch(&[(URI, GOOD)], true).unwrap_err();
        assert!(
            matches!(&none, Error::NotLaunched(missed) if missed.variable == "PMIX_SERVER_URI41"),
            "{none}"
        );
        let wrong = launch(&[("PMIX_SERVER_URI4", "job.0;tcp4://localhost:1")], false).unwrap_err();
        assert!(wrong.to_string().starts_with("PMIX_SERVER_URI4 is not the address"), "{wrong}");
        let by_hand = Launch::read(by_hand(NATIVE), Some(&ProcId::none()), vars(&[])).unwrap();
        assert_eq!(by_hand.server.to_string(), "127.0.0.1:4711");
    }

    #[cfg(feature = "native-wire")]
    #[test]
    fn a_tool_never_gets_to_a_server_that_it_would_take_down() {
        let read = |uri, release, is_tool| {
            Server::read(ByHand { uri: Some(uri), release, is_tool, prefers_native: false }, vars(&[]))
        };
        let (open_mpi_4, slurm) = ("687538176.0;tcp4://127.0.0.1:1", "slurm.pmix.1.0.0;tcp4://127.0.0.1:1");
        for (uri, release) in [(open_mpi_4, None), (open_mpi_4, Some("4.2.2rc2")), (slurm, Some("4.2.2rc2"))]
        {
            let refused = read(uri, release, true).unwrap_err();
            assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
            let release = release.map_or("OpenPMIx 4,", |_| "OpenPMIx 4.2.2,");
            assert!(refused.to_string().contains(release), "{refused}");
            // processes of its jobs are at home there
            assert!(read(uri, None, false).unwrap().is_native());
        }
        for (uri, release) in
            [(NATIVE, None), (NATIVE, Some("5.0.11rc1")), ("1.0;tcp4://127.0.0.1:1", Some("6.0"))]
        {
            assert!(read(uri, release, true).unwrap().is_native());
        }
        let nonsense = read(NATIVE, Some("new"), true).unwrap_err();
        assert!(nonsense.to_string().starts_with("server_release is \"new\""), "{nonsense}");
        let set = [("PMIX_SERVER_URI41", open_mpi_4), ("PMIX_VERSION", "4.2.2rc2")];
        let tool = ByHand { is_tool: true, ..ByHand::default() };
        assert_eq!(Server::read(tool, vars(&set)).unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
    }

    #[test]
    fn ini_02_a_missing_variable_is_named() {
        let all = [(URI, GOOD), (NAMESPACE, "job"), (RANK, "0")];
        for missing in 0..all.len() {
            let error = Launch::read(ByHand::default(), None, vars(&all[..missing])).unwrap_err();
            assert!(
                matches!(&error, Error::NotLaunched(missed) if missed.variable == all[missing].0),
                "{error}"
            );
        }
    }

    #[test]
    fn ini_02_what_makes_no_sense_is_named() {
        for (uri, rank) in [
            ("", "0"),
            ("srv.0", "0"),
            ("srv;unix:/s", "0"),
            (".0;unix:/s", "0"),
            ("srv.x;unix:/s", "0"),
            ("srv.0;tcp:/s", "0"),
            ("srv.0;unix:s", "0"),
            (GOOD, "-1"),
            (GOOD, "4294967294"),
            (GOOD, "*"),
        ] {
            let set = [(URI, uri), (NAMESPACE, "job"), (RANK, rank)];
            let error = Launch::read(ByHand::default(), None, vars(&set)).unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{uri} {rank}");
            let culprit = if uri == GOOD { RANK } else { URI };
            assert!(error.to_string().starts_with(culprit), "{error}");
        }
    }

    #[test]
    fn settings_made_by_hand_come_before_the_environment() {
        let proc = ProcId::new("mine".parse().unwrap(), "1".parse().unwrap());
        let launch = Launch::read(by_hand("a.0;unix:/a"), Some(&proc), vars(&[(URI, GOOD)])).unwrap();
        assert_eq!(launch.server.id().to_string(), "a:0");
        assert_eq!(launch.proc, proc);
    }
}
