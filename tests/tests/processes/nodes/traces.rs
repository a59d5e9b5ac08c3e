//! Fences as traces: `--trace-to`, with real daemons and ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use pmix_tests::{here, nothing_is_left, pmixrun, rank_program, run};
use tonic::{Request, Response, Status};

/// A span, and which program has told it.
#[derive(Clone, Debug)]
struct Told {
    by: String,
    span: Span,
}

impl Told {
    fn all(requests: Vec<ExportTraceServiceRequest>) -> Vec<Self> {
        let mut all = Vec::new();
        for told in requests.into_iter().flat_map(|request| request.resource_spans) {
            let by = text(&told.resource.unwrap().attributes, "service.name");
            let spans = told.scope_spans.into_iter().flat_map(|scope| scope.spans);
            all.extend(spans.map(|span| Self { by: by.clone(), span }));
        }
        all
    }

    fn of_file(path: &Path) -> Vec<Self> {
        let text = fs::read_to_string(path).unwrap();
        Self::all(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
    }

    fn attribute(&self, key: &str) -> String {
        text(&self.span.attributes, key)
    }
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|found| found.value.clone()?.value) {
        Some(Value::StringValue(text)) => text,
        _ => String::new(),
    }
}

/// How often each program has told spans of each name.
fn counts(spans: &[Told]) -> BTreeMap<(&str, &str), usize> {
    let mut counts = BTreeMap::new();
    for told in spans {
        *counts.entry((&*told.by, &*told.span.name)).or_default() += 1;
    }
    counts
}

/// The spans of one trace: each below another one, but for the first.
struct Tree<'a>(BTreeMap<&'a [u8], &'a Told>);

impl<'a> Tree<'a> {
    fn of(spans: &'a [Told]) -> Self {
        let traces: BTreeSet<_> = spans.iter().map(|told| &told.span.trace_id).collect();
        assert_eq!(traces.len(), 1, "{spans:#?}");
        let ids: BTreeMap<_, _> = spans.iter().map(|told| (&*told.span.span_id, told)).collect();
        assert_eq!(ids.len(), spans.len(), "two spans have the same id: {spans:#?}");
        let tree = Self(ids);
        let first: Vec<_> = spans.iter().filter(|told| told.span.parent_span_id.is_empty()).collect();
        let [first] = first[..] else { panic!("one span is first: {first:#?}") };
        assert!(first.attribute("pmix.proc").ends_with(":0"), "{first:#?}");
        for told in spans {
            assert!(told.span.end_time_unix_nano >= told.span.start_time_unix_nano, "{told:#?}");
            assert_eq!(tree.above(told).last().copied().unwrap_or(told).span.span_id, first.span.span_id);
        }
        tree
    }

    /// The spans above one, the nearest first.
    fn above(&self, told: &'a Told) -> Vec<&'a Told> {
        let mut above = Vec::new();
        let mut next = told;
        while !next.span.parent_span_id.is_empty() {
            next = self
                .0
                .get(&*next.span.parent_span_id)
                .unwrap_or_else(|| panic!("{next:#?} is below no span"));
            above.push(next);
            assert!(above.len() <= self.0.len(), "spans are below each other");
        }
        above
    }

    fn named(&self, name: &str) -> Vec<&'a Told> {
        self.0.values().copied().filter(|told| told.span.name == name).collect()
    }
}

fn succeeds(command: Command) {
    let (code, out, err) = run(command);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
}

/// What is to be seen of a fence of four ranks on two nodes, the ranks of which are traced.
fn is_whole(spans: &[Told]) {
    let expected = [
        (("pmix-test-rank", "PMIx_Fence"), 4),
        (("pmixd", "fence_nb"), 2),
        (("pmixd", "part of a fence"), 1),
        (("pmixd", "part of a fence heard"), 1),
        (("pmixd", "server: PMIx_Fence"), 4),
    ];
    assert_eq!(counts(spans), BTreeMap::from(expected), "{spans:#?}");
    let tree = Tree::of(spans);
    // from the process through server and host to the other node
    let [heard] = tree.named("part of a fence heard")[..] else { panic!() };
    let above = tree.above(heard);
    let names: Vec<_> = above.iter().map(|told| &*told.span.name).collect();
    assert_eq!(names[..4], ["part of a fence", "fence_nb", "server: PMIx_Fence", "PMIx_Fence"], "{above:#?}");
    assert_eq!((heard.attribute("pmix.node"), above[0].attribute("pmix.node")), ("a".into(), "b".into()));
    assert!(above[1..3].iter().all(|told| told.attribute("pmix.node") == "b"), "{above:#?}");
    assert_eq!(above[2].attribute("pmix.proc"), above[3].attribute("pmix.proc"));
    let hosts = tree.named("fence_nb").into_iter();
    let hosts: BTreeSet<_> = hosts.map(|told| told.attribute("pmix.node")).collect();
    assert_eq!(hosts, BTreeSet::from(["a".into(), "b".into()]));
}

#[test]
fn a_fence_is_one_trace_of_its_ranks_servers_hosts_and_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans");
    let (rank, to) = (rank_program(), file.display().to_string());
    let args = ["--trace-to", &to, "-n", "4", rank.to_str().unwrap(), "fence"];
    succeeds(here(dir.path(), "a:2,b:2", &args));
    is_whole(&Told::of_file(&file));
    nothing_is_left(dir.path());
}

#[test]
fn each_fence_is_a_trace_of_its_own_and_ranks_that_name_no_span_are_seen_by_their_servers() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans");
    let (rank, to) = (rank_program(), file.display().to_string());
    // two rounds, each with a fence before it
    let args =
        ["--trace-to", &to, "-n", "4", "env", "-u", "PMIX_TRACE_TO", rank.to_str().unwrap(), "fences", "2"];
    succeeds(here(dir.path(), "a:2,b:2", &args));
    let mut traces: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for told in Told::of_file(&file) {
        traces.entry(told.span.trace_id.clone()).or_default().push(told);
    }
    assert_eq!(traces.len(), 4, "{traces:#?}");
    for spans in traces.values() {
        let expected = [
            (("pmixd", "PMIx_Fence"), 4),
            (("pmixd", "fence_nb"), 2),
            (("pmixd", "part of a fence"), 1),
            (("pmixd", "part of a fence heard"), 1),
        ];
        assert_eq!(counts(spans), BTreeMap::from(expected), "{spans:#?}");
        Tree::of(spans);
    }
}

#[test]
fn what_a_rank_says_of_another_trace_counts_as_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans");
    let (rank, to) = (rank_program(), file.display().to_string());
    let root = "TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let args = ["--trace-to", &to, "-n", "2", "env", root, rank.to_str().unwrap(), "fence"];
    succeeds(here(dir.path(), "a,b", &args));
    let (ranks, daemons): (Vec<_>, Vec<_>) =
        Told::of_file(&file).into_iter().partition(|told| told.by == "pmix-test-rank");
    assert_eq!(counts(&ranks), BTreeMap::from([(("pmix-test-rank", "PMIx_Fence"), 2)]));
    assert_eq!(counts(&daemons)[&("pmixd", "PMIx_Fence")], 2);
    Tree::of(&daemons);
    assert!(ranks.iter().all(|told| told.span.trace_id != daemons[0].span.trace_id));
}

#[test]
fn a_fence_that_fails_says_so_in_its_trace() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("spans");
    let (rank, to) = (rank_program(), file.display().to_string());
    let args =
        ["--trace-to", &to, "--reaction", "600", "-n", "2", rank.to_str().unwrap(), "die-before-fence", "0"];
    let (code, ..) = run(here(dir.path(), "a,b", &args));
    assert_eq!(code, Some(137));
    let spans = Told::of_file(&file);
    let servers: Vec<_> = spans.iter().filter(|told| told.span.name == "server: PMIx_Fence").collect();
    let [server] = servers[..] else { panic!("{spans:#?}") };
    let status = server.span.status.clone().unwrap();
    assert!(status.code == 2 && status.message.contains(":0"), "{status:?}");
}

/// A collector of OpenTelemetry.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_collector_is_sent_all_spans_before_programs_end() {
    let dir = tempfile::tempdir().unwrap();
    let incoming = tonic::transport::server::TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let to = format!("http://{}", incoming.local_addr().unwrap());
    let collector = Collector::default();
    let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(collector.clone()));
    let server = tokio::spawn(server.serve_with_incoming(incoming));
    let rank = rank_program();
    let args = ["--trace-to", &to, "-n", "4", rank.to_str().unwrap(), "fence"];
    let command = here(dir.path(), "a:2,b:2", &args);
    tokio::task::spawn_blocking(|| succeeds(command)).await.unwrap();
    server.abort();
    is_whole(&Told::all(std::mem::take(&mut *collector.0.lock().unwrap())));
}

#[test]
fn a_collector_that_never_reads_delays_no_fence_and_the_log_says_how_many_spans_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    // the kernel accepts for it
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}", silent.local_addr().unwrap());
    let rank = rank_program();
    // more than can wait: two fences in each round, with two spans each
    let args = ["--trace-to", &to, "-n", "2", rank.to_str().unwrap(), "fences", "800"];
    let mut command = pmixrun(dir.path(), &args);
    // what is being sent is not given up before the end
    for limit in
        ["OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_BSP_EXPORT_TIMEOUT"]
    {
        command.env(limit, "3600000");
    }
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains("fences took"), "{out}");
    let dropped = err.lines().find_map(|line| line.split("dropped_span_count=").nth(1));
    let dropped = dropped.and_then(|count| count.split(' ').next()?.parse().ok());
    let dropped: u32 = dropped.unwrap_or_else(|| panic!("{err}"));
    // of 3200, what waits and the batch that is being sent are not
    assert!((3200 - 2048 - 512..3200).contains(&dropped), "{err}");
    assert!(err.contains("not all spans of traces were sent"), "{err}");
}

#[test]
fn variables_for_other_programs_stop_no_run() {
    let dir = tempfile::tempdir().unwrap();
    // one that is no place of ours, and one that is no address
    for to in ["https://localhost:4317", "http://a b"] {
        let mut command = pmixrun(dir.path(), &["-n", "1", "true"]);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", to);
        let (ended, _, err) = run(command);
        let said = "fences are not traced: OTEL_EXPORTER_OTLP_ENDPOINT: ";
        assert!(ended == Some(0) && err.contains(said), "{to}: {ended:?} {err}");
    }
}

#[test]
fn where_spans_cannot_go_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing/spans").display().to_string();
    let cannot = format!("--trace-to: cannot write spans to {missing}");
    for (to, code, words) in [
        ("https://localhost:4317", 2, "no TLS"),
        ("gopher://localhost", 2, "http://HOST:PORT"),
        (&missing, 1, &*cannot),
        ("/dev/null", 1, "it is not a file"),
    ] {
        let (ended, _, err) = run(pmixrun(dir.path(), &["--trace-to", to, "-n", "1", "true"]));
        assert!(ended == Some(code) && err.contains(words), "{to}: {ended:?} {err}");
    }
}
