//! A DVM of another user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pmix_tests::{Hosts, OtherUser, Running, TestDvm, program, run};

/// Lets everybody enter a directory and all that is below it.
fn open_up(path: &Path) {
    let is_dir = path.is_dir();
    fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    if is_dir {
        fs::read_dir(path).unwrap().for_each(|entry| open_up(&entry.unwrap().path()));
    }
}

#[tokio::test]
async fn sec_02_tol_15_another_user_can_neither_use_nor_see_nor_end_a_dvm() {
    let Some(user) = OtherUser::second() else { return };
    let dvm = TestDvm::alone().await;
    let mut job = Running::start(dvm.submit(&["sh", "-c", "echo secret; exec sleep 600"]));
    job.line_with("secret").await;
    let nspace = run(dvm.pmix(&["ps"], &[])).1;
    let nspace = nspace.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let (pmix, pmixrun) = (program("pmix"), program("pmixrun"));
    let (pmix, pmixrun) = (user.copy_of(&pmix), user.copy_of(&pmixrun));
    let attempts: [(&Path, &[&str]); 16] = [
        (&pmix, &["submit", "true"]),
        (&pmix, &["submit", "--detach", "true"]),
        (&pmix, &["dvm", "stop"]),
        (&pmix, &["nodes"]),
        (&pmix, &["nodes", "add", "n1"]),
        (&pmix, &["nodes", "drain", "n1"]),
        (&pmix, &["ps"]),
        (&pmix, &["output", &nspace]),
        (&pmix, &["ctrl", "kill", &nspace]),
        (&pmix, &["info"]),
        (&pmix, &["psets"]),
        (&pmix, &["groups"]),
        (&pmix, &["attach", &nspace]),
        (&pmix, &["log", "hello"]),
        (&pmix, &["events", "--inject", "4711"]),
        (&pmixrun, &["--dvm", dvm.uri(), "true"]),
    ];
    // by the permissions of the files, and where these are no obstacle, by what the kernel says of the one who connects
    for is_open in [false, true] {
        if is_open {
            open_up(dvm.dir());
        }
        for (program, words) in attempts {
            let mut command = user.command(program);
            command.args(words);
            if program == pmix {
                command.args(["--uri", dvm.uri()]);
                // what follows a program is its own
                if words[0] == "submit" {
                    command = user.command(program);
                    command.args(["submit", "--uri", dvm.uri()]).args(&words[1..]);
                }
            }
            let (code, out, err) = run(command);
            assert_eq!((code, out.as_str()), (Some(1), ""), "{words:?}: {err}");
            let why =
                if is_open { format!("not for uid {}", user.uid) } else { "has no permission".to_owned() };
            assert!(err.contains(&why), "{words:?}: {err}");
        }
    }
    assert!(job.is_running());
    let err = dvm.stop(|_, _| ()).await;
    assert!(!err.contains("panicked"), "{err}");
}

#[tokio::test]
async fn sec_02_the_server_of_a_daemon_takes_no_tool_of_another_user_either() {
    let Some(user) = OtherUser::second() else { return };
    let dvm = TestDvm::here("a,b", "exec \"$@\"", &[]).await;
    open_up(dvm.dir());
    let pmix = user.copy_of(&program("pmix"));
    let sessions = fs::read_dir(dvm.dir().join("pmix-0")).unwrap().map(|entry| entry.unwrap().path());
    let files = sessions.filter(|path| path.is_dir()).flat_map(|session| fs::read_dir(session).unwrap());
    let files = files.map(|entry| entry.unwrap().path());
    let daemons: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(".tool")).collect();
    assert_eq!(daemons.len(), 3, "that of the head, and of each host: {daemons:?}");
    for file in daemons {
        let mut command = user.command(&pmix);
        command.args(["dvm", "stop", "--file"]).arg(&file);
        let (code, out, err) = run(command);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains(&format!("not for uid {}", user.uid)), "{err}");
    }
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn sec_01_tol_15_on_each_host_of_a_shared_dvm_a_user_sees_and_controls_no_job_of_others() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let Some(hosts) = Hosts::with_ssh(2) else { return };
    let pmix = program("pmix");
    let mut dvm = TestDvm::on(hosts, &["--multi-user", "--host", "n0:2,n1:2"]).await;
    let mut listing = dvm.hosts().command(1, "sh");
    listing.args(["-c", "ls /tmp/pmix-0 | grep '^n1[.]'"]);
    let session = run(listing).1.trim().to_owned();
    let uri = format!("server.{session};unix:/tmp/pmix-0/{session}/server@sock");
    let mut of = |user: &OtherUser, words: &[&str], args: &[&str]| {
        let mut command = dvm.hosts().command(1, "setpriv");
        let uid = user.uid.to_string();
        command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups"]).arg(&pmix);
        command.args(words).args(["--uri", &uri]).args(args).current_dir("/");
        command
    };
    let who = ["--wdir", "/", "-n", "4", "sh", "-c", "echo $(id -u)"];
    let (code, out, err) = run(of(&alice, &["submit"], &who));
    assert_eq!((code, out, err.as_str()), (Some(0), format!("{}\n", alice.uid).repeat(4), ""));
    let stay = ["--wdir", "/", "--host", "n1", "sh", "-c", "echo secret; exec sleep 600"];
    let mut job = Running::start(of(&alice, &["submit"], &stay));
    job.line_with("secret").await;
    let (_, hers, _) = run(of(&alice, &["ps"], &[]));
    let nspace = hers.lines().nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert!(!run(of(&bob, &["ps"], &[])).1.contains(&nspace));
    for (words, args) in [
        (&["ps"][..], &[&*nspace][..]),
        (&["output"], &[&nspace]),
        (&["why"], &[&nspace]),
        (&["release"], &[&nspace]),
        (&["nodes", "drain"], &["n1"]),
        (&["nodes", "add"], &["n2"]),
        (&["dvm", "stop"], &[]),
    ] {
        let (code, out, err) = run(of(&bob, words, args));
        assert!(code != Some(0) && !err.is_empty() && !out.contains("secret"), "{words:?}: {out}{err}");
        assert!(!out.contains(&nspace), "{words:?}: {out}");
    }
    assert!(job.is_running());
    dvm.stop(|_, _| ()).await;
    job.end().await;
}
