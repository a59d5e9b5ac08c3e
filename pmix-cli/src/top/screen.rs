//! The terminal while it is ours, and how its user gets it back.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;
use std::{panic, thread};

use crossterm::cursor::{Hide, Show};
use crossterm::event::{self, Event};
use crossterm::execute;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::super::named::Named;

/// How long the last picture may take when all ends.
const LAST_PICTURE: Duration = Duration::from_secs(1);

/// The terminal in raw mode, with a screen of its own; as it was when this is dropped, or the program panics.
#[derive(Debug)]
pub(super) struct Screen {
    /// It takes nothing more, and would hold up the end.
    is_stuck: bool,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            restore();
            before(panic);
        }));
        enable_raw_mode()?;
        // from here on it is restored, whatever fails
        let screen = Self { is_stuck: false };
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        Ok(screen)
    }

    /// Gives the terminal back once all pictures are written.
    pub(super) async fn close(mut self, painter: Painter) {
        drop(painter.pictures);
        self.is_stuck = timeout(LAST_PICTURE, painter.outcome).await.is_err();
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if self.is_stuck {
            let _ = disable_raw_mode();
        } else {
            restore();
        }
    }
}

/// A terminal that is gone needs nothing.
fn restore() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
    let _ = io::stdout().flush();
}

/// What a picture changes on the terminal, as it is drawn.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture(Rc<RefCell<Vec<u8>>>);

impl Picture {
    pub(super) fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

impl Write for Picture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A thread that writes pictures: a terminal that takes none, such as that of a connection that stalls, must hold back neither
/// keys nor signals.
#[derive(Debug)]
pub(super) struct Painter {
    pictures: mpsc::Sender<Vec<u8>>,
    outcome: oneshot::Receiver<io::Result<()>>,
}

impl Painter {
    /// Writes to standard output, not through its lock, which others hold.
    pub(super) fn start() -> io::Result<Self> {
        let mut out = Named::stdout(File::from(io::stdout().as_fd().try_clone_to_owned()?));
        // the next one is drawn once there is room for it, from what is known then
        let (pictures, mut received) = mpsc::channel::<Vec<u8>>(1);
        let (told, outcome) = oneshot::channel();
        thread::Builder::new().name("picture".into()).spawn(move || {
            let mut write = || {
                while let Some(picture) = received.blocking_recv() {
                    out.write_all(&picture)?;
                }
                Ok(())
            };
            let written = write();
            drop(received);
            // who does not wait for it is about to exit
            drop(told.send(written));
        })?;
        Ok(Self { pictures, outcome })
    }

    /// Room for a picture. Fails if the terminal is gone. Cancel-safe.
    pub(super) async fn room(&mut self) -> io::Result<mpsc::Permit<'_, Vec<u8>>> {
        match self.pictures.reserve().await {
            Ok(room) => Ok(room),
            Err(_) => Err(match (&mut self.outcome).await {
                Ok(Err(error)) => error,
                _ => io::Error::other("the thread that writes pictures has failed"),
            }),
        }
    }
}

/// What its user types, and changes of its size, read by a thread that ends with the program.
pub(super) fn input() -> mpsc::Receiver<io::Result<Event>> {
    // a user is slower than this
    let (sender, receiver) = mpsc::channel(16);
    thread::spawn(move || {
        loop {
            let event = event::read();
            let is_over = event.is_err();
            if sender.blocking_send(event).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}
