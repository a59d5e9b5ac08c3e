//! Standard output and error of a command, each written by its own thread: a reader that is slow or stuck delays the output
//! of the ranks, but neither the server nor the other channel.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytes::Bytes;
use pmix_host::OutputChannel;
use pmix_types::{ProcId, escaped, without_os_codes};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::termios::tcgetwinsize;
use tokio::sync::{mpsc, oneshot};

use crate::cli::{Format, Talk};
use crate::files::{Files, Unwritten};

/// Pieces on their way to a thread.
const QUEUE: usize = 16;

/// How long a silenced console waits for its readers at its end.
const LAST: Duration = Duration::from_secs(1);

/// The outputs of a command.
#[derive(Debug)]
pub(crate) struct Console {
    out: Stream,
    err: Stream,
    /// The last output did not end its line.
    inside: bool,
    /// Files for the output of ranks.
    files: Option<Files>,
    /// Whether that output is printed, too.
    is_shown: bool,
    /// Whether output of ranks is discarded.
    is_silent: bool,
    /// The command, as its messages begin.
    name: &'static str,
    talk: Talk,
    progress: Progress,
}

impl Console {
    pub(crate) fn start(name: &'static str, talk: Talk) -> io::Result<Self> {
        Ok(Self {
            out: Stream::start("stdout", io::stdout().as_fd().try_clone_to_owned()?)?,
            err: Stream::start("stderr", io::stderr().as_fd().try_clone_to_owned()?)?,
            inside: false,
            files: None,
            is_shown: true,
            is_silent: false,
            name,
            talk,
            progress: Progress::new(talk),
        })
    }

    /// Writes the output of ranks to files from now on, if the format asks for it.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub(crate) fn keep(&mut self, format: &Format, ranks: usize) -> io::Result<()> {
        if let Some(layout) = &format.files {
            self.files = Some(Files::start(layout.clone(), ranks)?);
            self.is_shown = format.is_shown();
        }
        Ok(())
    }

    /// Takes a piece of output of a process.
    pub(crate) fn put_output(&mut self, proc: &ProcId, channel: OutputChannel, piece: Bytes) {
        if self.is_silent {
            return;
        }
        if let (Some(files), false) = (&mut self.files, piece.is_empty()) {
            files.put(proc, channel, piece.clone());
        }
        if self.is_shown {
            self.put(channel, piece);
        }
    }

    /// Takes a piece to be written at once.
    pub(crate) fn put(&mut self, channel: OutputChannel, piece: Bytes) {
        match channel {
            _ if piece.is_empty() => {}
            OutputChannel::Stdout => {
                self.inside = !piece.ends_with(b"\n");
                self.out.put(piece);
            }
            OutputChannel::Stderr => {
                self.end_progress();
                self.err.put(piece);
            }
        }
    }

    /// Takes a message of the command itself. It is printed as one line, with control characters escaped, as it may contain text
    /// of others.
    pub(crate) fn say(&mut self, message: impl std::fmt::Display) {
        let line = format!("{}: {}\n", self.name, escaped(&without_os_codes(&message.to_string())));
        self.put(OutputChannel::Stderr, line.into());
    }

    /// Takes a message that `--quiet` suppresses, because the exit code says the same.
    pub(crate) fn tell(&mut self, message: impl std::fmt::Display) {
        if self.talk != Talk::Little {
            self.say(message);
        }
    }

    /// Shows on a terminal how far something is, in place of what was shown before; nothing is shown elsewhere, or if the user
    /// wants few messages.
    pub(crate) fn show_progress(&mut self, text: &str) {
        self.err.put(self.progress.show(text));
    }

    /// Removes it.
    pub(crate) fn end_progress(&mut self) {
        self.err.put(self.progress.show(""));
    }

    /// Takes a line for standard output, which starts on a new line.
    pub(crate) fn put_line(&mut self, line: &str) {
        let start = if self.inside { "\n" } else { "" };
        self.put(OutputChannel::Stdout, Bytes::from(format!("{start}{line}\n")));
    }

    /// Whether pieces are waiting for a thread: then no more should be added. Nothing waits for a silenced console.
    pub(crate) fn is_behind(&self) -> bool {
        !self.is_silent
            && (self.out.is_behind()
                || self.err.is_behind()
                || self.files.as_ref().is_some_and(Files::is_behind))
    }

    /// Passes a waiting piece to its thread. Cancel-safe.
    ///
    /// # Errors
    /// Standard output cannot be written; nothing more is written there.
    pub(crate) async fn advance(&mut self) -> io::Result<()> {
        tokio::select! {
            written = self.out.advance(), if self.out.is_behind() => written,
            // there is nowhere to report an error of standard error
            _ = self.err.advance(), if self.err.is_behind() => Ok(()),
            unwritten = advance(&mut self.files) => {
                if let Some(unwritten) = unwritten {
                    self.take_back(unwritten);
                }
                Ok(())
            }
        }
    }

    /// Prints output that could not be written to its file, unless it was printed already.
    fn take_back(&mut self, Unwritten { problem, channel, data }: Unwritten) {
        if let Some(problem) = problem {
            self.say(problem);
        }
        if !self.is_shown {
            self.put(channel, data);
        }
    }

    /// Discards what is not written yet and all later output of ranks. Later messages of the command are still written.
    pub(crate) fn silence(&mut self) {
        self.is_silent = true;
        self.out.waiting.clear();
        self.err.waiting.clear();
        if let Some(files) = &mut self.files {
            files.silence();
        }
    }

    /// Waits until everything is written; if silenced, for a second at most. Tells why standard output cannot be written, unless
    /// its reader has gone away.
    ///
    /// # Errors
    /// As for [`advance`](Self::advance).
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        if self.is_silent {
            return tokio::time::timeout(LAST, self.finish_all()).await.unwrap_or(Ok(()));
        }
        self.finish_all().await
    }

    async fn finish_all(&mut self) -> io::Result<()> {
        while let Some(files) = &mut self.files
            && let Some(unwritten) = files.finish().await
        {
            self.take_back(unwritten);
        }
        let (written, _) = tokio::join!(self.out.finish(), self.err.pass_all());
        if let Err(error) = &written
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            self.say(format_args!("cannot write to standard output: {error}"));
        }
        // there is nowhere to report an error of standard error
        let _ = self.err.finish().await;
        written
    }
}

async fn advance(files: &mut Option<Files>) -> Option<Unwritten> {
    match files {
        Some(files) => files.advance().await,
        None => std::future::pending().await,
    }
}

/// A text on a terminal that is rewritten in place.
#[derive(Debug)]
struct Progress {
    /// Columns of the terminal; `None` where nothing is shown.
    width: Option<usize>,
    /// Columns of what is shown.
    shown: usize,
}

impl Progress {
    fn new(talk: Talk) -> Self {
        let is_wanted = talk != Talk::Little && io::stderr().is_terminal();
        let width = || tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col.into());
        Self { width: is_wanted.then(width), shown: 0 }
    }

    /// The bytes that replace what is shown by a text. The cursor is left at the beginning of the line, so that what others
    /// write to the terminal meanwhile takes the place of the text and is not appended to it.
    fn show(&mut self, text: &str) -> Bytes {
        let columns = text.chars().count();
        match self.width {
            // a line that wraps could not be rewritten; some terminals do not tell their width
            Some(width) if width == 0 || columns < width => {}
            _ => return Bytes::new(),
        }
        if columns == 0 && self.shown == 0 {
            return Bytes::new();
        }
        let rest = " ".repeat(self.shown.saturating_sub(columns));
        self.shown = columns;
        format!("{text}{rest}\r").into()
    }
}

/// One channel and its thread.
#[derive(Debug)]
struct Stream {
    waiting: VecDeque<Bytes>,
    /// `None` once nothing more is to be written.
    writer: Option<mpsc::Sender<Bytes>>,
    result: oneshot::Receiver<io::Result<()>>,
}

impl Stream {
    fn start(name: &str, file: OwnedFd) -> io::Result<Self> {
        let mut file = File::from(file);
        let (writer, mut pieces) = mpsc::channel::<Bytes>(QUEUE);
        let (finished, result) = oneshot::channel();
        std::thread::Builder::new().name(name.into()).spawn(move || {
            let written = loop {
                let Some(piece) = pieces.blocking_recv() else { break Ok(()) };
                if let Err(error) = write_all(&mut file, &piece) {
                    break Err(error);
                }
            };
            let _ = finished.send(written);
        })?;
        Ok(Self { waiting: VecDeque::new(), writer: Some(writer), result })
    }

    /// Passes a piece to the thread, or keeps it until there is room.
    fn put(&mut self, piece: Bytes) {
        let Some(writer) = &self.writer else { return };
        if piece.is_empty() {
            return;
        }
        let piece = match writer.try_reserve() {
            Ok(room) if self.waiting.is_empty() => return room.send(piece),
            // an error is found by whoever waits for room
            _ => piece,
        };
        self.waiting.push_back(piece);
    }

    fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    async fn advance(&mut self) -> io::Result<()> {
        let Some(writer) = &self.writer else { return Ok(()) };
        if let Ok(room) = writer.reserve().await {
            if let Some(piece) = self.waiting.pop_front() {
                room.send(piece);
            }
            return Ok(());
        }
        let result = self.outcome().await;
        self.waiting.clear();
        self.writer = None;
        result
    }

    /// Passes everything that waits to the thread.
    async fn pass_all(&mut self) -> io::Result<()> {
        while self.is_behind() {
            self.advance().await?;
        }
        Ok(())
    }

    async fn finish(&mut self) -> io::Result<()> {
        self.pass_all().await?;
        // the thread ends when it has written everything
        if self.writer.take().is_some() { self.outcome().await } else { Ok(()) }
    }

    /// The result of the thread, which must have been told to end.
    async fn outcome(&mut self) -> io::Result<()> {
        (&mut self.result).await.unwrap_or_else(|_| Err(io::Error::other("the console thread is gone")))
    }
}

/// Writes everything, even if another process that shares the file has made it non-blocking.
fn write_all(file: &mut File, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match file.write(data) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => data = data.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                retry_on_intr(|| poll(&mut [PollFd::new(&*file, PollFlags::OUT)], None))?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use pmix_types::Rank;

    use super::*;

    fn console(out: OwnedFd, err: OwnedFd) -> Console {
        let (out, err) = (Stream::start("stdout", out).unwrap(), Stream::start("stderr", err).unwrap());
        let progress = Progress { width: None, shown: 0 };
        let (name, talk) = ("pmixrun", Talk::Usual);
        Console {
            out,
            err,
            inside: false,
            files: None,
            is_shown: true,
            is_silent: false,
            name,
            talk,
            progress,
        }
    }

    #[tokio::test]
    async fn a_silenced_console_discards_output_of_ranks_and_still_says_why_the_command_fails() {
        let ((mut out, out_end), (mut err, err_end)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let mut console = console(out_end.into(), err_end.into());
        let rank = ProcId::new("job".parse().unwrap(), Rank::from_raw(0));
        console.put_output(&rank, OutputChannel::Stdout, "before\n".into());
        console.silence();
        console.put_output(&rank, OutputChannel::Stdout, "after\n".into());
        console.put_output(&rank, OutputChannel::Stderr, "after\n".into());
        console.say("the head is gone");
        console.put_line("{}");
        console.finish().await.unwrap();
        drop(console);
        let (mut outs, mut errs) = (String::new(), String::new());
        out.read_to_string(&mut outs).unwrap();
        err.read_to_string(&mut errs).unwrap();
        assert_eq!((outs.as_str(), errs.as_str()), ("before\n{}\n", "pmixrun: the head is gone\n"));
    }

    #[tokio::test]
    async fn a_silenced_console_does_not_wait_for_a_reader_that_never_reads() {
        let ((_out, out_end), (_err, err_end)) = (io::pipe().unwrap(), io::pipe().unwrap());
        let mut console = console(out_end.into(), err_end.into());
        let rank = ProcId::new("job".parse().unwrap(), Rank::from_raw(0));
        for channel in [OutputChannel::Stdout, OutputChannel::Stderr] {
            console.put_output(&rank, channel, vec![b'x'; 1 << 20].into());
        }
        console.silence();
        (0..2 * QUEUE).for_each(|_| console.say("the head is gone"));
        assert!(!console.is_behind(), "the reports of the job go on");
        console.finish().await.unwrap();
    }

    /// What a terminal shows in its line after these bytes.
    fn line(bytes: &[u8]) -> String {
        let (mut cells, mut column) = (Vec::new(), 0);
        for byte in bytes {
            match byte {
                b'\r' => column = 0,
                _ => {
                    cells.resize(cells.len().max(column + 1), b' ');
                    cells[column] = *byte;
                    column += 1;
                }
            }
        }
        String::from_utf8(cells).unwrap().trim_end().to_owned()
    }

    #[test]
    fn a_text_is_rewritten_in_place_and_nothing_of_it_stays() {
        let mut progress = Progress { width: Some(80), shown: 0 };
        assert!(progress.show("").is_empty());
        let mut all = progress.show("10 of 12 ready").to_vec();
        assert_eq!(line(&all), "10 of 12 ready");
        all.extend(progress.show("1 of 2"));
        assert_eq!(line(&all), "1 of 2");
        all.extend(progress.show(""));
        assert_eq!(line(&all), "");
        assert!(progress.show("").is_empty());
        // what others write takes the place of the text
        all.extend(progress.show("1 of 2"));
        all.extend(b"a message of others");
        assert_eq!(line(&all), "a message of others");
    }

    #[test]
    fn a_text_that_would_wrap_is_not_shown() {
        let mut progress = Progress { width: Some(6), shown: 0 };
        assert!(progress.show("1 of 2").is_empty() && progress.show("").is_empty());
        assert_eq!(&progress.show("1 of2")[..], b"1 of2\r");
        assert!(Progress { width: None, shown: 0 }.show("1").is_empty());
        assert_eq!(&Progress { width: Some(0), shown: 0 }.show("1")[..], b"1\r");
    }
}
