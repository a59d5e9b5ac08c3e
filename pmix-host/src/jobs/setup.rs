//! What a job needs on its nodes, before its first process starts there (SET-01, SET-03).

use pmix_server::host::{HostError, HostResult};
use pmix_types::{Info, Nspace, keys};

use super::node::Nodes;
use super::plan::Plan;
use super::start::Jobs;

/// What is to be collected for a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes {
    /// Its requester has looked for variables of programming models.
    pub(super) is_harvested: bool,
    /// It runs as the user of this process, whose variables may be its own.
    pub(super) is_own: bool,
}

impl Jobs {
    /// Collects what a registered job needs, and has each of its nodes set up.
    ///
    /// # Errors
    /// What keeps a node from it, by name.
    pub(super) async fn set_up(
        &self,
        nspace: &Nspace,
        plan: &Plan,
        nodes: &Nodes,
        wishes: Wishes,
    ) -> HostResult<()> {
        let collecting = || format!("cannot collect what the nodes of {nspace} need");
        let needed = self.collect(nspace, plan, wishes).await;
        let needed = needed.map_err(|error| explained(&collecting(), error))?;
        for (name, node) in plan.nodes.iter().filter_map(|name| Some((name, nodes.get(name)?))) {
            let setting_up = || format!("cannot set node {name} up for {nspace}");
            let set_up = node.set_up_local(nspace, needed.clone()).await;
            set_up.map_err(|error| explained(&setting_up(), error))?;
        }
        Ok(())
    }

    /// What the server finds, and what the launcher adds.
    async fn collect(&self, nspace: &Nspace, plan: &Plan, wishes: Wishes) -> HostResult<Vec<Info>> {
        let launcher = &self.cluster.launcher;
        let flags = [
            Info::new(&keys::SETUP_APP_NONENVARS, true),
            Info::new(&keys::SETUP_APP_ENVARS, wishes.is_own && launcher.collects_env()),
            Info::new(&keys::ENVARS_HARVESTED, wishes.is_harvested),
        ];
        let request = plan.maps(nspace).into_infos().into_iter().chain(flags);
        let mut needed = self.site.server()?.setup_application(nspace, request).await?;
        needed.extend(launcher.prepare(nspace, &plan.nodes).await?);
        Ok(needed)
    }
}

fn explained(what: &str, error: HostError) -> HostError {
    HostError::new(error.status(), format!("{what}: {error}")).with_source(error)
}
