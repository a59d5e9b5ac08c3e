//! Processes of several users on one server: real ones, on the server of root.

mod accounts;
mod dvm;
mod hostile;
mod impostors;
mod jobs;
mod refusals;
mod sessions;
mod shared;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use pmix_host::{MemoryExchange, StandardHost};
use pmix_launch::{Guardian, JobSession, LocalLauncher};
use pmix_server::types::job::JobSpec;
use pmix_tests::{OtherUser, Running, TestNode, nspace, proc, rank_program};

type Host = StandardHost;

/// A server that other users reach, whose host starts processes, and two of these users.
struct Rig {
    node: TestNode,
    host: Host,
    alice: OtherUser,
    bob: OtherUser,
}

impl Rig {
    /// `None` without root.
    async fn start() -> Option<Self> {
        Self::start_with(LocalLauncher::new("n0")).await
    }

    /// The same, with a guardian that starts the processes.
    async fn start_guarded() -> Option<Self> {
        let mut command = pmix_tests::plain_pmixrun();
        command.arg("__guardian");
        let guardian = Arc::new(Guardian::start(command, JobSession::Own).unwrap());
        Self::start_with(LocalLauncher::new("n0").with_guardian(guardian)).await
    }

    async fn start_with(launcher: LocalLauncher) -> Option<Self> {
        Self::start_on(launcher, |host| host).await
    }

    async fn start_on(launcher: LocalLauncher, host: impl FnOnce(Host) -> Host) -> Option<Self> {
        let (alice, bob) = (OtherUser::second()?, OtherUser::third()?);
        let host = host(StandardHost::new(launcher, MemoryExchange::single("n0")));
        let node = TestNode::builder(1).host(host.clone());
        let node = node.server(|server| server.other_users(true).tool_support(true)).start().await;
        open(node.root());
        Some(Self { node, host, alice, bob })
    }

    /// Starts the rank program as a process of a job of its own that a user has.
    async fn process(&self, user: &OtherUser, nspace: &str, args: &[&str]) -> Running {
        process(&self.node, user, nspace, args).await
    }

    /// Has a process of the second user start a command and wait for its end; what it says of that.
    async fn spawn(&self, nspace: &str, what: &str, file: &Path, command: &[&str]) -> String {
        let mut args = vec!["spawn-with", what, file.to_str().unwrap()];
        args.extend(command);
        let (status, out, err) = self.process(&self.alice, nspace, &args).await.end().await;
        assert!(status.success(), "{out}{err}");
        out
    }
}

/// Starts the rank program as the only process of a job that is registered for a user.
async fn process(node: &TestNode, user: &OtherUser, name: &str, args: &[&str]) -> Running {
    Running::start(process_command(node, user, name, args).await)
}

/// The command that would start it.
async fn process_command(node: &TestNode, user: &OtherUser, name: &str, args: &[&str]) -> Command {
    let (nspace, proc) = (nspace(name), proc(name, 0));
    let spec = JobSpec::new(nspace).node_map([node.handle().hostname()]).unwrap().proc_map("0").unwrap();
    node.handle().register_nspace(spec).await.unwrap();
    node.handle().register_client(&proc, user.uid, user.gid, None).await.unwrap();
    let mut command = user.command(user.copy_of(&rank_program()));
    node.handle().setup_fork(&proc).await.unwrap().apply(&mut command);
    command.args(args);
    command
}

/// Lets others look into a directory.
fn open(dir: &Path) {
    fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
}
