use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use pmix_test_wait::{LIMIT, within};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

/// How often to look whether something is so while nothing is shown.
const LOOK: Duration = Duration::from_millis(10);

/// A command in a terminal of its own, which `script` opens. Ends when dropped.
#[derive(Debug)]
pub struct Terminal {
    script: Child,
    keys: ChildStdin,
    picture: ChildStdout,
    seen: String,
}

impl Terminal {
    /// Has a shell become this command, in so many columns and lines. The environment is that of `script`.
    pub fn open(mut script: Command, line: &str, (columns, lines): (u16, u16)) -> Self {
        let line = format!("stty cols {columns} rows {lines}; exec {line}");
        let (end, keys) = std::io::pipe().unwrap();
        script.args(["-qefc", &line, "/dev/null"]).env("TERM", "xterm").stdin(end).stdout(Stdio::piped());
        let mut script = tokio::process::Command::from(script).kill_on_drop(true).spawn().unwrap();
        let picture = script.stdout.take().unwrap();
        let keys = OwnedFd::from(keys).into();
        Self { script, keys, picture, seen: String::new() }
    }

    /// Types these keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads until these words are shown; blanks are not written, and what does not change is not written again.
    pub async fn until(&mut self, words: &str) {
        let read = async {
            loop {
                if let Some(place) = self.seen.find(words) {
                    self.seen.drain(..place + words.len());
                    return;
                }
                assert!(self.read().await > 0, "it ended without {words:?}: {:?}", self.seen);
            }
        };
        let outcome = timeout(LIMIT, read).await;
        assert!(outcome.is_ok(), "{words:?} does not come: {:?}", self.seen);
    }

    /// Takes what is shown until something is so.
    pub async fn while_not(&mut self, mut is_so: impl FnMut() -> bool) {
        within(async {
            while !is_so() {
                if let Ok(count) = timeout(LOOK, self.read()).await {
                    assert!(count > 0, "it ended: {:?}", self.seen);
                }
                self.seen.clear();
            }
        })
        .await;
    }

    async fn read(&mut self) -> usize {
        let mut bytes = [0; 4096];
        let count = self.picture.read(&mut bytes).await.unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&bytes[..count]));
        count
    }

    /// The process id of `script`.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.script.id().expect("it has ended")).unwrap()
    }

    /// Has the terminal go away.
    pub async fn go_away(&mut self) {
        self.script.kill().await.unwrap();
    }

    /// Its exit code, and all that it had still to show.
    pub async fn end(mut self) -> (Option<i32>, String) {
        let mut rest = Vec::new();
        let all = async {
            self.picture.read_to_end(&mut rest).await.unwrap();
            self.script.wait().await.unwrap()
        };
        let status = within(all).await;
        (status.code(), String::from_utf8_lossy(&rest).into_owned())
    }
}
