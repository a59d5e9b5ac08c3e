//! Serves the page: HTTP/1.1 on loopback.
//!
//! The page itself is the same for everybody and tells nothing. What it shows comes by `/events`, for which a token is needed.

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{Request, Response, StatusCode};
use axum::response::IntoResponse;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use futures::StreamExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use pmix_program::loopback::{Users, Visitors};
use pmix_types::Uid;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};

use super::Loopback;
use super::access::{Name, Refusal, Token, check_name, check_token};
use super::hub::Hub;

/// Connections that have not shown the token. The oldest of the user who has most makes room.
const MAX_STRANGERS: usize = 16;
/// How long such a connection may last.
const WITHIN: Duration = Duration::from_secs(10);
/// Connections that have shown it.
const MAX_PAGES: usize = 32;
/// Bytes of a request.
const MAX_REQUEST: usize = 16 << 10;
/// How often the user is told that requests are refused, so that a flood of them fills nothing.
const TELL: Duration = Duration::from_secs(60);
/// What is waited after a connection could not be accepted, for want of descriptors for instance.
const PAUSE: Duration = Duration::from_millis(100);
/// How often an idle stream says that it is there.
const ALIVE: Duration = Duration::from_secs(15);

/// Where what is told may come from and go to: this page alone.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What all connections share.
struct Site {
    router: Router,
    name: Name,
    token: Token,
    pages: AtomicUsize,
    /// When the user was told last that a request was refused.
    told: Mutex<Option<Instant>>,
}

/// A connection: a stranger until it has shown the token.
struct Visitor {
    site: Arc<Site>,
    is_known: AtomicBool,
}

/// Answers whoever comes, for ever.
pub(super) async fn all(loopback: Loopback, name: Name, token: Token, hub: Arc<Hub>) -> Infallible {
    let (router, pages, told) = (routes(hub), AtomicUsize::new(0), Mutex::default());
    let site = Arc::new(Site { router, name, token, pages, told });
    let users = Users::open();
    let mut strangers = Visitors::<Option<Uid>, (AbortHandle, Arc<Visitor>)>::up_to(MAX_STRANGERS);
    loop {
        let (stream, from) = match loopback.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                sleep_until(Instant::now() + PAUSE).await;
                continue;
            }
        };
        strangers.retain(|(task, visitor)| !task.is_finished() && !visitor.is_known());
        let user = users.of(&stream, from);
        let visitor = Arc::new(Visitor { site: Arc::clone(&site), is_known: AtomicBool::new(false) });
        let task = tokio::spawn(one(stream, Arc::clone(&visitor)));
        if let Some((evicted, _)) = strangers.add(user, (task.abort_handle(), visitor)) {
            evicted.abort();
        }
    }
}

/// Answers what comes on one connection.
async fn one(stream: TcpStream, visitor: Arc<Visitor>) {
    let answering = service_fn(|request: Request<Incoming>| {
        let visitor = Arc::clone(&visitor);
        async move { Ok::<_, Infallible>(with_headers(visitor.answer(request).await)) }
    });
    let serving =
        http1::Builder::new().max_buf_size(MAX_REQUEST).serve_connection(TokioIo::new(stream), answering);
    let too_long = async {
        sleep_until(Instant::now() + WITHIN).await;
        if visitor.is_known() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        served = serving => if let Err(error) = served {
            tracing::debug!(%error, "a connection has failed");
        },
        () = too_long => tracing::debug!("a connection without the token took too long"),
    }
}

impl Site {
    fn tell_refused(&self, status: StatusCode, why: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|told| told.elapsed() >= TELL) {
            *told = Some(Instant::now());
            tracing::warn!(status = status.as_u16(), "a request was refused: {why}");
        }
    }
}

impl Visitor {
    fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        if let Err((status, why)) = self.check(&request) {
            self.site.tell_refused(status, why);
            let mut refused = (status, format!("{why}\n")).into_response();
            if status == StatusCode::UNAUTHORIZED {
                refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            return refused;
        }
        let Ok(answer) = routed(self.site.router.clone(), request).await;
        answer
    }

    fn check(&self, request: &Request<Incoming>) -> Result<(), Refusal> {
        check_name(request.headers(), &self.site.name)?;
        if request.uri().path() != "/events" {
            return Ok(());
        }
        check_token(request.headers(), &self.site.token)?;
        if !self.is_known() {
            let more = |pages| (pages < MAX_PAGES).then_some(pages + 1);
            if self.site.pages.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
                let why = "too many pages are open: close some";
                return Err((StatusCode::SERVICE_UNAVAILABLE, why));
            }
            self.is_known.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        if self.is_known() {
            self.site.pages.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn routes(hub: Arc<Hub>) -> Router {
    let file =
        |kind: &'static str, text: &'static str| get(move || async move { ([(CONTENT_TYPE, kind)], text) });
    let follow = move || {
        let news =
            hub.read().map(|news| Ok::<_, Infallible>(Event::default().event(news.kind).data(&news.json)));
        async move { Sse::new(news).keep_alive(KeepAlive::new().interval(ALIVE)) }
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page.html")))
        .route("/page.css", file("text/css; charset=utf-8", include_str!("page.css")))
        .route("/page.js", file("text/javascript; charset=utf-8", include_str!("page.js")))
        .route("/events", get(follow))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there is one page, at /\n") })
}

fn with_headers(mut answer: Response<Body>) -> Response<Body> {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Has the routes answer.
async fn routed(router: Router, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    use hyper::service::Service as _;
    hyper_util::service::TowerToHyperService::new(router).call(request).await
}
