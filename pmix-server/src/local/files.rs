//! Data that many processes of a user receive: in files that only the server can change.
//!
//! A file has no name: it is handed over beside a message. The server keeps those that a process may still have to read: the
//! last [`UNREAD_FILES`] that it was given. It empties all others, and the oldest if they are too many, so that processes
//! cannot hold memory of the server by keeping files open. Who reads one that was emptied asks the server instead.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use pmix_types::Uid;
use rustix::fs::{
    MemfdFlags, Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, ftruncate, memfd_create, open,
};

/// Files that keep their contents.
const MAX_FILES: usize = 64;
/// Bytes of all files that keep their contents; the newest keeps them whatever its size.
const MAX_FILE_BYTES: usize = 256 << 20;
/// A process reads what a fence has brought before it takes in what a fence of other participants brings.
pub(super) const UNREAD_FILES: usize = 2;

/// The files that a server has handed over.
#[derive(Debug, Default)]
pub(super) struct Files {
    newest_last: VecDeque<Arc<Filed>>,
}

impl Files {
    /// Puts data into a new file for processes of this user.
    ///
    /// # Errors
    /// The error of the operating system, such as too many open files.
    pub(super) fn add(&mut self, data: &[u8], uid: Uid) -> io::Result<Arc<Filed>> {
        self.prune();
        let filed = Arc::new(Filed { uid, bytes: data.len(), open: Mutex::new(Some(OpenFile::new(data)?)) });
        self.newest_last.push_back(filed.clone());
        while self.newest_last.len() > 1
            && (self.newest_last.len() > MAX_FILES
                || self.newest_last.iter().map(|filed| filed.bytes).sum::<usize>() > MAX_FILE_BYTES)
        {
            if let Some(oldest) = self.newest_last.pop_front() {
                oldest.empty();
            }
        }
        Ok(filed)
    }

    /// Empties the files that nobody else in this server holds.
    pub(super) fn prune(&mut self) {
        self.newest_last.retain(|filed| {
            let is_held = Arc::strong_count(filed) > 1;
            if !is_held {
                filed.empty();
            }
            is_held
        });
    }
}

/// A file for the processes of one user.
#[derive(Debug)]
pub(super) struct Filed {
    uid: Uid,
    bytes: usize,
    /// `None` once it was emptied.
    open: Mutex<Option<OpenFile>>,
}

#[derive(Debug)]
struct OpenFile {
    own: File,
    /// Opened for reading only.
    given: Arc<OwnedFd>,
}

impl OpenFile {
    fn new(data: &[u8]) -> io::Result<Self> {
        let mut own =
            File::from(memfd_create("pmix-collected", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?);
        own.write_all(data)?;
        // it can still shrink, but only through a descriptor that may write: that of the server
        fcntl_add_seals(&own, SealFlags::WRITE | SealFlags::GROW | SealFlags::SEAL)?;
        // another user cannot open it again for writing
        fchmod(&own, Mode::RUSR)?;
        let path = format!("/proc/self/fd/{}", own.as_raw_fd());
        let given = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { own, given: Arc::new(given) })
    }
}

impl Filed {
    pub(super) fn is_for(&self, uid: Uid) -> bool {
        self.uid == uid
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The descriptor to hand over; `None` if the file was emptied.
    pub(super) fn given(&self) -> Option<Arc<OwnedFd>> {
        self.lock().as_ref().map(|open| open.given.clone())
    }

    fn empty(&self) {
        if let Some(open) = self.lock().take()
            && let Err(error) = ftruncate(&open.own, 0)
        {
            tracing::warn!(%error, "collected data of {} bytes cannot be freed", self.bytes);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<OpenFile>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for filed in &self.newest_last {
            filed.empty();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const US: Uid = Uid::new(7);
    const OTHERS: Uid = Uid::new(8);

    fn held(filed: &Filed) -> File {
        File::from(filed.given().unwrap().try_clone().unwrap())
    }

    fn read(file: &File, bytes: usize) -> io::Result<Vec<u8>> {
        let mut data = vec![0; bytes];
        file.read_exact_at(&mut data, 0).map(|()| data)
    }

    #[test]
    fn who_receives_a_file_reads_it_and_cannot_change_it() {
        let mut files = Files::default();
        let filed = files.add(b"collected", US).unwrap();
        assert!(filed.is_for(US) && !filed.is_for(OTHERS));
        let file = held(&filed);
        assert_eq!(read(&file, filed.bytes()).unwrap(), b"collected");
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(100).is_err());
        // not even the server changes what it has handed over
        let open = filed.lock();
        let own = &open.as_ref().unwrap().own;
        assert!(own.write_at(b"x", 0).is_err());
        assert!(own.set_len(100).is_err());
        assert_eq!(
            own.metadata().unwrap().permissions(),
            std::os::unix::fs::PermissionsExt::from_mode(0o100_400)
        );
    }

    #[test]
    fn old_files_are_emptied_whoever_holds_them() {
        let mut files = Files::default();
        let first = files.add(&[1; 100], US).unwrap();
        let kept = held(&first);
        let others: Vec<_> = (1..MAX_FILES).map(|_| files.add(&[2; 100], US).unwrap()).collect();
        assert!(others.iter().all(|other| other.given().is_some()));
        assert_eq!(read(&kept, 100).unwrap(), [1; 100]);
        let _last = files.add(&[3; 100], US).unwrap();
        assert_eq!(kept.metadata().unwrap().len(), 0);
        assert_eq!(read(&kept, 100).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert!(first.given().is_none());
        // what nobody can read any more takes no descriptor
        assert_eq!(Arc::strong_count(&first), 1);
    }

    #[test]
    fn what_nobody_has_to_read_is_emptied() {
        let mut files = Files::default();
        let (read_already, unread) = (files.add(b"one", US).unwrap(), files.add(b"two", US).unwrap());
        let kept = [held(&read_already), held(&unread)];
        drop(read_already);
        files.prune();
        assert_eq!(kept.each_ref().map(|file| file.metadata().unwrap().len()), [0, 3]);
        drop(unread);
        let _next = files.add(b"three", US).unwrap();
        assert_eq!(kept[1].metadata().unwrap().len(), 0);
    }

    #[test]
    fn large_files_are_few_and_the_newest_is_kept_whatever_its_size() {
        let mut files = Files::default();
        let some = files.add(&vec![1; MAX_FILE_BYTES / 2], US).unwrap();
        let more = files.add(&vec![1; MAX_FILE_BYTES / 2], US).unwrap();
        assert!(some.given().is_some() && more.given().is_some());
        let huge = files.add(&vec![1; MAX_FILE_BYTES + 1], US).unwrap();
        assert!(some.given().is_none() && more.given().is_none());
        let kept = held(&huge);
        assert_eq!(kept.metadata().unwrap().len(), MAX_FILE_BYTES as u64 + 1);
        drop(files);
        assert_eq!(kept.metadata().unwrap().len(), 0);
    }
}
