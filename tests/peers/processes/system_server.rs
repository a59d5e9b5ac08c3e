//! The system-level server of a node, session-level ones, and the tools of several users.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use pmix_client::ProcId;
use pmix_client::types::job::JobSpec;
use pmix_server::host::ToolConnected;
use pmix_server::{Capabilities, HostModule, HostResult, Server, Upcall, UpcallContext, async_trait};
use pmix_tests::{OtherUser, Place, Running, nspace, proc, program};
use rustix::process::Signal;

/// The name of the job that a launcher with this process id has started.
fn job_of(running: &Running) -> String {
    format!(".{}", running.pid())
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
    let (tool, name) = (user.copy_of(&program("pmix")), rustix::system::uname());
    for lets_in in [true, false] {
        let server = Server::builder().host(Open).hostname(name.nodename().to_str().unwrap());
        let server = server.session_root(place.session()).system_tmpdir(place.system());
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
async fn tol_05a_a_system_server_of_another_user_is_trusted_only_if_that_user_is_named() {
    let (Some(user), Some(third)) = (OtherUser::second(), OtherUser::third()) else { return };
    let place = Place::new();
    let launcher = user.copy_of(&program("pmixrun"));
    let system = place.runs(user.command(&launcher), &["--system-server"]).await;
    assert_eq!(fs::metadata(place.file()).unwrap().permissions().mode() & 0o777, 0o600);
    // root by selection only, and by naming whom it trusts
    let (ok, said) = place.ps(place.pmix(), &["--system"]).await;
    let why = format!("belongs to uid {}, and only root's", user.uid);
    assert!(!ok && said.contains(&why), "{said}");
    let uid = user.uid.to_string();
    let (ok, said) = place.ps(place.pmix(), &["--system", "--trust-uid", &uid]).await;
    assert!(ok && said.contains(&job_of(&system)), "{said}");
    let (_, said) = place.ps(place.pmix(), &[]).await;
    assert!(!said.contains(&job_of(&system)), "{said}");
    let (ok, said) = place.ps(place.pmix(), &["--pid", &system.pid().to_string()]).await;
    assert!(ok && said.contains(&job_of(&system)), "{said}");
    let tool = third.copy_of(&program("pmix"));
    let (ok, said) = place.ps(third.command(&tool), &["--system"]).await;
    assert!(!ok, "{said}");
    // anyone may read this one: what it says is not believed
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let (ok, said) = place.ps(third.command(&tool), &["--system"]).await;
    assert!(!ok && said.contains(&format!("belongs to uid {}", user.uid)), "{said}");
    // nor are other servers of root those of the system because somebody says so, in a file or by a link
    let private = place.runs(place.pmixrun(), &[]).await;
    let dirs = fs::read_dir(place.session().join("pmix-0")).unwrap().map(|dir| dir.unwrap().path());
    let dir = dirs.into_iter().find(|dir| dir.is_dir()).unwrap();
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let uri = dir.join(format!("pmix.{name}.tool"));
    let record = fs::read_to_string(&uri).unwrap();
    for of in ["file", "link"] {
        fs::remove_file(place.file()).unwrap();
        let target = user.home().join(of);
        fs::write(&target, &record).unwrap();
        match of {
            "file" => fs::copy(&target, place.file()).map(drop).unwrap(),
            _ => std::os::unix::fs::symlink(&uri, place.file()).unwrap(),
        }
        std::os::unix::fs::lchown(place.file(), Some(user.uid.as_raw()), None).unwrap();
        let (ok, said) = place.ps(place.pmix(), &["--system"]).await;
        assert!(!ok && !said.contains(&job_of(&private)), "{of}: {said}");
        let why = if of == "file" { "belongs to uid" } else { "is a link" };
        assert!(said.contains(why), "{said}");
    }
    // nor does it keep the server of root out
    let own = place.runs(place.pmixrun(), &["--system-server"]).await;
    own.signal(Signal::INT);
    own.end().await;
    drop(system);
}

#[tokio::test]
async fn tol_02_a_file_of_another_user_in_its_place_keeps_out_only_ordinary_users() {
    let (Some(user), Some(third)) = (OtherUser::second(), OtherUser::third()) else { return };
    let place = Place::new();
    fs::write(place.file(), "x").unwrap();
    std::os::unix::fs::chown(place.file(), Some(user.uid.as_raw()), None).unwrap();
    let launcher = third.copy_of(&program("pmixrun"));
    let starts = async |options: &[&str]| {
        let mut command = place.placed(third.command(&launcher));
        command.args(options).args(["sh", "-c", "echo started"]);
        Running::start(command).end().await
    };
    let (status, out, err) = starts(&["--system-server"]).await;
    assert!(!status.success() && !out.contains("started"), "{out}{err}");
    assert!(err.contains("pmix.sys.") && err.contains("have its owner remove it"), "{err}");
    let (status, out, err) = starts(&[]).await;
    assert!(status.success() && out.contains("started"), "{out}{err}");
    let root = place.runs(place.pmixrun(), &["--system-server"]).await;
    root.signal(Signal::INT);
    root.end().await;
}

/// The same for a server of a session, which the default search never leads to.
#[tokio::test]
async fn tol_05a_tol_06c_root_finds_the_session_server_of_another_user_by_its_process_id_only() {
    let (Some(user), Some(third)) = (OtherUser::second(), OtherUser::third()) else { return };
    let place = Place::new();
    let session = place.runs(user.command(user.copy_of(&program("pmixrun"))), &[]).await;
    let pid = session.pid().to_string();
    let (ok, said) = place.ps(place.pmix(), &["--pid", &pid]).await;
    assert!(ok && said.contains(&job_of(&session)), "{said}");
    let (_, said) = place.ps(place.pmix(), &[]).await;
    assert!(!said.contains(&job_of(&session)), "{said}");
    let tool = third.copy_of(&program("pmix"));
    let (ok, said) = place.ps(third.command(&tool), &["--pid", &pid]).await;
    assert!(!ok && !said.contains(&job_of(&session)), "{said}");
    session.signal(Signal::INT);
    session.end().await;
}
