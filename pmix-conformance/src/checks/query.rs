//! Queries.

use pmix_types::{Info, Query, Status, Value, keys};

use super::super::rank::{Checked, Rank, broken, ensure, must, must_fail};
use super::{Check, family, unknown_key};

family! {
    namespaces_can_be_queried ["QRY-01", "QRY-12"], "the namespaces are a comma-separated list that contains the caller's";
    an_unknown_key_is_not_found ["QRY-03", "QRY-04"], "an unknown key is not found", needs [Query];
    a_partial_result_says_so ["QRY-03"], "the status of a query shows that keys are missing";
    a_process_is_named_once ["QRY-05"], "PROCID cannot be combined with NSPACE or RANK";
    the_process_table_is_in_order ["QRY-11"], "a process table lists every rank, in order", across [Query];
    every_query_has_its_answer ["QRY-02", "QRY-08"], "a key in two queries is answered twice";
}

async fn namespaces_can_be_queried(rank: &Rank) -> Checked {
    let reply = must("query", rank.query(vec![Query::new(&keys::QUERY_NAMESPACES)]).await?)?;
    let found = found(&reply.results, keys::QUERY_NAMESPACES.name());
    let names = found.first().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default();
    let has_own = names.split(',').any(|name| name == rank.me().nspace.as_str());
    ensure(has_own, || format!("the namespaces are {names:?}"))
}

async fn an_unknown_key_is_not_found(rank: &Rank) -> Checked {
    let answer = rank.query(vec![Query::dynamic([unknown_key()?])]).await?;
    must_fail("a query of an unknown key", answer, &[Status::ERR_NOT_FOUND])
}

async fn a_partial_result_says_so(rank: &Rank) -> Checked {
    let known = Query::new(&keys::QUERY_NAMESPACES);
    let reply = must("query", rank.query(vec![known, Query::dynamic([unknown_key()?])]).await?)?;
    ensure(reply.status == Status::ERR_PARTIAL_SUCCESS, || format!("the status is {}", reply.status))?;
    ensure(!reply.results.is_empty(), || "a partial result is empty".into())
}

async fn a_process_is_named_once(rank: &Rank) -> Checked {
    let me = rank.me().clone();
    let of_me = || Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::PROCID, me.clone());
    let with_nspace = of_me().qualifier(&keys::NSPACE.text(), me.nspace.as_str());
    for (other, query) in [("NSPACE", with_nspace), ("RANK", of_me().qualifier(&keys::RANK, me.rank))] {
        let answer = rank.query(vec![query]).await?;
        must_fail(&format!("a query with PROCID and {other}"), answer, &[Status::ERR_BAD_PARAM])?;
    }
    Ok(())
}

async fn the_process_table_is_in_order(rank: &Rank) -> Checked {
    let query =
        Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), rank.me().nspace.as_str());
    let reply = must("query", rank.query(vec![query]).await?)?;
    let found = found(&reply.results, keys::QUERY_PROC_TABLE.name());
    let Some(Value::DataArray(table)) = found.first() else {
        return Err(broken(format!("the process table is {found:?}")));
    };
    let pmix_types::DataArray::ProcInfo(rows) = &**table else {
        return Err(broken("the process table does not consist of process records"));
    };
    let ranks: Vec<u32> = rows.iter().map(|row| row.proc.rank.to_raw()).collect();
    ensure(ranks == (0..rank.size()).collect::<Vec<_>>(), || {
        format!("the ranks in the process table are {ranks:?}")
    })
}

async fn every_query_has_its_answer(rank: &Rank) -> Checked {
    let query = || Query::new(&keys::QUERY_NAMESPACES);
    let reply = must("query", rank.query(vec![query(), query()]).await?)?;
    let found = found(&reply.results, keys::QUERY_NAMESPACES.name());
    ensure(found.len() == 2, || format!("two queries have {} results", found.len()))
}

/// The values of a key, in the order of the queries. Servers of C programs older than 6.0 leave out the grouping by query
/// (QRY-02).
fn found<'a>(results: &'a [Info], key: &str) -> Vec<&'a Value> {
    let mut values = Vec::new();
    for result in results {
        let infos = match &result.value {
            Value::DataArray(array) if result.is(&keys::QUERY_RESULTS) => match &**array {
                pmix_types::DataArray::Info(infos) => infos.as_slice(),
                _ => &[],
            },
            _ => std::slice::from_ref(result),
        };
        values.extend(infos.iter().filter(|info| *info.key == *key).map(|info| &info.value));
    }
    values
}
