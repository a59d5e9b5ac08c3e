//! `pmix web`: over HTTP as anybody could, and in a browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use pmix_tests::scrape::{ask, connect, is_closed};
use pmix_tests::{Browser, DEADLINE, OtherUser, Running, pmixrun, program, rank_program, run};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

/// A job of four ranks whose last one never enters the fence that the others wait in, and its page.
struct Rig {
    dir: TempDir,
    job: Running,
    web: Running,
    /// `127.0.0.1:PORT`
    address: String,
    token: String,
}

impl Rig {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rank = rank_program();
        let job = pmixrun(dir.path(), &["-n", "4", rank.to_str().unwrap(), "fence-without", "3"]);
        let mut job = Running::start(job);
        // each says what it is about to do
        for _ in 0..4 {
            job.line().await.unwrap();
        }
        let mut web = Running::start(Self::pmix(&dir, &["web"]));
        let url = web.line().await.unwrap();
        let (address, token) = url.strip_prefix("http://").and_then(|url| url.split_once("/#")).unwrap();
        Self { address: address.to_owned(), token: token.to_owned(), dir, job, web }
    }

    fn pmix(dir: &TempDir, args: &[&str]) -> Command {
        let mut command = Command::new(program("pmix-tool", "pmix"));
        command.args(args).env("PMIX_SERVER_TMPDIR", dir.path()).env_remove("RUST_LOG");
        command
    }

    fn url(&self) -> String {
        format!("http://{}/#{}", self.address, self.token)
    }

    fn get(&self, path: &str, headers: &str) -> (u16, String, String) {
        ask(&self.address, &format!("GET {path} HTTP/1.0\r\n{headers}\r\n"))
    }

    /// A stream of news, as a page reads it.
    fn page(&self) -> Page {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let (host, token) = (&self.address, &self.token);
        let ask = format!("GET /events HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
        let mut page = Page(BufReader::new(stream));
        assert_eq!(page.line(), "HTTP/1.0 200 OK");
        page
    }

    /// What the command has written to standard error.
    async fn end(self) -> String {
        self.job.signal(Signal::TERM);
        self.job.end().await;
        let (status, _, err) = self.web.end().await;
        assert!(status.success(), "it ends with its server: {err}");
        err
    }
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
    let rig = Rig::start().await;
    let (status, head, page) = rig.get("/", &format!("Host: {}\r\n", rig.address));
    assert_eq!(status, 200);
    assert!(page.contains("page.js") && !page.contains(&rig.token));
    assert!(!page.contains("://") && head.contains("default-src 'none'"), "{head}");
    for file in ["/page.js", "/page.css"] {
        let (status, head, text) = rig.get(file, "Host: localhost\r\n");
        assert!(status == 200 && !text.contains("://"), "nothing is loaded from elsewhere: {head}");
    }

    let mut page = rig.page();
    let is_there = |state: &Value| state["jobs"][0]["ranks"] == serde_json::json!([[0, 4]]);
    let connected = |state: &Value| state["states"][0]["name"] == "CONNECTED" && is_there(state);
    let state = page.until("state", connected);
    assert_eq!(state["jobs"][0]["states"], serde_json::json!([[0, 4]]), "{state}");
    let waits = page.until("waits", |waits| !waits["sentences"].as_array().unwrap().is_empty());
    let sentence = waits["sentences"][0].as_str().unwrap();
    assert!(sentence.contains("fence") && sentence.contains('3'), "{sentence}");

    let (code, out, err) = run(Rig::pmix(&rig.dir, &["submit", "-n", "2", "sh", "-c", "exit 3"]));
    assert_eq!(code, Some(3), "{out}{err}");
    page.until("event", |event| event["name"] == "EVENT_JOB_END");
    // a page that comes later is told, too
    let mut late = rig.page();
    late.until("event", |event| event["name"] == "EVENT_JOB_END");
    late.until("state", is_there);

    let mut rest = page.0;
    rig.end().await;
    let mut text = String::new();
    rest.read_to_string(&mut text).unwrap();
}

#[tokio::test]
async fn who_has_no_token_or_comes_by_another_name_is_told_nothing() {
    let rig = Rig::start().await;
    let host = format!("Host: {}\r\n", rig.address);
    let (status, head, why) = rig.get("/events", &host);
    assert_eq!(status, 401, "{head}");
    assert!(why.contains("open the address that `pmix web` has printed"), "{why}");
    for wrong in
        ["Bearer x".to_owned(), format!("Bearer {}", &rig.token[1..]), format!("Basic {}", rig.token)]
    {
        let (status, ..) = rig.get("/events", &format!("{host}Authorization: {wrong}\r\n"));
        assert_eq!(status, 401, "{wrong}");
    }
    // nor in the address, which others may see, nor in a cookie, which other ports are sent
    let (status, ..) =
        rig.get(&format!("/events?token={0}", rig.token), &format!("{host}Cookie: token={}\r\n", rig.token));
    assert_eq!(status, 401);
    for path in ["/", "/events", "/page.js"] {
        let headers = format!("Host: evil.example\r\nAuthorization: Bearer {}\r\n", rig.token);
        let (status, _, why) = rig.get(path, &headers);
        assert_eq!((status, why.contains("Host header")), (403, true), "{path}: {why}");
    }
    let (status, head, _) = rig.get("/elsewhere", &host);
    assert_eq!(status, 404);
    assert!(!head.to_lowercase().contains("access-control"), "{head}");
    let preflight = format!("OPTIONS /events HTTP/1.0\r\n{host}Origin: http://evil.example\r\n\r\n");
    let (status, head, _) = ask(&rig.address, &preflight);
    assert!(status == 401 && !head.to_lowercase().contains("access-control"), "{head}");
    rig.end().await;
}

#[tokio::test]
async fn sec_01_another_user_is_told_nothing_without_the_token() {
    let Some(alice) = OtherUser::second() else { return };
    let rig = Rig::start().await;
    let (_, port) = rig.address.split_once(':').unwrap();
    let ask = "exec 3<>/dev/tcp/127.0.0.1/$1; printf 'GET /events HTTP/1.0\\r\\nHost: 127.0.0.1\\r\\n\\r\\n' >&3; cat <&3";
    let mut command = alice.command("bash");
    command.args(["-c", ask, "bash", port]);
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("HTTP/1.0 401 ") && out.contains("the token is missing or wrong"), "{out}");
    assert!(!out.contains("event: "), "{out}");
    // nor is it on the command line, where others see it
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", rig.web.pid())).unwrap();
    assert!(!line.contains(&rig.token));
    let err = rig.end().await;
    assert!(err.contains("a request was refused: the token is missing or wrong"), "{err}");
}

#[tokio::test]
async fn pages_are_bounded_and_strangers_and_one_that_never_reads_disturb_none() {
    let rig = Rig::start().await;
    let deaf: Vec<_> = (0..31).map(|_| rig.page()).collect();
    let mut page = rig.page();
    // more would not be served
    let headers = format!("Host: {}\r\nAuthorization: Bearer {}\r\n", rig.address, rig.token);
    let (status, _, why) = rig.get("/events", &headers);
    assert_eq!((status, why.as_str()), (503, "too many pages are open: close some\n"));
    // nor at the second attempt on one connection
    let again = format!("GET /events HTTP/1.1\r\n{headers}\r\n").repeat(2);
    let mut stream = TcpStream::connect(&rig.address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(again.as_bytes()).unwrap();
    let mut answers = Page(BufReader::new(stream));
    for _ in 0..2 {
        let mut line = answers.line();
        while !line.starts_with("HTTP/1.1 ") {
            line = answers.line();
        }
        assert_eq!(line, "HTTP/1.1 503 Service Unavailable");
    }

    let mut idle: Vec<_> = (0..100).map(|_| connect(&rig.address).unwrap()).collect();
    for words in [&b"\x16\x03\x01garbage\0\r\n\r\n"[..], b"GET /ev", &[b'x'; 100_000]] {
        let mut stream = TcpStream::connect(&rig.address).unwrap();
        // it may be closed before all is written
        let _ = stream.write_all(words);
    }
    for stream in &mut idle[..84] {
        assert!(is_closed(stream), "it should have made room");
    }
    // those who have shown the token stay
    for _ in 0..20 {
        let (code, ..) = run(Rig::pmix(&rig.dir, &["submit", "true"]));
        assert_eq!(code, Some(0));
    }
    for _ in 0..20 {
        page.until("event", |event| event["name"] == "EVENT_JOB_END");
    }
    drop((page, deaf));
    // and leave room
    let mut status = 503;
    while status == 503 {
        let mut stream = TcpStream::connect(&rig.address).unwrap();
        stream.write_all(format!("GET /events HTTP/1.0\r\n{headers}\r\n").as_bytes()).unwrap();
        let mut first = String::new();
        BufReader::new(stream).read_line(&mut first).unwrap();
        status = first.split(' ').nth(1).unwrap().parse().unwrap();
    }
    assert_eq!(status, 200);
    rig.end().await;
}

/// The colour of a rank's square, and that of its group.
const COLOURS: &str = "
    const canvas = document.querySelector('canvas');
    const pixel = [...canvas.getContext('2d').getImageData(3, 3, 1, 1).data].slice(0, 3);
    const named = getComputedStyle(document.documentElement).getPropertyValue('--connected').trim();
    const number = parseInt(named.slice(1), 16);
    return JSON.stringify(pixel) === JSON.stringify([number >> 16, (number >> 8) & 255, number & 255]) && named;";

#[tokio::test]
async fn a_browser_shows_jobs_waits_and_events_in_light_and_dark() {
    let Some(browser) = Browser::start() else { return };
    let rig = Rig::start().await;
    browser.show((800, 900), false);
    browser.open(&rig.url());
    browser.until("return document.body.innerText.includes('4 ranks on 1 node')");
    browser.until("return document.body.innerText.includes('4 connected')");
    browser.until("return document.getElementById('waits').innerText.includes('fence')");
    assert_eq!(browser.run("return location.hash"), "", "the token does not stay in the address");
    let (code, out, err) = run(Rig::pmix(&rig.dir, &["submit", "-n", "2", "sh", "-c", "exit 3"]));
    assert_eq!(code, Some(3), "{out}{err}");
    browser.until("return document.getElementById('events').innerText.includes('EVENT_JOB_END')");
    let mut colours = Vec::new();
    for (size, is_dark, name) in [
        ((800, 900), false, "light"),
        ((1600, 700), false, "wide"),
        ((800, 900), true, "dark"),
        ((1600, 700), true, "web"),
    ] {
        browser.show(size, is_dark);
        browser.until("return document.body.clientWidth === window.innerWidth || document.body.clientWidth + 15 >= window.innerWidth");
        // it is drawn anew some time after the scheme has changed
        browser.until(&format!("return typeof (() => {{ {COLOURS} }})() === 'string'"));
        let colour = browser.run(COLOURS);
        assert!(colour.is_string(), "{name}: {colour}");
        colours.push(colour);
        let wide = browser.run("return document.documentElement.scrollWidth <= window.innerWidth");
        assert_eq!(wide, true, "{name}: it is too wide");
        let picture = browser.picture();
        assert!(picture.starts_with(b"\x89PNG"), "{name}");
        if let Some(dir) = std::env::var_os("PMIX_PICTURES") {
            std::fs::write(std::path::Path::new(&dir).join(format!("{name}.png")), picture).unwrap();
        }
    }
    assert!(colours[0] == colours[1] && colours[0] != colours[2] && colours[2] == colours[3], "{colours:?}");
    // what lies below the pointer is told in words
    let told = "const canvas = document.querySelector('canvas');
        canvas.focus();
        for (const key of ['ArrowRight', 'ArrowRight']) canvas.dispatchEvent(new KeyboardEvent('keydown', {key}));
        return document.querySelector('.at').innerText";
    let told = browser.run(told);
    assert!(told.as_str().unwrap().starts_with("rank 1 on "), "{told}");
    // names are text, whatever they contain; many ranks are drawn at once
    let many = "showState({server: 's', host: 'h', states: [{name: 'RUNNING', group: 'running'}, {name: 'ABORTED', group: 'failed'}],
        jobs: [{nspace: '<img src=x onerror=\"document.title=1\">', ranks: [[0, 10000]], nodes: [['n', 10000]],
        states: Array.from({length: 5000}, (_, i) => [i % 2, 2])}]});
        return [Number(document.documentElement.dataset.drawn), document.querySelectorAll('img').length,
        document.querySelector('canvas').clientHeight]";
    let drawn = browser.run(many);
    assert!(drawn[0].as_f64().unwrap() < 200.0, "{drawn}");
    assert_eq!(drawn[1], 0);
    assert!(drawn[2].as_f64().unwrap() < 400.0, "{drawn}");
    // the end of the command is told
    rig.end().await;
    browser.until("return document.getElementById('live').className === 'bad'");
}
