//! Groups, and requests to the server and its host.

use std::time::Duration;

use pmix_client::types::{
    AllocDirective, AttributeLevel, DeviceTypes, Query, ResourceBlockDirective, ResourceUnit,
};
use pmix_client::{Procs, Status, keys};
use tokio::signal::unix::{SignalKind, signal as signals};

use crate::{Done, Pair, events, patience, same};

const GROUP: &str = "operation-group";

fn both(pair: &Pair) -> Procs {
    [pair.me.clone(), pair.peer.clone()].into()
}

pub(crate) async fn group(pair: Pair) -> Done {
    let group = pair.client.group_construct(GROUP, both(&pair)).await?;
    same(group.members.len(), 2)?;
    Ok(group.destruct().await?)
}

pub(crate) async fn context(pair: Pair) -> Done {
    let group = pair.client.group_construct(GROUP, both(&pair)).assign_context_id().await?;
    same(group.context_id.is_some(), true)?;
    Ok(group.destruct().await?)
}

pub(crate) async fn invite(pair: Pair) -> Done {
    let mut invitations = pair.client.events([Status::GROUP_INVITED]).await?;
    pair.client.fence_all().await?;
    let group = if pair.leads() {
        pair.client.group_invite(GROUP, both(&pair)).timeout(patience()).await?
    } else {
        let invitation = events::next(&mut invitations).await?;
        let id = invitation.info.get(keys::GROUP_ID)?.ok_or("an invitation to nothing")?;
        pair.client.group_join(id, &invitation.source).timeout(patience()).await?
    };
    same(group.members.len(), 2)
}

pub(crate) async fn leave(pair: Pair) -> Done {
    let group = pair.client.group_construct(GROUP, both(&pair)).await?;
    pair.client.fence_all().await?;
    let left = if pair.leads() { Ok(()) } else { group.leave().await };
    pair.client.fence_all().await?;
    Ok(left?)
}

pub(crate) async fn namespaces(pair: Pair) -> Done {
    let results = pair.client.query([Query::new(keys::QUERY_NAMESPACES)]).await?;
    let found: String = results.get(keys::QUERY_NAMESPACES)?.ok_or("no namespaces")?;
    same(found.split(',').any(|name| name == pair.me.nspace.as_str()), true)
}

pub(crate) async fn table(pair: Pair) -> Done {
    pair.client.fence_all().await?;
    let query = Query::new(keys::QUERY_PROC_TABLE).qualifier(keys::NSPACE, pair.me.nspace.clone());
    let results = pair.client.query([query]).await?;
    let table = results.get_value(keys::QUERY_PROC_TABLE).ok_or("no table")?;
    let pmix_client::Value::DataArray(rows) = table else {
        return Err(format!("a table of {table:?}").into());
    };
    match &**rows {
        pmix_client::types::DataArray::ProcInfo(rows) => {
            let own = rows.iter().find(|row| row.proc == pair.me).ok_or("not in the table")?;
            same(i64::from(own.pid.0), i64::from(std::process::id()))
        }
        rows if rows.is_empty() => Err("an empty table".into()),
        other => Err(format!("rows of {other:?}").into()),
    }
}

pub(crate) async fn attributes(pair: Pair) -> Done {
    let query = Query::attributes(["PMIx_Fence"]).level(AttributeLevel::Server);
    let results = pair.client.query([query]).await?;
    same(results.attributes("PMIx_Fence", AttributeLevel::Server).is_some(), true)
}

pub(crate) async fn resolve_peers(pair: Pair) -> Done {
    let mut found = pair.client.resolve_peers(None, Some(&pair.me.nspace)).await?;
    found.sort();
    let mut expected = [pair.me, pair.peer];
    expected.sort();
    same(found, expected)
}

pub(crate) async fn resolve_nodes(pair: Pair) -> Done {
    let found = pair.client.resolve_nodes(Some(&pair.me.nspace)).await?;
    same(found, [pair.client.hostname()])
}

pub(crate) async fn log(pair: Pair) -> Done {
    let logged = pair.client.log().stderr("logged by an operation\n").await?;
    same(logged, pmix_client::Logged::Fully)
}

pub(crate) async fn signal(pair: Pair) -> Done {
    let mut signals = signals(SignalKind::user_defined1())?;
    pair.client.fence_all().await?;
    if pair.leads() {
        pair.client
            .job_control([pair.peer.clone()])
            .signal(SignalKind::user_defined1().as_raw_value())
            .await?;
    } else {
        let signalled = tokio::time::timeout(patience(), signals.recv()).await;
        pair.client.fence_all().await?;
        signalled.map_err(|_| "no signal")?;
        return Ok(());
    }
    Ok(pair.client.fence_all().await?)
}

/// The test looks whether it is gone: the name of the file is told.
pub(crate) async fn cleanup(pair: Pair) -> Done {
    let file = std::env::temp_dir().join(format!("operation-{}-{}", pair.me.rank, std::process::id()));
    std::fs::write(&file, "to be removed")?;
    pair.tell("FILE", file.display());
    pair.client.job_control(Procs::own_nspace()).register_cleanup([&file]).await?;
    Ok(())
}

pub(crate) async fn kill(pair: Pair) -> Done {
    pair.client.fence_all().await?;
    if !pair.leads() {
        pair.tell("END", "");
        return std::future::pending().await;
    }
    pair.tell("END", "");
    pair.client.job_control([pair.peer.clone()]).kill().await?;
    Ok(())
}

/// The leader has itself monitored and sends one heartbeat, and then no more; the other one is told.
pub(crate) async fn heartbeat(pair: Pair) -> Done {
    let mut alerts = pair.client.events([Status::MONITOR_HEARTBEAT_ALERT]).await?;
    pair.client.fence_all().await?;
    if pair.leads() {
        monitored(&pair).await?;
    } else {
        events::next(&mut alerts).await?;
    }
    Ok(pair.client.fence_all().await?)
}

/// The leader is told itself.
pub(crate) async fn own_alert(pair: Pair) -> Done {
    let mut alerts = pair.client.events([Status::MONITOR_HEARTBEAT_ALERT]).await?;
    let mut told = Ok(());
    if pair.leads() {
        monitored(&pair).await?;
        told = events::next(&mut alerts).await.map(drop).map_err(|error| error.to_string());
    }
    pair.client.fence_all().await?;
    Ok(told?)
}

async fn monitored(pair: &Pair) -> Done {
    pair.client.monitor_heartbeat(Duration::from_secs(1)).await?;
    Ok(pair.client.heartbeat().await?)
}

/// The leader has a file monitored that does not grow, and the other one is told.
pub(crate) async fn monitor_file(pair: Pair) -> Done {
    let mut alerts = pair.client.events([Status::MONITOR_FILE_ALERT]).await?;
    pair.client.fence_all().await?;
    if !pair.leads() {
        events::next(&mut alerts).await?;
        return Ok(pair.client.fence_all().await?);
    }
    let file = std::env::temp_dir().join(format!("operation-{}", std::process::id()));
    std::fs::write(&file, "does not grow")?;
    let monitor = pair.client.monitor_file(file.display().to_string(), Duration::from_secs(1));
    let begun = monitor.file_size().await;
    let fenced = pair.client.fence_all().await;
    std::fs::remove_file(&file)?;
    begun?;
    Ok(fenced?)
}

pub(crate) async fn allocate(pair: Pair) -> Done {
    if pair.leads() {
        pair.client.allocate(AllocDirective::NEW).nodes(1).time(Duration::from_secs(60)).await?;
    }
    Ok(())
}

pub(crate) async fn credential(pair: Pair) -> Done {
    let credential = pair.client.credential().await?;
    same(credential.credential.is_empty(), false)
}

pub(crate) async fn validate(pair: Pair) -> Done {
    let credential = pair.client.credential().await?;
    pair.client.validate_credential(credential.credential).await?;
    Ok(())
}

pub(crate) async fn output(pair: Pair) -> Done {
    if !pair.leads() {
        pair.client.fence_all().await?;
        // to the standard output, whatever was asked for
        println!("to be pulled");
        return Ok(pair.client.fence_all().await?);
    }
    let pulled = pair.client.pull_output([pair.peer.clone()]).copy().await;
    pair.client.fence_all().await?;
    let mut heard = Vec::new();
    if let Ok(mut output) = pulled {
        while !String::from_utf8_lossy(&heard).contains("to be pulled") {
            heard.extend_from_slice(&output.recv().await.ok_or("no output")??.data);
        }
        return Ok(pair.client.fence_all().await?);
    }
    pair.client.fence_all().await?;
    pulled.map(drop).map_err(Into::into)
}

/// Whether it is taken; launchers give input to rank 0 alone.
pub(crate) async fn input(pair: Pair) -> Done {
    let mut taken = Ok(());
    if !pair.leads() {
        let mut sink = pair.client.push_stdin([pair.peer.clone()]);
        taken = sink.write("a line\n").await;
    }
    pair.client.fence_all().await?;
    Ok(taken?)
}

pub(crate) async fn fabric(pair: Pair) -> Done {
    pair.client.register_fabric().await?;
    Ok(())
}

pub(crate) async fn session(pair: Pair) -> Done {
    pair.client.session_control(0).await?;
    pair.client.session_control(None).await?;
    Ok(())
}

pub(crate) async fn block(pair: Pair) -> Done {
    let unit = ResourceUnit::new(DeviceTypes::GPU, 1);
    pair.client.resource_block(ResourceBlockDirective::DEFINE, "operation-block", [unit]).await?;
    Ok(())
}
