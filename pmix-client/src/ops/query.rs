use pmix_types::message::{Failure, QueryInfo, QueryReply};
use pmix_types::{
    AttributeLevel, AttributeRegistry, DataArray, Directives, Info, KeyName, Query, RegAttr, Status, Value,
    ValueType, keys,
};

use crate::client::Client;
use crate::core::Core;
use crate::error::{Error, key_name};
use pmix_types::{AnyKey, KeyOf};

const OPERATION: &str = "query";

impl Client {
    /// Queries the server and its host.
    ///
    /// It is not an error if some keys have no answer (QRY-03): see [`QueryResults::missing`].
    ///
    /// # Errors
    /// If no key was found: `ERR_NOT_FOUND`, or the common cause, which is `ERR_NOT_SUPPORTED` if only the host could
    /// answer and it does not support queries, `ERR_INVALID_NAMESPACE`, `ERR_BAD_PARAM` if a key lacks a qualifier that
    /// it needs, or an error of the host. `ERR_BAD_PARAM` without queries, for a query without keys, and for
    /// contradictory qualifiers (QRY-05). `ERR_UNREACH` for a singleton, except for ABI versions and the attributes of
    /// clients and tools, which this process answers itself. [`Error::Lost`] if the connection is lost, `ERR_INIT` after
    /// finalize.
    ///
    /// # Cancel safety
    /// Safe: the reply is dropped.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{Query, keys};
    ///
    /// let own = client.proc_id().nspace.clone();
    /// let table = Query::new(keys::QUERY_PROC_TABLE).qualifier(keys::NSPACE, own);
    /// let results = client.query([Query::new(keys::QUERY_NAMESPACES), table]).await?;
    /// let namespaces: Option<String> = results.get(keys::QUERY_NAMESPACES)?;
    /// println!("{namespaces:?}, not known: {:?}", results.missing());
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIx_Query_info")]
    #[doc(alias = "PMIx_Query_info_nb")]
    pub async fn query(&self, queries: impl IntoIterator<Item = Query>) -> Result<QueryResults, Error> {
        query(&self.core(), queries.into_iter().collect()).await
    }
}

/// The results of [`Client::query`](crate::Client::query).
#[derive(Clone, Debug, PartialEq)]
pub struct QueryResults {
    status: Status,
    results: Vec<QueryResult>,
    missing: Vec<KeyName>,
}

/// The answer to one query.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct QueryResult {
    /// The qualifiers of the query; empty if it had none.
    pub qualifiers: Directives,
    /// One info per key that was found; never empty. A key may have a single value or an array.
    pub infos: Vec<Info>,
}

impl QueryResults {
    /// `SUCCESS`, or `ERR_PARTIAL_SUCCESS` if some keys were not found (QRY-03).
    pub const fn status(&self) -> Status {
        self.status
    }

    /// One entry per answered query, in the order of the queries.
    pub fn results(&self) -> &[QueryResult] {
        &self.results
    }

    /// Keys that were not found, in the order in which they were requested. A key of two queries may be missing twice.
    pub fn missing(&self) -> &[KeyName] {
        &self.missing
    }

    /// The first value found for a key, by its type; `None` if it was not found.
    ///
    /// # Errors
    /// [`Error::Value`] for a value of another type, `ERR_BAD_PARAM` for an invalid key.
    pub fn get<T: ValueType>(&self, key: impl KeyOf<T>) -> Result<Option<T>, Error> {
        let key = key.into_key_name().map_err(key_name(OPERATION))?;
        let read = |value: &Value| value.get().map_err(|error| Error::value(key.clone(), error));
        self.first(&key).map(read).transpose()
    }

    /// The first value found for a key, whatever its type.
    pub fn get_value(&self, key: impl AnyKey) -> Option<&Value> {
        self.first(&key.into_key_name().ok()?)
    }

    fn first(&self, key: &str) -> Option<&Value> {
        let mut infos = self.results.iter().flat_map(|result| &result.infos);
        infos.find(|info| *info.key == *key).map(|info| &info.value)
    }

    /// The attributes that a function takes at a level, from the answer to [`Query::attributes`]; `None` if the level
    /// does not support the function, or was not queried (ATT-06).
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), pmix_client::Error> {
    /// use pmix_client::types::{AttributeLevel, Query};
    ///
    /// let client = pmix_client::Client::singleton().await?;
    /// let own = Query::attributes(["PMIx_Get", "PMIx_tool_init"]).level(AttributeLevel::Client);
    /// let results = client.query([own]).await?;
    /// let get = results.attributes("PMIx_Get", AttributeLevel::Client).ok_or("PMIx_Get is supported");
    /// assert!(get.is_ok_and(|taken| taken.iter().any(|attribute| attribute.name == "PMIX_OPTIONAL")));
    /// assert_eq!(results.attributes("PMIx_tool_init", AttributeLevel::Client), None);
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "PMIX_QUERY_ATTRIBUTE_SUPPORT")]
    pub fn attributes(&self, function: &str, level: AttributeLevel) -> Option<&[RegAttr]> {
        let levels = self.get_value(function)?.as_infos()?;
        match &levels.iter().find(|info| info.is(level.attributes_key()))?.value {
            Value::DataArray(array) => match &**array {
                DataArray::RegAttr(attributes) => Some(attributes),
                _ => None,
            },
            _ => None,
        }
    }

    /// The results in a reply to queries: for a library that answers some of them itself.
    ///
    /// # Errors
    /// [`Error::Protocol`] if an element of the reply is no `QUERY_RESULTS`.
    pub fn of_reply(queries: &[Query], reply: QueryReply) -> Result<Self, Error> {
        Self::new(queries, reply)
    }

    /// The results in the Standard's form: a `QUERY_RESULTS` for each query that was answered (QRY-02).
    pub fn to_infos(&self) -> Vec<Info> {
        let to_info = |result: &QueryResult| {
            let mut query = Query::dynamic([]);
            query.qualifiers = result.qualifiers.clone();
            query.results(result.infos.clone())
        };
        self.results.iter().map(to_info).collect()
    }

    /// Adds what this process knows itself to answers about attribute support.
    fn complete(&mut self, queries: &[Query], attributes: &AttributeRegistry) {
        let is_asked = |key: &KeyName| {
            AttributeLevel::ALL.iter().any(|level| *key == *level.functions_key().name())
                || queries.iter().any(|query| query.is_for_attributes() && query.keys.contains(key))
        };
        let infos = self.results.iter_mut().flat_map(|result| &mut result.infos);
        infos.filter(|info| is_asked(&info.key)).for_each(|info| attributes.complete(info));
    }

    fn new(queries: &[Query], reply: QueryReply) -> Result<Self, Error> {
        let results: Vec<_> = reply.results.into_iter().map(read_result).collect::<Result<_, _>>()?;
        let missing = missing_keys(queries, &results);
        Ok(Self { status: reply.status, results, missing })
    }
}

impl QueryResult {
    /// Whether this can be the answer to a query.
    fn answers(&self, query: &Query) -> bool {
        self.infos.iter().all(|info| query.keys.contains(&info.key))
            && (self.qualifiers.is_empty() || self.qualifiers == query.qualifiers)
    }
}

pub(crate) async fn query(core: &Core, queries: Vec<Query>) -> Result<QueryResults, Error> {
    core.check()?;
    if let Some(results) = of_library(&queries)? {
        return Ok(results);
    }
    if let Some(results) = of_process(&queries, core.attributes()) {
        return results;
    }
    let reply = core.call(QueryInfo::new(queries.clone())).await?;
    let mut results = QueryResults::new(&queries, reply)?;
    results.complete(&queries, core.attributes());
    Ok(results)
}

/// Answers queries about the library itself, the only ones that are allowed before init.
///
/// These are the keys `QUERY_STABLE_ABI_VERSION` and `QUERY_PROVISIONAL_ABI_VERSION` (QRY-14).
///
/// # Errors
/// `ERR_INIT` for any other key, `ERR_BAD_PARAM` without queries or for a query without keys.
///
/// # Examples
/// ```
/// use pmix_client::types::{Query, Status, keys};
///
/// let results = pmix_client::query_before_init([Query::new(keys::QUERY_STABLE_ABI_VERSION)])?;
/// assert_eq!(results.get(keys::QUERY_STABLE_ABI_VERSION)?.as_deref(), Some("0.0"));
/// let error = pmix_client::query_before_init([Query::new(keys::QUERY_NAMESPACES)]).unwrap_err();
/// assert_eq!(error.status(), Status::ERR_INIT);
/// # Ok::<(), pmix_client::Error>(())
/// ```
#[doc(alias = "PMIx_Query_info")]
#[doc(alias = "PMIX_QUERY_STABLE_ABI_VERSION")]
#[doc(alias = "PMIX_QUERY_PROVISIONAL_ABI_VERSION")]
pub fn query_before_init(queries: impl IntoIterator<Item = Query>) -> Result<QueryResults, Error> {
    let queries: Vec<_> = queries.into_iter().collect();
    of_library(&queries)?.ok_or_else(|| {
        let problem = "before init, only the ABI versions can be queried";
        Error::failed(OPERATION, Failure::new(Status::ERR_INIT, problem))
    })
}

/// The answer if all keys are of the library alone.
fn of_library(queries: &[Query]) -> Result<Option<QueryResults>, Error> {
    if queries.is_empty() || queries.iter().any(|query| query.keys.is_empty()) {
        return Err(Error::bad_param(OPERATION, "every query needs at least one key"));
    }
    let answer = |key: &KeyName| Some(Info::dynamic(key.clone(), Query::answer_of_library(key)?));
    let result = |query: &Query| Some(query.results(query.keys.iter().map(answer).collect::<Option<_>>()?));
    let Some(results) = queries.iter().map(result).collect::<Option<Vec<_>>>() else { return Ok(None) };
    QueryResults::new(queries, QueryReply::new(Status::SUCCESS, results)).map(Some)
}

/// The answer if all that is asked is which attributes libraries of this process support.
fn of_process(queries: &[Query], attributes: &AttributeRegistry) -> Option<Result<QueryResults, Error>> {
    let is_own = |level: &AttributeLevel| matches!(level, AttributeLevel::Client | AttributeLevel::Tool);
    let is_for_here =
        |query: &Query| query.is_for_attributes() && AttributeLevel::asked_by(query).iter().all(is_own);
    if !queries.iter().all(is_for_here) {
        return None;
    }
    let answer =
        |key: &KeyName, query: &Query| Some(Info::dynamic(key.clone(), attributes.answer(key, query)?));
    let result =
        |query: &Query| query.results(query.keys.iter().filter_map(|key| answer(key, query)).collect());
    let results = queries.iter().map(result).collect();
    Some(QueryResults::new(queries, QueryReply::new(Status::SUCCESS, results)))
}

/// Takes a `QUERY_RESULTS` apart: qualifiers first, if there are any, then an info a key (QRY-02).
fn read_result(info: Info) -> Result<QueryResult, Error> {
    let stranger = || Error::protocol(format!("{} is not a query result", info.key));
    if !info.is(&keys::QUERY_RESULTS) {
        return Err(stranger());
    }
    let infos = info.value.into_infos().map_err(|_| stranger())?;
    let mut result = QueryResult::default();
    for info in infos {
        match info.value.as_infos().filter(|_| info.is(&keys::QUERY_QUALIFIERS)) {
            Some(qualifiers) => result.qualifiers.extend(qualifiers.iter().cloned()),
            None => result.infos.push(info),
        }
    }
    Ok(result)
}

/// Results come in the order of their queries, but a query without any leaves no gap.
fn missing_keys(queries: &[Query], results: &[QueryResult]) -> Vec<KeyName> {
    let mut left = results.iter().peekable();
    let mut missing = Vec::new();
    for query in queries {
        let result = left.next_if(|result| result.answers(query));
        let has =
            |key: &KeyName| result.is_some_and(|result| result.infos.iter().any(|info| info.key == *key));
        // the first key of a query for attributes says what the others are, and has no answer of its own
        let heads = usize::from(query.is_for_attributes() && query.keys.len() > 1);
        missing.extend(query.keys.iter().skip(heads).filter(|key| !has(key)).cloned());
    }
    missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(infos: Vec<Info>) -> Info {
        Info::dynamic(keys::QUERY_RESULTS.key_name(), infos)
    }

    #[test]
    fn qry_02_qry_03_partial_success_is_a_value_with_the_missing_keys() {
        let queries = [
            Query::new(&keys::QUERY_QUEUE_LIST),
            Query::new(&keys::QUERY_NAMESPACES)
                .key(&keys::QUERY_JOB_STATUS)
                .qualifier(&keys::NSPACE.text(), "job-1"),
        ];
        let qualifiers =
            Info::dynamic(keys::QUERY_QUALIFIERS.key_name(), vec![Info::new(&keys::NSPACE.text(), "job-1")]);
        let reply = QueryReply::new(
            Status::ERR_PARTIAL_SUCCESS,
            vec![result(vec![qualifiers, Info::new(&keys::QUERY_NAMESPACES, "job-1,job-2")])],
        );
        let results = QueryResults::new(&queries, reply).unwrap();
        assert_eq!(results.status(), Status::ERR_PARTIAL_SUCCESS);
        assert_eq!(results.get(keys::QUERY_NAMESPACES).unwrap().as_deref(), Some("job-1,job-2"));
        assert_eq!(results.results()[0].qualifiers.len(), 1);
        let missing = [keys::QUERY_QUEUE_LIST.key_name(), keys::QUERY_JOB_STATUS.key_name()];
        assert_eq!(results.missing(), missing);
        assert_eq!(results.get(keys::QUERY_QUEUE_LIST).unwrap(), None);
    }

    #[test]
    fn qry_08_a_key_in_two_queries_is_answered_twice() {
        let queries = [Query::new(&keys::QUERY_NAMESPACES), Query::new(&keys::QUERY_NAMESPACES)];
        let both = vec![Info::new(&keys::QUERY_NAMESPACES, "a")];
        let reply = QueryReply::new(Status::SUCCESS, vec![result(both.clone()), result(both)]);
        let results = QueryResults::new(&queries, reply).unwrap();
        assert_eq!(results.results().len(), 2);
        assert!(results.missing().is_empty());
    }

    #[test]
    fn qry_14_the_versions_of_the_binary_interface_need_no_init() {
        let stable = || Query::new(&keys::QUERY_STABLE_ABI_VERSION);
        let both = stable().key(&keys::QUERY_PROVISIONAL_ABI_VERSION).qualifier(&keys::HOSTNAME, "n0");
        let results = query_before_init([stable(), both]).unwrap();
        assert_eq!((results.status(), results.results().len()), (Status::SUCCESS, 2));
        for key in [&keys::QUERY_STABLE_ABI_VERSION, &keys::QUERY_PROVISIONAL_ABI_VERSION] {
            assert_eq!(results.get(key).unwrap().as_deref(), Some("0.0"));
        }
        let more = stable().key(&keys::QUERY_NAMESPACES);
        for (queries, status) in [
            (vec![more], Status::ERR_INIT),
            (vec![stable(), Query::new(&keys::QUERY_NAMESPACES)], Status::ERR_INIT),
            (vec![], Status::ERR_BAD_PARAM),
            (vec![Query::dynamic([])], Status::ERR_BAD_PARAM),
        ] {
            assert_eq!(query_before_init(queries).unwrap_err().status(), status);
        }
    }

    #[test]
    fn a_reply_of_another_shape_is_refused() {
        let reply = QueryReply::new(Status::SUCCESS, vec![Info::new(&keys::QUERY_NAMESPACES, "a")]);
        assert!(matches!(QueryResults::new(&[], reply), Err(Error::Protocol(_))));
    }
}
