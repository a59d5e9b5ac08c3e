//! `pmix why` of jobs that hang, by ranks in Rust.

use pmix_tests::{Hang, Instead, Running, rank_program};
use serde_json::Value;

#[tokio::test]
async fn why_names_the_rank_that_sleeps_and_does_not_enter_a_fence() {
    let hang = Hang::start(16, 13, &[], &rank_program(), &["fence-without", "13"]);
    hang.is_explained(Instead::Sleep).await;
    hang.end().await;
}

#[tokio::test]
async fn why_names_the_rank_that_spins_after_its_init() {
    let hang = Hang::start(4, 2, &[], &rank_program(), &["fence-without-spinner", "2"]);
    hang.is_explained(Instead::Spin).await;
    hang.end().await;
}

#[tokio::test]
async fn why_names_the_rank_that_has_not_called_init() {
    for instead in Instead::ALL {
        let hang = Hang::before_init(16, 5, instead, &rank_program(), &["fence"]);
        hang.is_explained(instead).await;
        hang.end().await;
    }
}

#[tokio::test]
async fn why_names_the_node_of_the_rank_that_is_missing() {
    let hang = Hang::start(8, 5, &["--vnodes", "4"], &rank_program(), &["fence-without", "5"]);
    hang.is_explained(Instead::Sleep).await;
    hang.end().await;
}

#[tokio::test]
async fn why_watches_a_job_until_it_ends() {
    let hang = Hang::start(3, 1, &[], &rank_program(), &["fence-without", "1"]);
    hang.is_explained(Instead::Sleep).await;
    let mut watch = Running::start(hang.pmix(&["why", "--watch", "--json", "--timeout", "600"]));
    let mut waited = Vec::new();
    for _ in 0..2 {
        let report: Value = serde_json::from_str(&watch.line().await.unwrap()).unwrap();
        let server = &report["servers"][0];
        waited.push(server["waits"][0]["waited"].as_f64().unwrap());
        let share = server["waits"][0]["missing_procs"][0]["cpu_share"].as_f64().unwrap();
        assert!((0.0..0.5).contains(&share), "{report}");
    }
    // reports are a second apart, or more
    assert!(waited[1] - waited[0] > 0.5, "{waited:?}");
    let mut lines = Running::start(hang.pmix(&["why", "--watch", "--timeout", "600"]));
    let sentence = lines.line().await.unwrap();
    assert!(sentence.contains("a fence of 3 processes has waited ") && sentence.ends_with('.'), "{sentence}");
    hang.terminate();
    for watch in [watch, lines] {
        let (status, _, err) = watch.end().await;
        assert_eq!((status.code(), err.as_str()), (Some(0), ""));
    }
    hang.end().await;
}
