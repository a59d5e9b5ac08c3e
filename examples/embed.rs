//! A resource manager for one node in about 50 lines: it starts four processes of a program and waits for them.

use pmix_server::host::{Abort, HostResult, UpcallContext};
use pmix_server::types::{ProcId, Rank, job::JobSpec};
use pmix_server::{HostModule, NativeWire, Server, async_trait, host_module};
use std::{error::Error, sync::Arc};
use tokio::{process::Command, sync::Notify};

/// Serves one entry of the Standard's server module; job data, put, get, fence and events on one node need none.
#[derive(Default)]
struct Manager {
    aborted: Notify,
}

#[host_module]
#[async_trait]
impl HostModule for Manager {
    async fn abort(&self, _: &UpcallContext, _: Abort) -> HostResult<()> {
        self.aborted.notify_one();
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let program = std::env::args().nth(1).ok_or("usage: embed <program>")?;
    let manager = Arc::new(Manager::default());
    let server =
        Server::builder().host(manager.clone()).hostname("node1").native_wire(NativeWire::On).start().await?;
    let (handle, user) = (server.handle(), rustix::process::geteuid().as_raw());
    handle.register_nspace(JobSpec::new("job-1".parse()?).node_map(["node1"])?.proc_map("0-3")?).await?;
    let mut processes = Vec::new();
    for rank in 0..4 {
        let proc = ProcId::new("job-1".parse()?, Rank::new(rank)?);
        handle.register_client(&proc, user, rustix::process::getegid().as_raw(), None).await?;
        let mut command = Command::new(&program);
        handle.setup_fork(&proc).await?.apply(command.as_std_mut());
        processes.push((proc, command.kill_on_drop(true).spawn()?));
    }
    for (proc, mut process) in processes {
        tokio::select! {
            status = process.wait() => handle.client_ended(&proc, &status?.to_string()).await?, // informs its peers
            () = manager.aborted.notified() => return Err("the job was aborted".into()), // dropping them kills them
        }
    }
    server.stop().await;
    Ok(())
}
