//! The private directory of a server: its socket, its rendezvous files, and the lock that shows that the server is alive.
//!
//! ```text
//! <root>/pmix-<uid>/              owner and mode (0700) are checked; shared by our servers; see pmix_proto::places
//!     .lock                       held briefly while a directory is made or a stale one removed
//!     <host>.<pid>.<n>/           one server
//!         lock                    held while the server is alive
//!         server@sock
//!         pmix.<host>.tool        rendezvous file for tools; the same with .<pid> and .<namespace>
//! ```
//!
//! A rendezvous file holds one record for each wire, separated by an empty line. The record for the C library comes first,
//! because the library reads nothing else.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use pmix_native::conn::{Rendezvous, ServerUri, User, file_names};
use pmix_native::env::RELEASE;
use pmix_proto::files::{Directory, is_among_others, replaceable};
use pmix_proto::places::{Doubt, Places, doubt, tmpdir};
use pmix_types::{Nspace, Status, Uid};
use thiserror::Error;
use tokio::net::UnixListener;

use crate::account::{own_uid, own_user};
use crate::contact_file::ContactFile;
use crate::removal::remove_tree;

const GATE: &str = ".lock";
const LOCK: &str = "lock";
/// The `@` is for libraries on gRPC's C core (grpc/grpc#38142): they send the socket's path, percent-encoded but for this
/// character, as `:authority`, and the `http` crate takes percent signs before an `@` only.
const SOCKET: &str = "server@sock";
/// Longest path that fits a socket address, with its NUL.
const SUN_PATH: usize = 108;

/// Whether a path is too long for the address of a socket.
pub(crate) fn is_too_long(socket: &Path) -> bool {
    socket.as_os_str().len() >= SUN_PATH
}

/// Why the private directory cannot be used.
#[derive(Error)]
#[error("session directory {path}: {reason}", path = path.display())]
#[non_exhaustive]
pub struct SessionDirError {
    /// The file or directory.
    pub path: PathBuf,
    /// What is wrong with it and what to do.
    pub reason: String,
    /// The system's error, if there is one.
    #[source]
    pub source: Option<io::Error>,
}

impl SessionDirError {
    pub(crate) fn new(path: &Path, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into(), source: None }
    }

    pub(crate) fn io(path: &Path, what: &str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { path: path.into(), reason: format!("{what}: {source}"), source: Some(source) }
    }
}

pmix_types::statuses! {
    SessionDirError, "`ERR_FILE_OPEN_FAILURE`", |_this| Status::ERR_FILE_OPEN_FAILURE;
}

/// The directory of a running server; dropping this removes it with its contents.
#[derive(Debug)]
pub(crate) struct SessionDir {
    path: PathBuf,
    /// A copy of the rendezvous file elsewhere.
    copy: Option<ContactFile>,
    /// Holds the lock.
    _lock: File,
}

impl SessionDir {
    /// Makes a directory for this server and removes the directories of dead servers. A failure leaves nothing behind.
    ///
    /// If `root` is given, uses only that directory and fails if it cannot be used. Otherwise uses the place that the
    /// environment names, or, if another user has taken it, one of the other places in which tools look.
    pub(crate) fn create(
        root: Option<&Path>,
        hostname: &str,
        other_users: bool,
    ) -> Result<Self, SessionDirError> {
        let uid = own_uid();
        let places = match root {
            Some(root) => Places::given(root, uid),
            None => Places::of_environment(uid),
        };
        if root.is_none()
            && let Err(missing) = tmpdir()
            && !missing.as_os_str().is_empty()
            && std::env::var_os("PMIX_SERVER_TMPDIR").is_none_or(|dir| dir.is_empty())
        {
            static TOLD: Once = Once::new();
            TOLD.call_once(|| {
                tracing::warn!("TMPDIR is {}, which is not there: using /tmp", missing.display());
            });
        }
        let named = root.unwrap_or_else(|| Path::new("PMIX_SERVER_TMPDIR or TMPDIR"));
        let places = places.map_err(SessionDirError::io(named, "cannot be made an absolute path"))?;
        Self::create_in(&places, hostname, other_users)
    }

    fn create_in(places: &Places, hostname: &str, other_users: bool) -> Result<Self, SessionDirError> {
        let uid = own_uid();
        // other users may enter the directory, but not list it
        let mode = if other_users { 0o711 } else { 0o700 };
        let (base, gate) = loop {
            let base = choose(places, mode)?;
            // root would make and remove what others choose
            if let Some(parent) = base.parent().filter(|_| other_users || is_among_others()) {
                check_keeps(parent)?;
            }
            match enter(&base, mode, uid) {
                Ok(gate) => break (base, gate),
                // another user was faster
                Err(_) if !places.is_given() && places.is_taken(&base) => {}
                Err(error) => return Err(error),
            }
        };
        remove_stale(&base, hostname);
        let made = Self::make_own(&base, mode, hostname);
        if made.is_err() {
            leave(&base, &gate);
        }
        made
    }

    fn make_own(base: &Path, mode: u32, hostname: &str) -> Result<Self, SessionDirError> {
        /// How many names to try.
        const MAX_TAKEN: u32 = 100;
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let next = || {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = base.join(format!("{hostname}.{}.{count}", std::process::id()));
            let made = DirBuilder::new().mode(mode).create(&path);
            (path, made)
        };
        // the name may belong to a process in another container, or to one that ended long ago
        let is_taken = |made: &io::Result<()>| {
            made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
        };
        let (path, made) =
            (1..MAX_TAKEN).map(|_| next()).find(|(_, made)| !is_taken(made)).unwrap_or_else(next);
        made.map_err(SessionDirError::io(&path, "cannot create it"))?;
        let lock = open_lock(&path.join(LOCK)).and_then(|lock| {
            lock.lock().map_err(SessionDirError::io(&path.join(LOCK), "cannot lock it"))?;
            let permissions = Permissions::from_mode(mode);
            fs::set_permissions(&path, permissions)
                .map_err(SessionDirError::io(&path, "cannot set its mode"))?;
            Ok(lock)
        });
        match lock {
            Ok(lock) => Ok(Self { path, copy: None, _lock: lock }),
            Err(error) => {
                // not remove_tree, which needs descriptors: the lack of them may be the error
                let _ = fs::remove_file(path.join(LOCK));
                let _ = fs::remove_dir(&path);
                Err(error)
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// Listens on the socket. Must be called on the runtime that will accept connections.
    pub(crate) fn listen(&self, other_users: bool) -> Result<UnixListener, SessionDirError> {
        let socket = self.socket();
        let listener = if is_too_long(&socket) {
            // bind through the open directory
            File::open(&self.path)
                .and_then(|dir| UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", dir.as_raw_fd())))
        } else {
            UnixListener::bind(&socket)
        };
        let listener = listener.map_err(SessionDirError::io(&socket, "cannot listen on it"))?;
        let mode = if other_users { 0o666 } else { 0o600 };
        fs::set_permissions(&socket, Permissions::from_mode(mode))
            .map_err(SessionDirError::io(&socket, "cannot set its mode"))?;
        Ok(listener)
    }

    /// Writes the files that tools look for (TOL-03). All have the same content. A system-level server that is not also
    /// a session-level server has only the files named by pid and namespace.
    pub(crate) fn write_rendezvous(
        &self,
        server: &Nspace,
        text: &str,
        hostname: &str,
        Access { is_of_session, other_users }: Access,
    ) -> Result<(), SessionDirError> {
        let mut names = BTreeSet::from([file_names::by_pid(hostname, std::process::id())]);
        if is_of_session {
            names.insert(file_names::session(hostname));
        }
        // such a namespace is no file name; tools find the server by the other names
        if !server.contains('/') {
            names.insert(file_names::by_nspace(hostname, server));
        }
        for path in names.into_iter().map(|name| self.path.join(name)) {
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
            let mode = if other_users { 0o644 } else { 0o600 };
            file.and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.set_permissions(Permissions::from_mode(mode))
            })
            .map_err(SessionDirError::io(&path, "cannot write it"))?;
        }
        Ok(())
    }

    /// Writes this to a file elsewhere, which exists as long as this directory (TOL-04).
    pub(crate) fn write_copy(&mut self, path: &Path, text: &str) -> Result<(), SessionDirError> {
        let copy = ContactFile::write(path, text);
        let what = "cannot write the copy of the rendezvous file";
        self.copy = Some(copy.map_err(SessionDirError::io(path, what))?);
        Ok(())
    }
}

/// Who finds a server by its files, and may read them (TOL-05).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) is_of_session: bool,
    pub(crate) other_users: bool,
}

/// What a rendezvous file says: URI, library version, pid and `uid:gid`, one per line, preceded by the record of the native
/// wire.
pub(crate) fn rendezvous(uri: &str, native: Option<&ServerUri>) -> String {
    let pid = std::process::id();
    let (uid, gid) = own_user();
    let mut text = String::new();
    if let Some(native) = native {
        let mut record = Rendezvous::new(native.clone());
        record.version = Some(RELEASE.to_string());
        record.pid = Some(pid);
        record.user = Some(User { uid, gid });
        text = format!("{record}\n");
    }
    text.push_str(&format!("{uri}\n{}\n{pid}\n{uid}:{gid}\n", env!("CARGO_PKG_VERSION")));
    text
}

impl Drop for SessionDir {
    fn drop(&mut self) {
        // the address first, so that nobody goes there any more
        self.copy = None;
        if let Err(error) = remove_session_dir(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the session directory");
        }
    }
}

/// Removes the [session directory](crate::ServerHandle::session_dir) of a server that has ended, with its contents, as the server does when it stops in good
/// order. If no other server of this user is left, also removes the directory above it, `pmix-<uid>`.
///
/// # Errors
/// As [`remove_tree`](crate::remove_tree). It is no error if the directory is not there.
pub fn remove_session_dir(path: &Path) -> io::Result<()> {
    // without descriptors, remove_dir_all still removes a shallow directory
    let removed = remove_with_others(path).or_else(|error| match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::MFILE.raw_os_error() => fs::remove_dir_all(path),
        _ => Err(error),
    });
    if let Some(base) = path.parent() {
        // a starting server would hold the gate
        if let Ok(gate) = open_lock(&base.join(GATE))
            && gate.try_lock().is_ok()
            && is_at(&gate, &base.join(GATE))
        {
            leave(base, &gate);
        }
    }
    removed
}

/// Removes the gate, which the caller holds, and the directory if it is empty: the last server of a user leaves nothing
/// behind. If other servers remain, the next one to start makes a new gate.
fn leave(base: &Path, _gate: &File) {
    let _ = fs::remove_file(base.join(GATE));
    let _ = fs::remove_dir(base);
}

/// The directory of our servers: the usual one, or another one if that belongs to another user.
fn choose(places: &Places, mode: u32) -> Result<PathBuf, SessionDirError> {
    let first = places.first();
    if places.is_given() || !places.is_taken(&first) {
        return Ok(first);
    }
    let other = places.others().into_iter().find(|other| !places.is_taken(other));
    let base = other.map_or_else(|| make_random(places, mode), Ok)?;
    tracing::warn!(taken = %first.display(), instead = %base.display(), "the usual directory belongs to another user; using another one");
    Ok(base)
}

/// Checks that no user of the server, but root, can put something else in the place of what lies in a directory: their processes
/// go to the address of a server wherever they have it from.
fn check_keeps(dir: &Path) -> Result<(), SessionDirError> {
    // links on the way have owners, too
    let found = Directory::open(dir).and_then(|_| replaceable(dir));
    let what = "cannot be examined (PMIX_SERVER_TMPDIR may name another place)";
    let Some(open) = found.map_err(SessionDirError::io(dir, what))? else { return Ok(()) };
    let reason = "other users could replace what lies in it: they may write it, and it is not sticky (chmod +t), or it belongs to \
                  another user; set PMIX_SERVER_TMPDIR to another directory";
    Err(SessionDirError::new(&open, reason))
}

/// Makes a directory with a random name.
fn make_random(places: &Places, mode: u32) -> Result<PathBuf, SessionDirError> {
    tempfile::Builder::new()
        .prefix(&places.random_prefix())
        .rand_bytes(12)
        .permissions(Permissions::from_mode(mode))
        .tempdir_in(places.root())
        .map(tempfile::TempDir::keep)
        .map_err(SessionDirError::io(places.root(), "cannot create a directory in it"))
}

/// Creates or checks the directory of our servers, and locks its gate.
fn enter(base: &Path, mode: u32, uid: Uid) -> Result<File, SessionDirError> {
    let path = base.join(GATE);
    loop {
        if !make_private(base, mode, uid)? {
            continue;
        }
        let gate = match open_lock(&path) {
            // the last server has just removed it together with the directory
            Err(error)
                if error.source.as_ref().is_some_and(|source| source.kind() == io::ErrorKind::NotFound) =>
            {
                continue;
            }
            // perhaps we have just made the directory; one in use is not empty and stays
            Err(error) => {
                let _ = fs::remove_dir(base);
                return Err(error);
            }
            Ok(gate) => gate,
        };
        gate.lock().map_err(SessionDirError::io(&path, "cannot lock it"))?;
        if is_at(&gate, &path) {
            return Ok(gate);
        }
    }
}

/// Whether an open file is still the one at that path; it may have been removed or replaced.
fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(held), Ok(there)) => (held.dev(), held.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

/// Makes the directory or checks the existing one; returns false if that was removed meanwhile.
fn make_private(path: &Path, mode: u32, uid: Uid) -> Result<bool, SessionDirError> {
    match DirBuilder::new().mode(mode).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => {
            return Err(SessionDirError::io(
                path,
                "cannot create it; set PMIX_SERVER_TMPDIR to a directory that you can write to",
            )(error));
        }
    }
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found.map_err(SessionDirError::io(path, "cannot read its owner and mode"))?,
    };
    if let Some(doubt) = doubt(&found, uid) {
        let advice = match doubt {
            Doubt::Owner(_) => format!("{doubt} (uid {uid}): remove it or set PMIX_SERVER_TMPDIR"),
            _ => doubt.to_string(),
        };
        return Err(SessionDirError::new(path, advice));
    }
    // widened if this server needs it; a server with another mode may already use the directory
    if mode & !found.mode() & 0o777 != 0 {
        let permissions = Permissions::from_mode(found.mode() & 0o7777 | mode);
        match fs::set_permissions(path, permissions) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            set => set.map_err(SessionDirError::io(path, "cannot set its mode"))?,
        }
    }
    Ok(true)
}

fn open_lock(path: &Path) -> Result<File, SessionDirError> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(path);
    file.map_err(SessionDirError::io(path, "cannot open it"))
}

/// Removes a directory that other servers may remove at the same time: one that ends its own, those that start a dead one's.
fn remove_with_others(path: &Path) -> io::Result<()> {
    match remove_tree(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Removes the directories of dead servers of this node.
fn remove_stale(base: &Path, hostname: &str) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        if host_of(&entry.file_name().to_string_lossy()) != Some(hostname) {
            continue;
        }
        let dir = entry.path();
        // a live server holds its lock
        let is_dead = match File::options().write(true).open(dir.join(LOCK)) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if !is_dead {
            continue;
        }
        match remove_with_others(&dir) {
            Ok(()) => tracing::info!(path = %dir.display(), "removed the directory of a dead server"),
            Err(error) => {
                tracing::warn!(path = %dir.display(), %error, "cannot remove the directory of a dead server")
            }
        }
    }
}

/// The host part of `<host>.<pid>.<n>`; host names may contain dots.
fn host_of(name: &str) -> Option<&str> {
    let is_number = |part: &&str| part.parse::<u32>().is_ok();
    let (rest, _) = name.rsplit_once('.').filter(|(_, count)| is_number(count))?;
    let (host, _) = rest.rsplit_once('.').filter(|(_, pid)| is_number(pid))?;
    Some(host)
}

pmix_types::message_first!(SessionDirError);

#[cfg(test)]
mod tests;
