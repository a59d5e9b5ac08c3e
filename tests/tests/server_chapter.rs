//! What else a host can serve and a server can do for it: allocations, credentials, sessions, blocks of resources.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

use std::time::Duration;

use pmix_client::types::{
    AllocDirective, DeviceTypes, Directives, Info, ResourceBlockDirective, ResourceUnit, Status,
};
use pmix_client::{Client, Credential, keys};
use pmix_server::host::{
    AllocateRequest, GetCredentialRequest, Infos, MonitorRequest, ResourceBlockRequest,
    SessionControlRequest, ValidateCredentialRequest,
};
use pmix_server::{Capabilities, HostModule, HostResult, Upcall, UpcallContext, async_trait};
use pmix_tests::{TestNode, on_both_runtimes, within};

/// Answers with what it was asked.
struct Echo;

/// What was asked, without the identity of who asked, which is checked here (GEN-13).
fn echo(cx: &UpcallContext, mut directives: Directives) -> Infos {
    assert_eq!(cx.caller.to_string(), "job:0");
    assert_eq!(directives.take(&keys::USERID).unwrap(), Some(cx.uid));
    assert_eq!(directives.take(&keys::GRPID).unwrap(), Some(cx.gid));
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

    async fn allocate(&self, cx: &UpcallContext, req: AllocateRequest) -> HostResult<Infos> {
        let mut results = echo(cx, req.directives);
        if req.directive == AllocDirective::NEW {
            results.push(Info::new(&keys::ALLOC_ID, "alloc-1"));
        }
        Ok(results)
    }

    async fn monitor(&self, cx: &UpcallContext, req: MonitorRequest) -> HostResult<Infos> {
        assert_eq!(req.error, Status::from_raw(-3001));
        let mut results = echo(cx, req.directives);
        results.push(req.monitor);
        Ok(results)
    }

    async fn get_credential(&self, cx: &UpcallContext, req: GetCredentialRequest) -> HostResult<Credential> {
        Ok(Credential::new(format!("credential of {}", cx.caller).into(), echo(cx, req.directives)))
    }

    async fn validate_credential(
        &self,
        cx: &UpcallContext,
        req: ValidateCredentialRequest,
    ) -> HostResult<Infos> {
        if *req.credential != *b"credential of job:0" {
            return Err(Status::ERR_INVALID_CRED.into());
        }
        Ok(vec![Info::new(&keys::USERID, cx.uid), Info::new(&keys::GRPID, cx.gid)])
    }

    async fn session_control(&self, cx: &UpcallContext, req: SessionControlRequest) -> HostResult<Infos> {
        assert_eq!(req.session, 7);
        Ok(echo(cx, req.directives))
    }

    async fn resource_block(&self, cx: &UpcallContext, req: ResourceBlockRequest) -> HostResult<()> {
        echo(cx, req.directives);
        let unit = ResourceUnit { device_type: DeviceTypes::GPU, count: 2 };
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

        let wish = client.monitor(&keys::MONITOR_FILE, "/tmp/log", Status::from_raw(-3001)).id("file");
        let echoed = [Info::new(&keys::MONITOR_ID, "file"), Info::new(&keys::MONITOR_FILE, "/tmp/log")];
        assert_eq!(within(wish).await.unwrap(), echoed);

        let found = within(client.credential().types("munge,none")).await.unwrap();
        assert_eq!(found.info, [Info::new(&keys::CRED_TYPE, "munge,none")]);
        let holder = within(client.validate_credential(found.credential)).await.unwrap();
        assert!(holder[0].is(&keys::USERID) && holder[1].is(&keys::GRPID), "{holder:?}");
        let error = within(client.validate_credential("forged")).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_INVALID_CRED);

        let control = client.session_control(7).directive(&keys::SESSION_PAUSE, true);
        assert_eq!(within(control).await.unwrap(), [Info::new(&keys::SESSION_PAUSE, true)]);
        let unit = ResourceUnit { device_type: DeviceTypes::GPU, count: 2 };
        let define =
            |units: Vec<ResourceUnit>| client.resource_block(ResourceBlockDirective::DEFINE, "gpus", units);
        within(define(vec![unit])).await.unwrap();
        let error = within(define(vec![])).await.unwrap_err();
        assert_eq!(error.status(), Status::ERR_BAD_PARAM);
    });
}

#[test]
fn gen_11_without_an_entry_of_the_host_none_of_it_is_supported() {
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
