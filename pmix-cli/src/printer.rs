//! A thread that writes what a command goes on printing: a slow reader must hold back neither the connection nor signals.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use pmix_tool::{OutputChunk, OutputFormat, OutputWriter};
use tokio::sync::{mpsc, oneshot};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::message;
use super::named::{Guarded, Named, about};
use super::signals::Signals;

/// Items that wait for the reader; what comes before them is held, and dropped, by the subscription.
const WAITING: usize = 16;

/// How long the reader may pause once a signal has ended the command; what it has not taken by then is dropped.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// What is to be written.
#[derive(Debug)]
pub(super) enum Item {
    Chunk(OutputChunk),
    /// Lines for standard output.
    Text(Vec<u8>),
    /// A message between lines, for people.
    Note(String),
}

/// The thread, which ends when it is finished, or when it cannot write.
#[derive(Debug)]
pub(super) struct Printer {
    items: mpsc::Sender<Item>,
    outcome: oneshot::Receiver<io::Result<()>>,
}

impl Printer {
    /// Writes to standard output and error. Not through their locks, which others hold. If standard output `goes_on`, its last line
    /// is ended.
    pub(super) fn start(format: OutputFormat, goes_on: bool) -> io::Result<Self> {
        Self::spawn(format, goes_on, false).map_err(about("cannot begin to write"))
    }

    /// Writes output of another user's processes: escapes what would control a terminal.
    pub(super) fn of_another(format: OutputFormat) -> io::Result<Self> {
        Self::spawn(format, false, true).map_err(about("cannot begin to write"))
    }

    fn spawn(format: OutputFormat, goes_on: bool, guards: bool) -> io::Result<Self> {
        let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        let err = File::from(io::stderr().as_fd().try_clone_to_owned()?);
        let guards = [guards && out.is_terminal(), guards && err.is_terminal()];
        let (items, received) = mpsc::channel(WAITING);
        let (told, outcome) = oneshot::channel();
        let notes = err.try_clone()?;
        thread::Builder::new().name("output".into()).spawn(move || {
            // who does not wait for the outcome is about to exit
            let is_inside = Cell::new(false);
            let tracked = Named::stdout(Tracked { file: &out, is_inside: &is_inside });
            let [out_guarded, err_guarded] = guards;
            let tracked = Guarded::new(tracked, out_guarded);
            let writer = OutputWriter::new(format, tracked, Guarded::new(Named::stderr(err), err_guarded));
            let written = write(writer, &mut Named::stdout(&out), notes, received);
            let ended = written.and_then(|()| match goes_on && is_inside.get() {
                true => Named::stdout(&out).write_all(b"\n"),
                false => Ok(()),
            });
            drop(told.send(ended));
        })?;
        Ok(Self { items, outcome })
    }

    /// Takes an item as soon as there is room for it; returns false if the thread cannot write. Cancel-safe.
    pub(super) async fn take(&self, item: &mut Option<Item>) -> bool {
        self.take_from(|| item.take()).await
    }

    /// The same for the next of several.
    pub(super) async fn take_from(&self, mut next: impl FnMut() -> Option<Item>) -> bool {
        match self.items.reserve().await {
            Ok(room) => {
                if let Some(item) = next() {
                    room.send(item);
                }
                true
            }
            Err(_) => false,
        }
    }

    /// Hands over an item; returns false if the thread cannot write.
    pub(super) async fn print(&self, item: Item) -> bool {
        self.take(&mut Some(item)).await
    }

    /// Waits until the thread cannot write. Cancel-safe.
    pub(super) async fn has_failed(&self) {
        self.items.closed().await;
    }

    /// Hands over the rest and waits until all is written, unless a signal ends the command before: `None`. If one has come already,
    /// the reader may not pause.
    pub(super) async fn finish_or_leave(
        self,
        rest: impl IntoIterator<Item = Item>,
        signals: &mut Signals,
    ) -> Option<io::Result<()>> {
        let pause = if signals.have_ended() { PAUSE } else { Duration::MAX };
        tokio::select! {
            written = self.finish_within(rest, pause) => written.ok(),
            _ = signals.interrupted() => None,
        }
    }

    /// The time is that of each item: a reader may be slow.
    async fn finish_within(
        self,
        rest: impl IntoIterator<Item = Item>,
        pause: Duration,
    ) -> Result<io::Result<()>, Elapsed> {
        for item in rest {
            timeout(pause, self.print(item)).await?;
        }
        for free in 1..=WAITING {
            // it fails if the thread does, which says why
            drop(timeout(pause, self.items.reserve_many(free)).await?);
        }
        timeout(pause, self.finish()).await
    }

    /// Waits until all is written.
    pub(super) async fn finish(self) -> io::Result<()> {
        drop(self.items);
        self.outcome
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the thread that writes output has failed")))
    }
}

/// A file of which is known whether its last line has ended.
struct Tracked<'a> {
    file: &'a File,
    is_inside: &'a Cell<bool>,
}

impl Write for Tracked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        if let Some(last) = count.checked_sub(1).and_then(|last| bytes.get(last)) {
            self.is_inside.set(*last != b'\n');
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn write(
    mut writer: OutputWriter<Guarded<Named<Tracked<'_>>>, Guarded<Named<File>>>,
    out: &mut Named<&File>,
    mut notes: File,
    mut items: mpsc::Receiver<Item>,
) -> io::Result<()> {
    while let Some(item) = items.blocking_recv() {
        match item {
            Item::Chunk(chunk) => writer.write(&chunk)?,
            Item::Text(text) => out.write_all(&text)?,
            // a closed standard error is no reason to fail
            Item::Note(note) => drop(writeln!(notes, "{}", message(&note))),
        }
    }
    writer.finish()
}
