//! Writes the output of ranks to files in a separate thread, so that a slow disk delays the output but not the server.
//! Output that cannot be written is handed back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use pmix_host::OutputChannel;
use pmix_proto::files::{self, Existing};
use pmix_types::ProcId;
use tokio::sync::mpsc;

use crate::cli::Layout;

/// Pieces on their way to the thread.
const QUEUE: usize = 16;

/// Most files kept open; a job may have more files than a process can open.
const OPEN: usize = 64;

/// The files of a job and its children.
#[derive(Debug)]
pub(crate) struct Files {
    layout: Layout,
    /// Number of ranks, for names that sort by rank.
    ranks: usize,
    waiting: VecDeque<Piece>,
    /// `None` once nothing more is to be written.
    writer: Option<mpsc::Sender<Piece>>,
    unwritten: mpsc::UnboundedReceiver<Unwritten>,
}

/// A piece of output to be written.
#[derive(Debug)]
struct Piece {
    path: PathBuf,
    channel: OutputChannel,
    data: Bytes,
}

/// Output that could not be written.
#[derive(Debug)]
pub(crate) struct Unwritten {
    /// The message about the file, the first time.
    pub(crate) problem: Option<String>,
    pub(crate) channel: OutputChannel,
    pub(crate) data: Bytes,
}

impl Files {
    /// Creates the directory and the thread.
    ///
    /// # Errors
    /// Either cannot be created.
    pub(crate) fn start(layout: Layout, ranks: usize) -> io::Result<Self> {
        let directory = match &layout {
            Layout::Directory(directory) => directory,
            Layout::Named(name) => name.parent().unwrap_or(name),
        };
        let failed = |error: io::Error| match error.kind() {
            // it exists, and is not a directory
            kind @ io::ErrorKind::AlreadyExists => {
                io::Error::new(kind, format!("{} is not a directory", directory.display()))
            }
            kind => io::Error::new(kind, format!("{}: {error}", directory.display())),
        };
        files::create_dir_all(directory, 0o777).map_err(failed)?;
        let (writer, mut pieces) = mpsc::channel::<Piece>(QUEUE);
        let (returns, unwritten) = mpsc::unbounded_channel();
        std::thread::Builder::new().name("files".into()).spawn(move || {
            let mut shelf = Shelf::default();
            while let Some(piece) = pieces.blocking_recv() {
                if let Some(unwritten) = shelf.write(piece) {
                    let _ = returns.send(unwritten);
                }
            }
        })?;
        Ok(Self { layout, ranks, waiting: VecDeque::new(), writer: Some(writer), unwritten })
    }

    /// Takes output of a process.
    pub(crate) fn put(&mut self, proc: &ProcId, channel: OutputChannel, data: Bytes) {
        if self.writer.is_some() {
            let path = self.path(proc, channel);
            self.waiting.push_back(Piece { path, channel, data });
        }
    }

    /// Whether pieces are waiting for the thread: then no more should be added.
    pub(crate) fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Passes a waiting piece to the thread, or returns output that could not be written. Cancel-safe.
    pub(crate) async fn advance(&mut self) -> Option<Unwritten> {
        let Some(writer) = &self.writer else { return std::future::pending().await };
        tokio::select! {
            biased;
            Some(unwritten) = self.unwritten.recv() => Some(unwritten),
            room = writer.reserve(), if !self.waiting.is_empty() => {
                // the thread ends only after this sender is gone
                if let (Ok(room), Some(piece)) = (room, self.waiting.pop_front()) {
                    room.send(piece);
                }
                None
            }
            else => std::future::pending().await,
        }
    }

    /// Waits until everything is written. Returns output that could not be, piece by piece, then `None`. Cancel-safe.
    pub(crate) async fn finish(&mut self) -> Option<Unwritten> {
        while self.is_behind() {
            if let Some(unwritten) = self.advance().await {
                return Some(unwritten);
            }
        }
        // the thread ends when it has written everything
        self.writer = None;
        self.unwritten.recv().await
    }

    /// Discards output that is not written yet, and all later output.
    pub(crate) fn silence(&mut self) {
        self.waiting.clear();
        self.writer = None;
    }

    fn path(&self, proc: &ProcId, channel: OutputChannel) -> PathBuf {
        let nspace = match proc.nspace.as_str() {
            // it must stay within its directory
            "." | ".." => "_".to_owned(),
            name => name.replace('/', "_"),
        };
        // as many digits as prterun writes
        let width = self.ranks.to_string().len();
        let rank = format!("{:0width$}", proc.rank.to_raw());
        let (whole, short) = match channel {
            OutputChannel::Stdout => ("stdout", "out"),
            OutputChannel::Stderr => ("stderr", "err"),
        };
        match &self.layout {
            Layout::Directory(directory) => directory.join(nspace).join(format!("rank.{rank}")).join(whole),
            Layout::Named(name) => {
                let mut name = name.clone().into_os_string();
                name.push(format!(".{nspace}.{rank}.{short}"));
                name.into()
            }
        }
    }
}

/// The open files of the thread.
#[derive(Debug, Default)]
struct Shelf {
    open: BTreeMap<PathBuf, File>,
    begun: BTreeSet<PathBuf>,
    /// Files that could not be written; their output is handed back.
    broken: BTreeSet<PathBuf>,
}

impl Shelf {
    fn write(&mut self, Piece { path, channel, mut data }: Piece) -> Option<Unwritten> {
        if self.broken.contains(&path) {
            return Some(Unwritten { problem: None, channel, data });
        }
        let written = self.open(&path).and_then(|file| {
            while !data.is_empty() {
                match file.write(&data) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    // do not write a part twice
                    Ok(count) => drop(data.split_to(count)),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        let error = written.err()?;
        self.open.remove(&path);
        let problem = Some(format!(
            "cannot write to {}: {error}; printing the rest of its output here",
            path.display()
        ));
        self.broken.insert(path);
        Some(Unwritten { problem, channel, data })
    }

    /// Truncates a file the first time.
    fn open(&mut self, path: &Path) -> io::Result<&mut File> {
        if !self.open.contains_key(path) {
            let file = match self.begun.contains(path) {
                true => files::open(path, Existing::Appended, 0o666)?,
                false => {
                    files::create_dir_all(path.parent().unwrap_or(path), 0o777)?;
                    files::open(path, Existing::Truncated, 0o666)?
                }
            };
            self.begun.insert(path.to_owned());
            if self.open.len() >= OPEN {
                self.open.clear();
            }
            self.open.insert(path.to_owned(), file);
        }
        self.open.get_mut(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

#[cfg(test)]
mod tests {
    use pmix_types::{Nspace, Rank};

    use super::*;

    fn proc(nspace: &str, rank: u32) -> ProcId {
        ProcId::new(Nspace::new(nspace).unwrap(), Rank::from_raw(rank))
    }

    #[tokio::test]
    async fn names_sort_as_ranks_do_and_lead_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = |layout: fn(PathBuf) -> Layout, ranks, nspace: &str, channel| {
            let files = Files::start(layout(dir.path().join("x")), ranks).unwrap();
            let path = files.path(&proc(nspace, 7), channel);
            path.strip_prefix(dir.path()).unwrap().display().to_string()
        };
        assert_eq!(path(Layout::Directory, 9, "a", OutputChannel::Stdout), "x/a/rank.7/stdout");
        assert_eq!(path(Layout::Directory, 10, "a/../b", OutputChannel::Stderr), "x/a_.._b/rank.07/stderr");
        assert_eq!(path(Layout::Named, 100, "..", OutputChannel::Stdout), "x._.007.out");
        assert_eq!(path(Layout::Named, 1, "a", OutputChannel::Stderr), "x.a.7.err");
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = Files::start(Layout::Directory(file.path().into()), 1).unwrap_err();
        assert_eq!(error.to_string(), format!("{} is not a directory", file.path().display()));
    }

    #[tokio::test]
    async fn more_files_than_are_kept_open_get_all_their_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let ranks = u32::try_from(OPEN).unwrap() + 10;
        let mut files = Files::start(Layout::Directory(dir.path().into()), 99).unwrap();
        for text in ["one\n", "two\n"] {
            for rank in 0..ranks {
                files.put(&proc("a", rank), OutputChannel::Stdout, text.into());
            }
        }
        assert!(files.finish().await.is_none());
        for rank in 0..ranks {
            let path = dir.path().join(format!("a/rank.{rank:02}/stdout"));
            assert_eq!(std::fs::read_to_string(path).unwrap(), "one\ntwo\n");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_written_comes_back_in_order_and_the_others_go_on() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/rank.1")).unwrap();
        std::os::unix::fs::symlink("/dev/full", dir.path().join("a/rank.1/stdout")).unwrap();
        let mut files = Files::start(Layout::Directory(dir.path().into()), 2).unwrap();
        for text in ["one\n", "two\n"] {
            for rank in 0..2 {
                files.put(&proc("a", rank), OutputChannel::Stdout, text.into());
            }
        }
        let first = files.finish().await.unwrap();
        assert!(first.problem.unwrap().contains("rank.1/stdout: No space left on device"));
        assert_eq!(first.data, "one\n");
        let second = files.finish().await.unwrap();
        assert_eq!((second.problem, &second.data[..]), (None, &b"two\n"[..]));
        assert!(files.finish().await.is_none());
        let other = dir.path().join("a/rank.0/stdout");
        assert_eq!(std::fs::read_to_string(other).unwrap(), "one\ntwo\n");
    }
}
