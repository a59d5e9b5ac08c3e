//! What the head does on behalf of its members.

use std::num::NonZeroU64;

use pmix_server::UpcallContext;
use pmix_server::host::{IofPullRequest, QueryRequest, Upcall};
use pmix_types::message::{Failure, QueryInfo, QueryReply, Reply, Request, SpawnReply};
use pmix_types::{ProcId, Status};

use crate::internode::News;
use crate::jobs::Control;
use crate::services::{Head, Services};
use crate::user::User;

/// Carries out for a process of a member what concerns jobs. `None` for requests that any host carries out for another.
pub(crate) async fn carry_out_for(
    services: &Services,
    from: &str,
    caller: &User,
    request: &Request,
) -> Option<Result<Reply, Failure>> {
    services.head.as_ref()?;
    let cx = &context(caller);
    let admit = |upcall, named: &[ProcId]| services.gate.admit(upcall, caller, named).map_err(Failure::from);
    Some(match request.clone() {
        Request::Abort(abort) => match admit(Upcall::Abort, &abort.procs) {
            Ok(()) => done(services.jobs.abort(cx, &abort).await),
            Err(failure) => Err(failure),
        },
        Request::JobControl(control) => {
            let here = services.table.those_here(&control.targets);
            match admit(Upcall::JobControl, &here) {
                Ok(()) => {
                    services.controller.control(cx, control).await.map(Reply::Info).map_err(Failure::from)
                }
                Err(failure) => Err(failure),
            }
        }
        Request::QueryInfo(QueryInfo { queries, .. }) => {
            let answered = services.queries.answer(caller, from, QueryRequest::new(queries)).await;
            let reply = |results: pmix_server::host::QueryResults| {
                Reply::Query(QueryReply::new(results.status, results.results))
            };
            answered.map(reply).map_err(Failure::from)
        }
        Request::Allocate(allocate) => {
            services.allocator.carry_out(cx, allocate).await.map(Reply::Info).map_err(Failure::from)
        }
        Request::IofPull(pull) => match admit(Upcall::IofPull, &pull.procs) {
            Ok(()) => done(services.forwarder.change_forwarding(from, cx, IofPullRequest::new(pull, true))),
            Err(failure) => Err(failure),
        },
        Request::IofPush(push) => match admit(Upcall::PushStdin, &push.targets) {
            Ok(()) => done(services.forwarder.take_input(push).await),
            Err(failure) => Err(failure),
        },
        _ => return None,
    })
}

/// The same with the number of a request that may come again, to the successor of this head: it is carried out once.
pub(crate) async fn carry_out_once(
    services: &Services,
    from: &str,
    ticket: NonZeroU64,
    caller: &User,
    request: Request,
) -> Result<Reply, Failure> {
    match (&services.head, request) {
        (Some(_), Request::Spawn(spawn)) => {
            let ticket = (from.to_owned(), ticket.get());
            let spawned = services.jobs.spawn_for(ticket, context(caller), spawn).await;
            spawned.map(|nspace| Reply::Spawn(SpawnReply::new(nspace))).map_err(Failure::from)
        }
        (_, request) => {
            let message = format!("this host carries out no {} with a number", request.operation());
            Err(Failure::new(Status::ERR_NOT_SUPPORTED, message))
        }
    }
}

/// Hears the news of a member.
pub(crate) async fn hear(services: &Services, from: &str, news: News) -> Result<Reply, Failure> {
    let Some(Head { launcher, .. }) = &services.head else {
        return Err(Failure::new(Status::ERR_NOT_SUPPORTED, "this node is no head"));
    };
    let tell = |proc: ProcId, control: Control| {
        let table = &services.table;
        let is_there = table.entries().get(&proc.nspace).map(|job| {
            let row = usize::try_from(proc.rank.to_raw()).ok().and_then(|rank| job.table.get(rank));
            row.and_then(|row| row.hostname.as_deref()) == Some(from)
        });
        let Some(is_there) = is_there else {
            return Err(Failure::new(Status::ERR_NOT_FOUND, format!("{} does not run here", proc.nspace)));
        };
        if !is_there {
            let message = format!("{proc} does not run on node {from}");
            return Err(Failure::new(Status::ERR_NO_PERMISSIONS, message));
        }
        table.tell(&proc.nspace, control);
        Ok(Reply::Done)
    };
    match news {
        News::Connected(proc) => tell(proc.clone(), Control::Connected(proc.rank)),
        News::Finalized(proc) => tell(proc.clone(), Control::Finalized(proc.rank)),
        News::Lost { proc, order } => {
            services.published.forget_lost(&proc);
            tell(proc.clone(), Control::Lost { rank: proc.rank, order })
        }
        News::ToolLost(tool) => {
            services.table.end_jobs_of(&tool, from);
            Ok(Reply::Done)
        }
        News::EndOfHost(caller) => done(services.controller.end_host(&caller)),
        News::Reports { nspace, reports } => {
            if launcher.take_reports(from, &nspace, reports).await {
                return Ok(Reply::Done);
            }
            Err(Failure::new(Status::ERR_NOT_FOUND, format!("{nspace} does not run on node {from}")))
        }
        News::PullEnded { caller, pull } => {
            let request = IofPullRequest::new(pull, false);
            done(services.forwarder.change_forwarding(from, &context(&caller), request))
        }
    }
}

fn done(result: pmix_server::host::HostResult<()>) -> Result<Reply, Failure> {
    result.map(|()| Reply::Done).map_err(Failure::from)
}

pub(super) fn context(caller: &User) -> UpcallContext {
    let mut cx = UpcallContext::new(caller.proc.clone(), caller.uid);
    cx.gid = caller.gid;
    cx
}
