//! The operations, one file a family.

mod abort;
mod builder;
mod connect;
mod fabric;
mod fence;
mod finalize;
mod get;
mod group;
mod invite;
mod job_control;
mod log;
mod lookup;
mod manage;
mod monitor;
mod publish;
mod query;
mod resolve;
mod spawn;
mod stop_in_init;
mod unpublish;

pub use abort::AbortBuilder;
pub use connect::{ConnectBuilder, Connection, DisconnectBuilder};
pub use fabric::{Fabric, FabricBuilder};
pub use fence::{FenceBuilder, Procs};
pub use finalize::FinalizeBuilder;
pub use get::{GetAllBuilder, GetBuilder, NodeRef, Target};
pub use group::{Group, GroupConstructBuilder, GroupDestructBuilder, GroupLeaveBuilder};
pub use invite::{GroupDeclineBuilder, GroupInviteBuilder, GroupJoinBuilder};
pub use job_control::JobControlBuilder;
pub use log::{LogBuilder, Logged};
pub use lookup::{LookupBuilder, Published};
pub use manage::{
    AllocateBuilder, CredentialBuilder, ResourceBlockBuilder, SessionControlBuilder,
    ValidateCredentialBuilder,
};
pub use monitor::{MonitorBuilder, MonitorSignBuilder};
pub use publish::PublishBuilder;
pub(crate) use query::query;
pub use query::{QueryResult, QueryResults, query_before_init};
pub(crate) use resolve::{resolve_nodes, resolve_peers};
pub use spawn::SpawnBuilder;
pub(crate) use stop_in_init::stop_in_init;
pub use unpublish::UnpublishBuilder;

use std::time::Duration;

/// A limit as `TIMEOUT` wants it: whole seconds, rounded up; 0 for none (GEN-12).
fn whole_seconds(limit: Duration) -> i32 {
    let rounded_up = limit.as_secs().saturating_add(u64::from(limit.subsec_nanos() > 0));
    i32::try_from(rounded_up).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gen_12_a_timeout_is_in_whole_seconds_and_0_means_for_ever() {
        assert_eq!(whole_seconds(Duration::ZERO), 0);
        assert_eq!(whole_seconds(Duration::from_millis(1)), 1);
        assert_eq!(whole_seconds(Duration::from_secs(3)), 3);
        assert_eq!(whole_seconds(Duration::MAX), i32::MAX);
    }
}
