//! Numbers for Prometheus: `--metrics`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use pmix_test_wait::until;
use pmix_tests::scrape::{ask, connect, is_closed};
use pmix_tests::{Running, Scrape, TestDvm, metered_run, pmixrun, rank_program, run, stop};
use rustix::process::{Pid, Signal, kill_process};

/// A head whose numbers are at a socket.
async fn head() -> (TestDvm, tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("metrics.sock").to_str().unwrap().to_owned();
    let dvm = TestDvm::alone_with(&["--metrics".to_owned(), place.clone()]).await;
    (dvm, dir, place)
}

#[tokio::test]
async fn numbers_of_a_head_are_those_of_the_jobs_that_have_run() {
    let (dvm, _dir, place) = head().await;
    let before = Scrape::of(&place);
    assert_eq!(
        (before.value("pmix_jobs_started_total"), before.value("pmix_nodes{state=\"up\"}")),
        (0.0, 1.0)
    );
    assert_eq!(before.sum("pmix_server_connections", ""), 0.0);

    let rank = rank_program();
    let (code, out, err) = run(dvm.submit(&["-n", "3", rank.to_str().unwrap(), "fences", "4"]));
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    let (code, wrong, _) = run(dvm.submit(&["-n", "2", "sh", "-c", "echo bad >&2; echo ok; exit 3"]));
    assert_eq!(code, Some(3));
    let ended = |scrape: &Scrape| scrape.sum("pmix_jobs_ended_total", "") == 2.0;
    let after = Scrape::until(&place, ended);
    for (series, value) in [
        ("pmix_jobs_started_total", 2.0),
        ("pmix_jobs_running", 0.0),
        ("pmix_jobs_ended_total{result=\"succeeded\"}", 1.0),
        ("pmix_jobs_ended_total{result=\"failed\"}", 1.0),
        ("pmix_processes_started_total", 5.0),
        ("pmix_processes_ended_total{result=\"succeeded\"}", 3.0),
        ("pmix_processes_ended_total{result=\"failed\"}", 2.0),
        ("pmix_output_bytes_total{channel=\"stdout\"}", (out.len() + wrong.len()) as f64),
        ("pmix_output_bytes_total{channel=\"stderr\"}", 2.0 * "bad\n".len() as f64),
    ] {
        assert_eq!(after.value(series), value, "{series}");
    }
    // each with one before it
    let fences = "operation=\"fence\",result=\"succeeded\"";
    assert_eq!(after.sum("pmix_collectives_total", fences), 8.0);
    assert_eq!(after.sum("pmix_collective_duration_seconds_count", "\"fence\""), 8.0);
    assert_eq!(after.sum("pmix_collective_duration_seconds_bucket", "operation=\"fence\",le=\"+Inf\""), 8.0);
    let seconds = after.sum("pmix_collective_duration_seconds_sum", "\"fence\"");
    assert!(seconds > 0.0 && seconds < after.value("pmix_uptime_seconds"), "{}", after.text);
    // three ranks, and each submitter
    assert_eq!(after.sum("pmix_server_connections_admitted_total", ""), 5.0);
    assert!(after.sum("pmix_server_requests_total", "") >= 24.0, "{}", after.text);
    dvm.stop(|_, _| ()).await;
    connect(&place).err().expect("the socket is gone with the head");
    assert!(!Path::new(&place).exists());
}

#[tokio::test]
async fn numbers_of_a_job_that_runs_tell_its_processes_by_their_states() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("metrics").to_str().unwrap().to_owned();
    let (job, told) = metered_run(dir.path(), &place).await;
    assert_eq!(told, place);
    let running = |scrape: &Scrape| scrape.value("pmix_processes{state=\"running\"}") == 2.0;
    let scrape = Scrape::until(&place, running);
    assert_eq!(scrape.sum("pmix_processes", ""), 2.0, "{}", scrape.text);
    assert_eq!((scrape.value("pmix_jobs_running"), scrape.sum("pmix_jobs_ended_total", "")), (1.0, 0.0));
    assert_eq!(scrape.value("pmix_output_bytes_total{channel=\"stdout\"}"), 16.0);
    let version = format!("pmix_info{{version=\"{}\"}}", env!("CARGO_PKG_VERSION"));
    assert_eq!(scrape.value(&version), 1.0);
    job.signal(Signal::TERM);
    job.end().await;
    assert!(!Path::new(&place).exists());

    // processes that have called init, on two nodes with a server each
    let rank = rank_program();
    let options = ["--metrics", &place, "--vnodes", "2", "-n", "4", rank.to_str().unwrap(), "block"];
    let job = Running::start(pmixrun(dir.path(), &options));
    until("the socket is there", || connect(&place).map(drop)).await;
    let scrape = Scrape::until(&place, |scrape| scrape.sum("pmix_server_connections", "client") == 4.0);
    assert_eq!(scrape.value("pmix_processes{state=\"connected\"}"), 4.0);
    for node in ["-v0", "-v1"] {
        let clients = format!("{node}\",kind=\"client\"");
        assert_eq!(scrape.sum("pmix_server_connections", &clients), 2.0, "{node}");
    }
    assert_eq!(scrape.value("pmix_nodes{state=\"up\"}"), 2.0);
    job.signal(Signal::TERM);
    job.end().await;
}

#[tokio::test]
async fn who_does_nothing_at_the_socket_keeps_nobody_from_reading() {
    let (dvm, _dir, place) = head().await;
    let mut idle: Vec<_> = (0..100).map(|_| connect(&place).unwrap()).collect();
    // garbage, half a request, more than a request may be, and leaving at once
    for words in [&b"\x16\x03\x01garbage\0\r\n\r\n"[..], b"GET /metr", &[b'x'; 100_000]] {
        let mut stream = UnixStream::connect(&place).unwrap();
        // it may be closed before all is written
        let _ = stream.write_all(words);
    }
    let mut deaf = connect(&place).unwrap();
    deaf.write_all(&b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000)).unwrap();
    assert_eq!(Scrape::of(&place).value("pmix_jobs_running"), 0.0);
    // each new one takes the place of the oldest
    for stream in &mut idle[..84] {
        assert!(is_closed(stream), "it should have made room");
    }
    // a client that asks much is answered once
    let mut answers = String::new();
    deaf.read_to_string(&mut answers).unwrap_or_default();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1, "{answers}");
    drop(idle);
    dvm.stop(|_, _| ()).await;
}

#[tokio::test]
async fn a_port_is_read_by_its_address_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (job, told) = metered_run(dir.path(), "127.0.0.1:0").await;
    let place = told.strip_prefix("http://").and_then(|told| told.strip_suffix("/metrics")).unwrap();
    assert_eq!(Scrape::of(place).value("pmix_jobs_running"), 1.0);
    // a page whose name was made to mean this address
    let rebound = "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    let (status, _, why) = ask(place, rebound);
    assert_eq!((status, why.as_str()), (403, "the Host header must name a loopback address or localhost\n"));
    let (status, _, why) = ask(place, &format!("GET / HTTP/1.1\r\nHost: {place}\r\n\r\n"));
    assert_eq!((status, why.as_str()), (404, "the numbers are at /metrics\n"));
    job.signal(Signal::TERM);
    job.end().await;
}

/// The rows of the table in `docs/metrics.md`: name, type, labels.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md")).unwrap();
    let words = |cell: &str| -> BTreeSet<String> {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(|word| word.split('=').next().unwrap_or(word).to_owned())
            .collect()
    };
    let rows = text.lines().filter(|line| line.starts_with("| `pmix_"));
    let rows = rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>());
    rows.map(|cells| {
        let [name, kind, labels, _] = cells.as_slice() else { panic!("{cells:?}") };
        (name.trim_matches('`').to_owned(), ((*kind).to_owned(), words(labels)))
    })
    .collect()
}

#[tokio::test]
async fn each_metric_is_in_the_table_and_each_that_the_dashboard_shows_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("metrics").to_str().unwrap().to_owned();
    // slots are told where nodes have a number of them
    let dvm = TestDvm::here("a:2", "exec \"$@\"", &["--metrics", &place]).await;
    let scrape = Scrape::of(&place);
    dvm.stop(|_, _| ()).await;
    assert_eq!(scrape.metrics(), documented());

    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/metrics/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
    let mut shown = BTreeSet::new();
    expressions(&dashboard, &mut shown);
    assert!(shown.len() > 8, "{shown:?}");
    for expression in shown {
        let names = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names: Vec<_> = names.filter(|word| word.starts_with("pmix_")).collect();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            let is_there = scrape.values.keys().any(|series| series.split('{').next() == Some(name));
            assert!(is_there, "{expression}: there is no {name}");
        }
    }
}

/// All that a dashboard asks Prometheus.
fn expressions(value: &serde_json::Value, all: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            if let Some(expression) = fields.get("expr").and_then(serde_json::Value::as_str) {
                all.insert(expression.to_owned());
            }
            fields.values().for_each(|value| expressions(value, all));
        }
        serde_json::Value::Array(values) => values.iter().for_each(|value| expressions(value, all)),
        _ => {}
    }
}

#[test]
fn a_place_in_use_ends_a_run_before_it_starts() {
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    let (code, out, err) = run(pmixrun(dir.path(), &["--metrics", &address, "echo", "ran"]));
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains(&format!("--metrics: {address}: ")) && err.contains("in use"), "{err}");
    let (code, out, err) = run(pmixrun(dir.path(), &["--metrics", "0.0.0.0:1", "echo", "ran"]));
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("can be reached from other hosts"), "{err}");
    let (code, _, err) = run(pmixrun(dir.path(), &["--dvm", "only", "--metrics", "./m", "echo", "ran"]));
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("give it to pmixd --head"), "{err}");
}

#[tokio::test]
async fn servers_of_all_nodes_are_counted_and_one_that_hangs_holds_nobody_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (place, pid) = (path("metrics"), path("pid"));
    let starts = format!("test $host != b || echo $$ > {pid}; exec \"$@\"");
    let dvm = TestDvm::here("a:2,b:1", &starts, &["--metrics", &place]).await;
    let rank = rank_program();
    let (code, out, err) = run(dvm.submit(&["-n", "3", rank.to_str().unwrap(), "fences", "4"]));
    assert_eq!(code, Some(0), "{out}{err}");
    let up = |scrape: &Scrape| scrape.value("pmix_server_up{node=\"b\"}");
    // each server has half a second to answer, which may be too little now and then
    let scrape = Scrape::until(&place, |scrape| scrape.sum("pmix_server_up", "") == 3.0);
    assert_eq!(up(&scrape), 1.0, "{}", scrape.text);
    for (node, ranks) in [("a", 2.0), ("b", 1.0)] {
        // each with one before it
        let fences =
            format!(r#"pmix_collectives_total{{node="{node}",operation="fence",result="succeeded"}}"#);
        assert_eq!(scrape.value(&fences), 8.0, "{node}");
        let admitted = format!("pmix_server_connections_admitted_total{{node=\"{node}\"}}");
        assert_eq!(scrape.value(&admitted), ranks, "{node}");
    }

    let daemon = Pid::from_raw(std::fs::read_to_string(pid).unwrap().trim().parse().unwrap()).unwrap();
    stop(daemon.as_raw_pid()).await;
    let scrape = Scrape::until(&place, |scrape| scrape.sum("pmix_server_up", "") == 2.0);
    assert_eq!(up(&scrape), 0.0, "{}", scrape.text);
    assert_eq!(scrape.sum("pmix_server_requests_total", "\"b\""), 0.0);
    assert!(scrape.sum("pmix_server_requests_total", "\"a\"") > 0.0);
    kill_process(daemon, Signal::CONT).unwrap();
    Scrape::until(&place, |scrape| up(scrape) == 1.0);

    kill_process(daemon, Signal::KILL).unwrap();
    let scrape = Scrape::until(&place, |scrape| scrape.value("pmix_nodes{state=\"lost\"}") == 1.0);
    assert_eq!(up(&scrape), 0.0, "{}", scrape.text);
    // one that has left is not missed
    assert_eq!(run(dvm.pmix(&["nodes", "drain"], &["b"])).0, Some(0));
    Scrape::until(&place, |scrape| !scrape.values.contains_key("pmix_server_up{node=\"b\"}"));
    dvm.stop(|_, _| ()).await;
}
