//! Jobs that processes start, with real ones: where they run, in what, with what, and what is told of them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use pmix_client::types::{App, Directives, Status, keys};
use pmix_client::{ProcId, Rank};
use pmix_test_wait::within;
use pmix_tests::{Running, Spawner, executable, next_event, pmixrun, rank_program, run, term_status};
use pmix_tool::Tool;
use rustix::process::Signal;

fn none() -> Directives {
    Directives::new()
}

#[tokio::test]
async fn spn_01_spn_02_processes_start_in_the_directory_they_are_told() {
    let mut rig = Spawner::start(&["n0"]).await;
    let (job_dir, own_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [job_wdir, own_wdir] = [&job_dir, &own_dir].map(|dir| dir.path().to_str().unwrap().to_owned());
    let apps = vec![
        rig.script("pwd > $OUT", 1),
        rig.script("pwd > $OUT", 1).cwd(&own_wdir),
        rig.script("pwd > $OUT", 1).directive(&keys::WDIR, &*own_wdir).cwd("/"),
        rig.script("pwd > $OUT; touch mine", 1).directive(&keys::SET_SESSION_CWD, true),
    ];
    let dirs = rig.output(apps, none().require(&keys::WDIR, &*job_wdir)).await;
    assert_eq!(dirs[..3], [job_wdir, own_wdir.clone(), own_wdir]);
    assert!(Path::new(&dirs[3]).starts_with(rig.nodes()[0].handle().session_dir()), "{}", dirs[3]);
    let of_session =
        rig.output(vec![rig.script("pwd > $OUT", 2)], none().with(&keys::SET_SESSION_CWD, true)).await;
    assert_eq!(of_session, [dirs[3].clone(), dirs[3].clone()]);
}

#[tokio::test]
async fn spn_02_a_prefix_is_where_programs_are_found() {
    let mut rig = Spawner::start(&["n0"]).await;
    let prefix = tempfile::tempdir().unwrap();
    let script = "#!/bin/sh\necho $0 $LD_LIBRARY_PATH > $FILE\n";
    executable(&prefix.path().join("bin/a-tool-of-ours"), script);
    let file = rig.out().join("told");
    let tool = App::new("a-tool-of-ours", 1).env("FILE", file.to_str().unwrap()).env("LD_LIBRARY_PATH", "/x");
    let root = prefix.path().to_str().unwrap();
    let (_, end) = rig.run(vec![tool.clone()], none().require(&keys::PREFIX, root)).await;
    assert_eq!(term_status(&end), Status::SUCCESS);
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("{root}/bin/a-tool-of-ours {root}/lib:/x\n"));
    let error = rig.refused(vec![tool], none()).await;
    assert_eq!(error.status(), Status::ERR_JOB_EXE_NOT_FOUND, "{error}");
}

#[tokio::test]
async fn spn_01_spn_02_processes_run_on_the_nodes_they_are_told() {
    let mut rig = Spawner::start(&["n0", "n1", "n2"]).await;
    let file = rig.out().join("hosts");
    fs::write(&file, "n2\nn1 # the last\n").unwrap();
    let hostfile = file.to_str().unwrap();
    let fence = || App::new(rank_program().to_str().unwrap(), 2).arg("fence");
    let here = |rig: &Spawner| rig.script("echo $PMIX_HOSTNAME > $OUT", 2);
    let cases = [
        (vec![fence()], none().with(&keys::HOST, "n1"), &["n1", "n1"][..]),
        (vec![fence()], none().require(&keys::HOST, "n2,n0"), &["n2", "n0"]),
        (vec![fence()], none().require(&keys::HOSTFILE, hostfile), &["n2", "n1"]),
        (vec![fence()], none().with(&keys::HOSTFILE, hostfile).with(&keys::HOST, "n1"), &["n1", "n1"]),
        (
            vec![fence().directive(&keys::HOST, "n1"), fence()],
            none().require(&keys::HOST, "n0,n2").with(&keys::ADD_HOST, "n2"),
            &["n1", "n1", "n0", "n2"],
        ),
    ];
    for (apps, directives, wanted) in cases {
        let spawn = rig.client.spawn(apps).notify_completion().directives(directives);
        let job = within(async { spawn.await }).await.unwrap();
        assert_eq!(rig.hosts_of(&job, u32::try_from(wanted.len()).unwrap()).await, wanted);
        assert_eq!(term_status(&rig.next_end().await), Status::SUCCESS);
    }
    // what processes themselves are told: the servers they have found
    let [first, second] =
        <[String; 2]>::try_from(rig.output(vec![here(&rig)], none().with(&keys::HOST, "n1,n2")).await)
            .unwrap();
    assert_eq!((&*first, &*second), ("n1", "n2"));
}

#[tokio::test]
async fn spn_02_spn_06_nodes_that_do_not_exist_are_refused() {
    let rig = Spawner::start(&["n0", "n1"]).await;
    let app = |rig: &Spawner| vec![rig.script("touch $OUT", 1)];
    let missing = rig.out().join("missing");
    let missing = missing.to_str().unwrap();
    for (directives, status, words) in [
        (none().with(&keys::HOST, "n1,n7"), Status::ERR_JOB_FAILED_TO_MAP, "n7"),
        (none().with(&keys::HOSTFILE, missing), Status::ERR_JOB_FAILED_TO_MAP, missing),
        (none().with(&keys::ADD_HOST, "n7"), Status::ERR_JOB_ALLOC_FAILED, "n7"),
    ] {
        let error = rig.refused(app(&rig), directives).await;
        assert_eq!(error.status(), status, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(fs::read_dir(rig.out()).unwrap().count(), 0, "something was started");
}

#[tokio::test]
async fn spn_03_the_environment_is_changed_in_order_those_of_the_application_last() {
    let mut rig = Spawner::start(&["n0"]).await;
    let script =
        "echo $A/$B/$C/$D/${E-unset} > $OUT; case $PATH in /opt/a:/opt/b:?*:/opt/c) ;; *) exit 1;; esac";
    let app = |rig: &Spawner| rig.script(script, 1).env("B", "own").env("D", "x:y").env("E", "own");
    let spawn = rig
        .client
        .spawn([app(&rig).directive(&keys::APPEND_ENVAR, envar("A", "app", '+')), app(&rig)])
        .set_envar("A", "first")
        .set_envar("A", "job")
        .add_envar("B", "added")
        .add_envar("C", "added")
        .prepend_envar("PATH", "/opt/b", ':')
        .prepend_envar("PATH", "/opt/a", ':')
        .append_envar("PATH", "/opt/c", ':')
        .first_envar("D", "y", ':')
        .unset_envar("E")
        .notify_completion();
    let job = within(async { spawn.await }).await.unwrap();
    assert_eq!(term_status(&rig.next_end().await), Status::SUCCESS);
    assert_eq!(rig.written(&job, 0), "job+app/own/added/y:x/unset\n");
    assert_eq!(rig.written(&job, 1), "job/own/added/y:x/unset\n");
    let error = rig.refused(vec![app(&rig)], none().with(&keys::SET_ENVAR, envar("=", "x", ':'))).await;
    assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
}

fn envar(name: &str, value: &str, separator: char) -> pmix_client::types::Envar {
    let separator = u8::try_from(separator).unwrap();
    pmix_client::types::Envar { name: name.into(), value: value.into(), separator }
}

#[tokio::test]
async fn spn_06_the_status_says_what_could_not_be_started() {
    let rig = Spawner::start(&["n0"]).await;
    let file = rig.out().join("no-program");
    fs::write(&file, "words").unwrap();
    let program = |name: &str| vec![rig.script("touch $OUT", 1), App::new(name, 1)];
    let plain = file.to_str().unwrap().to_owned();
    let missing = rig.out().join("missing").to_str().unwrap().to_owned();
    let wrong = rig.out().join("wrong");
    executable(&wrong, "\0\0\0\0");
    for (apps, status) in [
        (program(&missing), Status::ERR_JOB_EXE_NOT_FOUND),
        (program("no-such-program"), Status::ERR_JOB_EXE_NOT_FOUND),
        (program(""), Status::ERR_JOB_NO_EXE_SPECIFIED),
        (program(&plain), Status::ERR_JOB_APP_NOT_EXECUTABLE),
        (program(wrong.to_str().unwrap()), Status::ERR_JOB_APP_NOT_EXECUTABLE),
        (vec![App::new("sh", 1).cwd(&missing)], Status::ERR_JOB_WDIR_NOT_FOUND),
        (vec![App::new("sh", 1).cwd(plain)], Status::ERR_JOB_WDIR_NOT_FOUND),
        (vec![App::new("sh", 0)], Status::ERR_BAD_PARAM),
    ] {
        let error = rig.refused(apps, none()).await;
        assert_eq!(error.status(), status, "{error}");
    }
    let error = rig.refused(program("sh"), none().require(&keys::JOB_RECOVERABLE, true)).await;
    assert!(error.is_not_supported(), "{error}");
}

#[tokio::test]
async fn spn_06_a_job_ends_when_its_time_is_over() {
    let mut rig = Spawner::start(&["n0"]).await;
    let script = rig.script("exec sleep 600", 2);
    let spawn = rig.client.spawn([script]).job_timeout(Duration::from_secs(1)).notify_completion();
    within(async { spawn.await }).await.unwrap();
    assert_eq!(term_status(&rig.next_end().await), Status::ERR_TIMEOUT);
    let (_, end) = rig.run(vec![rig.script("exit 0", 1)], none().with(&keys::JOB_TIMEOUT, 600)).await;
    assert_eq!(term_status(&end), Status::SUCCESS);
}

#[tokio::test]
async fn spn_06_a_job_that_writes_without_end_ends_when_its_time_is_over() {
    let mut rig = Spawner::start(&["n0"]).await;
    let spawn = rig.client.spawn([rig.script("exec yes", 1)]).job_timeout(Duration::from_secs(1));
    let job = within(async { spawn.notify_completion().forward_output().await }).await.unwrap();
    let mut output = within(async { rig.client.pull_output([ProcId::wildcard(job)]).await }).await.unwrap();
    let reader = tokio::spawn(async move { while output.recv().await.is_some() {} });
    assert_eq!(term_status(&rig.next_end().await), Status::ERR_TIMEOUT);
    reader.abort();
}

#[tokio::test]
async fn spn_05_the_end_of_a_job_is_told_with_the_first_to_fail() {
    let mut rig = Spawner::start(&["n0", "n1"]).await;
    let script = rig.script("[ $PMIX_RANK = 0 ] || exit 7", 1);
    let (job, end) = rig.run(vec![script.clone(), script], none()).await;
    assert_eq!(end.info.get(&keys::NSPACE.text()).unwrap().as_deref(), Some(job.as_str()));
    assert!(end.info.get(&keys::EVENT_TIMESTAMP).unwrap().unwrap().0 > 0);
    assert_eq!(term_status(&end), Status::ERR_JOB_NON_ZERO_TERM);
    let first = ProcId::new(job, Rank::from_raw(1));
    assert_eq!(end.info.get(&keys::PROCID).unwrap(), Some(first));
    assert_eq!(end.info.get(&keys::EXIT_CODE).unwrap(), Some(7));
    let (_, end) = rig.run(vec![rig.script("kill -9 $$", 1)], none()).await;
    assert_eq!(term_status(&end), Status::ERR_JOB_ABORTED_BY_SIG);
    assert_eq!(end.info.get(&keys::EXIT_CODE).unwrap(), Some(137));
    let rank = |act: &str| App::new(rank_program().to_str().unwrap(), 1).args([act, "4"]);
    let (_, end) = rig.run(vec![rank("leave")], none()).await;
    assert_eq!(term_status(&end), Status::ERR_JOB_TERM_WO_SYNC);
    let (_, end) = rig.run(vec![rank("abort")], none()).await;
    assert_eq!(term_status(&end), Status::ERR_JOB_ABORTED);
}

#[tokio::test]
async fn spn_05_start_launch_and_end_are_told_unless_the_end_is_silent() {
    let rig = Spawner::start(&["n0"]).await;
    let codes = [Status::EVENT_JOB_START, Status::LAUNCH_COMPLETE, Status::EVENT_JOB_END];
    let mut events = within(async { rig.client.events(codes).await }).await.unwrap();
    let spawn = async |script: &str, silent: bool| {
        let spawn = rig.client.spawn([rig.script(script, 2)]).notify_job_events();
        let spawn = if silent { spawn.silent_termination() } else { spawn };
        within(async { spawn.await }).await.unwrap()
    };
    for (script, silent, told) in
        [("exit 0", false, &codes[..]), ("exit 0", true, &codes[..2]), ("exit 1", true, &codes[..])]
    {
        let job = spawn(script, silent).await;
        for code in told {
            let event = next_event(&mut events).await;
            assert_eq!(event.code, *code, "{script} {silent}");
            assert_eq!(event.info.get(&keys::NSPACE.text()).unwrap().as_deref(), Some(job.as_str()));
            assert!(event.info.contains(&keys::EVENT_TIMESTAMP));
        }
    }
    // nothing but what was asked for
    let quiet = rig.client.spawn([rig.script("exit 0", 1)]);
    within(async { quiet.await }).await.unwrap();
    let job = spawn("exit 0", false).await;
    let event = next_event(&mut events).await;
    assert_eq!(event.info.get(&keys::NSPACE.text()).unwrap().as_deref(), Some(job.as_str()));
}

#[tokio::test]
async fn spn_04_reg_22b_parent_and_child_know_each_others_data() {
    let mut rig = Spawner::start(&["n0", "n1"]).await;
    let out = rig.out().join("told");
    let script = format!("exec {} parent > {}.$PMIX_RANK", rank_program().display(), out.display());
    let child = App::new("sh", 2).args(["-c", &script]);
    let spawn = rig.client.spawn([child]).notify_completion();
    let job = within(async { spawn.await }).await.unwrap();
    let size = within(async { rig.client.job(&job).get(keys::JOB_SIZE).optional().await }).await;
    assert_eq!(size.unwrap(), 2, "it is answered locally");
    assert_eq!(term_status(&rig.next_end().await), Status::SUCCESS);
    for rank in 0..2 {
        let told = fs::read_to_string(format!("{}.{rank}", out.display())).unwrap();
        assert!(told.contains("spawned true by parent0:0, one of 1"), "{told}");
    }
    let spawned = within(async { rig.client.get(rig.client.proc_id(), keys::SPAWNED).await }).await;
    assert!(!spawned.unwrap_or(false), "the parent was not spawned");
}

/// The log of the host is that of `pmixrun` here.
#[tokio::test]
async fn spn_05_what_becomes_of_a_job_is_logged_if_its_spawn_asks_for_that() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = pmixrun(dir.path(), &["sh", "-c", "echo started; exec sleep 1000"]);
    command.env("RUST_LOG", "pmix_host=info");
    let mut run = Running::start(command);
    run.line_with("started").await;
    let tool = within(Tool::builder().session_root(dir.path()).connect()).await.unwrap();
    let client = tool.client();
    let mut ends = within(async { client.events([Status::EVENT_JOB_END]).await }).await.unwrap();
    let mut jobs = Vec::new();
    for directives in [
        none().require(&keys::LOG_JOB_EVENTS, true).require(&keys::LOG_PROC_TERMINATION, true),
        none().require(&keys::LOG_COMPLETION, true).require(&keys::LOG_PROC_ABNORMAL_TERMINATION, true),
        none(),
    ] {
        let script = "[ $PMIX_RANK = 0 ] || exit 3";
        let apps = vec![App::new("sh", 1).args(["-c", script]), App::new("sh", 1).args(["-c", script])];
        let spawn = client.spawn(apps).notify_completion().directives(directives);
        jobs.push(within(async { spawn.await }).await.unwrap());
        next_event(&mut ends).await;
    }
    run.signal(Signal::TERM);
    let (_, _, err) = run.end().await;
    let [all, some, none] = &jobs[..] else { panic!("{jobs:?}") };
    let has = |words: &[&str]| err.lines().any(|line| words.iter().all(|word| line.contains(word)));
    for job in [all, some] {
        assert!(
            has(&["the job has ended", job, "first_failure", &format!("{job}:1 with exit code 3")]),
            "{err}"
        );
        assert!(has(&["the process has ended with exit code 3", &format!("{job}:1")]), "{err}");
    }
    assert!(has(&["the job has started", all]) && !has(&["the job has started", some]), "{err}");
    let well = "the process has ended with exit code 0";
    assert!(has(&[well, &format!("{all}:0")]) && !has(&[well, &format!("{some}:0")]), "{err}");
    assert!(!has(&["has ended", none]) && !has(&["the job has started", none]), "{err}");
}

#[test]
fn variables_of_pmixrun_reach_jobs_that_its_ranks_start() {
    let dir = tempfile::tempdir().unwrap();
    let rank = rank_program();
    let rank = rank.to_str().unwrap();
    let says = "echo said $OF_ALL by $PMIX_NAMESPACE";
    let mut command = pmixrun(dir.path(), &["-x", "OF_ALL=yes"]);
    command.args([rank, "spawn-with", "-", "-", rank, "spawn-with", "-", "-", "sh", "-c", says]);
    let (code, out, err) = run(command);
    assert!(code == Some(0) && out.contains("said yes by run.") && out.contains(".1.2"), "{out}{err}");
}
