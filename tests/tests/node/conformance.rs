//! The conformance checks find nothing at the hosts that are ours, and find every host that is wrong on purpose.

use std::time::Duration;

use bytes::Bytes;
use pmix_conformance::wrong::{Fault, Faulty};
use pmix_conformance::{Check, Conformance, Outcome, Report, Verdict, checks};
use pmix_host::{MemoryExchange, StandardHost};
use pmix_launch::LocalLauncher;
use pmix_server::host::*;
use pmix_server::{Capabilities, HostModule, HostResult, NoHost, ServerHandle, Upcall, UpcallContext};
use pmix_test_wait::LIMIT;
use pmix_types::for_each_upcall;
use pmix_types::{Directives, Nspace, ProcId, Status};

type Standard = StandardHost;

fn standard(nodes: &[String]) -> Vec<Standard> {
    StandardHost::cluster(LocalLauncher::simulating(nodes), MemoryExchange::cluster(nodes))
}

/// Runs checks in which each request is answered: longer than a check may take, so that none passes by waiting for this.
async fn run<H: HostModule>(nodes: u32, make: impl Fn(&[String]) -> Vec<H>, only: &[&str]) -> Report {
    run_with(LIMIT, nodes, make, only).await
}

/// Runs checks that find a fault, on any machine: a request that is never answered is one, and one that is answered late has to be
/// another one anyway.
async fn run_at_wrong<H: HostModule>(
    nodes: u32,
    make: impl Fn(&[String]) -> Vec<H>,
    only: &[&str],
) -> Report {
    // longer than the checks' own limits of a second
    run_with(Duration::from_secs(3), nodes, make, only).await
}

async fn run_with<H: HostModule>(
    patience: Duration,
    nodes: u32,
    make: impl Fn(&[String]) -> Vec<H>,
    only: &[&str],
) -> Report {
    let checks = Conformance::new(make).nodes(nodes).patience(patience).only(only.iter().copied());
    checks.run().await.unwrap_or_else(|error| panic!("the hosts were not made: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standard_host_keeps_the_rules_on_two_nodes() {
    let report = run(2, standard, &[]).await;
    assert!(report.passed(), "{report}");
    for (check, outcome) in checks().iter().zip(&report.outcomes) {
        let is_served = !check.needs.iter().any(|upcall| NOT_SERVED.contains(upcall));
        assert_eq!(outcome.verdict == Verdict::Passed, is_served && !is_of_own_jobs(outcome), "{report}");
    }
    assert_eq!(report.outcomes.len(), checks().len() + 1, "and what is declared");
}

/// Logging is for the processes of jobs that the host has started itself; `pmix-check` runs such.
fn is_of_own_jobs(outcome: &Outcome) -> bool {
    matches!(&outcome.verdict, Verdict::Skipped(reason) if reason.contains("this host has not started"))
        || outcome.check == "a_log_with_an_unknown_directive_is_refused"
}

/// What the standard host does not serve.
const NOT_SERVED: [Upcall; 6] = [
    Upcall::RegisterEvents,
    Upcall::DeregisterEvents,
    Upcall::Monitor,
    Upcall::Fabric,
    Upcall::SessionControl,
    Upcall::ResourceBlock,
];

/// Every upcall has a check that would be skipped without it; every check connects processes, and `pmix-check` also finalizes
/// them. No rule of the Standard says what a host does when a tool finalizes or is lost.
#[test]
fn every_upcall_has_a_check_that_needs_it() {
    let by_all = [Upcall::ClientConnected, Upcall::ClientFinalized, Upcall::ToolFinalized, Upcall::ToolLost];
    // a request of our own that goes up as it comes
    let is_own = |upcall: &Upcall| upcall.is_passed_up() && upcall.c_names().is_empty();
    let is_needed = |upcall: &&Upcall| {
        let needs = |check: &Check| check.needs.contains(upcall) || check.needs_across_nodes.contains(upcall);
        by_all.contains(upcall) || is_own(upcall) || checks().iter().any(needs)
    };
    let unchecked: Vec<_> = Upcall::ALL.iter().filter(|upcall| !is_needed(upcall)).collect();
    assert!(unchecked.is_empty(), "{unchecked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_standard_host_keeps_the_rules_on_one_node_and_on_three() {
    for nodes in [1, 3] {
        let report = run(nodes, standard, &[]).await;
        assert!(report.passed(), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_host_what_is_local_keeps_the_rules() {
    let report = run(1, |nodes| nodes.iter().map(|_| NoHost).collect::<Vec<_>>(), &[]).await;
    assert!(report.passed(), "{report}");
}

/// What it has never promised is skipped at once, by its name: a check that waits for it fails.
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_host_on_two_nodes_fails_nothing() {
    let report = run(2, |nodes| nodes.iter().map(|_| NoHost).collect::<Vec<_>>(), &[]).await;
    assert!(report.passed(), "{report}");
    let reason = |name: &str| {
        let outcome = report.outcomes.iter().find(|outcome| outcome.check == name).unwrap();
        outcome.verdict.clone()
    };
    let needs = |what: &str| Verdict::Skipped(format!("needs {what}"));
    assert_eq!(reason("fence_brings_data"), needs("fence"));
    assert_eq!(reason("publish_can_be_looked_up"), needs("publish, lookup, fence"));
    assert_eq!(reason("events_keep_their_order"), needs("fence, notify_event"));
    assert_eq!(reason("reserved_keys_never_wait"), Verdict::Passed);
}

/// A standard host that does not carry events.
struct Deaf(Standard);

#[pmix_server::async_trait]
impl HostModule for Deaf {
    fn capabilities(&self) -> Capabilities {
        Upcall::ALL
            .iter()
            .copied()
            .filter(|upcall| [Upcall::Fence, Upcall::Connect].contains(upcall))
            .collect()
    }

    fn started(&self, handle: &ServerHandle) {
        self.0.started(handle);
    }

    async fn fence(&self, cx: &UpcallContext, req: FenceRequest) -> HostResult<Bytes> {
        self.0.fence(cx, req).await
    }

    async fn connect(&self, cx: &UpcallContext, req: ConnectRequest) -> HostResult<Connected> {
        self.0.connect(cx, req).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_is_checked_for_what_it_serves() {
    let names = ["fence_brings_data", "connect_waits_for_all", "an_event_reaches_the_namespace"];
    let report = run(2, |nodes| standard(nodes).into_iter().map(Deaf).collect::<Vec<_>>(), &names).await;
    let verdicts: Vec<_> = report.outcomes.iter().map(|outcome| outcome.verdict.clone()).collect();
    let skipped = |entry: &str| Verdict::Skipped(format!("needs {entry}"));
    assert_eq!(verdicts, [Verdict::Passed, skipped("direct_modex"), skipped("notify_event")], "{report}");
    // on one node the server does without these
    let report = run(1, |nodes| standard(nodes).into_iter().map(Deaf).collect::<Vec<_>>(), &names).await;
    assert!(report.outcomes.iter().all(|outcome| outcome.verdict == Verdict::Passed), "{report}");
}

/// A standard host of which only some entries are served.
struct Serving {
    host: Standard,
    upcalls: Vec<Upcall>,
}

macro_rules! serving {
    ($($(#[$doc:meta])* $name:ident $method:ident($request:ty) -> $reply:ty { $($about:tt)* })+) => {
        #[pmix_server::async_trait]
        impl HostModule for Serving {
            fn capabilities(&self) -> Capabilities {
                self.upcalls.iter().copied().collect()
            }

            fn started(&self, handle: &ServerHandle) {
                self.host.started(handle);
            }

            $(async fn $method(&self, cx: &UpcallContext, req: $request) -> HostResult<$reply> {
                assert!(self.upcalls.contains(&Upcall::$name));
                let answer = self.answer(cx, UpcallRequest::$name(req)).await?;
                answer.try_into().map_err(|_| Status::ERROR.into())
            })+
        }
    };
}

for_each_upcall!(serving);

impl Serving {
    /// The answer of the standard host, or that of one that also serves the rest.
    async fn answer(&self, cx: &UpcallContext, request: UpcallRequest) -> HostResult<Answer> {
        match request {
            UpcallRequest::RegisterEvents(_) | UpcallRequest::DeregisterEvents(_) => Ok(Answer::Done),
            UpcallRequest::Monitor(req) => infos(&req.directives),
            UpcallRequest::Fabric(req) => infos(&req.directives),
            UpcallRequest::SessionControl(req) => infos(&req.directives),
            UpcallRequest::ResourceBlock(req) => infos(&req.directives).map(|_| Answer::Done),
            request => call(&self.host, cx, request).await,
        }
    }
}

fn infos(directives: &Directives) -> HostResult<Answer> {
    directives.deny_unprocessed()?;
    Ok(Answer::from(Infos::new()))
}

/// Each check passes with the upcalls that it names: it would be skipped without one of them, and fail if it needed more.
#[tokio::test(flavor = "multi_thread")]
async fn each_check_needs_the_upcalls_that_it_names_and_no_others() {
    let too_small = ["needs two nodes", "needs 3 ranks"].map(|reason| Verdict::Skipped(reason.to_owned()));
    let mut wrong = Vec::new();
    for check in checks() {
        for nodes in [1, 2] {
            let across = if nodes == 1 { &[] } else { check.needs_across_nodes };
            let upcalls = [check.needs, across].concat();
            let serving = |host| Serving { host, upcalls: upcalls.clone() };
            let make = |nodes: &[String]| standard(nodes).into_iter().map(serving).collect::<Vec<_>>();
            let outcome = run(nodes, make, &[check.name]).await.outcomes.remove(0);
            let passed = outcome.verdict == Verdict::Passed
                || is_of_own_jobs(&outcome)
                || nodes == 1 && too_small.contains(&outcome.verdict);
            wrong.extend((!passed).then(|| format!("on {nodes} nodes with {upcalls:?}: {outcome}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The checks that must find a fault.
fn finders(fault: Fault) -> &'static [&'static str] {
    match fault {
        Fault::HastyFence => &["fence_waits_for_all"],
        Fault::FenceWithoutData => &["fence_brings_data"],
        Fault::CarelessFence => &["an_unknown_required_directive_is_refused"],
        Fault::HastyConnect => &["connect_waits_for_all"],
        Fault::TwinRanks => &["ranks_of_a_connected_set_are_unique"],
        Fault::SilentDirectModex | Fault::GarbledDirectModex => &["a_get_waits_for_the_commit"],
        Fault::ForgetfulPublish => &["publish_can_be_looked_up", "data_goes_with_its_process"],
        Fault::SilentLookup => &["publish_can_be_looked_up"],
        Fault::SingleSlot => &["ranges_do_not_meet"],
        Fault::PatientLookup => &["a_lookup_waits_if_told_so"],
        Fault::PublicBoard => &["private_data_stays_private"],
        Fault::PanickingQuery => &["the_process_table_is_in_order"],
        Fault::LyingQuery => &["an_unknown_key_is_not_found"],
        Fault::BackwardTable => &["the_process_table_is_in_order"],
        Fault::MuteEvents => &["an_event_reaches_the_namespace"],
        Fault::PanickingConnection => &["job_data_is_there_from_the_start"],
        Fault::EmptySpawn => &["a_program_that_is_not_there_is_not_spawned"],
        Fault::CarelessSpawn => &["an_application_with_an_unknown_directive_is_refused"],
        Fault::IdleJobControl => &["a_job_can_be_killed"],
        Fault::IdleAbort => &["an_aborted_job_ends"],
        Fault::LostInput => &["input_is_pushed"],
        Fault::ContentLog => &["an_unknown_required_channel_fails"],
        Fault::CredulousValidation => &["garbage_is_no_credential"],
        Fault::WrongHolder => &["a_credential_names_its_holder"],
        Fault::LongMemory => &["data_goes_with_its_process"],
        Fault::TwinTools => &["a_tool_gets_an_identity"],
        Fault::EndlessRelease => &["an_allocation_has_an_id"],
        Fault::HastyGroup => &["a_group_is_made_when_all_have_called"],
        Fault::GroupWithoutData => &["members_read_what_members_have_put"],
        Fault::TwinGroups => &["a_group_gets_a_number"],
        Fault::LonelyLeaders => &["leaders_that_do_not_know_each_other_make_a_group"],
        Fault::SilentAboutLookup => &["what_is_implemented_is_declared"],
        other => panic!("no check is named for {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_host_is_found_and_no_server_hangs() {
    for fault in Fault::ALL {
        let report = run_at_wrong(2, |nodes| Faulty::all(standard(nodes), fault), finders(fault)).await;
        assert_eq!(report.failed().count(), finders(fault).len(), "{fault:?} was not found: {report}");
        assert!(!report.to_string().contains("stuck"), "{fault:?}: {report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_board_for_all_breaks_several_rules() {
    let names = [
        "a_duplicate_is_refused",
        "private_data_stays_private",
        "local_data_stays_on_its_node",
        "namespaces_are_a_range",
        "lookups_have_a_range",
        "first_read_is_the_last",
    ];
    let report = run_at_wrong(2, |nodes| Faulty::all(standard(nodes), Fault::PublicBoard), &names).await;
    assert_eq!(report.failed().count(), names.len(), "{report}");
}

#[tokio::test]
async fn a_check_that_does_not_exist_is_named() {
    let unknown = Conformance::new(standard).only(["no_such_check"]).run().await.unwrap_err();
    assert_eq!(unknown.to_string(), "there is no check no_such_check");
}
