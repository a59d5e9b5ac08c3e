//! What else a host can serve and a server can do for it: allocations, credentials, sessions, blocks of resources.

use std::time::Duration;

use pmix_client::types::job::JobSpec;
use pmix_client::types::{
    AllocDirective, DataArray, DataRange, DeviceTypes, Directives, Envar, Info, ResourceBlockDirective,
    ResourceUnit, Status,
};
use pmix_client::{Client, Credential, Nspace, keys};
use pmix_server::host::{
    Allocate, GetCredential, Infos, Monitor, ResourceBlock, SessionControl, ValidateCredential,
};
use pmix_server::{
    Capabilities, HostModule, HostResult, NativeWire, Upcall, UpcallContext, async_trait, inventory,
};
use pmix_test_wait::is_alone_with;
use pmix_tests::{TestNode, on_both_runtimes, within};

/// Answers with what it was asked.
struct Echo;

/// What was asked, without the identity of who asked, which is checked here (GEN-13).
fn echo(cx: &UpcallContext, mut directives: Directives) -> Infos {
    assert_eq!(cx.caller.to_string(), "job:0");
    assert_eq!(directives.take(&keys::USERID).unwrap(), Some(cx.uid));
    assert_eq!(directives.take(&keys::GRPID).unwrap(), cx.gid);
    directives.remove(&keys::USERID);
    directives.remove(&keys::GRPID);
    directives.into_vec()
}

#[async_trait]
impl HostModule for Echo {
    fn capabilities(&self) -> Capabilities {
        [
            Upcall::Allocate,
            Upcall::Monitor,
            Upcall::GetCredential,
            Upcall::ValidateCredential,
            Upcall::SessionControl,
            Upcall::ResourceBlock,
        ]
        .into_iter()
        .collect()
    }

    async fn allocate(&self, cx: &UpcallContext, req: Allocate) -> HostResult<Infos> {
        let mut results = echo(cx, req.directives);
        if req.directive == AllocDirective::NEW {
            results.push(Info::new(&keys::ALLOC_ID, "alloc-1"));
        }
        Ok(results)
    }

    async fn monitor(&self, cx: &UpcallContext, req: Monitor) -> HostResult<Infos> {
        assert_eq!(req.code, Status::from_raw(-3001));
        let mut results = echo(cx, req.directives);
        results.push(req.monitor);
        Ok(results)
    }

    async fn get_credential(&self, cx: &UpcallContext, req: GetCredential) -> HostResult<Credential> {
        Ok(Credential::new(format!("credential of {}", cx.caller).into(), echo(cx, req.directives)))
    }

    async fn validate_credential(&self, cx: &UpcallContext, req: ValidateCredential) -> HostResult<Infos> {
        if *req.credential != *b"credential of job:0" {
            return Err(Status::ERR_INVALID_CRED.into());
        }
        Ok(vec![Info::new(&keys::USERID, cx.uid), Info::new(&keys::GRPID, cx.gid.unwrap())])
    }

    async fn session_control(&self, cx: &UpcallContext, req: SessionControl) -> HostResult<Infos> {
        assert_eq!(req.session, Some(7));
        Ok(echo(cx, req.directives))
    }

    async fn resource_block(&self, cx: &UpcallContext, req: ResourceBlock) -> HostResult<()> {
        echo(cx, req.directives);
        let unit = ResourceUnit::new(DeviceTypes::GPU, 2);
        match (req.directive, req.block.as_str(), &*req.units) {
            (ResourceBlockDirective::DEFINE, "gpus", [one]) if *one == unit => Ok(()),
            _ => Err(Status::ERR_BAD_PARAM.into()),
        }
    }
}

async fn client_of(node: &TestNode) -> Client {
    node.client(0).await
}

#[test]
fn alc_01_mon_04_crd_01_crd_02_gen_13_gen_14_the_host_serves_what_processes_ask_of_it() {
    on_both_runtimes(async || {
        let node = TestNode::with_host(1, Echo).await;
        let client = client_of(&node).await;

        let label = Info::new(&keys::ALLOC_REQ_ID, "mine");
        let wish = client.allocate(AllocDirective::NEW).request_id("mine").timeout(Duration::from_secs(60));
        assert_eq!(within(wish).await.unwrap(), [label, Info::new(&keys::ALLOC_ID, "alloc-1")]);
        assert_eq!(within(client.allocate(AllocDirective::RELEASE)).await.unwrap(), []);

        let what = DataArray::String(vec![keys::MONITOR_FILE_SIZE.name().into()]);
        let wish =
            client.monitor(keys::MONITOR_FILE_CHANGES, what.clone(), Status::from_raw(-3001)).id("file");
        let range = Info::new(&keys::RANGE, DataRange::NAMESPACE);
        let echoed =
            [Info::new(&keys::MONITOR_ID, "file"), range, Info::new(&keys::MONITOR_FILE_CHANGES, what)];
        assert_eq!(within(wish).await.unwrap(), echoed);

        let found = within(client.credential().types("munge,none")).await.unwrap();
        assert_eq!(found.info, [Info::new(&keys::CRED_TYPE, "munge,none")]);
        let holder = within(client.validate_credential(found.credential)).await.unwrap();
        assert!(holder[0].is(&keys::USERID) && holder[1].is(&keys::GRPID), "{holder:?}");
        let error = within(client.validate_credential("forged")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_INVALID_CRED);

        let control = client.session_control(7).directive(keys::SESSION_PAUSE, true);
        assert_eq!(within(control).await.unwrap(), [Info::new(&keys::SESSION_PAUSE, true)]);
        let unit = ResourceUnit::new(DeviceTypes::GPU, 2);
        let define =
            |units: Vec<ResourceUnit>| client.resource_block(ResourceBlockDirective::DEFINE, "gpus", units);
        within(define(vec![unit])).await.unwrap();
        let error = within(define(vec![])).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    });
}

#[test]
fn gen_11_hst_01b_without_an_entry_of_the_host_none_of_it_is_supported() {
    on_both_runtimes(async || {
        let node = TestNode::start(1).await;
        let client = client_of(&node).await;
        let refused = [
            within(client.allocate(AllocDirective::NEW)).await.unwrap_err(),
            within(client.credential()).await.unwrap_err(),
            within(client.validate_credential("any")).await.unwrap_err(),
            within(client.session_control(7)).await.unwrap_err(),
            within(client.resource_block(ResourceBlockDirective::DELETE, "gpus", [])).await.unwrap_err(),
        ];
        for error in refused {
            assert!(error.is_not_supported(), "{error}");
        }
    });
}

fn spec(nspace: &str, nodes: &[&str]) -> JobSpec {
    let nodes_of = u32::try_from(nodes.len()).unwrap();
    let spec = JobSpec::new(nspace.parse().unwrap()).node_map(nodes).unwrap();
    spec.ranks_block(nodes_of, 1).unwrap()
}

#[test]
fn set_01_set_02_set_03_cli_07b_cli_07c_cli_07d_what_a_job_needs_goes_from_one_server_to_the_processes_of_another()
 {
    on_both_runtimes(async || {
        // a variable that cargo gives to tests
        let patterns = ["CARGO_PKG_NA*"];
        let first = TestNode::builder(1).server(|server| server.harvest(patterns)).start().await;
        let nspace: Nspace = "launched".parse().unwrap();
        let wishes = [Info::new(&keys::SETUP_APP_ALL, true), Info::new(&keys::ALLOC_FABRIC_ID, "net-7")];
        let infos = spec("launched", &["n1"]).into_infos().into_iter().chain(wishes);
        let collected = first.handle().setup_application(&nspace, infos).await.unwrap();
        assert_eq!(collected.len(), 2, "{collected:?}");

        let second = TestNode::builder(0).hostname("n1").nspace("other").start().await;
        let handle = second.handle();
        let early = handle.setup_local_support(&nspace, collected.clone()).await.unwrap_err();
        assert_eq!(early.status, Status::ERR_INVALID_NAMESPACE);
        second.add_job(spec("launched", &["n1"]), [0]).await;
        let proc = pmix_client::ProcId::new(nspace.clone(), rank_0());
        let set = |name: &str, value: &str| Envar { name: name.into(), value: value.into(), separator: b':' };
        let more = [
            Info::new(&keys::SET_ENVAR, set("MINE", "yes")),
            Info::new(&keys::ADD_ENVAR, set("MINE", "no")),
            Info::new(&keys::SET_ENVAR, set("PMIX_RANK", "17")),
            Info::new(&keys::PREPEND_ENVAR, set("PATH", "/first")),
            Info::new(&keys::APPEND_ENVAR, set("PATH", "/last")),
            Info::new(&keys::UNSET_ENVAR, "GONE"),
        ];
        let wrong = Info::new(&keys::PREPEND_ENVAR, set("A=B", "x"));
        let refused = handle.setup_local_support(&nspace, [wrong]).await.unwrap_err();
        assert_eq!(refused.status, Status::ERR_BAD_PARAM);
        // what comes later adds to what is there
        handle.setup_local_support(&nspace, collected).await.unwrap();
        handle.setup_local_support(&nspace, more).await.unwrap();

        let mut command = std::process::Command::new("env");
        handle
            .setup_fork(&proc)
            .await
            .unwrap()
            .apply(command.env_clear().env("PATH", "/usr/bin:/bin").env("KEPT", "1").env("GONE", "1"));
        let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert!(!output.contains("GONE="), "{output}");
        for line in [
            "CARGO_PKG_NAME=pmix-tests",
            "MINE=yes",
            "PMIX_RANK=0",
            "KEPT=1",
            "PATH=/first:/usr/bin:/bin:/last",
        ] {
            assert!(output.lines().any(|held| held == line), "{line} in {output}");
        }
        // what is no variable is known of the job
        let client = second.connect(&proc).await.unwrap();
        let id: String = within(client.job(&nspace).get(keys::ALLOC_FABRIC_ID)).await.unwrap();
        assert_eq!(id, "net-7");
    });
}

const fn rank_0() -> pmix_client::Rank {
    pmix_client::Rank::from_raw(0)
}

#[test]
fn reg_10a_reg_10b_reg_10c_resources_are_known_in_every_job_unless_it_says_otherwise() {
    on_both_runtimes(async || {
        let node = TestNode::start(3).await;
        let handle = node.handle();
        let resources = [Info::new(&keys::CLUSTER_ID, "c1"), Info::new(&keys::RM_NAME, "general")];
        handle.register_resources(resources).await.unwrap();
        // of a job that comes later, and has a name of its own for the resource manager
        let job = spec("later", &["n0"]).info(&keys::RM_NAME, "special");
        node.add_job(job, [0]).await;

        let values = async |client: &Client| {
            let job = client.proc_id().nspace.clone();
            let name = within(client.job(&job).get(keys::RM_NAME)).await.ok();
            (within(client.job(&job).get(keys::CLUSTER_ID)).await.ok(), name)
        };
        let (cluster, general) = (Some("c1".to_owned()), Some("general".to_owned()));
        let later = pmix_client::ProcId::new("later".parse().unwrap(), rank_0());
        assert_eq!(values(&node.client(0).await).await, (cluster.clone(), general));
        assert_eq!(
            values(&node.connect(&later).await.unwrap()).await,
            (cluster.clone(), Some("special".into()))
        );

        handle.deregister_resources([keys::RM_NAME.key_name()]).await.unwrap();
        assert_eq!(values(&node.client(1).await).await, (cluster, None));
        assert_eq!(values(&node.connect(&later).await.unwrap()).await.1, Some("special".into()));
    });
}

#[test]
fn set_05a_set_05b_set_05c_an_inventory_of_one_node_is_known_on_another() {
    on_both_runtimes(async || {
        let first = TestNode::builder(1).hostname("n1").start().await;
        let collected = first.handle().collect_inventory(Directives::new()).await.unwrap();
        let second = TestNode::builder(0).hostname("n0").job(spec("job", &["n0", "n1"]), [0]).start().await;
        second.handle().deliver_inventory(collected, Directives::new()).await.unwrap();
        let known = async |client: &Client| {
            let job = client.job(second.nspace());
            let memory: u64 = within(job.get(keys::AVAIL_PHYS_MEMORY).node_info("n1")).await.unwrap();
            let cpus: u32 = within(job.get(inventory::NUM_CPUS).node_info("n1")).await.unwrap();
            (memory, cpus)
        };
        let client = second.client(0).await;
        let (memory, cpus) = known(&client).await;
        assert!(memory > 1 << 20 && cpus > 0);
        // nothing is known of this node, and what a job says of its own goes first
        let nothing = client.job(second.nspace()).get(inventory::NUM_CPUS).node_info("n0");
        assert!(within(nothing).await.unwrap_err().is_not_found());
        within(client.finalize()).await.unwrap();

        // an update is a small delta
        let delta = vec![Info::new(&keys::HOSTNAME, "n1"), Info::new(&inventory::NUM_CPUS, cpus + 1)];
        let delta = Info::new(&keys::NODE_INFO_ARRAY, DataArray::Info(delta));
        let later = TestNode::builder(0).hostname("n0").nspace("none").start().await;
        let handle = later.handle();
        handle.deliver_inventory([delta.clone()], Directives::new()).await.unwrap();
        let own = spec("given", &["n1", "n0"]).node_info("n1", &keys::AVAIL_PHYS_MEMORY, 7u64);
        later.add_job(own, [1]).await;
        let more = Info::new(
            &keys::NODE_INFO_ARRAY,
            DataArray::Info(vec![
                Info::new(&keys::HOSTNAME, "n1"),
                Info::new(&keys::AVAIL_PHYS_MEMORY, 8u64),
            ]),
        );
        handle.deliver_inventory([more], Directives::new()).await.unwrap();
        let given = pmix_client::ProcId::new("given".parse().unwrap(), pmix_client::Rank::from_raw(1));
        let client = later.connect(&given).await.unwrap();
        let job = client.job(&given.nspace);
        let memory: u64 = within(job.get(keys::AVAIL_PHYS_MEMORY).node_info("n1")).await.unwrap();
        let held: u32 = within(job.get(inventory::NUM_CPUS).node_info("n1")).await.unwrap();
        assert_eq!((memory, held), (7, cpus + 1));
        within(client.finalize()).await.unwrap();
        // what an inventory has brought, a later one replaces
        let newest = vec![Info::new(&keys::HOSTNAME, "n1"), Info::new(&inventory::NUM_CPUS, cpus + 2)];
        let newest = Info::new(&keys::NODE_INFO_ARRAY, DataArray::Info(newest));
        handle.deliver_inventory([newest], Directives::new()).await.unwrap();
        let client = later.connect(&given).await.unwrap();
        let job = client.job(&given.nspace);
        let held: u32 = within(job.get(inventory::NUM_CPUS).node_info("n1")).await.unwrap();
        let memory: u64 = within(job.get(keys::AVAIL_PHYS_MEMORY).node_info("n1")).await.unwrap();
        assert_eq!((memory, held), (7, cpus + 2));

        let bad = [
            Info::new(&keys::HOSTNAME, "n1"),
            Info::new(&keys::NODE_INFO_ARRAY, DataArray::Info(vec![Info::new(&inventory::NUM_CPUS, 1u32)])),
        ];
        for info in bad {
            let refused = handle.deliver_inventory([info], Directives::new()).await.unwrap_err();
            assert_eq!(refused.status, Status::ERR_BAD_PARAM);
        }
    });
}

/// A server that is itself a process of another launcher must not pass that launcher's server on. In a process of its own, which has
/// such a variable.
#[tokio::test]
async fn a_server_without_the_native_wire_hides_the_server_of_who_started_it() {
    const INHERITED: &str = "PMIX_SERVER_URI41";
    let test = a_server_without_the_native_wire_hides_the_server_of_who_started_it;
    if !is_alone_with(test, &[(INHERITED, "launcher.0;tcp4://127.0.0.1:1")]) {
        return;
    }
    let node = TestNode::builder(1).server(|server| server.native_wire(NativeWire::Off)).start().await;
    let environment = node.handle().setup_fork(&node.proc(0)).await.unwrap();
    let uris: Vec<_> = environment.iter().filter(|(name, _)| name.starts_with("PMIX_SERVER_URI")).collect();
    assert_eq!(uris, [(INHERITED, "")]);
}
