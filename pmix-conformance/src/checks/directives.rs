//! Required directives that nobody knows: each entry of a host refuses them.

use pmix_types::message::{
    Allocate, Fabric, GetCredential, IofPull, IofPush, JobControl, Log, Monitor, Publish, QueryInfo, Request,
    ResourceBlock, SessionControl, Spawn, Unpublish, ValidateCredential,
};
use pmix_types::{
    AllocDirective, App, Directives, FabricOperation, Info, InfoFlags, IofChannels, KeyName, Query,
    ResourceBlockDirective, Status, keys,
};

use super::super::rank::{Checked, Rank, broken, must_fail, skip};
use super::{Check, family};

family! {
    a_publish_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a publish is refused", needs [Publish];
    an_unpublish_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of an unpublish is refused", needs [Unpublish];
    a_spawn_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a spawn is refused", needs [Spawn];
    an_application_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of an application is refused", needs [Spawn];
    a_log_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a log request is refused", needs [Log];
    a_query_with_an_unknown_qualifier_is_refused ["GEN-05", "HST-03"], "an unknown required qualifier of a query is refused", needs [Query];
    a_job_control_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of job control is refused", needs [JobControl];
    an_allocation_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of an allocation is refused", needs [Allocate];
    a_monitor_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a monitor is refused", needs [Monitor];
    a_credential_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a request for a credential is refused", needs [GetCredential];
    a_validation_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a validation is refused", needs [ValidateCredential];
    a_pull_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a pull is refused", needs [IofPull];
    a_push_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a push is refused", needs [PushStdin];
    a_fabric_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a fabric request is refused", needs [Fabric];
    a_session_control_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of session control is refused", needs [SessionControl];
    a_resource_block_with_an_unknown_directive_is_refused ["GEN-05", "HST-03"], "an unknown required directive of a resource block is refused", needs [ResourceBlock];
}

/// An info that nobody knows and that has to be carried out.
fn unknown() -> Checked<Info> {
    Ok(Info::dynamic(super::unknown_key()?, true).with_flags(InfoFlags::REQUIRED))
}

fn directives() -> Checked<Directives> {
    Ok(Directives::from(vec![unknown()?]))
}

/// The first rank sends the request. Without the directive it would be answered in another way, if only by another error.
async fn refused(rank: &Rank, served: Request, request: Request) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    let what = request.operation();
    if let Err(failure) = rank.ask(served).await?
        && failure.status == Status::ERR_NOT_SUPPORTED
    {
        return Err(skip(format!("{what} is not supported")));
    }
    must_fail(
        &format!("{what} with an unknown directive"),
        rank.ask(request).await?,
        &[Status::ERR_NOT_SUPPORTED],
    )
}

/// The same request with the unknown directive and without it.
macro_rules! with_and_without {
    ($rank:ident, $make:expr) => {{
        let make = $make;
        let (served, request) = (make(Directives::new())?, make(directives()?)?);
        refused($rank, served, request).await
    }};
}

/// Libraries in C send data and directives in one list, so only a reserved key shows that it is no data.
async fn a_publish_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let reserved = KeyName::new("pmix.check.unknown").map_err(|error| broken(error.to_string()))?;
    let make = |directives: Directives| {
        let name = |info: Info| Info::dynamic(reserved.clone(), info.value).with_flags(info.flags);
        let directives: Directives = directives.into_iter().map(name).collect();
        let key = rank.key(if directives.is_empty() { "known" } else { "unknown" })?;
        let mut publish = Publish::new(vec![Info::dynamic(key, true)]);
        publish.directives = directives;
        Ok(Request::Publish(publish))
    };
    with_and_without!(rank, make)
}

async fn an_unpublish_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        let mut unpublish = Unpublish::new(vec![rank.key("unpublished")?]);
        unpublish.directives = directives;
        Ok(Request::Unpublish(unpublish))
    };
    with_and_without!(rank, make)
}

async fn a_spawn_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        let mut spawn = Spawn::new(vec![App::new("true", 1)]);
        spawn.directives = directives;
        Ok(Request::Spawn(spawn))
    };
    with_and_without!(rank, make)
}

async fn an_application_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives: Directives| {
        let mut app = App::new("true", 1);
        app.info = directives.into_vec();
        Ok(Request::Spawn(Spawn::new(vec![app])))
    };
    with_and_without!(rank, make)
}

async fn a_log_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        let mut log = Log::new(vec![Info::new(&keys::LOG_STDERR, "a message of a check\n")]);
        log.directives = directives;
        Ok(Request::Log(log))
    };
    with_and_without!(rank, make)
}

/// Of a key that only the host can know: the server answers others itself.
async fn a_query_with_an_unknown_qualifier_is_refused(rank: &Rank) -> Checked {
    let make = |directives: Directives| {
        let mut query =
            Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), rank.me().nspace.as_str());
        query.qualifiers.extend(directives);
        Ok(Request::QueryInfo(QueryInfo::new(vec![query])))
    };
    with_and_without!(rank, make)
}

async fn a_job_control_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives: Directives| {
        let mut control = JobControl::new(vec![rank.me().clone()]);
        control.directives = Directives::new().with(&keys::JOB_CTRL_RESUME, true);
        control.directives.extend(directives);
        Ok(Request::JobControl(control))
    };
    with_and_without!(rank, make)
}

async fn an_allocation_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives: Directives| {
        // one that nobody has
        let mut allocate = Allocate::new(AllocDirective::RELEASE);
        allocate.directives = Directives::new().with(&keys::ALLOC_ID, "check.no.such.allocation");
        allocate.directives.extend(directives);
        Ok(Request::Allocate(allocate))
    };
    with_and_without!(rank, make)
}

async fn a_monitor_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        // usage is for the host to tell
        let mut monitor = Monitor::new(
            Info::dynamic(keys::MONITOR_PROC_RESOURCE_USAGE.key_name(), true),
            Status::from_raw(-7720),
        );
        monitor.directives = directives;
        Ok(Request::Monitor(monitor))
    };
    with_and_without!(rank, make)
}

async fn a_credential_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    with_and_without!(rank, |directives| Ok(Request::GetCredential(
        GetCredential::new().with_directives(directives)
    )))
}

async fn a_validation_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        let mut validate = ValidateCredential::new("no credential".into());
        validate.directives = directives;
        Ok(Request::ValidateCredential(validate))
    };
    with_and_without!(rank, make)
}

async fn a_pull_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        // not of standard output, on which ranks may report their verdicts
        let mut pull = IofPull::new(vec![rank.me().clone()], IofChannels::STDERR);
        pull.directives = directives;
        Ok(Request::IofPull(pull))
    };
    with_and_without!(rank, make)
}

async fn a_push_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        let mut push = IofPush::new(vec![rank.me().clone()], "input of a check\n".into());
        push.directives = directives;
        Ok(Request::IofPush(push))
    };
    with_and_without!(rank, make)
}

async fn a_fabric_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        let mut fabric = Fabric::new(FabricOperation::REQUEST_INFO);
        fabric.directives = directives;
        Ok(Request::Fabric(fabric))
    };
    with_and_without!(rank, make)
}

async fn a_session_control_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        let mut control = SessionControl::new(None);
        control.directives = directives;
        Ok(Request::SessionControl(control))
    };
    with_and_without!(rank, make)
}

async fn a_resource_block_with_an_unknown_directive_is_refused(rank: &Rank) -> Checked {
    let make = |directives| {
        let mut block = ResourceBlock::new(ResourceBlockDirective::DELETE, "check.block".into(), Vec::new());
        block.directives = directives;
        Ok(Request::ResourceBlock(block))
    };
    with_and_without!(rank, make)
}
