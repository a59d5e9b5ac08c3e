//! Calls of the host that prepare jobs and nodes: variables, process sets, resources, inventories.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use pmix_types::job::JobData;
use pmix_types::message::Failure;
use pmix_types::{Directives, Envar, Info, KeyName, Nspace, ProcId, RegAttr, Status, keys};

use crate::handle::ServerHandle;
use pmix_engine::HostCall;

/// Default of [`ServerBuilder::harvest`](crate::ServerBuilder::harvest): variables that programming models and their
/// transports read.
pub(crate) const HARVEST: [&str; 5] = ["OMP_*", "OMPI_MCA_*", "PMIX_MCA_*", "UCX_*", "FI_*"];

/// Requests for network resources, under either of their names. [`ServerHandle::setup_application`] passes them on (SET-02).
const FABRIC: [&str; 9] = [
    keys::ALLOC_FABRIC.name(),
    keys::ALLOC_FABRIC_ID.name(),
    keys::ALLOC_FABRIC_SEC_KEY.name(),
    keys::ALLOC_FABRIC_TYPE.name(),
    keys::ALLOC_FABRIC_PLANE.name(),
    keys::ALLOC_FABRIC_ENDPTS.name(),
    keys::ALLOC_FABRIC_ENDPTS_NODE.name(),
    keys::ALLOC_FABRIC_QOS.name(),
    keys::ALLOC_BANDWIDTH.name(),
];

impl ServerHandle {
    /// Collects what a job needs on each of its nodes, once before the launch (SET-01). The host sends the result, which may
    /// be empty (SET-04), to the server of each node and passes it to
    /// [`setup_local_support`](Self::setup_local_support) there.
    ///
    /// `infos` contain the job's `NODE_MAP` and `PROC_MAP`, and select what to collect (SET-02):
    /// - `SETUP_APP_ENVARS`: variables of this process's environment whose names match the patterns of
    ///   [`ServerBuilder::harvest`](crate::ServerBuilder::harvest), as `SET_ENVAR`; none with `ENVARS_HARVESTED`, as
    ///   they have already been harvested.
    /// - `SETUP_APP_NONENVARS`: the `ALLOC_FABRIC` requests among `infos`, for the component that serves them.
    /// - `SETUP_APP_ALL`: both.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` if a map is missing, if the maps do not match, and for values of the wrong type;
    /// `ERR_NOT_SUPPORTED` for an unknown required directive.
    ///
    /// # Cancel safety
    /// Cancel-safe: nothing is changed.
    #[doc(alias = "PMIx_server_setup_application")]
    pub async fn setup_application(
        &self,
        nspace: &Nspace,
        infos: impl IntoIterator<Item = Info>,
    ) -> Result<Vec<Info>, Failure> {
        application(nspace, infos.into_iter().collect(), self.harvested_names(), std::env::vars_os())
    }

    /// Applies on this node the result of [`setup_application`](Self::setup_application) for a job: changes of the environment,
    /// such as `SET_ENVAR` or `PREPEND_ENVAR`, are returned by [`setup_fork`](Self::setup_fork) in their order, other values
    /// become job data. Call it after the job is registered, and before its
    /// first process starts on this node (SET-03).
    ///
    /// # Errors
    /// `ERR_INVALID_NAMESPACE` if the job is not registered, `ERR_BAD_PARAM` for values of the wrong type and for names that
    /// no variable can have; nothing is applied then.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_setup_local_support")]
    pub async fn setup_local_support(
        &self,
        nspace: &Nspace,
        infos: impl IntoIterator<Item = Info>,
    ) -> Result<(), Failure> {
        let infos = infos.into_iter().collect();
        self.call(HostCall::SetupLocal { nspace: nspace.clone(), infos }).await
    }

    /// Defines a process set, which clients can get and query, and notifies local processes with the event
    /// `PROCESS_SET_DEFINE` (PST-02). Members may belong to several namespaces and nodes. Call this on every server whose
    /// processes are to know the set. A second call with the same members changes nothing.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` without members, and for a name that is empty or contains a comma; `ERR_EXISTS` if the set exists with
    /// other members, because a set never changes (PST-01).
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_define_process_set")]
    pub async fn define_process_set(
        &self,
        name: impl Into<String>,
        members: impl IntoIterator<Item = ProcId>,
    ) -> Result<(), Failure> {
        let members = members.into_iter().collect();
        self.call(HostCall::DefinePset { name: name.into(), members }).await
    }

    /// Deletes a process set, and notifies local processes with the event `PROCESS_SET_DELETE` (PST-02). Its members are not
    /// affected.
    ///
    /// # Errors
    /// `ERR_NOT_FOUND` if there is no such set.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_delete_process_set")]
    pub async fn delete_process_set(&self, name: &str) -> Result<(), Failure> {
        self.call(HostCall::DeletePset(name.to_owned())).await
    }

    /// Registers the attributes that an entry of the host module supports, so that processes can query them (ATT-01).
    /// `function` is the name of the entry, such as `publish`; processes see the functions that it serves, such as
    /// `PMIx_Publish`.
    ///
    /// The same can be declared with [`Capabilities::with_attributes`](crate::host::Capabilities::with_attributes).
    ///
    /// # Errors
    /// `ERR_REPEAT_ATTR_REGISTRATION` if the attributes of this entry have already been declared or registered (ATT-02);
    /// `ERR_BAD_PARAM` for an unknown entry, and for an entry that the host does not declare.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_Register_attributes")]
    pub async fn register_attributes(
        &self,
        function: &str,
        attributes: impl IntoIterator<Item = RegAttr>,
    ) -> Result<(), Failure> {
        let attributes = attributes.into_iter().collect();
        self.call(HostCall::RegisterAttributes { function: function.to_owned(), attributes }).await
    }

    /// Registers values that belong to no particular job. They count as job-level data of every job whose own data lacks the
    /// key (REG-10). Processes that are already connected keep the data that they have received.
    ///
    /// # Errors
    /// Only `ERR_INIT`, after the server has stopped.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_register_resources")]
    pub async fn register_resources(&self, infos: impl IntoIterator<Item = Info>) -> Result<(), Failure> {
        self.call(HostCall::RegisterResources(infos.into_iter().collect())).await
    }

    /// Removes such values by their keys; unknown keys are ignored.
    ///
    /// # Errors
    /// Only `ERR_INIT`, after the server has stopped.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_deregister_resources")]
    pub async fn deregister_resources(&self, keys: impl IntoIterator<Item = KeyName>) -> Result<(), Failure> {
        self.call(HostCall::DeregisterResources(keys.into_iter().collect())).await
    }

    /// Delivers the results of `collect_inventory` of this or other nodes: one array `NODE_INFO_ARRAY` per node, with its
    /// `HOSTNAME`. The values count as values of the node in every job that spans it and lacks them. Later deliveries add to
    /// earlier ones and replace values, so an update may be a delta (SET-05).
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for anything except such an array; nothing is stored then. `ERR_NOT_SUPPORTED` for a required
    /// directive, as no directive is known.
    ///
    /// # Cancel safety
    /// As [`ServerHandle::register_nspace`].
    #[doc(alias = "PMIx_server_deliver_inventory")]
    pub async fn deliver_inventory(
        &self,
        infos: impl IntoIterator<Item = Info>,
        directives: Directives,
    ) -> Result<(), Failure> {
        directives.deny_unprocessed()?;
        self.call(HostCall::DeliverInventory(infos.into_iter().collect())).await
    }

    /// Returns the inventory of this node: an array `NODE_INFO_ARRAY` with its `HOSTNAME`, `AVAIL_PHYS_MEMORY` in bytes, the
    /// number and model of its processors (see the module `inventory`), `FABRIC_DEVICES` with a `FABRIC_DEVICE` for each
    /// network interface, and `QUERY_DEVICES` with its network and block devices. Values that the system does not report are
    /// left out.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for a required directive, as no directive is known.
    ///
    /// # Cancel safety
    /// Cancel-safe.
    #[cfg(feature = "inventory")]
    #[doc(alias = "PMIx_server_collect_inventory")]
    pub async fn collect_inventory(&self, directives: Directives) -> Result<Vec<Info>, Failure> {
        directives.deny_unprocessed()?;
        let hostname = self.hostname().to_owned();
        let collected = tokio::task::spawn_blocking(move || crate::inventory::of_node(&hostname));
        collected.await.map(|node| vec![node]).map_err(|error| Failure::new(Status::ERROR, error.to_string()))
    }
}

fn application(
    nspace: &Nspace,
    infos: Vec<Info>,
    patterns: &[String],
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<Info>, Failure> {
    let mut directives = Directives::from(infos);
    let all = directives.take_flag(&keys::SETUP_APP_ALL)?;
    let envars = directives.take_flag(&keys::SETUP_APP_ENVARS)? || all;
    let others = directives.take_flag(&keys::SETUP_APP_NONENVARS)? || all;
    let is_harvested = directives.take_flag(&keys::ENVARS_HARVESTED)?;
    check_maps(nspace, &directives)?;
    let mut collected = Vec::new();
    if envars && !is_harvested {
        collected.extend(harvest(patterns, environment));
    }
    let (passed_on, rest): (Vec<_>, Vec<_>) =
        directives.into_vec().into_iter().partition(|info| others && FABRIC.contains(&info.key.as_str()));
    collected.extend(passed_on);
    rest.into_iter().filter(|info| !is_map(info)).collect::<Directives>().deny_unprocessed()?;
    Ok(collected)
}

/// The maps name the nodes for which the result is meant (SET-01).
fn check_maps(nspace: &Nspace, directives: &Directives) -> Result<(), Failure> {
    let mut job = JobData::new(nspace.clone());
    let maps = directives.iter().filter(|info| is_map(info));
    job.register(&maps.cloned().collect::<Vec<_>>(), "")
        .map_err(|error| Failure::new(error.status(), error.to_string()))?;
    if job.node_map().is_none() || job.proc_map().is_none() {
        let message = "setup_application requires the node map and the process map of the job";
        return Err(Failure::new(Status::ERR_BAD_PARAM, message));
    }
    Ok(())
}

fn is_map(info: &Info) -> bool {
    [&keys::NODE_MAP, &keys::NODE_MAP_RAW, &keys::PROC_MAP, &keys::PROC_MAP_RAW]
        .iter()
        .any(|key| info.is(key))
}

/// Variables whose names match a pattern: a full name, or a prefix followed by `*`.
fn harvest(
    patterns: &[String],
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = Info> {
    let fits = |name: &OsStr| {
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(start) => name.as_bytes().starts_with(start.as_bytes()),
            None => name == OsStr::new(pattern),
        })
    };
    let mut found: Vec<_> = environment.filter(|(name, _)| fits(name)).collect();
    found.sort();
    found.into_iter().map(|(name, value)| Info::new(&keys::SET_ENVAR, Envar { name, value, separator: 0 }))
}

#[cfg(test)]
mod tests {
    use pmix_types::job::JobSpec;

    use super::*;

    fn collected(more: impl IntoIterator<Item = Info>) -> Result<Vec<Info>, Failure> {
        let spec = JobSpec::new("job".parse().unwrap()).node_map(["n0"]).unwrap().proc_map("0-1").unwrap();
        let infos = spec.into_infos().into_iter().chain(more).collect();
        let environment =
            [("OMP_B", "2"), ("OMP_A", "1"), ("PATH", "/bin"), ("EXACT", "3"), ("EXACTLY", "4")];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let patterns = ["OMP_*".to_owned(), "EXACT".to_owned()];
        application(&"job".parse().unwrap(), infos, &patterns, environment.into_iter())
    }

    fn variable(name: &str, value: &str) -> Info {
        Info::new(&keys::SET_ENVAR, Envar { name: name.into(), value: value.into(), separator: 0 })
    }

    #[test]
    fn set_02_flags_choose_what_is_collected() {
        let variables = [variable("EXACT", "3"), variable("OMP_A", "1"), variable("OMP_B", "2")];
        let fabric = Info::new(&keys::ALLOC_FABRIC_ID, "net");
        // the old name has the same string
        let bandwidth = Info::dynamic("pmix.alloc.netqos".parse().unwrap(), "best");
        let requests = [fabric.clone(), bandwidth.clone()];
        let asked = |flag| collected([Info::new(flag, true), fabric.clone(), bandwidth.clone()]).unwrap();
        assert_eq!(asked(&keys::SETUP_APP_ENVARS), variables);
        assert_eq!(asked(&keys::SETUP_APP_NONENVARS), requests);
        assert_eq!(asked(&keys::SETUP_APP_ALL), [variables.as_slice(), &requests].concat());
        let before = [Info::new(&keys::SETUP_APP_ALL, true), Info::new(&keys::ENVARS_HARVESTED, true)];
        assert_eq!(collected(before).unwrap(), []);
    }

    #[test]
    fn set_01_set_04_maps_are_needed_and_an_answer_may_be_empty() {
        assert_eq!(collected([]).unwrap(), []);
        let nobody = application(&"job".parse().unwrap(), Vec::new(), &[], std::iter::empty());
        assert_eq!(nobody.unwrap_err().status, Status::ERR_BAD_PARAM);
        let maps = [Info::new(&keys::NODE_MAP_RAW, "n0"), Info::new(&keys::PROC_MAP_RAW, "0-1")];
        for one in maps {
            let alone = application(&"job".parse().unwrap(), vec![one], &[], std::iter::empty());
            assert_eq!(alone.unwrap_err().status, Status::ERR_BAD_PARAM);
        }
        let two_nodes = collected([Info::new(&keys::PROC_MAP_RAW, "0;1")]);
        assert_eq!(two_nodes.unwrap_err().status, Status::ERR_BAD_PARAM);
        let strange = Info::required(&keys::ALLOC_TIME, "5");
        assert_eq!(collected([strange]).unwrap_err().status, Status::ERR_NOT_SUPPORTED);
    }
}
