//! The system-level server of a node beside session-level ones, started by `pmixrun`, and the tools of several users.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pmix_client::ProcId;
use pmix_client::types::job::JobSpec;
use pmix_server::host::ToolConnected;
use pmix_server::{Capabilities, HostModule, HostResult, Server, Upcall, UpcallContext, async_trait};
use pmix_tests::{OtherUser, Running, nspace, proc, program, run, within};
use pmix_tool::Tool;
use rustix::process::Signal;
use tempfile::TempDir;

/// Directories of the system and of sessions, which all users may enter.
struct Place {
    system: TempDir,
    session: TempDir,
}

impl Place {
    fn new() -> Self {
        let open = || {
            let dir = tempfile::tempdir().unwrap();
            // as /tmp is
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
            dir
        };
        Self { system: open(), session: open() }
    }

    fn placed(&self, mut command: Command) -> Command {
        command.env("PMIX_SYSTEM_TMPDIR", self.system.path());
        command.env("TMPDIR", self.session.path()).env_remove("PMIX_SERVER_TMPDIR");
        command
    }

    fn file(&self) -> std::path::PathBuf {
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        self.system.path().join(format!("pmix.sys.{name}"))
    }

    /// `pmixrun` with a job that sleeps, as far as it has started.
    async fn runs(&self, command: Command, options: &[&str]) -> Running {
        let mut command = self.placed(command);
        command.args(options).args(["-n", "1", "sh", "-c", "echo started; exec sleep 1000"]);
        let mut running = Running::start(command);
        running.line_with("started").await;
        running
    }

    /// What `pmix ps` says.
    async fn ps(&self, command: Command, selection: &[&str]) -> (bool, String) {
        let mut command = self.placed(command);
        command.arg("ps").args(selection);
        let (status, out, err) = Running::start(command).end().await;
        (status.success(), out + &err)
    }
}

fn pmixrun() -> Command {
    let mut command = pmix_tests::plain_pmixrun();
    command.env("PMIXRUN_RECORD", "none");
    command
}

fn pmix() -> Command {
    Command::new(program("pmix-tool", "pmix"))
}

fn node() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The name of the job that a launcher with this process id has started.
fn job_of(running: &Running) -> String {
    format!(".{}", running.pid())
}

#[tokio::test]
async fn tol_02_tol_06e_tol_07a_qry_15b_tools_find_the_system_server_first_and_each_by_its_selection() {
    let place = Place::new();
    let session = place.runs(pmixrun(), &[]).await;
    let (ok, said) = place.ps(pmix(), &["--system"]).await;
    assert!(!ok && said.contains("pmix.sys."), "{said}");
    let system = place.runs(pmixrun(), &["--system-server"]).await;
    assert_eq!(fs::metadata(place.file()).unwrap().permissions().mode() & 0o777, 0o600);
    let (of_session, of_system) = (job_of(&session), job_of(&system));
    let (own, all) = (session.pid().to_string(), system.pid().to_string());
    for (selection, shown, hidden) in [
        (&["--system"][..], &of_system, &of_session),
        (&["--pid", &all], &of_system, &of_session),
        (&["--pid", &own], &of_session, &of_system),
        (&["--file", place.file().to_str().unwrap()], &of_system, &of_session),
    ] {
        let (ok, said) = place.ps(pmix(), selection).await;
        assert!(ok && said.contains(&**shown) && !said.contains(&**hidden), "{selection:?}: {said}");
    }
    // the library of the tool knows the servers, whichever it asks
    let mut command = place.placed(pmix());
    command.args(["query", "--pid", &own, "PMIX_QUERY_AVAIL_SERVERS", "PMIX_QUERY_NAMESPACES"]);
    let (status, out, err) = Running::start(command).end().await;
    assert!(status.success() && out.contains(&of_session), "{out}{err}");
    for pid in [&own, &all] {
        assert!(out.contains(&format!("server.{}.{pid}", node())), "{out}{err}");
    }
    // without selection all servers are shown, each once
    let (ok, said) = place.ps(pmix(), &[]).await;
    assert!(ok && said.contains(&of_session) && said.contains(&of_system), "{said}");

    // there is one at a time
    let mut command = place.placed(pmixrun());
    command.args(["--system-server", "true"]);
    let (status, _, err) = run(command);
    assert!(status != Some(0) && err.contains(&format!("pid {all} is the system-level server")), "{err}");
    // a killed one leaves its file, which the next one takes over
    system.kill();
    system.end().await;
    assert!(place.file().exists());
    let (ok, said) = place.ps(pmix(), &["--system"]).await;
    assert!(!ok, "{said}");
    let next = place.runs(pmixrun(), &["--system-server"]).await;
    let (ok, said) = place.ps(pmix(), &["--system"]).await;
    assert!(ok && said.contains(&job_of(&next)), "{said}");
    next.signal(Signal::INT);
    next.end().await;
    assert!(!place.file().exists());
    session.kill();
}

/// Lets all tools in.
#[derive(Debug)]
struct Open;

#[async_trait]
impl HostModule for Open {
    fn capabilities(&self) -> Capabilities {
        [Upcall::ToolConnected].into_iter().collect()
    }

    async fn tool_connected(&self, cx: &UpcallContext, _: ToolConnected) -> HostResult<ProcId> {
        Ok(proc(&format!("tool-of-{}", cx.uid), 0))
    }
}

#[tokio::test]
async fn tol_02_tol_05b_tools_of_other_users_pass_where_the_server_lets_them() {
    let Some(user) = OtherUser::second() else { return };
    let place = Place::new();
    let (tool, name) = (user.copy_of(&program("pmix-tool", "pmix")), rustix::system::uname());
    for lets_in in [true, false] {
        let server = Server::builder().host(Open).hostname(name.nodename().to_str().unwrap());
        let server = server.session_root(place.session.path()).system_tmpdir(place.system.path());
        let server = server.other_users(lets_in).start().await.unwrap();
        server.handle().register_nspace(JobSpec::new(nspace("hidden"))).await.unwrap();
        let (ok, said) = place.ps(user.command(&tool), &["--system"]).await;
        assert_eq!(ok, lets_in, "{said}");
        // it sees its own jobs, of which there are none
        assert!(!said.contains("hidden") && (lets_in || said.contains("cannot be read")), "{said}");
        server.stop().await;
        assert!(!place.file().exists());
    }
}

#[tokio::test]
async fn tol_05a_a_system_server_of_another_user_is_not_trusted_but_by_root_that_has_chosen_it() {
    let (Some(user), Some(third)) = (OtherUser::second(), OtherUser::third()) else { return };
    let place = Place::new();
    let launcher = user.copy_of(&program("pmix-rm", "pmixrun"));
    let system = place.runs(user.command(&launcher), &["--system-server"]).await;
    assert_eq!(fs::metadata(place.file()).unwrap().permissions().mode() & 0o777, 0o600);
    // root by selection only
    let (ok, said) = place.ps(pmix(), &["--system"]).await;
    assert!(ok && said.contains(&job_of(&system)), "{said}");
    let (_, said) = place.ps(pmix(), &[]).await;
    assert!(!said.contains(&job_of(&system)), "{said}");
    let (ok, said) = place.ps(pmix(), &["--pid", &system.pid().to_string()]).await;
    assert!(ok && said.contains(&job_of(&system)), "{said}");
    let tool = third.copy_of(&program("pmix-tool", "pmix"));
    let (ok, said) = place.ps(third.command(&tool), &["--system"]).await;
    assert!(!ok, "{said}");
    // anyone may read this one: what it says is not believed
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let (ok, said) = place.ps(third.command(&tool), &["--system"]).await;
    assert!(!ok && said.contains(&format!("belongs to uid {}", user.uid)), "{said}");
    // nor does it keep the server of root out
    let own = place.runs(pmixrun(), &["--system-server"]).await;
    own.signal(Signal::INT);
    own.end().await;
    drop(system);
}

/// The same for a server of a session, which the default search never leads to.
#[tokio::test]
async fn tol_05a_tol_06c_root_finds_the_session_server_of_another_user_by_its_process_id_only() {
    let (Some(user), Some(third)) = (OtherUser::second(), OtherUser::third()) else { return };
    let place = Place::new();
    let session = place.runs(user.command(user.copy_of(&program("pmix-rm", "pmixrun"))), &[]).await;
    let pid = session.pid().to_string();
    let (ok, said) = place.ps(pmix(), &["--pid", &pid]).await;
    assert!(ok && said.contains(&job_of(&session)), "{said}");
    let (_, said) = place.ps(pmix(), &[]).await;
    assert!(!said.contains(&job_of(&session)), "{said}");
    let tool = third.copy_of(&program("pmix-tool", "pmix"));
    let (ok, said) = place.ps(third.command(&tool), &["--pid", &pid]).await;
    assert!(!ok && !said.contains(&job_of(&session)), "{said}");
    session.signal(Signal::INT);
    session.end().await;
}

#[tokio::test]
async fn tol_06e_a_tool_that_wants_the_system_server_first_takes_another_if_there_is_none() {
    let place = Place::new();
    let session = place.runs(pmixrun(), &[]).await;
    let attach = async || {
        let tool = Tool::builder().session_root(place.session.path()).system_tmpdir(place.system.path());
        let tool = within(tool.system_first().connect()).await.unwrap();
        let jobs = within(tool.namespaces()).await.unwrap();
        within(tool.finalize()).await.unwrap();
        jobs[0].to_string()
    };
    assert!(attach().await.ends_with(&job_of(&session)));
    let system = place.runs(pmixrun(), &["--system-server"]).await;
    assert!(attach().await.ends_with(&job_of(&system)));
    for launcher in [system, session] {
        launcher.signal(Signal::INT);
        launcher.end().await;
    }
}

#[tokio::test]
async fn tol_07a_a_system_server_that_hangs_leaves_time_for_another_and_both_failures_are_told() {
    let place = Place::new();
    let session = place.runs(pmixrun(), &[]).await;
    let system = place.runs(pmixrun(), &["--system-server"]).await;
    system.signal(Signal::STOP);
    let connect = async |seconds| {
        let tool = Tool::builder().session_root(place.session.path()).system_tmpdir(place.system.path());
        within(tool.system_first().timeout(Duration::from_secs(seconds)).connect()).await
    };
    let tool = connect(16).await.unwrap();
    let jobs = within(tool.namespaces()).await.unwrap();
    assert!(jobs[0].ends_with(&job_of(&session)), "{jobs:?}");
    within(tool.finalize()).await.unwrap();
    session.signal(Signal::STOP);
    let error = connect(4).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    for launcher in [&system, &session] {
        assert!(error.to_string().contains(&format!(".{}", launcher.pid())), "{error}");
    }
    let end = async |launcher: Running| {
        launcher.signal(Signal::CONT);
        launcher.signal(Signal::INT);
        launcher.end().await;
    };
    end(session).await;
    // without another one, that it hangs is all there is to say
    let error = connect(2).await.unwrap_err();
    assert!(error.is_timeout() && !error.to_string().contains("before that"), "{error}");
    end(system).await;
}

#[tokio::test]
async fn tol_02_what_else_is_in_its_place_is_no_server() {
    let place = Place::new();
    let garbage = |path: &Path| fs::write(path, "no such server\n").unwrap();
    let fifo = |path: &Path| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
    };
    let link = |path: &Path| symlink("/nowhere", path).unwrap();
    let making: [&dyn Fn(&Path); 3] = [&garbage, &fifo, &link];
    for make in making {
        make(&place.file());
        let (ok, said) = place.ps(pmix(), &["--system"]).await;
        assert!(!ok && said.contains("pmix.sys."), "{said}");
        // others do without it
        let session = place.runs(pmixrun(), &[]).await;
        let (ok, said) = place.ps(pmix(), &[]).await;
        assert!(ok && said.contains(&job_of(&session)), "{said}");
        session.signal(Signal::INT);
        session.end().await;
        let system = place.runs(pmixrun(), &["--system-server"]).await;
        system.signal(Signal::INT);
        system.end().await;
        assert!(fs::symlink_metadata(place.file()).is_err());
    }
}
