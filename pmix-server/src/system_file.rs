//! The one rendezvous file of a node's system-level server (TOL-02), by which tools of all users find it.
//!
//! It is in a directory that all users may share, such as `/tmp`. So nothing there is trusted: a file is made beside it and linked to its
//! name, and one that is there already is taken over only if its server is dead.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use pmix_native::conn::file_names;
use pmix_proto::files::Directory;
use pmix_proto::places::system_root;
use pmix_types::Uid;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};

use crate::account::own_uid;
use crate::session_dir::{SessionDirError, is_too_long};

/// How often the place of a dead server is fought for.
const ATTEMPTS: u32 = 16;
/// How long a server on the loopback interface may take to accept a connection.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long another server may take to see whether the server of a file lives.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const LOCK_PAUSE: Duration = Duration::from_millis(5);
/// No rendezvous file is longer.
const MAX_BYTES: u64 = 64 * 1024;

/// The file of this server; dropping it removes the file.
#[derive(Debug)]
pub(crate) struct SystemFile {
    path: PathBuf,
    directory: Directory,
    /// Which file it is: another server may have put one there.
    id: (u64, u64),
    /// As long as it is open, no other file gets its number.
    _file: File,
}

impl SystemFile {
    /// Writes the file, unless another system-level server lives on this node.
    pub(crate) fn create(
        root: Option<&Path>,
        hostname: &str,
        text: &str,
        other_users: bool,
    ) -> Result<Self, SessionDirError> {
        let root = root.map_or_else(system_root, Path::to_owned);
        let path = root.join(file_names::system(hostname));
        let directory =
            Directory::open(&root).map_err(SessionDirError::io(&root, "cannot create a file in it"))?;
        let reached = reached(&directory, &path);
        let mut file = tempfile::Builder::new()
            .prefix(".pmix.sys.")
            .tempfile_in(directory.path())
            .map_err(SessionDirError::io(&root, "cannot create a file in it"))?;
        let mode = if other_users { 0o644 } else { 0o600 };
        file.write_all(text.as_bytes())
            .and_then(|()| file.as_file().set_permissions(fs::Permissions::from_mode(mode)))
            .map_err(SessionDirError::io(&path, "cannot write it"))?;
        let id = id_of(file.as_file()).map_err(SessionDirError::io(&path, "cannot be inspected"))?;
        for _ in 0..ATTEMPTS {
            match fs::hard_link(file.path(), &reached) {
                Ok(()) => return Ok(Self { path, directory, id, _file: file.into_file() }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    take_over(&directory, &path, LOCK_PATIENCE)?
                }
                Err(error) => return Err(SessionDirError::io(&path, "cannot write it")(error)),
            }
        }
        Err(SessionDirError::new(
            &path,
            "other servers keep taking it: start one system-level server on a node",
        ))
    }
}

impl Drop for SystemFile {
    fn drop(&mut self) {
        let reached = reached(&self.directory, &self.path);
        let is_own = fs::symlink_metadata(&reached).is_ok_and(|found| (found.dev(), found.ino()) == self.id);
        if is_own && let Err(error) = fs::remove_file(&reached) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the rendezvous file");
        }
    }
}

fn id_of(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// The path of a file by way of its directory: another user may put another one in its place.
fn reached(directory: &Directory, path: &Path) -> PathBuf {
    directory.path().join(path.file_name().unwrap_or_default())
}

/// Removes the file of a dead server.
fn take_over(directory: &Directory, named: &Path, patience: Duration) -> Result<(), SessionDirError> {
    let path = &reached(directory, named);
    let Ok(before) = fs::symlink_metadata(path) else { return Ok(()) };
    // Servers take over a file one at a time, else the one that comes second moves away the file of the first, and a third
    // finds the place free. The open file also keeps its number from being given to another.
    let _held = hold(path, &before, patience);
    let is_same = |found: fs::Metadata| (found.dev(), found.ino()) == (before.dev(), before.ino());
    if !fs::symlink_metadata(path).is_ok_and(is_same) {
        return Ok(());
    }
    if let Some(server) = living(path, &before) {
        let reason = format!(
            "{server} is the system-level server of this node; there is one at a time: stop it first"
        );
        return Err(SessionDirError::new(named, reason));
    }
    // two may take over at a time: whoever moves away a file moves away just one, and looks at which one it was
    // nobody else can know its name, and put something there first
    let place = tempfile::Builder::new()
        .prefix(".pmix.sys.")
        .tempdir_in(directory.path())
        .map_err(SessionDirError::io(named.parent().unwrap_or(named), "cannot create a directory in it"))?;
    let aside = place.path().join("file");
    match fs::rename(path, &aside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        moved => moved.map_err(SessionDirError::io(
            named,
            "was left behind by a dead server or another user, and cannot be removed: have its owner remove it",
        ))?,
    }
    let moved = fs::symlink_metadata(&aside).map(|found| (found.dev(), found.ino()));
    if moved.is_ok_and(|moved| moved != (before.dev(), before.ino())) {
        // a server that was faster: it gets its place back
        let _ = fs::hard_link(&aside, path);
    }
    if fs::remove_file(&aside).is_err() {
        // no file was in its place: whatever it is, it is not lost
        let kept = place.keep();
        let kept = named.with_file_name(kept.file_name().unwrap_or_default());
        tracing::warn!(path = %named.display(), kept = %kept.display(), "moved a directory entry that is not a file out of the way");
    }
    Ok(())
}

/// Locks a file that may be taken over, unless it is none or somebody keeps the lock for so long: anyone who may read the file
/// can do so, which must not keep this server out.
fn hold(path: &Path, found: &fs::Metadata, patience: Duration) -> Option<File> {
    let file = open(path).filter(|_| found.is_file())?;
    let deadline = Instant::now() + patience;
    while file.try_lock().is_err() {
        if Instant::now() >= deadline {
            tracing::warn!(file = ?path.file_name(), "somebody keeps a lock on the file, which is taken over without it");
            return None;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "nothing announces the end of a lock that a stranger may keep"
        )]
        thread::sleep(LOCK_PAUSE);
    }
    Some(file)
}

fn open(path: &Path) -> Option<File> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW;
    File::options().read(true).custom_flags(flags.bits() as i32).open(path).ok()
}

/// The server of a file, if it lives.
fn living(path: &Path, found: &fs::Metadata) -> Option<String> {
    // a file of another user says nothing: anyone may have put it there to keep this server out
    if !found.is_file() || ![Uid::ROOT, own_uid()].contains(&found.uid().into()) {
        return None;
    }
    let mut text = String::new();
    open(path)?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let uris = text.split("\n\n").filter_map(|record| record.lines().next());
    let addresses: Vec<_> = uris.filter_map(|uri| Some(uri.split_once(';')?.1)).collect();
    // a port may be another program's by now, a socket in the server's own directory may not
    let sockets: Vec<_> = addresses.iter().filter_map(|address| address.strip_prefix("unix:")).collect();
    let answers = match &sockets[..] {
        [] => addresses.iter().any(|address| is_served_at(address)),
        sockets => sockets.iter().any(|socket| is_served(Path::new(socket))),
    };
    let pid = text.lines().find_map(|line| line.trim().parse::<u32>().ok());
    answers.then(|| pid.map_or_else(|| "another server".to_owned(), |pid| format!("pid {pid}")))
}

/// Whether somebody accepts connections at a socket, or would if this user were let in.
fn is_served(socket: &Path) -> bool {
    match connect(socket) {
        Ok(_) => true,
        // the second if its server hangs, and others wait to be let in
        Err(error) => matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::WouldBlock),
    }
}

/// Connects, but does not wait for room.
fn connect(socket: &Path) -> io::Result<()> {
    let ours = socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    )?;
    let to = |path: &Path| Ok(rustix::net::connect(&ours, &SocketAddrUnix::new(path)?)?);
    let Some((dir, name)) = socket.parent().zip(socket.file_name()).filter(|_| is_too_long(socket)) else {
        return to(socket);
    };
    let dir = File::open(dir)?;
    to(&Path::new(&format!("/proc/self/fd/{}", dir.as_raw_fd())).join(name))
}

/// Whether somebody accepts connections at an address of TCP.
fn is_served_at(address: &str) -> bool {
    let address = address.strip_prefix("tcp4://").or_else(|| address.strip_prefix("tcp6://"));
    let address: Option<SocketAddr> = address.and_then(|address| address.parse().ok());
    address.is_some_and(|address| TcpStream::connect_timeout(&address, PATIENCE).is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use pmix_test_wait::block_until;

    use super::*;

    fn create(root: &Path, text: &str) -> Result<SystemFile, SessionDirError> {
        SystemFile::create(Some(root), "n0", text, false)
    }

    /// How often this process has a file open.
    fn times_open(found: &fs::Metadata) -> usize {
        let is_same = |open: fs::Metadata| (open.dev(), open.ino()) == (found.dev(), found.ino());
        let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter(|open| fs::metadata(open.path()).is_ok_and(is_same)).count()
    }

    /// As its server describes it.
    fn record(socket: &Path) -> String {
        format!("srv.0;unix:{}\n0.1.0\n77\n0:0\n", socket.display())
    }

    #[test]
    fn tol_02_a_second_system_server_is_refused_at_once_while_the_first_hangs() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        // room for as few as there can be
        rustix::net::listen(&listener, 0).unwrap();
        let waiting =
            std::iter::repeat_with(|| connect(&socket)).position(|connected| connected.is_err()).unwrap();
        assert!(waiting > 0);
        let _first = create(root.path(), &record(&socket)).unwrap();
        let error = create(root.path(), "another").unwrap_err();
        assert!(error.to_string().contains("pid 77 is the system-level server"), "{error}");
    }

    #[test]
    fn tol_02_a_second_system_server_is_refused_while_the_first_lives() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let path = root.path().join("pmix.sys.n0");
        let first = create(root.path(), &record(&socket)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), record(&socket));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = create(root.path(), "another").unwrap_err();
        assert!(error.to_string().contains("pid 77 is the system-level server"), "{error}");
        drop(first);
        assert!(!path.exists());
        // one that has died leaves its file behind
        std::mem::forget(create(root.path(), &record(&socket)).unwrap());
        drop(listener);
        // a process that another test starts may hold it for a moment longer
        block_until("the socket is closed", || connect(&socket).is_err());
        let second = SystemFile::create(Some(root.path()), "n0", "second", true).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        drop(second);
        // nothing else stays
        let left: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["socket"]);
    }

    #[test]
    fn tol_02_garbage_and_links_in_its_place_are_no_server_and_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let (path, other) = (root.path().join("pmix.sys.n0"), root.path().join("other"));
        for garbage in ["", "\u{0}", "no;address", "a.0;unix:", "a.0;tcp4://1", ";;;\n\n\n-1"] {
            fs::write(&path, garbage).unwrap();
            drop(create(root.path(), "own").unwrap());
        }
        fs::write(&other, "precious").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        let own = create(root.path(), "own").unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "precious");
        // whoever has taken its place keeps it
        fs::remove_file(&path).unwrap();
        fs::write(&path, "theirs").unwrap();
        drop(own);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    }

    #[test]
    fn tol_02_a_server_with_a_long_path_lives_and_a_port_alone_is_no_server_of_ours() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("d".repeat(100));
        fs::create_dir(&deep).unwrap();
        let socket = deep.join("socket");
        let _there = {
            let dir = File::open(&deep).unwrap();
            UnixListener::bind(format!("/proc/self/fd/{}/socket", dir.as_raw_fd())).unwrap()
        };
        let own = create(root.path(), &record(&socket)).unwrap();
        assert!(create(root.path(), "another").is_err(), "a long path");
        drop(own);

        let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = format!("srv.0;tcp4://{}\n5.0\n77\n", stranger.local_addr().unwrap());
        std::mem::forget(create(root.path(), &port).unwrap());
        assert!(create(root.path(), "another").is_err(), "another implementation has nothing but a port");
        fs::remove_file(root.path().join("pmix.sys.n0")).unwrap();
        let dead = format!("{}\n{port}", record(&root.path().join("gone")));
        std::mem::forget(create(root.path(), &dead).unwrap());
        drop(create(root.path(), "another").unwrap());
    }

    #[test]
    fn tol_02_a_directory_in_its_place_is_moved_away_and_kept() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("pmix.sys.n0");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("precious"), "text").unwrap();
        drop(create(root.path(), "own").unwrap());
        let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(fs::read_to_string(left[0].join("file/precious")).unwrap(), "text");
    }

    #[test]
    fn tol_02_of_many_that_start_at_once_one_is_the_system_server() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        fs::write(root.path().join("pmix.sys.n0"), record(&root.path().join("gone"))).unwrap();
        let text = record(&socket);
        let files: Vec<_> = thread::scope(|scope| {
            let starting: Vec<_> = (0..8).map(|_| scope.spawn(|| create(root.path(), &text))).collect();
            starting.into_iter().filter_map(|starting| starting.join().unwrap().ok()).collect()
        });
        assert_eq!(files.len(), 1, "{files:?}");
    }

    #[test]
    fn tol_02_a_file_is_taken_over_by_one_at_a_time_but_a_lock_of_a_stranger_keeps_nobody_out() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("pmix.sys.n0");
        fs::write(&path, record(&root.path().join("gone"))).unwrap();
        let lock = || {
            let stranger = File::open(&path).unwrap();
            stranger.lock().unwrap();
            stranger
        };
        let (stranger, found) = (lock(), fs::symlink_metadata(&path).unwrap());
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let directory = Directory::open(root.path()).unwrap();
                take_over(&directory, &path, Duration::from_secs(3600))
            });
            block_until("the file is open twice", || times_open(&found) == 2);
            assert!(path.exists() && !waiting.is_finished(), "it did not wait for the lock");
            drop(stranger);
            waiting.join().unwrap().unwrap();
        });
        assert!(!path.exists());

        fs::write(&path, record(&root.path().join("gone"))).unwrap();
        let _stranger = lock();
        let own = create(root.path(), "own").unwrap();
        assert_eq!(fs::read_to_string(&own.path).unwrap(), "own");
    }
}
