//! The servers of this node, as the answer to a query: the library of a tool knows them, no server does.

use pmix_client::{Client, QueryResults};
use pmix_types::message::QueryReply;
use pmix_types::{DataArray, Info, Pid, Query, Status, keys};

use crate::discovery::{ServerInfo, discover, system_server};
use crate::error::Error;

/// Asks the server for all keys but `QUERY_AVAIL_SERVERS`, which is answered here. The keys of a query that has it and others
/// are answered in two results with its qualifiers.
pub(crate) async fn query(client: Client, queries: Vec<Query>) -> Result<QueryResults, Error> {
    let is_own = |key: &str| *key == *keys::QUERY_AVAIL_SERVERS.name();
    let asks_here = |query: &Query| query.keys.iter().any(|key| is_own(key)) && !query.is_for_attributes();
    if !queries.iter().any(asks_here) {
        return Ok(client.query(queries).await?);
    }
    let (mut here, mut there) = (Vec::new(), Vec::new());
    for mut query in queries {
        if asks_here(&query) {
            query.keys.retain(|key| !is_own(key));
            let mut own = Query::new(&keys::QUERY_AVAIL_SERVERS);
            own.qualifiers = query.qualifiers.clone();
            here.push(own);
        }
        if !query.keys.is_empty() {
            there.push(query);
        }
    }
    let servers = servers();
    let answer = |query: &Query| query.results(vec![Info::new(&keys::QUERY_AVAIL_SERVERS, servers.clone())]);
    let mut results: Vec<Info> = here.iter().map(answer).collect();
    let mut status = Status::SUCCESS;
    if !there.is_empty() {
        match client.query(there.clone()).await {
            Ok(found) => {
                status = found.status();
                results.extend(found.to_infos());
            }
            Err(error) if error.status() == Status::ERR_NOT_FOUND => status = Status::ERR_PARTIAL_SUCCESS,
            Err(error) => return Err(error.into()),
        }
    }
    here.extend(there);
    Ok(QueryResults::of_reply(&here, QueryReply::new(status, results))?)
}

/// One array for each live server of this user, and for the system-level one.
fn servers() -> DataArray {
    let mut found = discover().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot look for the servers of this user");
        Vec::new()
    });
    found.extend(system_server().filter(|system| found.iter().all(|server| server.proc != system.proc)));
    let rows = found.iter().filter(|server| server.is_alive).map(row);
    DataArray::Info(rows.collect())
}

/// Its name, and what is needed to attach to it.
fn row(server: &ServerInfo) -> Info {
    let mut infos = vec![
        Info::new(&keys::SERVER_NSPACE, server.proc.nspace.as_str()),
        Info::new(&keys::SERVER_RANK, server.proc.rank),
        Info::new(&keys::SERVER_URI, server.uri.as_str()),
    ];
    infos.extend(i32::try_from(server.pid).ok().map(|pid| Info::new(&keys::SERVER_PIDINFO, Pid(pid))));
    infos.extend(server.host.as_deref().map(|host| Info::new(&keys::SERVER_HOSTNAME, host)));
    infos.extend(server.version.as_deref().map(|version| Info::new(&keys::VERSION_INFO, version)));
    Info::new(&keys::SERVER_INFO_ARRAY, DataArray::Info(infos))
}
