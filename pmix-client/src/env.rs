//! What a launcher tells its processes: where the server is and who they are.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use pmix_types::{Nspace, ProcId, Rank};

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
    pub(crate) uri: ServerUri,
    pub(crate) proc: ProcId,
}

/// Identity and address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerUri {
    pub(crate) server: ProcId,
    pub(crate) path: PathBuf,
    pub(crate) wire: Wire,
}

/// How to speak to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wire {
    Grpc,
    Framed,
}

impl Launch {
    /// Reads variables through `variable`; settings made by hand come first.
    pub(crate) fn read(
        uri: Option<&str>,
        proc: Option<&ProcId>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Error> {
        let uri = ServerUri::read(uri, &variable)?;
        let proc = match proc {
            Some(proc) => proc.clone(),
            None => read_proc(&variable)?,
        };
        Ok(Self { uri, proc })
    }
}

impl ServerUri {
    /// What was set by hand, else the variable.
    pub(crate) fn read(
        uri: Option<&str>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Error> {
        match uri {
            Some(uri) => parse_uri("uri", uri),
            None => match required(URI, &variable) {
                Err(Error::NotLaunched(_)) => Err(Error::not_launched(URI, foreign(variable))),
                uri => parse_uri(URI, &uri?).map(|uri| uri.on_the_fastest_wire(variable)),
            },
        }
    }

    /// The same server on the framed wire, if it announces that.
    fn on_the_fastest_wire(self, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let framed = variable(FRAMED_URI).and_then(|uri| uri.to_str()?.parse().ok());
        framed
            .filter(|framed: &Self| (&framed.server, &framed.path) == (&self.server, &self.path))
            .unwrap_or(self)
    }
}

/// Whether no variable names a server of any kind.
pub(crate) fn is_alone(missed: &NotLaunched) -> bool {
    missed.variable == URI && missed.found.is_none()
}

/// What other servers tell their processes: that of the C library, and those of PMI-1 and PMI-2.
const FOREIGN: [&str; 14] = [
    "PMIX_SERVER_URI41",
    "PMIX_SERVER_URI4",
    "PMIX_SERVER_URI3",
    "PMIX_SERVER_URI21",
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
    FOREIGN.into_iter().find(|name| variable(name).is_some_and(|value| !value.is_empty()))
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

    fn vars<'a>(set: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
    }

    #[test]
    fn ini_02_the_environment_tells_server_and_own_id() {
        let launch =
            Launch::read(None, None, vars(&[(URI, GOOD), (NAMESPACE, "job.7"), (RANK, "12")])).unwrap();
        assert_eq!(launch.uri.server.to_string(), "srv.node.1:0");
        assert_eq!(launch.uri.path, PathBuf::from("/run/user/0/s;1"));
        assert_eq!(launch.proc.to_string(), "job.7:12");
    }

    #[test]
    fn the_framed_wire_is_taken_if_the_same_server_announces_it() {
        let wire_with = |framed: &str| {
            let set = [(URI, GOOD), (FRAMED_URI, framed), (NAMESPACE, "job.7"), (RANK, "12")];
            let launch = Launch::read(None, None, vars(&set)).unwrap();
            assert_eq!(launch.uri.path, PathBuf::from("/run/user/0/s;1"));
            launch.uri.wire
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
        let by_hand = Launch::read(
            Some("a.0;framed:/a"),
            Some(&ProcId::new("j".parse().unwrap(), Rank::from_raw(0))),
            vars(&[]),
        );
        assert_eq!(by_hand.unwrap().uri.wire, Wire::Framed);
    }

    #[test]
    fn what_another_launcher_has_set_is_found_unless_it_is_empty_or_there_is_a_server_of_ours() {
        let found = |set: &[(&str, &str)]| match Launch::read(None, None, vars(set)) {
            Err(Error::NotLaunched(missed)) if missed.variable == URI => missed.found,
            other => panic!("{other:?}"),
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("PMI_RANK", ""), ("PATH", "/bin")]), None);
        for name in FOREIGN {
            assert_eq!(found(&[(name, "0")]), Some(name));
        }
        // what says most comes first
        let open_mpi =
            [(NAMESPACE, "prterun-n-1"), (RANK, "0"), ("PMIX_SERVER_URI41", "prterun-n-1.0;tcp4://..")];
        assert_eq!(found(&open_mpi), Some("PMIX_SERVER_URI41"));
        let both =
            [(URI, GOOD), (NAMESPACE, "job"), (RANK, "0"), ("PMIX_SERVER_URI41", "..."), ("PMI_RANK", "1")];
        assert_eq!(Launch::read(None, None, vars(&both)).unwrap().proc.to_string(), "job:0");
    }

    #[test]
    fn ini_02_a_missing_variable_is_named() {
        let all = [(URI, GOOD), (NAMESPACE, "job"), (RANK, "0")];
        for missing in 0..all.len() {
            let error = Launch::read(None, None, vars(&all[..missing])).unwrap_err();
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
            let error = Launch::read(None, None, vars(&set)).unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{uri} {rank}");
            let culprit = if uri == GOOD { RANK } else { URI };
            assert!(error.to_string().starts_with(culprit), "{error}");
        }
    }

    #[test]
    fn settings_made_by_hand_come_before_the_environment() {
        let proc = ProcId::new("mine".parse().unwrap(), "1".parse().unwrap());
        let launch = Launch::read(Some("a.0;unix:/a"), Some(&proc), vars(&[(URI, GOOD)])).unwrap();
        assert_eq!(launch.uri.server.to_string(), "a:0");
        assert_eq!(launch.proc, proc);
    }
}
