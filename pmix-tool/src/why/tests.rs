use std::collections::BTreeMap;
use std::time::Duration;

use pmix_types::why::{Activity, ProcLook, ProcSet, Wait};
use pmix_types::{Nspace, Pid, ProcId, ProcInfo, ProcState, Rank, Status};
use proptest::collection::vec;
use proptest::prelude::*;

use super::process::CpuUse;
use super::{Link, Process, Why};

/// `job:0-3,7`, several apart by blanks.
fn set(text: &str) -> ProcSet {
    let mut procs = ProcSet::new();
    for part in text.split_whitespace() {
        let (job, ranks) = part.split_once(':').unwrap();
        procs.add(&job.parse().unwrap(), &ranks.parse().unwrap());
    }
    procs
}

fn wait(operation: &str, waited: u64, expected: &str, arrived: &str, missing: &str) -> Wait {
    let mut wait = Wait::new(1, operation, "n0", Duration::from_secs(waited));
    (wait.expected, wait.arrived, wait.missing) = (set(expected), set(arrived), set(missing));
    wait
}

fn request(operation: &str, about: &str, waited: u64, by: &str, missing: &str) -> Wait {
    let mut wait = wait(operation, waited, by, by, missing);
    wait.about = (!about.is_empty()).then(|| about.to_owned());
    wait
}

/// A process of `job` with pid 4700 and its rank, on node 2.
fn process(rank: u32, activity: Activity) -> Process {
    let proc = ProcId::new("job".parse().unwrap(), Rank::from_raw(rank));
    let mut process = Process::new(proc.clone());
    process.link = Link::Connected;
    let mut look = ProcLook::new(proc, "n2", Pid(4700 + i32::try_from(rank).unwrap()));
    look.activity = activity;
    process.see(look);
    process
}

fn sleeper(rank: u32, syscall: &str) -> Process {
    let mut process = process(rank, Activity::Sleeps);
    process.look.as_mut().unwrap().syscall = Some(syscall.into());
    process
}

fn why(waits: Vec<Wait>, procs: Vec<Process>) -> Why {
    let procs: BTreeMap<_, _> = procs.into_iter().map(|process| (process.proc.clone(), process)).collect();
    Why::new(vec!["job".parse().unwrap()], waits, procs)
}

#[track_caller]
fn says(waits: Vec<Wait>, procs: Vec<Process>, expected: &str) {
    assert_eq!(why(waits, procs).sentences(), [expected]);
}

/// A fence of 4 that misses rank 3, which is like this.
#[track_caller]
fn missing(process: Process, expected: &str) {
    let waits = vec![wait("fence", 41, "job:0-3", "job:0-2", "job:3")];
    let start = "job: a fence of 4 processes has waited 41 s for rank 3 on n2, pid 4703";
    says(waits, vec![process], &format!("{start}{expected}."));
}

#[test]
fn a_fence_says_what_the_missing_process_does_instead() {
    let three = |activity| process(3, activity);
    missing(three(Activity::Stopped), ", which is stopped (SIGSTOP or a terminal stop)");
    missing(three(Activity::Ended), ", which has ended");
    missing(three(Activity::Sleeps), ", which sleeps");
    missing(three(Activity::Runs), ", which computes or spins");
    missing(three(Activity::Unknown), "");
    missing(sleeper(3, "futex"), ", which sleeps in futex");

    let mut held = three(Activity::Traced);
    missing(held.clone(), ", which is held by a debugger");
    held.look.as_mut().unwrap().tracer = Some(Pid(99));
    missing(held, ", which is held by a debugger, pid 99");

    let mut blocked = three(Activity::Blocked);
    blocked.look.as_mut().unwrap().wait_channel = Some("nfs_wait_bit_killable".into());
    missing(blocked, ", which waits for a file system or a device (nfs_wait_bit_killable)");

    let mut failed = sleeper(3, "read");
    (failed.state, failed.exit_code) = (ProcState::TERM_NON_ZERO, Some(3));
    // it has lost its connection, but the kernel knows that it is there
    missing(failed.clone(), ", which sleeps in read");
    failed.look = None;
    missing(failed, ", which has ended (exit code 3)");

    let mut late = sleeper(3, "clock_nanosleep");
    late.link = Link::NotYet;
    missing(late.clone(), ", which has not called PMIx_Init yet and sleeps in clock_nanosleep");
    late.look.as_mut().unwrap().activity = Activity::Stopped;
    missing(late, ", which is stopped (SIGSTOP or a terminal stop) and has not called PMIx_Init yet");
    let mut gone = sleeper(3, "read");
    gone.link = Link::Left;
    missing(gone, ", which has finalized and sleeps in read");
}

#[test]
fn two_looks_tell_a_process_that_spins_from_one_that_sleeps() {
    let at = |rank, activity, cpu: u64| {
        let mut process = process(rank, activity);
        process.look.as_mut().unwrap().cpu_time = Duration::from_millis(cpu);
        process
    };
    let earlier = why(
        vec![],
        vec![at(0, Activity::Runs, 500), at(1, Activity::Sleeps, 500), at(2, Activity::Sleeps, 7)],
    );
    let mut now = why(
        vec![],
        vec![at(0, Activity::Runs, 598), at(1, Activity::Sleeps, 590), at(2, Activity::Sleeps, 8)],
    );
    now.at = earlier.at + Duration::from_millis(100);
    // another process with the same rank, such as one that was started again
    let mut other = at(3, Activity::Runs, 9);
    other.look.as_mut().unwrap().pid = Pid(1);
    now.procs.insert(other.proc.clone(), other);
    let now = now.since(&earlier);
    let shares: Vec<_> = now.procs.values().map(|process| process.cpu.map(|cpu| cpu.percent())).collect();
    assert_eq!(shares, [Some("98 %".into()), Some("90 %".into()), Some("1 %".into()), None]);
    let words: Vec<_> = now.procs.values().map(|process| process.doing().word()).collect();
    // the main thread of the second sleeps, another one does not
    assert_eq!(words, ["runs", "runs", "sleeps", "runs"]);

    let mut spins = process(3, Activity::Runs);
    spins.cpu = Some(CpuUse { used: Duration::from_millis(98), over: Duration::from_millis(100) });
    missing(spins, ", which computes or spins (98 % of a processor)");
}

#[test]
fn several_missing_processes_are_counted_by_what_they_do() {
    let fence = || vec![wait("fence", 41, "job:0-20", "job:0-12,14", "job:13,15-20")];
    let mut procs: Vec<_> = [13, 15, 16, 17, 18, 19, 20].map(|rank| sleeper(rank, "futex")).into();
    procs[6].node = Some("n3".into());
    let start = "job: a fence of 21 processes has waited 41 s for ranks 13,15-20 (7 processes)";
    says(fence(), procs.clone(), &format!("{start} on n2 and n3, all of which sleep in futex."));
    says(fence(), vec![], &format!("{start}."));
    procs[0].look.as_mut().unwrap().activity = Activity::Stopped;
    procs[1] = process(15, Activity::Runs);
    let told = "on n2 and n3, of which rank 13 (pid 4713) is stopped (SIGSTOP or a terminal stop), \
                rank 15 (pid 4715) computes or spins and 5 sleep in futex.";
    says(fence(), procs.clone(), &format!("{start} {told}"));
    (procs[2], procs[3]) = (sleeper(16, "read"), sleeper(17, "write"));
    let sentence = &why(fence(), procs).sentences()[0];
    assert!(sentence.ends_with(" and 4 do something else."), "{sentence}");
}

#[test]
fn a_process_of_another_job_is_named_with_it() {
    let waits = vec![wait("connect", 5, "job:0-1 other:0-3", "job:0-1 other:0", "other:1-3")];
    says(
        waits,
        vec![],
        "job and other: a connect of 6 processes has waited 5 s for ranks 1-3 of other (3 processes).",
    );
    let waits = vec![request("get", "ep", 5, "job:3", "other:9")];
    says(waits, vec![], "job: rank 3 has waited 5 s for key \"ep\" of rank 9 of other.");
}

#[test]
fn requests_say_what_they_want() {
    let nine = || vec![sleeper(9, "futex")];
    let get = request("get", "ep", 5, "job:3", "job:9");
    let end = "of rank 9 on n2, pid 4709, which sleeps in futex.";
    says(vec![get.clone()], nine(), &format!("job: rank 3 has waited 5 s for key \"ep\" {end}"));
    let held = request("get of another node", "ep", 4, "", "job:9");
    let sentence = format!("job: a process on another node has waited 4 s for key \"ep\" {end}");
    says(vec![held.clone()], nine(), &sentence);
    // what it is held for is the same
    says(vec![get, held], nine(), &format!("job: rank 3 has waited 5 s for key \"ep\" {end}"));
    let all = request("get", "", 5, "job:3", "job:9");
    says(vec![all], nine(), &format!("job: rank 3 has waited 5 s for the data {end}"));
    let wild = request("get", "size", 5, "job:3", "");
    says(vec![wild], vec![], "job: rank 3 has waited 5 s for key \"size\" of a whole job.");

    let mut one = request("lookup", "x", 5, "job:3", "");
    one.at_host = true;
    says(vec![one], vec![], "job: rank 3 has waited 5 s for key x, which nobody has published.");
    let two = request("lookup", "x, y", 200, "job:3", "");
    says(vec![two], vec![], "job: rank 3 has waited 3 min 20 s for keys x, y, which are not all published.");

    let at_host = |operation: &str| {
        let mut wait = request(operation, "", 5, "job:3", "");
        wait.at_host = true;
        vec![wait]
    };
    let spawn = "job: the spawn of rank 3 has waited 5 s for the resource manager (host).";
    says(at_host("spawn"), vec![], spawn);
    says(at_host("client connected"), vec![], &spawn.replace("spawn", "init"));
    says(at_host("job control"), vec![], &spawn.replace("spawn", "job control"));
}

#[test]
fn requests_for_the_same_are_one_sentence() {
    let waits: Vec<_> =
        (0..9_999).map(|rank| request("get", "ep", rank, &format!("job:{rank}"), "job:9999")).collect();
    let report = why(waits, vec![]);
    let cases = report.cases();
    assert_eq!((cases.len(), cases[0].requests), (1, 9_999));
    let expected = "job: ranks 0-9998 have waited up to 2 h 46 min for key \"ep\" of rank 9999.";
    assert_eq!(cases[0].sentence, expected);
}

#[test]
fn groups_and_other_collectives_have_names() {
    let mut construct = wait("group construct", 5, "job:0-2", "job:0-1", "job:2");
    construct.about = Some("g".into());
    says(vec![construct], vec![], "job: a group construct \"g\" of 3 processes has waited 5 s for rank 2.");
    let mut invite = wait("group invite", 5, "job:0-2", "job:0", "job:1-2");
    invite.about = Some("g".into());
    let sentence =
        "job: the invitation to group \"g\" has waited 5 s for an answer of ranks 1-2 (2 processes).";
    says(vec![invite], vec![], sentence);
    let join = request("group join", "g", 5, "job:1", "job:0");
    says(vec![join], vec![], "job: rank 1 has waited 5 s to join group \"g\", led by rank 0.");
}

#[test]
fn a_collective_that_misses_nobody_here_waits_for_others() {
    let mut fence = wait("fence", 5, "job:0-3", "job:0-1", "");
    fence.at_host = true;
    says(vec![fence.clone()], vec![], "job: a fence of 4 processes has waited 5 s for other nodes.");
    fence.arrived = set("job:0-3");
    says(
        vec![fence.clone()],
        vec![],
        "job: a fence of 4 processes has waited 5 s for the resource manager (host).",
    );
    let mut fetches = fence.clone();
    fetches.fetching = set("job:2-3");
    says(
        vec![fetches],
        vec![],
        "job: a fence of 4 processes has waited 5 s for the data of ranks 2-3, which a server fetches.",
    );
    fence.arrived = set("job:0-2");
    fence.excused = set("job:3");
    fence.left = Some(Duration::from_secs(9));
    fence.error = Some((Status::ERR_TIMEOUT, "late".into()));
    let end = "the resource manager (host); it continues without rank 3, which will not enter; it has failed: \
               ERR_TIMEOUT, late; it times out in 9 s.";
    says(vec![fence], vec![], &format!("job: a fence of 4 processes has waited 5 s for {end}"));
}

#[test]
fn a_node_that_has_not_answered_is_named() {
    let mut unanswered = Wait::new(0, "query of waits", "n3", Duration::ZERO);
    unanswered.error = Some((Status::ERR_TIMEOUT, "no answer".into()));
    let sentences = why(vec![unanswered], vec![]).sentences();
    assert_eq!(sentences[0], "node n3 has not reported its waits: ERR_TIMEOUT, no answer.");
    assert!(
        sentences[1].starts_with("job: no process is known to be waiting inside PMIx ("),
        "{sentences:?}"
    );
}

#[test]
fn a_missing_process_that_waits_itself_is_explained_next() {
    let get = request("get", "ep", 90, "job:3", "job:2");
    let other = request("lookup", "x", 99, "job:0", "");
    let long = wait("fence", 41, "job:0-3", "job:0", "job:3");
    let young = wait("connect", 1, "job:2,4", "job:2", "job:4");
    let report = why(
        vec![other, young, get, long],
        vec![sleeper(2, "futex"), sleeper(3, "futex"), sleeper(4, "read")],
    );
    let expected = [
        "job: a fence of 4 processes has waited 41 s for rank 3 on n2, pid 4703, which itself waits for key \"ep\" of rank 2.",
        "job: rank 3 has waited 1 min 30 s for key \"ep\" of rank 2 on n2, pid 4702, which itself waits in a connect of 2 processes.",
        "job: a connect of 2 processes has waited 1 s for rank 4 on n2, pid 4704, which sleeps in read.",
        "job: rank 0 has waited 1 min 39 s for key x, which nobody has published.",
    ];
    assert_eq!(report.sentences(), expected);
    // those that wait for each other do not make it wait for ever
    let a = request("get", "k", 2, "job:0", "job:1");
    let b = request("get", "k", 1, "job:1", "job:0");
    let both = why(vec![a, b], vec![]).sentences();
    assert!(both[0].ends_with("rank 1, which itself waits for key \"k\" of rank 0."), "{both:?}");
    assert!(both[1].ends_with("rank 0, which itself waits for key \"k\" of rank 1."), "{both:?}");
}

#[test]
fn a_job_in_which_nothing_waits_points_to_its_stacks() {
    let start =
        "job: no process is waiting inside PMIx (MPI collectives such as MPI_Barrier do not show up here).";
    let end = "`pmix stack job` shows where.";
    says(vec![], vec![], &format!("{start} {end}"));
    says(vec![], vec![process(0, Activity::Runs)], &format!("{start} Its process computes or spins. {end}"));
    says(
        vec![],
        vec![Process::new(process(0, Activity::Runs).proc)],
        &format!("{start} Its process has no known activity. {end}"),
    );
    let mut procs: Vec<_> = (0..16).map(|rank| process(rank, Activity::Runs)).collect();
    procs[3] = sleeper(3, "pause");
    let told = "Of its 16 processes rank 3 (pid 4703) sleeps in pause and 15 compute or spin.";
    says(vec![], procs, &format!("{start} {told} {end}"));
}

#[test]
fn ranks_and_texts_that_are_long_stay_short() {
    let odd = (0..10_000).filter(|rank| rank % 2 == 1).map(|rank| rank.to_string()).collect::<Vec<_>>();
    let list = format!("job:{}", odd.join(","));
    let mut fence = wait("fence", 1, "job:0-9999", "job:0", &list);
    fence.error = Some((Status::ERROR, "x".repeat(10_000)));
    let sentence = &why(vec![fence], vec![]).sentences()[0];
    assert!(sentence.contains("for ranks 1,3,5,7,9,11,13,...,9995,9997,9999 (5000 processes)"), "{sentence}");
    assert!(sentence.len() < 400, "{sentence}");
}

#[test]
fn a_process_table_of_the_server_and_one_of_the_host_are_joined() {
    let mut process = Process::new(ProcId::new("job".parse().unwrap(), Rank::from_raw(3)));
    let mut row = ProcInfo::new(process.proc.clone());
    row.hostname = Some("n1".into());
    process.tell(&row);
    assert_eq!((process.node.as_deref(), process.pid, process.doing().word()), (Some("n1"), None, "unknown"));
    row.hostname = None;
    (row.pid, row.state, row.exit_code) = (Pid(7), ProcState::TERM_NON_ZERO, 4);
    process.tell(&row);
    assert_eq!((process.node.as_deref(), process.pid), (Some("n1"), Some(Pid(7))));
    assert_eq!((process.exit_code, process.doing().word()), (Some(4), "ended"));
}

#[test]
fn server_and_host_together_know_who_has_called_init() {
    let row = |rank, state, pid| {
        let mut row = ProcInfo::new(ProcId::new("job".parse().unwrap(), Rank::from_raw(rank)));
        (row.state, row.pid, row.hostname) = (state, Pid(pid), Some(format!("n{}", rank / 4)));
        row
    };
    // four on the node of the server, as it knows them itself
    let here = [
        row(0, ProcState::CONNECTED, 0),
        row(1, ProcState::PREPPED, 0),
        row(2, ProcState::RUNNING, 0),
        row(3, ProcState::TERMINATED, 0),
    ];
    let mut host: Vec<_> = (0..6).map(|rank| row(rank, ProcState::RUNNING, 10)).collect();
    let links = |table: &[ProcInfo]| {
        let looks = [ProcLook::new(here[1].proc.clone(), "n9", Pid(77))];
        let procs = super::gather::join(&here, [table], looks);
        let seen = &procs[&here[1].proc];
        assert_eq!((seen.pid, seen.node.as_deref()), (Some(Pid(77)), Some("n9")));
        assert_eq!(procs[&here[0].proc].pid, Some(Pid(10)));
        procs.values().map(|process| process.link).collect::<Vec<_>>()
    };
    use Link::{Connected, Left, NotYet, Unknown};
    // a host that does not note who connects
    assert_eq!(links(&host), [Connected, NotYet, Left, Unknown, Unknown, Unknown]);
    host[4].state = ProcState::CONNECTED;
    assert_eq!(links(&host), [Connected, NotYet, Left, NotYet, Connected, NotYet]);
}

#[test]
fn only_missing_processes_are_missing() {
    let waits =
        vec![wait("fence", 1, "job:0-3", "job:0-2", "job:3"), request("get", "k", 1, "job:0", "job:2")];
    let report = why(waits, (0..4).map(|rank| sleeper(rank, "futex")).collect());
    let ranks: Vec<_> = report.missing().map(|process| process.proc.rank.to_raw()).collect();
    assert_eq!(ranks, [2, 3]);
    assert_eq!(report.idle_jobs().next(), None);
    assert!(report.at <= pmix_test_wait::moment());
}

/// What others have written, as it comes.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![".*", "[\\x00-\\x1f\u{80}-\u{9f}\u{2028}\u{202e}a-z ]*", Just("x".repeat(500))]
}

fn ranks() -> impl Strategy<Value = String> {
    vec(0..300u32, 0..200).prop_map(|ranks| {
        let ranks: Vec<_> = ranks.iter().map(ToString::to_string).collect();
        if ranks.is_empty() { String::new() } else { format!("job:{}", ranks.join(",")) }
    })
}

prop_compose! {
    fn any_wait()(
        known in prop::sample::select(vec![
            "fence", "connect", "get", "get of another node", "lookup", "group join", "group invite", "spawn",
        ]),
        strange in prop::option::of(text()),
        about in prop::option::of(text()),
        sets in [ranks(), ranks(), ranks(), ranks()],
        waited in any::<u32>(),
        left in prop::option::of(any::<u32>()),
        at_host in any::<bool>(),
        error in prop::option::of(text()),
    ) -> Wait {
        let [expected, arrived, missing, excused] = sets;
        let mut wait = wait(strange.as_deref().unwrap_or(known), waited.into(), &expected, &arrived, &missing);
        wait.excused = set(&excused);
        wait.about = about;
        wait.left = left.map(|left| Duration::from_secs(left.into()));
        wait.at_host = at_host;
        wait.error = error.map(|message| (Status::ERROR, message));
        wait
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_sentence_is_one_line_of_bounded_length(waits in vec(any_wait(), 1..6), node in text(), call in text()) {
        let procs = (0..40).map(|rank| {
            let mut process = sleeper(rank, &format!("{call}{}", rank % 5));
            process.node = Some(format!("{node}{}", rank % 7));
            process
        });
        let report = why(waits, procs.collect());
        for sentence in report.sentences() {
            prop_assert!(pmix_types::escaped(&sentence).to_string() == sentence, "{sentence:?}");
            prop_assert!(sentence.chars().count() < 1200, "{sentence}");
            prop_assert!(sentence.ends_with('.'));
        }
    }

    #[test]
    fn lists_of_ranks_fit(ranks in vec(any::<u16>(), 0..300), room in 20..80usize) {
        let ranks: pmix_types::RankSet = ranks.into_iter().map(|rank| Rank::from_raw(rank.into())).collect();
        let short = ranks.to_short_string(room);
        prop_assert!(short.len() <= room + 4, "{short}");
        let whole = ranks.to_string();
        match short.split_once(",...,") {
            Some((start, end)) => {
                prop_assert!(whole.starts_with(start) && whole.ends_with(end), "{short}");
                prop_assert!(start.parse::<pmix_types::RankSet>().unwrap().is_subset(&ranks));
                prop_assert!(end.parse::<pmix_types::RankSet>().unwrap().is_subset(&ranks));
            }
            None => prop_assert_eq!(short, whole),
        }
    }
}

#[test]
fn namespaces_are_told_apart() {
    let mut report = why(vec![wait("fence", 1, "job:0-1", "job:0", "job:1")], vec![]);
    let idle: Nspace = "idle".parse().unwrap();
    report.jobs.push(idle.clone());
    assert_eq!(report.idle_jobs().collect::<Vec<_>>(), [&idle]);
    assert_eq!(report.sentences().len(), 2);
}
