//! One user who takes all that is allowed leaves others theirs.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use pmix_test_wait::until;
use pmix_tests::scrape::connect;
use pmix_tests::{OtherUser, Running, Scrape, TestDvm, metered_run, rank_program, run};
use rustix::process::Signal;

/// Files that a head may open: an ordinary limit of small systems.
const FILES: u32 = 1024;

#[tokio::test]
async fn a_user_who_does_not_read_costs_another_none_of_its_output() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dvm = TestDvm::shared().await;
    let script = "echo runs; until [ -e \"$0\" ]; do sleep 0.1; done
        head -c 30000000 /dev/zero; echo > \"$0.all\"; exec sleep 1000";
    let go = bob.home().join("go");
    let mut floods = Vec::new();
    for _ in 0..3 {
        let mut flood =
            Running::start(dvm.pmix_of(&bob, &["submit"], &["sh", "-c", script, go.to_str().unwrap()]));
        assert_eq!(flood.line().await.as_deref(), Some("runs"));
        flood.stop().await;
        floods.push(flood);
    }
    fs::write(&go, "").unwrap();
    let all = go.with_extension("all");
    until("what nobody reads is dropped", || all.exists().then_some(()).ok_or("not yet")).await;
    for round in 0..20 {
        let (code, out, err) = run(dvm.pmix_of(&alice, &["submit"], &["echo", "hello"]));
        assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "hello\n", ""), "round {round}");
    }
    drop(floods);
}

#[tokio::test]
async fn a_user_with_as_many_processes_as_a_head_can_hold_leaves_room_for_jobs_of_another() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let mut outer = Command::new("prlimit");
    outer.arg(format!("--nofile={FILES}"));
    let dvm = TestDvm::shared_by(outer).await;
    let most = (FILES / 16).to_string();
    let stays = ["sh", "-c", "echo runs; exec sleep 1000"];
    let mut full = Running::start(dvm.pmix_of(&bob, &["submit"], &[&["-n", &most], &stays[..]].concat()));
    for _ in 0..FILES / 16 {
        assert_eq!(full.line().await.as_deref(), Some("runs"));
    }
    let (code, out, err) = run(dvm.pmix_of(&bob, &["submit"], &["true"]));
    assert!(code != Some(0) && err.contains(&format!("may have {most} processes on a node")), "{out}{err}");
    let (code, out, err) = run(dvm.pmix_of(&alice, &["submit"], &["-n", "16", "echo", "hello"]));
    assert_eq!((code, out, err), (Some(0), "hello\n".repeat(16), String::new()));
}

#[tokio::test]
async fn a_user_who_fills_the_port_for_numbers_costs_another_no_connection() {
    let Some(bob) = OtherUser::third() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (job, told) = metered_run(dir.path(), "127.0.0.1:0").await;
    let place = told.strip_prefix("http://").and_then(|told| told.strip_suffix("/metrics")).unwrap();
    let survives = async || {
        let mut own = connect(place).unwrap();
        let mut crowd = Running::start_with_input(bob.stranger(&["sit", place, "64"]));
        crowd.line_with("seated").await;
        // they have been accepted
        assert_eq!(Scrape::of(place).value("pmix_jobs_running"), 1.0);
        let asked = own.write_all(format!("GET /metrics HTTP/1.1\r\nHost: {place}\r\n\r\n").as_bytes());
        let mut answer = String::new();
        let answered = asked.and_then(|()| own.read_to_string(&mut answer));
        crowd.end().await;
        answered.is_ok() && answer.starts_with("HTTP/1.1 200 OK")
    };
    // each connection may last ten seconds, which a busy machine may need for a crowd
    let mut attempts = 0;
    while !survives().await {
        attempts += 1;
        assert!(attempts < 5, "the crowd takes its place each time");
    }
    job.signal(Signal::TERM);
    job.end().await;
}

#[tokio::test]
async fn spn_01_a_job_has_no_priority_of_the_server_and_makes_no_files_that_all_may_write() {
    let Some(alice) = OtherUser::second() else { return };
    let mut outer = Command::new("sh");
    outer.args(["-c", "umask 0; exec nice -n -5 \"$@\"", "sh"]);
    let dvm = TestDvm::shared_by(outer).await;
    let of_root = run(dvm.pmix(&["submit"], &["sh", "-c", "nice; umask"])).1;
    assert_eq!(of_root, "-5\n0000\n");
    let (code, out, err) = run(dvm.pmix_of(&alice, &["submit"], &["sh", "-c", "nice; umask"]));
    assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "0\n0022\n", ""));
}

#[tokio::test]
async fn a_user_of_a_shared_dvm_gets_no_more_than_its_slots() {
    let Some(alice) = OtherUser::second() else { return };
    let dvm = TestDvm::shared().await;
    let args = ["-n", "2", "--map-by", ":OVERSUBSCRIBE", "true"];
    let (code, out, err) = run(dvm.pmix_of(&alice, &["submit"], &args));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("only root may oversubscribe"), "{err}");
    assert_eq!(run(dvm.pmix(&["submit"], &args)), (Some(0), String::new(), String::new()));
    dvm.stop(|_, _| ()).await;
}

/// A DVM for all users with two slots.
async fn with_two_slots() -> TestDvm {
    let mut outer = Command::new("sh");
    outer.args(["-c", "exec \"$@\" --host localhost:2", "sh"]);
    TestDvm::shared_by(outer).await
}

#[tokio::test]
async fn spn_02_neither_spawns_nor_debugger_daemons_exceed_the_slots_of_a_user() {
    let Some(alice) = OtherUser::second() else { return };
    let dvm = with_two_slots().await;
    let rank = alice.copy_of(&rank_program());
    let rank = rank.to_str().unwrap();
    let holds = ["sh", "-c", "echo holds; exec sleep 1000"];
    let mut one = Running::start(dvm.pmix_of(&alice, &["submit"], &holds));
    one.line_with("holds").await;
    let spawn = ["spawn-with", "-", "-", "true"];
    let (code, out, err) = run(dvm.pmix_of(&alice, &["submit"], &[&[rank][..], &spawn].concat()));
    assert!(code == Some(0) && out.contains("refused Status::ERR_JOB_FAILED_TO_MAP"), "{out}{err}");
    // as many as processes, at once or one after the other
    let debugs = [rank, "debug-own-many", "2"];
    let (code, out, err) = run(dvm.pmix_of(&alice, &["submit"], &debugs));
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(out.matches("started ").count(), 1, "{out}{err}");
    assert!(out.contains("4 daemons of a debugger are too many for a user who runs 2"), "{out}{err}");
    // root's may
    let own = rank_program();
    let own = own.to_str().unwrap();
    let (code, out, err) = run(dvm.pmix(&["submit"], &[&[own][..], &spawn].concat()));
    assert!(code == Some(0) && out.contains("ended Status::SUCCESS"), "{out}{err}");
    drop(one);
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn a_flood_of_job_control_delays_no_other_user() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dvm = TestDvm::shared().await;
    let rank = bob.copy_of(&rank_program());
    let words = [rank.to_str().unwrap(), "control-many", "4000"];
    let mut flood = Running::start(dvm.pmix_of(&bob, &["submit"], &words));
    flood.line_with("controlling").await;
    assert_eq!(run(dvm.pmix_of(&alice, &["submit"], &["echo", "hers"])).1, "hers\n");
    let job = run(dvm.pmix(&["ps", "--ranks"], &[])).1;
    let job = job.lines().last().and_then(|row| row.split_whitespace().next()).unwrap().to_owned();
    assert_eq!(run(dvm.pmix(&["ctrl", "kill"], &[&job])).0, Some(0));
    let (status, out, err) = flood.end().await;
    assert_eq!((status.code(), out.as_str()), (Some(137), ""), "{err}");
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn a_bare_name_does_not_run_the_program_of_another_user() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dvm = TestDvm::shared().await;
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
    let script = "printf '#!/bin/sh\necho \"runs as $(id -u)\"\n' > solver; chmod 755 solver";
    let mut plant = bob.command("sh");
    plant.args(["-c", &format!("{script}; ln -s /bin/sh shell")]).current_dir(dir.path());
    assert_eq!(run(plant).0, Some(0));
    for (user, name) in [(Some(&alice), "solver"), (None, "solver"), (Some(&alice), "shell"), (None, "shell")]
    {
        let mut command = match user {
            Some(user) => dvm.pmix_of(user, &["submit"], &[name]),
            None => dvm.pmix(&["submit"], &[name]),
        };
        command.current_dir(dir.path());
        let (code, out, err) = run(command);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains(&format!("belongs to uid {}: write ./{name}", bob.uid)), "{err}");
    }
    // its owner, and whoever means it
    let mut own = dvm.pmix_of(&bob, &["submit"], &["solver"]);
    own.current_dir(dir.path());
    assert_eq!(run(own).1, format!("runs as {}\n", bob.uid));
    let mut meant = dvm.pmix_of(&alice, &["submit"], &["./solver"]);
    meant.current_dir(dir.path());
    assert_eq!(run(meant).1, format!("runs as {}\n", alice.uid));
    dvm.stop(|_, _| ()).await;
}

/// One person has 65,536 of them, and would have the share of as many users.
#[tokio::test]
async fn the_uids_that_the_system_lends_to_a_user_are_not_users_of_a_shared_dvm() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let lent = dir.path().join("subuid");
    // that of an account is no uid that somebody borrows, whatever the list says
    fs::write(&lent, format!("alice:{}:1\nalice:65534:1\n", bob.uid)).unwrap();
    let mut outer = Command::new("unshare");
    let mount = "touch /etc/subuid && mount --bind \"$0\" /etc/subuid && exec \"$@\"";
    outer.args(["--mount", "--propagation", "private", "sh", "-c", mount]).arg(&lent);
    let dvm = TestDvm::shared_by(outer).await;
    let (code, out, err) = run(dvm.pmix_of(&bob, &["submit"], &["true"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    let served = run(dvm.pmix_of(&alice, &["submit"], &["echo", "hello"]));
    assert_eq!(served, (Some(0), "hello\n".to_owned(), String::new()));
    if let Some(nobody) = OtherUser::nobody() {
        assert_eq!(
            run(dvm.pmix_of(&nobody, &["submit"], &["true"])),
            (Some(0), String::new(), String::new())
        );
    }
    // the list has changed
    fs::write(&lent, "").unwrap();
    assert_eq!(run(dvm.pmix_of(&bob, &["submit"], &["true"])), (Some(0), String::new(), String::new()));
    dvm.stop(|_, _| ()).await;
}
