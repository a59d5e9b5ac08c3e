//! A browser without a window, driven by WebDriver: Chromium of the distribution.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pmix_test_wait::{LIMIT, block_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{on_path, skipped};

/// A browser with one page. Ends when dropped.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts it; `None`, with a line on standard error, if it is not installed, or does not work.
    ///
    /// # Panics
    /// If it is not there and `PMIX_REQUIRE_PEERS` is set.
    pub fn start() -> Option<Self> {
        let how = "apt-get install chromium chromium-driver";
        let (driver, chromium) = (on_path("chromedriver", how)?, on_path("chromium", how)?);
        let profile = tempfile::tempdir().unwrap();
        let mut command = Command::new(driver);
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = command.env("HOME", profile.path()).spawn().unwrap();
        let mut said = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = said.find_map(|line| {
            let line = line.ok()?;
            let (_, port) = line.split_once("successfully on port ")?;
            port.trim_end_matches('.').parse().ok()
        });
        let port = port.unwrap_or_default();
        let mut browser = Self { driver, port, session: String::new(), _profile: profile };
        let data = format!("--user-data-dir={}", browser._profile.path().display());
        let options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            &data,
        ];
        let chrome = json!({"binary": chromium, "args": options});
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": chrome}}});
        let made = browser.try_ask("POST", "/session", Some(&wanted));
        let Some(session) = made.as_ref().ok().and_then(|made| made["value"]["sessionId"].as_str()) else {
            skipped(&format!("chromedriver that works with the chromium that is installed: {made:?}"));
            return None;
        };
        browser.session = format!("/session/{session}");
        Some(browser)
    }

    /// Opens an address.
    pub fn open(&self, url: &str) {
        self.ask("POST", &self.of("/url"), Some(&json!({"url": url})));
    }

    /// Has pages that are opened from now on run a script before their own.
    pub fn first_run(&self, script: &str) {
        self.command("Page.addScriptToEvaluateOnNewDocument", &json!({"source": script}));
    }

    /// What a script on the page returns.
    pub fn run(&self, script: &str) -> Value {
        self.ask("POST", &self.of("/execute/sync"), Some(&json!({"script": script, "args": []})))
    }

    /// Waits until a script on the page returns true.
    pub fn until(&self, script: &str) {
        let look = || match self.run(script) {
            Value::Bool(true) => Ok(()),
            _ => Err(self.run("return document.body.innerText")),
        };
        block_until(format!("it is so on the page: {script}"), look);
    }

    /// Gives the page so many pixels, and the colours that the user likes.
    pub fn show(&self, (width, height): (u32, u32), is_dark: bool) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.command("Emulation.setDeviceMetricsOverride", &size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.command("Emulation.setEmulatedMedia", &features);
    }

    /// The page as PNG.
    pub fn picture(&self) -> Vec<u8> {
        STANDARD.decode(self.ask("GET", &self.of("/screenshot"), None).as_str().unwrap()).unwrap()
    }

    fn command(&self, name: &str, parameters: &Value) {
        let command = json!({"cmd": name, "params": parameters});
        self.ask("POST", &self.of("/goog/cdp/execute"), Some(&command));
    }

    fn of(&self, path: &str) -> String {
        format!("{}{path}", self.session)
    }

    /// Asks the driver; what it answers.
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let answer = self.try_ask(method, path, body).unwrap();
        assert!(answer["value"]["error"].is_null(), "{method} {path}: {answer}");
        answer["value"].clone()
    }

    fn try_ask(&self, method: &str, path: &str, body: Option<&Value>) -> std::io::Result<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        let body = body.map(Value::to_string).unwrap_or_default();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            let header = line.to_lowercase();
            if let Some(said) = header.strip_prefix("content-length:") {
                length = said.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body)?;
        Ok(serde_json::from_slice(&body)?)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let _ = self.try_ask("DELETE", &self.session, None);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
