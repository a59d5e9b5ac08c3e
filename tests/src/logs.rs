use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use tokio::sync::watch;

use crate::within;

/// Log lines of this process from warnings on, of all tests in it: servers log from threads of their own.
#[derive(Debug)]
pub struct Logs {
    from: usize,
}

#[derive(Debug, Default)]
struct Lines {
    text: Mutex<String>,
    grown: watch::Sender<()>,
}

static LINES: OnceLock<Lines> = OnceLock::new();

impl Logs {
    /// Lines that are logged from now on.
    pub fn start() -> Self {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(|| {
            let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(|| Appender);
            subscriber.with_max_level(tracing::Level::WARN).init();
        });
        Self { from: lines().text().len() }
    }

    /// Waits for a line that has all of these words, and gives it.
    pub async fn line_with(&self, words: &[&str]) -> String {
        let mut grown = lines().grown.subscribe();
        within(async {
            loop {
                if let Some(line) = self.find(words) {
                    return line;
                }
                grown.changed().await.unwrap();
            }
        })
        .await
    }

    /// Whether no line has this word.
    pub fn none_with(&self, word: &str) -> bool {
        self.find(&[word]).is_none()
    }

    /// How many lines have all of these words.
    pub fn count_with(&self, words: &[&str]) -> usize {
        let text = lines().text();
        text[self.from..].lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }

    fn find(&self, words: &[&str]) -> Option<String> {
        let text = lines().text();
        let mut found = text[self.from..].lines().filter(|line| words.iter().all(|word| line.contains(word)));
        found.next().map(str::to_owned)
    }
}

fn lines() -> &'static Lines {
    LINES.get_or_init(Lines::default)
}

impl Lines {
    fn text(&self) -> MutexGuard<'_, String> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes to the lines of this process.
struct Appender;

impl Write for Appender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lines().text().push_str(&String::from_utf8_lossy(bytes));
        lines().grown.send_replace(());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
