//! A process without server.

use std::sync::Arc;

use pmix_types::job::{JobData, JobSpec};
use pmix_types::{AttributeRegistry, Nspace, ProcId, Rank};

use crate::core::Core;
use crate::error::Error;

/// Name of this node, as the system calls it.
pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A job of one process. Made of the machine's name and the process id: all singletons of one process have the same.
pub(crate) fn start(attributes: AttributeRegistry) -> Result<Core, Error> {
    let hostname = hostname();
    let no_host = |problem: String| Error::config("host name", format!("is {hostname:?}: {problem}"));
    let pid = rustix::process::getpid();
    let nspace = Nspace::new(format!("singleton.{hostname}.{}", pid.as_raw_nonzero()))
        .map_err(|error| no_host(error.to_string()))?;
    let spec = JobSpec::new(nspace.clone())
        .node_map([&hostname])
        .and_then(|spec| spec.ranks_block(1, 1))
        .map_err(|error| no_host(error.to_string()))?;
    let mut job = JobData::new(nspace.clone());
    job.register(&spec.into_infos(), &hostname).map_err(|error| no_host(error.to_string()))?;
    let proc = ProcId::new(nspace, Rank::from_raw(0));
    Ok(Core::new(proc, hostname, Some(Arc::new(job)), None, attributes))
}
