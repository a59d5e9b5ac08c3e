//! Jobs that run as other users: with their rights and groups, in their directories, with their files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_client::types::{App, ProcId, Rank, Status, keys};
use pmix_host::{Account, JobReport, JobStart, LaunchReport, RunningJob};
use pmix_test_wait::until;
use pmix_tests::{OtherUser, mention, nspace, rank_program, within};
use pmix_tool::Tool;
use pmix_types::Gid;
use tempfile::TempDir;

use super::{Rig, open};

const NONE: &str = "-";

/// Writes beside `$0` what its process is made of.
const WHO_AM_I: &str =
    "grep -E '^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)):' /proc/self/status > $0; pwd > $0.dir; env > $0.env";

impl Rig {
    /// A program that the host starts for a user.
    async fn start_as(&self, user: Account, app: App) -> RunningJob {
        let start = JobStart::new(nspace("embedders"), vec![app]).user(user);
        within(self.host.start_job(start)).await.unwrap()
    }
}

#[tokio::test]
async fn spn_01_what_a_user_has_set_for_its_processes_does_not_reach_those_of_root() {
    let Some(rig) = Rig::start().await else { return };
    let mut app = App::new("sleep", 1).args(["1000"]);
    app.env = vec!["LD_PRELOAD_LIKE=alices".into()];
    let account = Account::look_up(rig.alice.uid, rig.alice.gid).unwrap();
    let job = rig.start_as(account, app).await;
    // root names a process of the user as the parent of what it starts
    let tool = within(Tool::builder().uri(rig.node.handle().uri()).connect()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let said =
        App::new("sh", 1).args(["-c", "echo \"it is $LD_PRELOAD_LIKE.\" > \"$0\"", out.to_str().unwrap()]);
    let parent = ProcId::new(job.nspace().clone(), Rank::from_raw(0));
    let spawn = tool.client().spawn([said]).directive(keys::PARENT_ID, parent);
    within(async { spawn.await }).await.unwrap();
    let written = until("it has said", || {
        fs::read_to_string(&out).ok().filter(|said| said.ends_with('\n')).ok_or("nothing")
    });
    assert_eq!(written.await, "it is .\n");
    job.kill();
    within(tool.finalize()).await.unwrap();
    drop(rig.node);
}

/// What a job says up to the end of a line.
async fn first_line(job: &mut RunningJob) -> String {
    let mut said = String::new();
    while !said.contains('\n') {
        if let JobReport::Proc(LaunchReport::Output { data, .. }) = within(job.next_report()).await.unwrap() {
            said.push_str(&String::from_utf8_lossy(&data));
        }
    }
    said
}

/// A directory of root's that others may not enter, with a file in it.
fn private(text: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
    let file = dir.path().join("file");
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    (dir, file)
}

/// A file of root's in a place where all may look, which only root may read.
fn unreadable(text: &str) -> (TempDir, PathBuf) {
    let (dir, file) = private(text);
    open(dir.path());
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    (dir, file)
}

#[tokio::test]
async fn spn_01_gen_13_a_job_runs_as_the_user_who_asks_and_has_nothing_of_the_servers() {
    for rig in [Rig::start().await, Rig::start_guarded().await].into_iter().flatten() {
        runs_as_who_asks(&rig).await;
    }
}

async fn runs_as_who_asks(rig: &Rig) {
    let file = rig.alice.home().join("who");
    let out =
        rig.spawn("alices", NONE, Path::new(NONE), &["sh", "-c", WHO_AM_I, file.to_str().unwrap()]).await;
    assert!(out.contains("started alices.1") && out.contains("ended Status::SUCCESS"), "{out}");
    let written = |extension: &str| fs::read_to_string(file.with_extension(extension)).unwrap();
    let status = written("");
    let words: Vec<Vec<&str>> = status.lines().map(|line| line.split_whitespace().collect()).collect();
    let none = "0000000000000000";
    let uid = rig.alice.uid.to_string();
    let four = |name| vec![name, &*uid, &*uid, &*uid, &*uid];
    assert_eq!(words[..3], [four("Uid:"), four("Gid:"), vec!["Groups:", &*uid]]);
    for (line, set) in words[3..].iter().zip(["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"]) {
        assert_eq!(*line, [set, none]);
    }
    assert_eq!(written("dir"), "/\n", "it has no home, and that of the server is none of its business");
    let env = written("env");
    assert!(
        env.contains("PATH=/usr/local/bin:/usr/bin:/bin\n") && env.contains("PMIX_NAMESPACE=alices.1\n"),
        "{env}"
    );
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !env.contains("CARGO"), "{env}");
}

#[tokio::test]
async fn spn_01_a_job_has_all_groups_of_its_user_whoever_starts_it() {
    for rig in [Rig::start().await, Rig::start_guarded().await].into_iter().flatten() {
        let (uid, groups) = (rig.alice.uid, [1, 2, 3].map(|more| Gid::new(rig.bob.gid.as_raw() + more)));
        let account = Account::with_groups(uid, groups[0], groups.to_vec());
        let mut job = rig.start_as(account, App::new("sh", 1).args(["-c", "echo $(id -u) $(id -G)"])).await;
        let [first, second, third] = groups;
        assert_eq!(first_line(&mut job).await, format!("{uid} {first} {second} {third}\n"));
        assert_eq!(within(job.outcome()).await.unwrap().status, Status::SUCCESS);
    }
}

#[tokio::test]
async fn a_user_of_the_database_has_all_of_its_groups() {
    let Some(rig) = Rig::start().await else { return };
    // whoever the system has put into a group that is not its own
    let groups = fs::read_to_string("/etc/group").unwrap();
    let members = groups.lines().filter_map(|line| line.rsplit(':').next()?.split(',').next());
    let known = members.filter(|name| !name.is_empty() && *name != "root").find_map(|name| {
        let number = |option: &str| {
            let output = Command::new("id").args([option, name]).output().ok()?;
            String::from_utf8(output.stdout).ok()?.trim().parse::<u32>().ok()
        };
        Some((name, number("-u")?, number("-g")?))
    });
    let Some((name, uid, gid)) = known else {
        return mention("user of this system in a second group");
    };
    let account = Account::look_up(uid, gid).unwrap();
    assert!(account.groups().len() > 1, "{account:?}");
    let mut job = rig.start_as(account, App::new("sh", 1).args(["-c", "echo $USER $(id -u) $(id -G)"])).await;
    let groups = Command::new("id").args(["-G", name]).output().unwrap();
    let groups = String::from_utf8(groups.stdout).unwrap();
    assert_eq!(first_line(&mut job).await, format!("{name} {uid} {groups}"));
    assert_eq!(within(job.outcome()).await.unwrap().status, Status::SUCCESS);
}

#[tokio::test]
async fn the_directory_of_a_job_belongs_to_its_user_and_nobody_else_enters_it() {
    let Some(rig) = Rig::start().await else { return };
    let program = rig.alice.copy_of(&rank_program());
    let account = Account::look_up(rig.alice.uid, rig.alice.gid).unwrap();
    let mut job = rig.start_as(account, App::new(program.to_str().unwrap(), 1).arg("furnish")).await;
    let mut line = String::new();
    while !line.contains("furnished") {
        line = first_line(&mut job).await;
    }
    let line = line.lines().find(|line| line.starts_with("furnished")).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!((words[1], words[3]), (words[2], "done"), "{line}");
    let dir = Path::new(words[1]);
    let found = fs::metadata(dir).unwrap();
    let (uid, gid) = (rig.alice.uid.as_raw(), rig.alice.gid.as_raw());
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (uid, gid, 0o700));
    assert_eq!(fs::metadata(dir.join("file")).unwrap().uid(), uid);
    for (user, may) in [(&rig.alice, true), (&rig.bob, false)] {
        let read = user.command("cat").arg(dir.join("file")).output().unwrap();
        assert_eq!((read.status.success(), read.stdout == b"mine"), (may, may), "{}", user.uid);
    }
    // clients of the job are registered for its user
    let data = rig.node.handle().job_data(job.nspace()).await.unwrap();
    let owner = data.lookup(keys::USERID.name(), &pmix_client::types::job::Target::Job);
    assert_eq!(owner, Some(uid.into()));
    job.kill();
    within(job.outcome()).await.unwrap();
    assert!(!dir.exists(), "it goes with the job");
}

#[tokio::test]
async fn spn_02_spn_06_files_are_read_with_the_rights_of_who_names_them_and_not_told() {
    let Some(rig) = Rig::start().await else { return };
    let (_dir, secret) = unreadable("topsecret:here\n");
    for (number, (what, status)) in
        [("hosts", "ERR_JOB_FAILED_TO_MAP"), ("add-hosts", "ERR_JOB_ALLOC_FAILED")].into_iter().enumerate()
    {
        let out = rig.spawn(&format!("alices{number}"), what, &secret, &["true"]).await;
        assert!(
            out.contains(&format!("refused Status::{status}")) && out.contains("Permission denied"),
            "{out}"
        );
        assert!(!out.contains("topsecret"), "{out}");
        assert!(rig.node.handle().job_data(&nspace(&format!("alices{number}.1"))).await.is_err());
    }
    // to root, who may read it, the line is told and not what stands there
    let root = rig.node.client(0).await;
    let spawn = root.spawn([App::new("true", 1)]).hostfile(secret.to_str().unwrap());
    let error = within(async { spawn.await }).await.unwrap_err();
    assert!(error.to_string().contains("line 1"), "{error}");
    assert!(!error.to_string().contains("topsecret"), "{error}");

    let own = rig.alice.home().join("hosts");
    fs::write(&own, "n0\n").unwrap();
    fs::set_permissions(&own, Permissions::from_mode(0o600)).unwrap();
    chown(&own, Some(rig.alice.uid.as_raw()), Some(rig.alice.gid.as_raw())).unwrap();
    let out = rig.spawn("alices-own", "hosts", &own, &["true"]).await;
    assert!(out.contains("ended Status::SUCCESS"), "{out}");
}

#[tokio::test]
async fn spn_02_spn_06_directories_and_programs_are_those_that_the_user_may_enter_and_run() {
    let Some(rig) = Rig::start().await else { return };
    let (private, program) = private("#!/bin/sh\ntrue\n");
    let refused = async |name: &str, what: &str, file: &Path, command: &str| {
        let out = rig.spawn(name, what, file, &[command]).await;
        assert!(out.contains("refused"), "{out}");
        out
    };
    let out = refused("a", "wdir", private.path(), "true").await;
    assert!(out.contains("ERR_JOB_WDIR_NOT_ACCESSIBLE") && out.contains("Permission denied"), "{out}");
    let out = refused("b", "wdir", Path::new("relative"), "true").await;
    assert!(out.contains("ERR_JOB_WDIR_NOT_FOUND"), "{out}");
    let out = refused("c", NONE, Path::new(NONE), program.to_str().unwrap()).await;
    assert!(out.contains("ERR_JOB_APP_NOT_EXECUTABLE") && out.contains("Permission denied"), "{out}");
    // what is there is no more told than what is not
    let out = refused("d", NONE, Path::new(NONE), private.path().join("nothing").to_str().unwrap()).await;
    assert!(out.contains("ERR_JOB_APP_NOT_EXECUTABLE") && out.contains("Permission denied"), "{out}");

    let who = rig.alice.home().join("who");
    let script = ["sh", "-c", "pwd > $0; touch mine", who.to_str().unwrap()];
    let out = rig.spawn("e", "wdir", rig.alice.home(), &script).await;
    assert!(out.contains("ended Status::SUCCESS"), "{out}");
    assert_eq!(fs::read_to_string(&who).unwrap().trim_end(), rig.alice.home().to_str().unwrap());
    let out = rig.spawn("f", "session-wdir", Path::new(NONE), &script).await;
    assert!(out.contains("ended Status::SUCCESS"), "{out}");
    let dir = fs::read_to_string(&who).unwrap();
    assert!(Path::new(dir.trim_end()).starts_with(rig.node.handle().session_dir()), "{dir}");
}

#[tokio::test]
async fn jct_03_files_are_removed_where_their_user_may_remove_them() {
    let Some(rig) = Rig::start().await else { return };
    let kept = tempfile::Builder::new().prefix("pmix-test-").tempdir().unwrap();
    open(kept.path());
    let (protected, removed) = (kept.path().join("file"), rig.alice.home().join("file"));
    for file in [&protected, &removed] {
        fs::write(file, "x").unwrap();
        chown(file, Some(rig.alice.uid.as_raw()), Some(rig.alice.gid.as_raw())).unwrap();
    }
    let mut args = vec!["clean-up"];
    args.extend([&protected, &removed].map(|file| file.to_str().unwrap()));
    let (_, out, err) = rig.process(&rig.alice, "alices", &args).await.end().await;
    assert_eq!(err, "", "{out}");
    // it may not know of the end yet; what is to be removed is removed before it has stopped
    let Rig { node, alice, .. } = rig;
    node.handle().deregister_nspace(&nspace("alices")).await.unwrap();
    node.stop().await;
    assert!(protected.exists(), "it is in a directory of root's");
    assert!(!removed.exists());
    drop::<OtherUser>(alice);
}
