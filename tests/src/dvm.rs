use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use pmix_test_wait::until;
use tempfile::TempDir;

use crate::commands::{plain_environment, started_by};
use crate::daemons::agent;
use crate::hosts::Hosts;
use crate::peers::{outside_allocations, run};
use crate::programs::{Running, program};
use crate::users::OtherUser;

/// A DVM: `pmixd --head`, ready for jobs. It is killed when this is dropped.
#[derive(Debug)]
pub struct TestDvm {
    head: Running,
    uri: String,
    place: Place,
}

/// Where it runs.
#[derive(Debug)]
enum Place {
    /// Daemons of all hosts are here.
    Here(TempDir),
    On(Hosts),
}

impl Place {
    /// A command on the host of the head, without its terminal if that is said.
    fn command(&self, name: &str, is_alone: bool) -> Command {
        let program = program(name);
        let first = if is_alone { Path::new("setsid") } else { &program };
        let mut command = match self {
            Self::Here(dir) => {
                let mut command = Command::new(first);
                plain_environment(&mut command);
                outside_allocations(&mut command);
                for name in ["PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR", "TMPDIR"] {
                    command.env(name, dir.path());
                }
                command
            }
            Self::On(hosts) => hosts.command(0, first),
        };
        if is_alone {
            command.arg(&program);
        }
        command.env_remove("RUST_LOG").env("PMIXRUN_RECORD", "none");
        command
    }
}

impl TestDvm {
    /// On this node alone.
    pub async fn alone() -> Self {
        Self::start(Place::Here(tempfile::tempdir().unwrap()), &[]).await
    }

    /// On this node alone, with these options, as soon as it is the head of its DVM.
    pub async fn alone_with(args: &[String]) -> Self {
        let args: Vec<_> = args.iter().map(String::as_str).collect();
        Self::start(Place::Here(tempfile::tempdir().unwrap()), &args).await
    }

    /// On this node alone, for all users of it.
    pub async fn shared() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        Self::start(Place::Here(dir), &["--multi-user"]).await
    }

    /// The same; this command starts its head.
    pub async fn shared_by(outer: Command) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let place = Place::Here(dir);
        let command = started_by(outer, &place.command("pmixd", true));
        Self::start_by(command, place, &["--multi-user"]).await
    }

    /// On hosts that are all this one, whose daemons this shell script starts; its first argument is the name of the host.
    pub async fn here(hosts: &str, script: &str, args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agent = agent(dir.path(), script);
        let hosts = ["--host", hosts, "--launch-agent", agent.to_str().unwrap()];
        Self::start(Place::Here(dir), &[&hosts, args].concat()).await
    }

    /// On hosts that are reached by ssh.
    pub async fn on(hosts: Hosts, args: &[&str]) -> Self {
        Self::start(Place::On(hosts), args).await
    }

    async fn start(place: Place, args: &[&str]) -> Self {
        let command = place.command("pmixd", args.contains(&"--multi-user"));
        Self::start_by(command, place, args).await
    }

    async fn start_by(mut command: Command, place: Place, args: &[&str]) -> Self {
        program("pmix");
        command.args(["--head", "--report-uri", "-"]).args(args);
        let mut head = Running::start(command);
        let Some(uri) = head.line_at_last().await else {
            let (status, _, err) = head.end().await;
            panic!("the head has ended before it was ready: {status}: {err}");
        };
        Self { head, uri, place }
    }

    /// The process of the head, or what has started it on its host.
    pub const fn head(&self) -> &Running {
        &self.head
    }

    /// The address of its server.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The directory of its servers' sessions.
    ///
    /// # Panics
    /// If it is on hosts of its own.
    pub fn dir(&self) -> &Path {
        match &self.place {
            Place::Here(dir) => dir.path(),
            Place::On(_) => panic!("each host has its own"),
        }
    }

    /// Its hosts.
    ///
    /// # Panics
    /// If it is here.
    pub fn hosts(&mut self) -> &mut Hosts {
        match &mut self.place {
            Place::On(hosts) => hosts,
            Place::Here(_) => panic!("it has no hosts of its own"),
        }
    }

    /// Another program on the host of the head, with the variables by which its tools find it.
    ///
    /// # Panics
    /// If it is on hosts of its own.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        plain_environment(&mut command);
        for name in ["PMIX_SERVER_TMPDIR", "PMIX_SYSTEM_TMPDIR", "TMPDIR"] {
            command.env(name, self.dir());
        }
        command.env("PMIXRUN_RECORD", "none");
        command
    }

    /// A command of `pmix`, for this DVM.
    pub fn pmix(&self, words: &[&str], args: &[&str]) -> Command {
        let mut command = self.place.command("pmix", false);
        command.args(words).args(["--uri", &self.uri]).args(args);
        command
    }

    /// The same, called by another user of the host of the head.
    pub fn pmix_of(&self, user: &OtherUser, words: &[&str], args: &[&str]) -> Command {
        let pmix = program("pmix");
        let mut command = match &self.place {
            Place::Here(_) => user.command(user.copy_of(&pmix)),
            Place::On(hosts) => {
                let uid = user.uid.to_string();
                let mut command = hosts.command(0, "setpriv");
                command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]).arg(pmix);
                command
            }
        };
        command.env_remove("RUST_LOG").args(words).args(["--uri", &self.uri]).args(args);
        command
    }

    /// A job by `pmix submit`.
    pub fn submit(&self, args: &[&str]) -> Command {
        self.pmix(&["submit"], args)
    }

    /// A job by `pmixrun`.
    pub fn pmixrun(&self, args: &[&str]) -> Command {
        let mut command = self.place.command("pmixrun", false);
        command.args(["--timeout", "600", "--dvm", &self.uri]).args(args);
        command
    }

    /// What `pmix nodes` says of each, without the titles, in words with one space between them.
    pub fn nodes(&self) -> Vec<String> {
        let (code, out, err) = run(self.pmix(&["nodes"], &[]));
        assert_eq!((code, err.as_str()), (Some(0), ""));
        out.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    }

    /// Waits until what `pmix nodes` says is so.
    pub async fn until_nodes(&self, is_so: impl Fn(&[String]) -> bool) {
        let look = || {
            let nodes = self.nodes();
            if is_so(&nodes) { Ok(()) } else { Err(nodes) }
        };
        until("`pmix nodes` says so", look).await;
    }

    /// Ends it by a tool, after which `is_clean` is to return; what the head has said on standard error.
    pub async fn stop(self, is_clean: impl FnOnce(Option<&Path>, Option<&Hosts>)) -> String {
        assert_eq!(run(self.pmix(&["dvm", "stop"], &[])), (Some(0), String::new(), String::new()));
        self.ended(is_clean).await
    }

    /// Waits until it has ended, as it was told, after which `is_clean` is to return; what the head has said on standard error.
    pub async fn ended(self, is_clean: impl FnOnce(Option<&Path>, Option<&Hosts>)) -> String {
        self.ended_with(0, is_clean).await
    }

    /// The same with this exit code.
    pub async fn ended_with(self, code: i32, is_clean: impl FnOnce(Option<&Path>, Option<&Hosts>)) -> String {
        let (status, out, err) = self.head.end().await;
        assert_eq!((status.code(), out.as_str()), (Some(code), ""), "{err}");
        match &self.place {
            Place::Here(dir) => is_clean(Some(dir.path()), None),
            Place::On(hosts) => is_clean(None, Some(hosts)),
        }
        err
    }
}
