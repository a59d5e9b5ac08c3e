//! Answers scrapes: HTTP/1.1, one request for each connection.

use std::convert::Infallible;
use std::time::Duration;

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pmix_program::loopback::{NOT_THIS_HOST, Visitors, names_this_host};
use pmix_types::Uid;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::door::Connection;
use super::{Door, Source};
use prometheus_client::encoding::prometheus_text::CONTENT_TYPE as FORMAT;

/// Simultaneous connections. A further one closes the oldest of the user who has most, so that idle clients cannot keep others from
/// reading.
const MAX_CONNECTIONS: usize = 16;
/// How long a connection may last.
const WITHIN: Duration = Duration::from_secs(10);
/// Bytes of a request.
const MAX_REQUEST: usize = 16 << 10;
/// What is waited after a connection could not be accepted, for want of descriptors for instance.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers whoever comes, for ever.
pub(super) async fn all(door: Door, source: Source) {
    let is_port = door.port().is_some();
    let mut connections = Visitors::<Option<Uid>, AbortHandle>::up_to(MAX_CONNECTIONS);
    loop {
        let (connection, user) = match door.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "metrics: cannot accept a connection");
                sleep_until(Instant::now() + PAUSE).await;
                continue;
            }
        };
        connections.retain(|one| !one.is_finished());
        let task = tokio::spawn(one(connection, is_port, source.clone()));
        if let Some(evicted) = connections.add(user, task.abort_handle()) {
            evicted.abort();
        }
    }
}

/// Answers one request, if it comes, and its answer is read, in time.
async fn one(connection: Connection, is_port: bool, source: Source) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let refused = refusal(&request, is_port);
        let source = source.clone();
        async move {
            Ok::<_, Infallible>(match refused {
                Some(refused) => refused,
                None => numbers(&source).await,
            })
        }
    });
    let serving = http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(MAX_REQUEST)
        .serve_connection(TokioIo::new(connection), service);
    match tokio::time::timeout(WITHIN, serving).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "metrics: a connection has failed"),
        Err(_) => tracing::debug!("metrics: a connection took too long"),
    }
}

async fn numbers(source: &Source) -> Response<String> {
    let mut response = Response::new(source.read().await.into_text());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(FORMAT));
    response
}

/// Why a request is refused.
fn refusal<B>(request: &Request<B>, is_port: bool) -> Option<Response<String>> {
    let refuse = |status: StatusCode, why: &str| {
        let mut response = Response::new(format!("{why}\n"));
        *response.status_mut() = status;
        response
    };
    if is_port && !names_this_host(request.headers()) {
        return Some(refuse(StatusCode::FORBIDDEN, NOT_THIS_HOST));
    }
    if request.uri().path() != "/metrics" {
        return Some(refuse(StatusCode::NOT_FOUND, "the numbers are at /metrics"));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        let mut refused = refuse(StatusCode::METHOD_NOT_ALLOWED, "numbers can only be read");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(refused);
    }
    None
}

#[cfg(test)]
mod tests {
    use pmix_host::{MemoryExchange, StandardHost};
    use pmix_test_wait::PausedClock;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;
    use pmix_launch::LocalLauncher;

    #[tokio::test(start_paused = true)]
    async fn who_asks_nothing_or_reads_nothing_is_disconnected() {
        let host = StandardHost::new(LocalLauncher::new("here"), MemoryExchange::single("here"));
        let source = Source::new(host);
        let clock = PausedClock::start();
        for words in ["", "GET /metr", "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"] {
            let (mut here, there) = duplex(64);
            let serving = tokio::spawn(one(Box::new(there), false, source.clone()));
            here.write_all(words.as_bytes()).await.unwrap();
            serving.await.unwrap();
            let mut had = String::new();
            here.read_to_string(&mut had).await.unwrap();
            assert!(had.len() <= 64, "{had}");
        }
        assert_eq!(clock.passed(), Duration::from_secs(30));
    }

    fn asked(method: &str, path: &str, host: Option<&str>, is_port: bool) -> u16 {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(host) = host {
            request = request.header(http::header::HOST, host);
        }
        let refused = refusal(&request.body(()).unwrap(), is_port);
        refused.map_or(200, |refused| refused.status().as_u16())
    }

    #[test]
    fn numbers_are_read_at_one_place() {
        assert_eq!(asked("GET", "/metrics", None, false), 200);
        assert_eq!(asked("HEAD", "/metrics?x=y", None, false), 200);
        assert_eq!(asked("POST", "/metrics", None, false), 405);
        assert_eq!(asked("GET", "/", None, false), 404);
        assert_eq!(asked("GET", "/metrics/", None, false), 404);
    }

    #[test]
    fn a_port_is_read_by_its_address_and_not_by_names_that_others_choose() {
        assert_eq!(asked("GET", "/metrics", Some("127.0.0.1:9464"), true), 200);
        for other in ["evil.example:9464", ""] {
            assert_eq!(asked("GET", "/metrics", Some(other), true), 403, "{other}");
        }
        assert_eq!(asked("GET", "/metrics", None, true), 403);
    }
}
