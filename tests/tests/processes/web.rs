//! `pmix web`: over HTTP as any program could.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use pmix_test_wait::{LIMIT, until};
use pmix_tests::scrape::{ask, connect, is_closed};
use pmix_tests::{Web, run};
use serde_json::Value;

/// A stream of news, as a page reads it.
fn page_of(web: &Web) -> Page {
    let mut stream = TcpStream::connect(web.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let (host, token) = (web.name(), web.token());
    let ask = format!("GET /events HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(ask.as_bytes()).unwrap();
    let mut page = Page(BufReader::new(stream));
    assert_eq!(page.line(), "HTTP/1.0 200 OK");
    page
}

fn get(web: &Web, path: &str, headers: &str) -> (u16, String, String) {
    ask(web.address(), &format!("GET {path} HTTP/1.0\r\n{headers}\r\n"))
}

struct Page(BufReader<TcpStream>);

impl Page {
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
        line.trim_end().to_owned()
    }

    /// The next news of this kind that is so.
    fn until(&mut self, kind: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let mark = format!("event: {kind}");
        loop {
            if self.line() != mark {
                continue;
            }
            let line = self.line();
            let news = serde_json::from_str(line.strip_prefix("data: ").unwrap()).unwrap();
            if is_so(&news) {
                return news;
            }
        }
    }
}

#[tokio::test]
async fn the_page_is_told_of_jobs_waits_and_events_as_they_come() {
    let web = Web::start().await;
    let (status, head, page) = get(&web, "/", &format!("Host: {}\r\n", web.name()));
    assert_eq!(status, 200);
    assert!(page.contains("page.js") && !page.contains(web.token()));
    assert!(!page.contains("://") && head.contains("default-src 'none'"), "{head}");
    for file in ["/page.js", "/page.css"] {
        let (status, head, text) = get(&web, file, &format!("Host: {}\r\n", web.name()));
        assert!(status == 200 && !text.contains("://"), "nothing is loaded from elsewhere: {head}");
    }

    let mut page = page_of(&web);
    let is_there = |state: &Value| state["jobs"][0]["ranks"] == serde_json::json!([[0, 4]]);
    let connected = |state: &Value| state["states"][0]["name"] == "CONNECTED" && is_there(state);
    let state = page.until("state", connected);
    assert_eq!(state["jobs"][0]["states"], serde_json::json!([[0, 4]]), "{state}");
    let waits = page.until("waits", |waits| !waits["sentences"].as_array().unwrap().is_empty());
    let sentence = waits["sentences"][0].as_str().unwrap();
    assert!(sentence.contains("fence") && sentence.contains('3'), "{sentence}");

    let (code, out, err) = run(web.pmix(&["submit", "-n", "2", "sh", "-c", "exit 3"]));
    assert_eq!(code, Some(3), "{out}{err}");
    page.until("event", |event| event["name"] == "EVENT_JOB_END");
    // a page that comes later is told, too
    let mut late = page_of(&web);
    late.until("event", |event| event["name"] == "EVENT_JOB_END");
    late.until("state", is_there);

    let mut rest = page.0;
    web.end().await;
    let mut text = String::new();
    rest.read_to_string(&mut text).unwrap();
}

#[tokio::test]
async fn who_has_no_token_or_comes_by_another_name_is_told_nothing() {
    let web = Web::start().await;
    let host = format!("Host: {}\r\n", web.name());
    let (status, head, why) = get(&web, "/events", &host);
    assert_eq!(status, 401, "{head}");
    assert!(why.contains("open the address that `pmix web` has printed"), "{why}");
    for wrong in
        ["Bearer x".to_owned(), format!("Bearer {}", &web.token()[1..]), format!("Basic {}", web.token())]
    {
        let (status, ..) = get(&web, "/events", &format!("{host}Authorization: {wrong}\r\n"));
        assert_eq!(status, 401, "{wrong}");
    }
    // nor in the address, which others may see, nor in a cookie, which other ports are sent
    let (status, ..) = get(
        &web,
        &format!("/events?token={0}", web.token()),
        &format!("{host}Cookie: token={}\r\n", web.token()),
    );
    assert_eq!(status, 401);
    // nor at an address that another page may have had
    for (path, name) in [("/", "evil.example"), ("/events", "localhost"), ("/page.js", web.address())] {
        let headers = format!("Host: {name}\r\nAuthorization: Bearer {}\r\n", web.token());
        let (status, _, why) = get(&web, path, &headers);
        assert_eq!((status, why.contains("Host header")), (403, true), "{path}: {why}");
    }
    let (status, head, _) = get(&web, "/elsewhere", &host);
    assert_eq!(status, 404);
    assert!(!head.to_lowercase().contains("access-control"), "{head}");
    let preflight = format!("OPTIONS /events HTTP/1.0\r\n{host}Origin: http://evil.example\r\n\r\n");
    let (status, head, _) = ask(web.address(), &preflight);
    assert!(status == 401 && !head.to_lowercase().contains("access-control"), "{head}");
    web.end().await;
}

#[tokio::test]
async fn pages_are_bounded_and_strangers_and_one_that_never_reads_disturb_none() {
    let web = Web::start().await;
    let deaf: Vec<_> = (0..31).map(|_| page_of(&web)).collect();
    let mut page = page_of(&web);
    // more would not be served
    let headers = format!("Host: {}\r\nAuthorization: Bearer {}\r\n", web.name(), web.token());
    let (status, _, why) = get(&web, "/events", &headers);
    assert_eq!((status, why.as_str()), (503, "too many pages are open: close some\n"));
    // nor at the second attempt on one connection
    let again = format!("GET /events HTTP/1.1\r\n{headers}\r\n").repeat(2);
    let mut stream = TcpStream::connect(web.address()).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.write_all(again.as_bytes()).unwrap();
    let mut answers = Page(BufReader::new(stream));
    for _ in 0..2 {
        let mut line = answers.line();
        while !line.starts_with("HTTP/1.1 ") {
            line = answers.line();
        }
        assert_eq!(line, "HTTP/1.1 503 Service Unavailable");
    }

    let mut idle: Vec<_> = (0..100).map(|_| connect(web.address()).unwrap()).collect();
    for words in [&b"\x16\x03\x01garbage\0\r\n\r\n"[..], b"GET /ev", &[b'x'; 100_000]] {
        let mut stream = TcpStream::connect(web.address()).unwrap();
        // it may be closed before all is written
        let _ = stream.write_all(words);
    }
    for stream in &mut idle[..84] {
        assert!(is_closed(stream), "it should have made room");
    }
    // those who have shown the token stay
    for _ in 0..20 {
        let (code, ..) = run(web.pmix(&["submit", "true"]));
        assert_eq!(code, Some(0));
    }
    for _ in 0..20 {
        page.until("event", |event| event["name"] == "EVENT_JOB_END");
    }
    drop((page, deaf));
    // and leave room
    let status = until("there is room for a page", || {
        let mut stream = TcpStream::connect(web.address()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.write_all(format!("GET /events HTTP/1.0\r\n{headers}\r\n").as_bytes()).unwrap();
        let mut first = String::new();
        BufReader::new(stream).read_line(&mut first).unwrap();
        let status: u16 = first.split(' ').nth(1).unwrap().parse().unwrap();
        (status != 503).then_some(status)
    });
    assert_eq!(status.await, 200);
    web.end().await;
}
