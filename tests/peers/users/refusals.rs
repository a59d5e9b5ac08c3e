//! What a process of one user tries on those of others, and that nothing comes of it.

use std::process::Command;

use pmix_client::types::{App, Event, Info, ProcState, Status, keys};
use pmix_client::{ProcId, Rank};
use pmix_host::{Account, JobReport, JobStart, LaunchReport, MemoryExchange, RunningJob, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_tests::{
    Munged, OtherUser, Running, TestLauncher, TestNode, executable, nspace, proc, rank_program, run, within,
};
use pmix_types::Uid;

use super::{Rig, open, process};

/// A process of the rank program that holds a secret, started by the host as a user or as itself.
async fn victim(rig: &Rig, name: &str, user: Option<&OtherUser>) -> RunningJob {
    let program = user.map_or_else(rank_program, |user| user.copy_of(&rank_program()));
    let app = App::new(program.to_str().unwrap(), 1).arg("keep-secret");
    let mut start = JobStart::new(nspace(name), vec![app]).stdin(Rank::WILDCARD);
    if let Some(user) = user {
        start = start.user(Account::look_up(user.uid, user.gid).unwrap());
    }
    let mut job = within(rig.host.start_job(start)).await.unwrap();
    line_with(&mut job, "listening").await;
    job
}

/// Reads what a job says up to a line with these words.
async fn line_with(job: &mut RunningJob, words: &str) -> String {
    let mut said = String::new();
    loop {
        match within(job.next_report()).await.unwrap() {
            JobReport::Proc(LaunchReport::Output { data, .. }) => {
                said.push_str(&String::from_utf8_lossy(&data))
            }
            JobReport::Proc(LaunchReport::Started { .. }) => {}
            other => panic!("{other:?} after {said}"),
        }
        if said.contains(words) {
            return said;
        }
    }
}

#[tokio::test]
async fn sec_01_abt_01_jct_01b_qry_10_evt_11_nothing_of_another_users_job_is_seen_or_changed() {
    let Some(rig) = Rig::start().await else { return };
    let mut victims =
        [("roots", victim(&rig, "roots", None).await), ("bobs", victim(&rig, "bobs", Some(&rig.bob)).await)];
    for ((name, job), uid) in victims.iter_mut().zip([Uid::ROOT, rig.bob.uid]) {
        let (status, out, err) =
            rig.process(&rig.alice, &format!("alice-and-{name}"), &["attack", name]).await.end().await;
        assert!(status.success(), "{out}{err}");
        for attack in [
            "abort",
            "abort-one",
            "kill",
            "pull",
            "push",
            "get",
            "job",
            "fence",
            "connect",
            "construct",
            "invite",
        ] {
            assert!(out.contains(&format!("\n{attack}: Status::ERR_NO_PERMISSIONS")), "{attack}: {out}");
        }
        // as of jobs that there are not
        for question in ["table", "waits", "looks", "peers"] {
            assert!(
                out.contains(&format!("\n{question}: Status::ERR_INVALID_NAMESPACE")),
                "{question}: {out}"
            );
        }
        let names = out.lines().find_map(|line| line.strip_prefix("names: ")).unwrap();
        assert!(names.split(',').all(|name| name.starts_with("alice-and-")), "only its own: {out}");
        assert!(out.contains("\nwaits of: \n"), "{out}");
        assert!(!out.contains("the secret"), "{out}");
        assert_eq!(out.matches("notify: SUCCESS").count(), 3, "it is told to its own: {out}");

        let outsider = format!("alice-and-the-group-of-{name}");
        let (status, out, err) =
            rig.process(&rig.alice, &outsider, &["attack-group", name, &uid.to_string()]).await.end().await;
        assert!(status.success(), "{out}{err}");
        for attack in ["get", "fence", "connect", "construct", "destruct"] {
            // the group is as one that there is not
            let status_of = |whose: &str| {
                let line = out.lines().find_map(|line| line.strip_prefix(&format!("{attack} of {whose}: ")));
                line.unwrap_or_else(|| panic!("{attack} of {whose}: {out}")).split(' ').next().unwrap()
            };
            let expected = status_of("nobodys");
            assert_ne!(expected, "SUCCESS", "{attack}: {out}");
            assert_eq!(["theirs", "as root sees it"].map(status_of), [expected; 2], "{attack}: {out}");
        }
        assert!(out.contains("one of the same id: SUCCESS"), "{out}");
        // it names itself
        assert!(!out.replace(&outsider, "").contains(&**name), "{out}");

        let table = rig.host.process_table(job.nspace());
        assert_eq!(table[0].state, ProcState::CONNECTED, "it lives");
        // what it hears first of a loss is the word of its host: the attacker's would have come before
        let lost = Info::new(&keys::EVENT_AFFECTED_PROC, proc(name, 3));
        let event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, ProcId::none()).with_info(lost);
        rig.node.handle().notify_event(event).await.unwrap();
        let said = line_with(job, "heard").await;
        assert!(said.contains(&format!("about {name}:3")), "{said}");
        let outcome = within(job.outcome()).await.unwrap();
        assert_eq!((outcome.status, outcome.procs[0].exit_code), (Status::SUCCESS, 0));
    }
}

#[tokio::test]
async fn evt_11_evt_19_another_user_is_not_heard_on_other_nodes_either() {
    let (Some(alice), Some(bob)) = (OtherUser::second(), OtherUser::third()) else { return };
    let names = ["n0", "n1"];
    let hosts = StandardHost::cluster(TestLauncher::on(names), MemoryExchange::cluster(names));
    let mut nodes = Vec::new();
    for (host, name) in hosts.into_iter().zip(names) {
        let node = TestNode::builder(0).nspace("unused").hostname(name).host(host);
        let node = node.server(|server| server.other_users(true)).start().await;
        open(node.root());
        nodes.push(node);
    }
    let mut victims = [
        process(&nodes[1], &bob, "bobs", &["keep-secret"]).await,
        process(&nodes[1], &alice, "hers", &["keep-secret"]).await,
    ];
    for victim in &mut victims {
        victim.line_with("listening").await;
    }
    let [mut bobs, mut hers] = victims;
    let (status, out, err) = process(&nodes[0], &alice, "alices", &["slander", "bobs"]).await.end().await;
    assert!(status.success() && out.matches("notify: SUCCESS").count() == 3, "{out}{err}");
    // the other node has been told
    nodes[0].until_waiting(0).await;
    assert!(hers.line_with("heard").await.ends_with("about bobs:99"), "her own process hears her");
    let lost = Info::new(&keys::EVENT_AFFECTED_PROC, proc("bobs", 3));
    let event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, ProcId::none()).with_info(lost);
    nodes[1].handle().notify_event(event).await.unwrap();
    assert!(bobs.line_with("heard").await.ends_with("about bobs:3"), "his hears the host alone");
}

#[tokio::test]
async fn sec_02_tol_15_a_tool_of_another_user_is_refused() {
    let Some(rig) = Rig::start().await else { return };
    let mut command = rig.alice.command(rig.alice.copy_of(&rank_program()));
    command.args(["tool", rig.node.handle().uri()]);
    let (_, out, err) = Running::start(command).end().await;
    assert!(
        out.starts_with("refused") && out.contains(&format!("not for uid {}", rig.alice.uid)),
        "{out}{err}"
    );
    assert_eq!(rig.node.stats().await.connections, 0);
    let mut command = Command::new(rank_program());
    command.args(["tool", rig.node.handle().uri()]);
    let (_, out, err) = Running::start(command).end().await;
    assert!(out.starts_with("let in"), "its own: {out}{err}");
}

#[tokio::test]
async fn the_record_of_a_server_is_not_for_processes_of_other_users() {
    let Some(rig) = Rig::start().await else { return };
    let (status, out, err) = rig.process(&rig.alice, "alices", &["ask", "rs.pmix.record"]).await.end().await;
    assert!(status.success() && out.contains("refused "), "{out}{err}");
    let why = format!("for the user of the server and root, not for uid {}", rig.alice.uid);
    assert!(out.contains(&why), "{out}{err}");
}

#[tokio::test]
async fn spn_01_a_launcher_that_runs_as_itself_only_starts_nothing_for_another_user() {
    let Some(alice) = OtherUser::second() else { return };
    let launcher = TestLauncher::new("n0");
    let host = StandardHost::new(launcher.clone(), MemoryExchange::single("n0"));
    let node =
        TestNode::builder(1).host(host.clone()).server(|server| server.other_users(true)).start().await;
    open(node.root());
    let asking = process(&node, &alice, "alices", &["spawn-with", "-", "-", "id"]).await;
    let (_, out, err) = asking.end().await;
    assert!(out.contains("refused Status::ERR_NOT_SUPPORTED"), "{out}{err}");
    assert!(out.contains(&format!("jobs of uid {} cannot be started here", alice.uid)), "{out}");
    assert!(node.handle().job_data(&nspace("alices.1")).await.is_err());
    assert!(host.process_table(&nspace("alices.1")).is_empty() && launcher.asked().is_empty());
}

#[tokio::test]
async fn crd_01_crd_02_a_credential_names_the_user_who_gets_it_whoever_shows_it() {
    let Some(rig) = Rig::start().await else { return };
    let mut users = vec![(&rig.alice, "alices"), (&rig.bob, "bobs")];
    let own = rig.node.client(0).await;
    for (user, nspace) in users.drain(..) {
        let (status, out, err) = rig.process(user, nspace, &["credential", "hmac"]).await.end().await;
        assert!(status.success(), "{out}{err}");
        assert!(out.contains(&format!("holder Some({})", user.uid)), "{out}");
        let shown = out.lines().find_map(|line| line.strip_prefix("credential ")).unwrap().to_owned();
        let holder = within(own.validate_credential(shown.clone().into_bytes())).await.unwrap();
        assert!(holder.contains(&Info::new(&keys::USERID, user.uid)), "{holder:?}");
        let forged = shown.replace(&user.uid.to_string(), "0");
        let error = within(own.validate_credential(forged.into_bytes())).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_INVALID_CRED, "{error}");
    }
}

#[tokio::test]
async fn crd_01_crd_02_munge_sees_the_user_who_requests_or_validates_a_credential() {
    let Some(munged) = Munged::start() else { return };
    let launcher = LocalLauncher::new("n0");
    let Some(rig) = Rig::start_on(launcher, |host| host.with_munge_socket(munged.socket())).await else {
        return;
    };
    let (status, out, err) = rig.process(&rig.alice, "alices", &["credential", "munge"]).await.end().await;
    assert!(status.success(), "{out}{err}");
    assert!(
        out.contains("credential MUNGE:") && out.contains(&format!("holder Some({})", rig.alice.uid)),
        "{out}"
    );
    // one that is for one user is so here, too
    let only_for = |uid: Uid| {
        let mut munge = Command::new("munge");
        munge.arg("--no-input").arg(format!("--restrict-uid={uid}")).arg("--socket").arg(munged.socket());
        run(munge).1.trim().to_owned()
    };
    for (number, (uid, said)) in
        [(rig.alice.uid, "valid "), (rig.bob.uid, "refused "), (Uid::ROOT, "refused ")]
            .into_iter()
            .enumerate()
    {
        let (name, credential) = (format!("again{number}"), only_for(uid));
        let (_, out, err) = rig.process(&rig.alice, &name, &["validate", &credential]).await.end().await;
        assert!(out.lines().any(|line| line.starts_with(said)), "for {uid}: {out}{err}");
    }
}

#[tokio::test]
async fn log_06b_a_mail_program_runs_with_the_permissions_of_who_logs_the_mail() {
    let dir = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    mode(dir.path(), 0o777);
    let program = dir.path().join("sendmail");
    let out = dir.path().display();
    executable(&program, &format!("#!/bin/sh\ncat > {out}/of-$(id -u)\nid -G > {out}/groups\n"));
    let Some(rig) = Rig::start_on(LocalLauncher::new("n0"), |host| host.with_mail_program(&program)).await
    else {
        return;
    };
    let (status, said, err) = rig.process(&rig.alice, "alices", &["mail", "root"]).await.end().await;
    assert!(status.success() && said.contains("mailed Fully"), "{said}{err}");
    let uid = rig.alice.uid;
    let mail = std::fs::read_to_string(dir.path().join(format!("of-{uid}"))).unwrap();
    assert!(mail.contains(&format!("X-PMIx-Process: alices:0 (uid {uid})\n")), "{mail}");
    let groups = std::fs::read_to_string(dir.path().join("groups")).unwrap();
    assert!(groups.split_whitespace().all(|group| group != "0"), "{groups}");
    // no option for the program, whoever tries
    let (_, said, err) = rig.process(&rig.bob, "bobs", &["mail", "-Croot"]).await.end().await;
    assert!(said.contains("not mailed") && said.contains("ERR_BAD_PARAM"), "{said}{err}");
    assert!(!dir.path().join(format!("of-{}", rig.bob.uid)).exists());
}
