//! Where the DVM of a job is.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pmix_types::Nspace;

/// The DVM that a job runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DvmPlace {
    /// The only server of this user on this host.
    Only,
    Uri(String),
    /// The one that wrote this rendezvous file.
    File(PathBuf),
    Pid(u32),
    Nspace(Nspace),
    System,
}

impl DvmPlace {
    pub(super) fn parse(text: &OsStr) -> Result<Self, String> {
        if let Some(file) = text.as_bytes().strip_prefix(b"file:") {
            return Ok(Self::File(OsStr::from_bytes(file).into()));
        }
        let text = &*text.to_string_lossy();
        match text.split_once(':') {
            None if text == "only" || text == "search" => Ok(Self::Only),
            None if text == "system" => Ok(Self::System),
            Some(("uri", uri)) => Ok(Self::Uri(uri.to_owned())),
            Some(("pid", pid)) => pid.parse().map(Self::Pid).map_err(|_| "not a process id".to_owned()),
            Some(("ns", name)) => Nspace::new(name).map(Self::Nspace).map_err(|error| error.to_string()),
            _ if text.contains(';') => Ok(Self::Uri(text.to_owned())),
            _ => Err("write a URI, file:FILE, pid:PID, ns:NAMESPACE, system or only".to_owned()),
        }
    }
}
