//! A DVM of all users: `pmixd --head --multi-user`.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use pmix_test_wait::{until, until_async};
use pmix_tests::{Hosts, OtherUser, Peer, Running, TestDvm, on_path, program, rank_program, run};
use pmix_types::Uid;
use rustix::process::Signal;

/// Everything that a process has of its user, and what is open in it.
const WHO: &str = "grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapAmb):' /proc/self/status; echo \"at $(pwd)\"; \
                   ls -l /proc/self/fd | grep -v ' -> /proc/' | sed -n 's/.* \\([0-9]*\\) -> .*/file \\1/p'; touch made; env";

/// The namespaces that `pmix ps` shows a user; `None` for root.
fn jobs(dvm: &TestDvm, user: Option<&OtherUser>) -> Vec<String> {
    let command = match user {
        None => dvm.pmix(&["ps"], &[]),
        Some(user) => dvm.pmix_of(user, &["ps"], &[]),
    };
    let (_, out, err) = run(command);
    assert!(!out.is_empty() || err.contains("no "), "{err}");
    out.lines().skip(1).map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

/// A job of the rank program, which a user submits, up to a line with these words.
async fn submitted(dvm: &TestDvm, user: &OtherUser, host: &[&str], act: &[&str], words: &str) -> Running {
    let mut job = Running::start(dvm.pmix_of(user, &["submit"], &[host, act].concat()));
    job.line_with(words).await;
    job
}

#[test]
fn sec_01_a_head_serves_several_users_only_if_root_starts_it() {
    let Some(user) = OtherUser::second() else { return };
    // it would stay
    let mut command = user.command("timeout");
    command.arg("600").arg(user.copy_of(&program("pmixd"))).args(["--head", "--multi-user"]);
    let (code, out, err) = run(command);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(
        err.contains("--multi-user: only root may") && err.contains(&format!("this is uid {}", user.uid)),
        "{err}"
    );
}

/// More than a node may ask of the head at a time.
#[tokio::test]
async fn sec_01_a_user_who_asks_for_ever_more_does_not_keep_a_node_from_serving_others() {
    let Some(user) = OtherUser::second() else { return };
    let dvm = TestDvm::here("a,b:16", "exec \"$@\"", &["--multi-user"]).await;
    fs::set_permissions(dvm.dir(), Permissions::from_mode(0o755)).unwrap();
    // on a machine that is busy for that long, once more
    let served = async || match others_are_served_meanwhile(&dvm, &user).await {
        true => Ok(()),
        false => Err("the head had answered what waits"),
    };
    until_async("others are served before the head answers what waits", served).await;
    dvm.stop(|_, _| ()).await;
}

/// Whether others are served while each request waits that a user may have at the head. After 10 s the head answers these, and
/// a node that could not ask before would ask then.
async fn others_are_served_meanwhile(dvm: &TestDvm, user: &OtherUser) -> bool {
    let rank = user.copy_of(&rank_program());
    let rank = rank.to_str().unwrap();
    let many = ["--host", "b", "-n", "5", rank, "look-up-many", "4000"];
    let mut greedy = Running::start(dvm.pmix_of(user, &["submit"], &many));
    for _ in 0..5 {
        greedy.line_with("asked for 4000").await;
    }
    let mut before = Command::new("sleep");
    before.arg("9");
    let mut before = Running::start(before);
    let (status, _, err) = Running::start(dvm.submit(&["--host", "b", "sh", "-c", "exit 7"])).end().await;
    assert_eq!(status.code(), Some(7), "{err}");
    let log = dvm.submit(&["--host", "b", "-n", "2", rank, "log", "written"]);
    let (status, out, err) = Running::start(log).end().await;
    let written = out.lines().filter(|line| *line == "written").count();
    assert_eq!((status.code(), written), (Some(0), 2), "{out}{err}");
    let is_in_time = before.is_running();
    assert!(greedy.is_running());
    greedy.signal(Signal::TERM);
    greedy.end().await;
    is_in_time
}

#[test]
fn sec_01_a_head_of_several_users_has_no_terminal() {
    if OtherUser::second().is_none() {
        return;
    }
    let Some(script) = on_path("script", "apt-get install bsdutils") else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("timeout");
    let head = format!("{} --head --multi-user", program("pmixd").display());
    command
        .arg("600")
        .arg(script)
        .args(["-qec", &head, "/dev/null"])
        .env("PMIX_SERVER_TMPDIR", dir.path())
        .env_remove("RUST_LOG");
    let (code, out, err) = run(command);
    assert_eq!(code, Some(1), "{out}{err}");
    assert!(
        out.contains("--multi-user: processes of other users must not share a terminal with root"),
        "{out}{err}"
    );
}

#[tokio::test]
async fn spn_01_gen_13_a_job_of_a_shared_dvm_runs_as_whoever_submits_it() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dvm = TestDvm::shared().await;
    for user in [&alice, &bob] {
        let uid = user.uid.to_string();
        let (code, out, err) = run(dvm.pmix_of(user, &["submit"], &["-x", "MINE=yes", "sh", "-c", WHO]));
        assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
        let words: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0], ["Uid:", &uid, &uid, &uid, &uid]);
        assert_eq!(words[1], ["Gid:", &uid, &uid, &uid, &uid]);
        assert_eq!(words[2], ["Groups:", &uid]);
        for capabilities in &words[3..7] {
            assert_eq!(capabilities[1], "0000000000000000", "{capabilities:?}");
        }
        assert_eq!(words[7], ["at", user.home().to_str().unwrap()]);
        // the standard ones, and its own connection of PMI-1
        let pmi_fd = out.lines().find_map(|line| line.strip_prefix("PMI_FD=")).unwrap();
        let files: BTreeSet<_> =
            words.iter().filter(|words| words[0] == "file").map(|words| words[1]).collect();
        assert_eq!(files, ["0", "1", "2", pmi_fd].into(), "nothing of the head's is open");
        let made = fs::metadata(user.home().join("made")).unwrap();
        assert_eq!((made.uid(), made.gid()), (user.uid.as_raw(), user.gid.as_raw()));
        // what cargo and the shell of root have is not for others
        let env: Vec<_> = words[8..].iter().filter_map(|line| line.first()?.split_once('=')).collect();
        assert!(env.contains(&("MINE", "yes")), "{env:?}");
        let of_head =
            |name: &str| std::env::var(name).is_ok() && !["PATH", "PWD", "SHLVL", "_"].contains(&name);
        let inherited: Vec<_> = env.iter().filter(|(name, _)| of_head(name)).collect();
        assert_eq!(inherited, Vec::<&(&str, &str)>::new());
    }
    let mut command = alice.command(alice.copy_of(&program("pmixrun")));
    command.args(["--dvm", dvm.uri(), "-n", "2", "id", "-u"]);
    let uid = alice.uid;
    assert_eq!(run(command), (Some(0), format!("{uid}\n{uid}\n"), String::new()));
    // root's own jobs are root's
    let (code, out, err) = run(dvm.submit(&["id", "-u"]));
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "0\n", ""));
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn spn_06_what_a_user_may_not_run_or_enter_fails_with_its_own_error() {
    let Some(alice) = OtherUser::second() else { return };
    let dvm = TestDvm::shared().await;
    let private = tempfile::tempdir().unwrap();
    let program = private.path().join("program");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
    // in a directory that she may not enter, and then in one that she may
    for mode in [0o700, 0o755] {
        fs::set_permissions(private.path(), Permissions::from_mode(mode)).unwrap();
        let (code, out, err) = run(dvm.pmix_of(&alice, &["submit"], &[program.to_str().unwrap()]));
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains("ermission") || err.contains("execut"), "{err}");
    }
    fs::set_permissions(private.path(), Permissions::from_mode(0o700)).unwrap();
    let wdir = ["--wdir", private.path().to_str().unwrap(), "true"];
    let (code, out, err) = run(dvm.pmix_of(&alice, &["submit"], &wdir));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("ermission"), "{err}");
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn gen_13_programs_of_mpi_run_for_a_user_of_a_shared_dvm() {
    let Some(nobody) = OtherUser::nobody() else { return };
    let dvm = TestDvm::shared().await;
    // by the wire of the C library, and by PMI-1
    for peer in [Peer::OpenMpi, Peer::Mpich5] {
        let Some(suite) = peer.program("mpi_suite") else { continue };
        let home = tempfile::Builder::new().tempdir_in(nobody.home()).unwrap();
        fs::set_permissions(home.path(), Permissions::from_mode(0o755)).unwrap();
        let copy = home.path().join("mpi_suite");
        assert!(Command::new("cp").arg(suite).arg(&copy).status().unwrap().success());
        // a kernel may forbid processes without capabilities to read each other's memory
        let careful = [
            "OMPI_MCA_btl_vader_single_copy_mechanism=none",
            "UCX_TLS=tcp,self",
            "MPIR_CVAR_CH4_CMA_ENABLE=0",
        ];
        let careful = careful.iter().flat_map(|variable| ["-x", variable]);
        let args: Vec<&str> =
            careful.chain(["--time-limit", "600", "-n", "4", copy.to_str().unwrap(), "4"]).collect();
        let (code, out, err) = run(dvm.pmix_of(&nobody, &["submit"], &args));
        assert_eq!(code, Some(0), "{peer:?}: {out}{err}");
        assert!(out.contains("PASS"), "{peer:?}: {out}{err}");
    }
    dvm.stop(|_, _| ()).await;
}

/// The address for C tools, in one of the files below this directory.
fn c_address(dir: &Path) -> Option<String> {
    fs::read_dir(dir).ok()?.flatten().find_map(|entry| match entry.file_type().ok()? {
        kind if kind.is_dir() => c_address(&entry.path()),
        kind if kind.is_file() => {
            let text = fs::read_to_string(entry.path()).ok()?;
            text.lines().find(|line| line.contains(";tcp4://")).map(str::to_owned)
        }
        _ => None,
    })
}

/// The kernel does not name the group of a tool that speaks the wire of the C library.
#[tokio::test]
async fn gen_13_jobs_of_a_c_tool_of_another_user_have_the_group_of_its_login() {
    let (Some(nobody), Some(submit)) = (OtherUser::nobody(), Peer::Libpmix5.program("pmix_submit")) else {
        return;
    };
    let dvm = TestDvm::shared().await;
    let ids = nobody.home().join("ids");
    let mut tool = nobody.command(nobody.copy_of(&submit));
    tool.env("SUBMIT_MAPBY", "slot").arg(c_address(dvm.dir()).unwrap());
    tool.args(["1", "/bin/sh", "-c", &format!("id -u > {0}; id -g >> {0}", ids.display())]);
    let (code, _, err) = run(tool);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(fs::read_to_string(&ids).unwrap(), format!("{}\n{}\n", nobody.uid, nobody.gid));
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn what_users_run_ends_with_a_shared_dvm_whose_head_is_killed() {
    let Some(alice) = OtherUser::second() else { return };
    let dvm = TestDvm::shared().await;
    // one that stays, and one that has left session and group
    let script =
        "setsid sh -c 'echo daemon $$; trap \"\" TERM HUP; while :; do sleep 600; done' & echo rank $$; wait";
    let mut job = Running::start(dvm.pmix_of(&alice, &["submit"], &["sh", "-c", script]));
    let mut pids = Vec::new();
    for _ in 0..2 {
        let line = job.line().await.unwrap();
        let pid: i32 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert_eq!(fs::metadata(format!("/proc/{pid}")).unwrap().uid(), alice.uid.as_raw(), "{line}");
        pids.push(pid);
    }
    dvm.head().signal(Signal::KILL);
    until("what the user has run has ended", || {
        let left: Vec<_> = pids.iter().filter(|pid| Path::new(&format!("/proc/{pid}")).exists()).collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    job.end().await;
}

/// A process of one user tries on a job of another all that there is, and is refused each time.
fn is_refused_everything(out: &str) {
    for attack in ["abort", "kill", "pull", "push", "get", "job", "fence", "connect", "construct", "invite"] {
        assert!(out.contains(&format!("\n{attack}: Status::ERR_NO_PERMISSIONS")), "{attack}: {out}");
    }
    for question in ["table", "waits", "looks", "peers"] {
        assert!(out.contains(&format!("\n{question}: Status::ERR_INVALID_NAMESPACE")), "{question}: {out}");
    }
    assert!(!out.contains("the secret"), "{out}");
}

#[tokio::test]
async fn sec_01_tol_15_a_user_of_a_shared_dvm_neither_sees_nor_controls_jobs_of_others() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dvm = TestDvm::shared().await;
    let [hers, his] = [&alice, &bob].map(|user| user.copy_of(&rank_program()));
    let [hers, his] = [&hers, &his].map(|path| path.to_str().unwrap());
    let mut secret = submitted(&dvm, &alice, &[], &[hers, "keep-secret"], "listening").await;
    let mut publisher =
        submitted(&dvm, &alice, &[], &[hers, "publish", "service", "10.0.0.1"], "published").await;
    let seen = jobs(&dvm, Some(&alice));
    assert_eq!((seen.len(), jobs(&dvm, None)), (2, seen.clone()), "root sees all");
    assert_eq!(jobs(&dvm, Some(&bob)), Vec::<String>::new());
    let [job, ..] = &*seen else { panic!("{seen:?}") };

    // by processes of his own
    for victim in &seen {
        let (code, out, err) = run(dvm.pmix_of(&bob, &["submit"], &[his, "attack", victim]));
        assert_eq!(code, Some(0), "{out}{err}");
        is_refused_everything(&out);
    }
    let (_, out, err) = run(dvm.pmix_of(&bob, &["submit"], &[his, "look-up", "service"]));
    assert!(!out.contains("10.0.0.1"), "{out}{err}");
    let (her_uid, his_uid) = (alice.uid, bob.uid);
    for (what, why) in
        [("user-of-app", "cannot name another"), ("user-of-job", &*format!("run as {his_uid}"))]
    {
        let spawn = [his, "spawn-with", what, "0", "sh", "-c", "id -u > who"];
        let (_, out, err) = run(dvm.pmix_of(&bob, &["submit"], &spawn));
        assert!(
            out.contains("refused Status::ERR_NO_PERMISSIONS") && out.contains(why),
            "{what}: {out}{err}"
        );
        assert!(!bob.home().join("who").exists());
    }

    // by daemons beside them, which need no slots and so could be many
    let spawn = [his, "spawn-with", "debug-target", job, "sh", "-c", "id -u > who"];
    let (_, out, err) = run(dvm.pmix_of(&bob, &["submit"], &spawn));
    assert!(out.contains("refused Status::ERR_NOT_FOUND"), "{out}{err}");
    assert!(!bob.home().join("who").exists());

    // by tools
    let [no_end, no_change] = ["end", "change the nodes of"]
        .map(|what| format!("uid {his_uid} cannot {what} the DVM of another user"));
    let attempts: [(&[&str], &[&str], &str); 8] = [
        (&["dvm", "stop"], &[], &no_end),
        (&["nodes", "add"], &["n1"], &no_change),
        (&["nodes", "drain"], &["n1"], &no_change),
        (&["output"], &[job], "is running"),
        (&["ps"], &[job], ""),
        (&["why"], &[job], ""),
        (&["stack"], &[job], ""),
        (&["release"], &[job], ""),
    ];
    for (words, args, why) in attempts {
        let (code, out, err) = run(dvm.pmix_of(&bob, words, args));
        assert!(code != Some(0) && !err.is_empty() && err.contains(why), "{words:?}: {code:?} {out}{err}");
        assert!(!out.contains(job) && !out.contains("keep-secret"), "{words:?}: {out}");
    }
    let mut named = bob.command(his);
    named.args(["tool", dvm.uri(), job]);
    let (_, out, _) = run(named);
    let why = format!("a tool of uid {his_uid} cannot be");
    assert!(out.starts_with("refused") && out.contains(&why), "{out}");

    // commands publish for their user under a name that no other user gets
    let (code, _, err) = run(dvm.pmix_of(&alice, &["publish"], &["door=9.9.9.9"]));
    assert_eq!(code, Some(0), "{err}");
    let find = |user: &OtherUser| run(dvm.pmix_of(user, &["lookup"], &["door"]));
    let found = (Some(0), "door: 9.9.9.9\n".to_owned(), String::new());
    assert_eq!((find(&alice), find(&bob).0), (found.clone(), Some(1)));
    assert_eq!(run(dvm.pmix_of(&bob, &["unpublish"], &["--all"])).0, Some(0));
    for (rank, uid) in [(&his, her_uid), (&his, Uid::ROOT), (&hers, his_uid)] {
        let mut named_so = if rank == &his { bob.command(rank) } else { alice.command(rank) };
        named_so.args(["tool", dvm.uri(), &format!("pmix.publisher.{uid}")]);
        let (_, out, _) = run(named_so);
        assert!(out.starts_with("refused") && out.contains("cannot be pmix.publisher."), "{out}");
    }
    let (_, out, _) = run(dvm.pmix_of(&alice, &["submit"], &[hers, "look-up", "door"]));
    assert!(out.contains("9.9.9.9"), "{out}");
    assert_eq!(find(&alice), found);
    assert_eq!(run(dvm.pmix_of(&alice, &["unpublish"], &["door"])).0, Some(0));
    assert_eq!(find(&alice).0, Some(1));

    // by the name and the address of a rank of hers
    let mut as_rank = bob.command(his);
    as_rank.arg("fence").env("PMIX_NAMESPACE", job).env("PMIX_RANK", "0").env("PMIX_GRPC_URI", dvm.uri());
    let (_, out, err) = run(as_rank);
    let her_gid = alice.gid;
    let why =
        format!("is registered for uid {her_uid} gid {her_gid}, but the connection comes from uid {his_uid}");
    assert!(err.contains(&why), "{out}{err}");

    // by files
    let host = rustix::system::uname().nodename().to_str().unwrap().to_owned();
    let below = |dir: &Path, name: &str| {
        let mut entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name)).unwrap()
    };
    let session = below(&below(dvm.dir(), "pmix-0"), &host);
    let of_job = below(&session, "job.");
    let owner = fs::metadata(&of_job).unwrap();
    assert_eq!((owner.uid(), owner.mode() & 0o777), (her_uid.as_raw(), 0o700), "{}", of_job.display());
    for (user, dir) in [(&bob, &session), (&bob, &of_job), (&alice, &session)] {
        for words in ["ls \"$0\"", "touch \"$0/mine\"", "cat \"$0/lock\"", "rm -rf \"$0\""] {
            let mut command = user.command_line(words);
            command.arg(dir);
            let (code, _, err) = run(command);
            assert!(code != Some(0) && err.contains("ermission denied"), "{words}: {err}");
        }
    }
    // a link in the place of what a tool reads or writes is of no use either: the job's user opens it
    let _ = symlink(&session, bob.home().join("link"));
    let wdir = ["--wdir", "link", "touch", "mine"];
    assert_ne!(run(dvm.pmix_of(&bob, &["submit"], &wdir)).0, Some(0));

    assert!(secret.is_running() && publisher.is_running());
    secret.signal(Signal::TERM);
    secret.end().await;
    publisher.signal(Signal::TERM);
    publisher.end().await;
    let err = dvm.stop(|_, _| ()).await;
    assert!(!err.contains("panicked"), "{err}");
}

/// Its own children are its user's to control, on whichever node.
#[tokio::test]
async fn sec_01_spn_01_jobs_of_a_shared_dvm_run_as_their_users_on_all_hosts_and_keep_apart() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let Some(hosts) = Hosts::with_ssh(4) else { return };
    let rank = rank_program();
    let rank = rank.to_str().unwrap();
    program("pmixd");
    let dvm = TestDvm::on(hosts, &["--multi-user", "--host", "n0:2,n1:2,n2:2,n3:2"]).await;
    let script = "echo $PMIX_HOSTNAME $(id -u) $(id -g) $(id -G) $HOME; test $(cut -c1-5 /proc/self/status | grep -c Uid) = 1";
    for user in [&alice, &bob] {
        let every = ["-n", "8", "--wdir", "/", "sh", "-c", script];
        let (code, out, err) = run(dvm.pmix_of(user, &["submit"], &every));
        assert_eq!(code, Some(0), "{out}{err}");
        let mut lines: Vec<_> = out.lines().map(str::trim_end).collect();
        lines.sort_unstable();
        let uid = user.uid;
        let wanted: Vec<_> = (0..8).map(|rank| format!("n{} {uid} {uid} {uid}", rank / 2)).collect();
        assert_eq!(lines, wanted);
    }
    let hers = ["--wdir", "/", "--host", "n1"];
    let mut secret = submitted(&dvm, &alice, &hers, &[rank, "keep-secret"], "listening").await;
    let [job] = &*jobs(&dvm, Some(&alice)) else { panic!("one job") };
    assert_eq!(jobs(&dvm, Some(&bob)), Vec::<String>::new());
    // where the job is, beside it, and where the head is
    for host in ["n0", "n1", "n2"] {
        let attack = ["--wdir", "/", "--host", host, rank, "attack", job];
        let (code, out, err) = run(dvm.pmix_of(&bob, &["submit"], &attack));
        assert_eq!(code, Some(0), "{out}{err}");
        is_refused_everything(&out);
        let rule = ["--wdir", "/", "--host", host, rank, "rule"];
        let (code, out, err) = run(dvm.pmix_of(&bob, &["submit"], &rule));
        assert_eq!(code, Some(0), "{out}{err}");
        assert!(out.contains("heard got own\n") && out.contains("ended it"), "{out}{err}");
    }
    assert!(secret.is_running());
    let err = dvm.stop(|_, _| ()).await;
    secret.end().await;
    assert!(!err.contains("panicked"), "{err}");
}

#[tokio::test]
async fn dbg_01_spn_01_debuggers_and_their_daemons_run_as_whoever_debugs_in_a_shared_dvm() {
    let Some(alice) = OtherUser::second() else { return };
    let dvm = TestDvm::shared().await;
    let [rank, pmix] = [rank_program(), program("pmix")].map(|path| alice.copy_of(&path));
    let mut command = alice.command(alice.copy_of(&program("pmixrun")));
    let daemon = "sh -c 'echo daemon of $(id -u); exec sleep 1000'";
    let debugger = format!(
        "sh -c 'echo debugger of $(id -u); exec {} release --uri {} \"$PMIXRUN_JOB\"'",
        pmix.display(),
        dvm.uri().replace(';', "\\;")
    );
    command.env_remove("RUST_LOG").args(["--dvm", dvm.uri(), "--grace", "0.1", "--debug-daemons", daemon]);
    command.args(["--debug", &debugger]).arg(rank).args(["fence-then-exit", "3"]);
    let (code, out, err) = run(command);
    assert_eq!(code, Some(3), "{out}{err}");
    for who in ["daemon", "debugger"] {
        let line = format!("{who} of {}", alice.uid);
        assert!(out.lines().any(|said| said == line), "{out}{err}");
    }
    assert_eq!(jobs(&dvm, None), Vec::<String>::new());
    dvm.stop(|_, _| ()).await;
}
