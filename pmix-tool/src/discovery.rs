//! Finds servers by their rendezvous files.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use pmix_proto::places::{Doubt, Places, doubt, system_root};
use pmix_types::{Nspace, ProcId, Rank, Uid};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::error::{Error, RendezvousError};
use crate::foreign;

const LOCK: &str = "lock";
/// No rendezvous file is longer.
const MAX_BYTES: u64 = 64 * 1024;

/// A server, as its rendezvous file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// Its address: `<nspace>.<rank>;unix:<path of its socket>`, or `<nspace>.<rank>;tcp4://<address>:<port>` of one of OpenPMIx.
    pub uri: String,
    /// Its address for the C library: `<nspace>.<rank>;tcp4://<address>:<port>`. `None` if it does not speak the wire of that library.
    pub native_uri: Option<String>,
    /// The server's own identity.
    pub proc: ProcId,
    /// Its process id.
    pub pid: u32,
    /// Name of its node according to its host; `None` if the file does not have the usual name.
    pub host: Option<String>,
    /// The user that it runs as: the owner of the file.
    pub uid: Uid,
    /// Version of the server's library; `None` if the file does not have it.
    pub version: Option<String>,
    /// The server's own directory, which has its socket or its files.
    pub dir: PathBuf,
    /// Whether it is a session-level server, which the default search finds; a system-level server can be both
    /// (TOL-02).
    pub is_of_session: bool,
    /// Whether the server is running, judging by its files: it holds the lock of its directory, or has a socket but
    /// no lock. A server of OpenPMIx has to listen at its address.
    pub is_alive: bool,
}

impl ServerInfo {
    /// Reads a rendezvous file (TOL-03).
    ///
    /// # Errors
    /// [`Error::Rendezvous`] if it cannot be read, or is not a rendezvous file.
    pub fn read(file: impl AsRef<Path>) -> Result<Self, Error> {
        Self::read_with(file.as_ref(), OFlags::empty())
    }

    fn read_with(path: &Path, flags: OFlags) -> Result<Self, Error> {
        let (text, uid) =
            read(path, flags).map_err(|error| RendezvousError::io(path, "cannot be read", error))?;
        // one record for each wire; skip those of other wires
        let is_ours =
            |record: &&str| record.lines().next().is_some_and(|uri| parse_uri(uri.trim()).is_some());
        let ours = text.split("\n\n").find(is_ours);
        if let (None, Some(server)) = (ours, foreign::read_record(path, &text, uid)) {
            return Ok(server);
        }
        let record = ours.unwrap_or(&text);
        let mut lines = record.lines().map(str::trim);
        let uri = lines.next().unwrap_or_default();
        let not_a_rendezvous =
            |line: &str| RendezvousError::new(path, format!("is not a rendezvous file: {line}"));
        let (proc, socket) = parse_uri(uri).ok_or_else(|| {
            not_a_rendezvous("it has no record that begins with <namespace>.<rank>;unix:<absolute path>")
        })?;
        let firsts = text.split("\n\n").filter_map(|record| record.lines().next()).map(str::trim);
        let native_uri = firsts.map(str::to_owned).find(|uri| foreign::parse_uri(uri).is_some());
        let version = lines.next().filter(|version| !version.is_empty()).map(str::to_owned);
        let name = path.file_name().and_then(|name| name.to_str()).and_then(parse_file_name);
        let pid = lines.next().and_then(|line| line.parse().ok()).or_else(|| name.map(|(_, pid)| pid));
        let pid =
            pid.ok_or_else(|| not_a_rendezvous("the third line of its record is not the server's pid"))?;
        let host = name.map(|(host, _)| host.to_owned());
        let dir = socket.parent().unwrap_or(socket).to_owned();
        let is_alive = is_alive(socket, &dir);
        let is_of_session =
            path.file_name().is_none_or(|name| !name.as_encoded_bytes().starts_with(b"pmix.sys."));
        Ok(Self {
            uri: uri.to_owned(),
            native_uri,
            proc,
            pid,
            host,
            uid,
            version,
            dir,
            is_of_session,
            is_alive,
        })
    }

    /// Whether it is a server of OpenPMIx, as those of Open MPI and PRRTE are, which speaks the wire of the C library only.
    pub fn is_of_openpmix(&self) -> bool {
        foreign::parse_uri(&self.uri).is_some()
    }

    /// Tools keep away from servers of OpenPMIx that they would take down.
    pub(crate) fn admits_tools(&self) -> bool {
        let major =
            self.version.as_deref().and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        !self.is_of_openpmix() || major.is_none_or(|major| major >= 5)
    }

    /// The server's own namespace.
    pub const fn nspace(&self) -> &Nspace {
        &self.proc.nspace
    }
}

impl fmt::Display for ServerInfo {
    /// Pid and namespace, either of which selects it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pid {} ({})", self.pid, self.proc.nspace)
    }
}

/// The directory in which servers of all users usually create theirs: the first of `PMIX_SERVER_TMPDIR` and `TMPDIR` that
/// is set and not empty, else `/tmp` (TOL-03).
///
/// # Errors
/// [`Error::Rendezvous`] if it is relative and the current directory no longer exists.
pub fn session_root() -> Result<PathBuf, Error> {
    Ok(places(None)?.root().to_owned())
}

/// Lists the servers of this user on this node that admit tools, by pid, including dead servers whose files remain.
///
/// Unless `PMIX_SERVER_TMPDIR` names a directory, it searches all directories that servers use: below [`session_root`], in
/// `XDG_RUNTIME_DIR`, and in directories `pmix-<uid>-*` beside the first; for servers of OpenPMIx, directories `ompi.*` and `prte*`
/// there and in the system's temporary directory. With [`system_server`], this is what the Standard's
/// library answers to a query of `QUERY_AVAIL_SERVERS`.
///
/// # Errors
/// Those of [`discover_in`]; directories of other users are skipped unless `PMIX_SERVER_TMPDIR` names them.
#[doc(alias = "PMIX_QUERY_AVAIL_SERVERS")]
pub fn discover() -> Result<Vec<ServerInfo>, Error> {
    discover_at(&places(None)?)
}

/// Lists servers as [`discover`] does, below the given directory only.
///
/// Files of dead servers are not removed; the next server does that. A malformed file is skipped with a warning in the
/// log.
///
/// # Errors
/// [`Error::Rendezvous`] if the directory of this user's servers cannot be read, or if other users could have created it, or
/// can read or change it.
///
/// # Examples
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let empty = tempfile::tempdir()?;
/// assert!(pmix_tool::discover_in(empty.path())?.is_empty());
/// # Ok(())
/// # }
/// ```
pub fn discover_in(root: &Path) -> Result<Vec<ServerInfo>, Error> {
    discover_at(&places(Some(root))?)
}

/// The user as whom this process acts.
pub(crate) fn own_uid() -> Uid {
    Uid::new(geteuid().as_raw())
}

/// The directories that may have servers of this user.
pub(crate) fn places(root: Option<&Path>) -> Result<Places, Error> {
    let uid = own_uid();
    let places = match root {
        Some(root) => Places::given(root, uid),
        None => Places::of_environment(uid),
    };
    let named = root.unwrap_or_else(|| Path::new("PMIX_SERVER_TMPDIR or TMPDIR"));
    places.map_err(|error| RendezvousError::io(named, "cannot be made an absolute path", error).into())
}

pub(crate) fn discover_at(places: &Places) -> Result<Vec<ServerInfo>, Error> {
    let mut servers = Vec::new();
    let first = places.first();
    if places.is_given() || !places.is_taken(&first) {
        servers.extend(servers_of(&first)?);
    } else {
        tracing::info!(path = %first.display(), "belongs to another user; searching other directories");
    }
    for other in places.others() {
        servers.extend(servers_of(&other)?);
    }
    servers.extend(foreign::discover(places));
    servers.sort_by(|a, b| (a.pid, &a.proc, &a.dir).cmp(&(b.pid, &b.proc, &b.dir)));
    Ok(servers)
}

/// The path of the file of this node's system-level server, whether it exists or not (TOL-02): `pmix.sys.<host>`, in
/// the first of `PMIX_SYSTEM_TMPDIR` and `TMPDIR` that is set, or in `/tmp`. `PMIX_HOSTNAME` is the name of the host,
/// if it is set.
pub fn system_file() -> PathBuf {
    system_file_in(None)
}

/// The file of this node's system-level server: in this directory, or else in the first of `PMIX_SYSTEM_TMPDIR` and `TMPDIR`
/// that is set, or in `/tmp`.
pub(crate) fn system_file_in(directory: Option<&Path>) -> PathBuf {
    let set = std::env::var("PMIX_HOSTNAME").ok().filter(|name| !name.is_empty());
    let name = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    directory.map_or_else(system_root, Path::to_owned).join(format!("pmix.sys.{}", set.unwrap_or_else(name)))
}

/// The live system-level server of this node that this user's tools trust: root's, or one of this user (TOL-02).
pub fn system_server() -> Option<ServerInfo> {
    system_server_in(None, None).ok().flatten()
}

/// The system-level server of this node; `None` if there is none, or only the file of a dead one.
///
/// Anyone can write a file of that name into a shared directory, so only one of root, of this user, and of a user who is named, is
/// trusted, and a link is not followed.
///
/// # Errors
/// [`Error::Rendezvous`] for a file that cannot be read, makes no sense, or is not trusted.
pub(crate) fn system_server_in(
    directory: Option<&Path>,
    trusted: Option<Uid>,
) -> Result<Option<ServerInfo>, Error> {
    let path = system_file_in(directory);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        _ => {}
    }
    let server = ServerInfo::read_with(&path, OFlags::NOFOLLOW)?;
    let (uid, own) = (server.uid, own_uid());
    if !uid.is_root() && uid != own && trusted != Some(uid) {
        let problem = format!(
            "belongs to uid {uid}, and only root's or this user's system-level server is trusted (uid {own}), unless that user is \
             named: --trust-uid {uid}"
        );
        return Err(RendezvousError::new(&path, problem).into());
    }
    Ok(Some(server).filter(|server| server.is_alive))
}

/// Servers of all users on this node that admit tools, for root, who may select one of them.
pub(crate) fn discover_of_all_users(places: &Places) -> Vec<ServerInfo> {
    let runtime = fs::read_dir("/run/user").into_iter().flatten().flatten().map(|entry| entry.path());
    let roots = std::iter::once(places.root().to_owned()).chain(runtime);
    let bases = roots.flat_map(|root| fs::read_dir(root).into_iter().flatten().flatten());
    let own = own_uid();
    let is_private = |base: &PathBuf| {
        let uid = base.file_name().and_then(|name| name.to_str()).and_then(user_of_directory);
        let found = fs::symlink_metadata(base);
        matches!((uid, found), (Some(uid), Ok(found)) if uid != own && doubt(&found, uid).is_none())
    };
    let bases = bases.map(|entry| entry.path()).filter(is_private);
    let dirs = bases.flat_map(|base| fs::read_dir(base).into_iter().flatten().flatten());
    dirs.filter_map(|dir| read_server_dir(&dir.path())).collect()
}

/// The user of `pmix-<uid>` or `pmix-<uid>-<anything>`.
fn user_of_directory(name: &str) -> Option<Uid> {
    name.strip_prefix("pmix-")?.split('-').next()?.parse().ok()
}

/// The servers whose directories are in this one, which need not exist.
fn servers_of(base: &Path) -> Result<Vec<ServerInfo>, Error> {
    match fs::symlink_metadata(base) {
        Ok(metadata) => check_private(base, &metadata)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(RendezvousError::io(base, "cannot be inspected", error).into()),
    }
    let entries = fs::read_dir(base).map_err(|error| RendezvousError::io(base, "cannot be listed", error))?;
    Ok(entries.flatten().filter_map(|entry| read_server_dir(&entry.path())).collect())
}

/// Anyone who can write here could impersonate a server of this user (TOL-05).
fn check_private(path: &Path, metadata: &fs::Metadata) -> Result<(), RendezvousError> {
    let uid = own_uid();
    match doubt(metadata, uid) {
        None => Ok(()),
        Some(doubt @ Doubt::Owner(_)) => {
            let problem = format!(
                "{doubt} (uid {uid}), so its contents cannot be trusted: set PMIX_SERVER_TMPDIR to the directory \
                 that the server was started with"
            );
            Err(RendezvousError::new(path, problem))
        }
        Some(doubt) => Err(RendezvousError::new(path, doubt.to_string())),
    }
}

/// The server of a directory `<host>.<pid>.<n>`; `None` if it is no such directory or admits no tools.
fn read_server_dir(dir: &Path) -> Option<ServerInfo> {
    let mut parts = dir.file_name()?.to_str()?.rsplitn(3, '.').skip(1);
    let (pid, host) = (parts.next()?, parts.next()?);
    let file = dir.join(format!("pmix.{host}.tool.{pid}"));
    match ServerInfo::read(&file) {
        Ok(info) => {
            Some(ServerInfo { is_of_session: dir.join(format!("pmix.{host}.tool")).exists(), ..info })
        }
        Err(_) if !file.exists() => None,
        Err(error) => {
            tracing::warn!(%error, "skipped a malformed rendezvous file");
            None
        }
    }
}

/// Opens a file without waiting for anybody, as a FIFO would make it wait.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    let flags = (flags | OFlags::NONBLOCK).bits().cast_signed();
    File::options().read(true).custom_flags(flags).open(path)
}

fn read(path: &Path, flags: OFlags) -> io::Result<(String, Uid)> {
    let file =
        open(path, flags).map_err(|error| match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::LOOP) if flags.contains(OFlags::NOFOLLOW) => {
                io::Error::other("it is a link, and links are not followed here")
            }
            _ => error,
        })?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let uid = found.uid().into();
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    Ok((text, uid))
}

/// Server and socket of `<namespace>.<rank>;unix:<absolute path>`.
pub(crate) fn parse_uri(uri: &str) -> Option<(ProcId, &Path)> {
    let (server, address) = uri.split_once(';')?;
    let (nspace, rank) = server.rsplit_once('.')?;
    let server = ProcId::new(Nspace::new(nspace).ok()?, Rank::new(rank.parse().ok()?).ok()?);
    let socket = Path::new(address.strip_prefix("unix:")?);
    socket.is_absolute().then_some((server, socket))
}

/// The identity in the address of a server, whichever wire it speaks.
pub(crate) fn server_of(uri: &str) -> Option<ProcId> {
    parse_uri(uri).map(|(server, _)| server).or_else(|| foreign::parse_uri(uri).map(|(server, _)| server))
}

/// Host and pid of `pmix.<host>.tool.<pid>`.
pub(crate) fn parse_file_name(name: &str) -> Option<(&str, u32)> {
    let (host, pid) = name.strip_prefix("pmix.")?.rsplit_once(".tool.")?;
    Some((host, pid.parse().ok()?))
}

/// A live server holds the lock of its directory. A shared lock keeps tools out of each other's way.
fn is_alive(socket: &Path, dir: &Path) -> bool {
    match open(&dir.join(LOCK), OFlags::empty()).map(|lock| lock.try_lock_shared()) {
        Ok(Ok(())) => false,
        Ok(Err(TryLockError::WouldBlock)) => true,
        // another implementation, or a lock without meaning: connecting will tell
        Ok(Err(TryLockError::Error(_))) | Err(_) => socket.exists(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs::DirBuilder;
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};

    use super::*;

    fn user_dir(root: &Path) -> PathBuf {
        places(Some(root)).unwrap().first()
    }

    /// Directories as servers make them, alive as long as this exists.
    pub(crate) struct FakeServers {
        pub(crate) root: tempfile::TempDir,
        locks: Vec<File>,
    }

    impl FakeServers {
        pub(crate) fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            DirBuilder::new().mode(0o700).create(user_dir(root.path())).unwrap();
            Self { root, locks: Vec::new() }
        }

        pub(crate) fn add(&mut self, nspace: &str, pid: u32, is_alive: bool) -> PathBuf {
            let dir = user_dir(self.root.path()).join(format!("node.1.{pid}.0"));
            fs::create_dir(&dir).unwrap();
            let lock = File::create(dir.join(LOCK)).unwrap();
            if is_alive {
                lock.lock().unwrap();
                self.locks.push(lock);
            }
            let text = format!("{nspace}.0;unix:{}/server@sock\n0.1.0\n{pid}\n1:1\n", dir.display());
            let file = dir.join(format!("pmix.node.1.tool.{pid}"));
            fs::write(&file, &text).unwrap();
            // one of its session
            fs::write(dir.join("pmix.node.1.tool"), text).unwrap();
            file
        }
    }

    #[test]
    fn tol_03a_servers_are_found_by_their_files() {
        let mut fakes = FakeServers::new();
        fakes.add("srv.b", 20, true);
        fakes.add("srv.a", 7, true);
        let found = discover_in(fakes.root.path()).unwrap();
        let [a, b] = &found[..] else { panic!("{found:?}") };
        assert_eq!((a.pid, a.nspace().as_str(), a.proc.rank), (7, "srv.a", Rank::from_raw(0)));
        assert_eq!((a.host.as_deref(), a.version.as_deref()), (Some("node.1"), Some("0.1.0")));
        assert_eq!(a.uri, format!("srv.a.0;unix:{}/server@sock", a.dir.display()));
        assert_eq!(a.uid, own_uid());
        assert_eq!((b.pid, b.to_string().as_str()), (20, "pid 20 (srv.b)"));
    }

    #[test]
    fn tol_07c_a_dead_server_is_told_from_a_live_one() {
        let mut fakes = FakeServers::new();
        fakes.add("dead", 1, false);
        fakes.add("live", 2, true);
        let alive =
            |servers: Vec<ServerInfo>| servers.iter().map(|server| server.is_alive).collect::<Vec<_>>();
        assert_eq!(alive(discover_in(fakes.root.path()).unwrap()), [false, true]);
        // looking does not disturb a server that looks for the same
        let lock = File::open(user_dir(fakes.root.path()).join("node.1.1.0").join(LOCK)).unwrap();
        assert!(lock.try_lock().is_ok());
        drop(lock);
        fakes.locks.clear();
        assert_eq!(alive(discover_in(fakes.root.path()).unwrap()), [false, false]);
    }

    #[test]
    fn tol_03c_what_makes_no_sense_is_skipped() {
        let mut fakes = FakeServers::new();
        let base = user_dir(fakes.root.path());
        for (dir, file, text) in [
            ("n.1.0", "pmix.n.tool.1", ""),
            ("n.2.0", "pmix.n.tool.2", "no uri\n"),
            ("n.3.0", "pmix.n.tool.3", "srv.x;unix:/s\n"),
            ("n.4.0", "other", "srv.0;unix:/s\n"),
            ("short", "pmix.n.tool.5", "srv.0;unix:/s\n"),
        ] {
            fs::create_dir(base.join(dir)).unwrap();
            fs::write(base.join(dir).join(file), text).unwrap();
        }
        fs::write(base.join(".lock"), "").unwrap();
        fakes.add("good", 9, true);
        let found = discover_in(fakes.root.path()).unwrap();
        assert_eq!(found.iter().map(|server| server.pid).collect::<Vec<_>>(), [9]);
    }

    #[test]
    fn fifos_in_the_place_of_files_make_nobody_wait() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        let mut fakes = FakeServers::new();
        let file = fakes.add("a", 1, true);
        fs::remove_file(&file).unwrap();
        mknodat(CWD, &file, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let error = ServerInfo::read(&file).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        let lock = fakes.add("b", 2, false).with_file_name(LOCK);
        fs::remove_file(&lock).unwrap();
        mknodat(CWD, &lock, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let found = discover_in(fakes.root.path()).unwrap();
        assert_eq!(
            found.iter().map(|server| (server.pid, server.is_alive)).collect::<Vec<_>>(),
            [(2, false)]
        );
    }

    #[test]
    fn tol_05a_a_directory_that_others_may_write_to_is_not_trusted() {
        let fakes = FakeServers::new();
        let base = user_dir(fakes.root.path());
        fs::set_permissions(&base, fs::Permissions::from_mode(0o711)).unwrap();
        assert!(discover_in(fakes.root.path()).is_ok());
        for mode in [0o720, 0o702, 0o744] {
            fs::set_permissions(&base, fs::Permissions::from_mode(mode)).unwrap();
            let error = discover_in(fakes.root.path()).unwrap_err().to_string();
            let mode = format!("mode {mode:04o}");
            assert!(error.contains(&base.display().to_string()) && error.contains(&mode), "{error}");
        }
        fs::set_permissions(&base, fs::Permissions::from_mode(0o700)).unwrap();
        let other = geteuid().as_raw() + 1;
        // only root can make a directory another's
        if std::os::unix::fs::chown(&base, Some(other), None).is_ok() {
            let error = discover_in(fakes.root.path()).unwrap_err().to_string();
            assert!(error.contains(&format!("belongs to uid {other}")), "{error}");
        }
        fs::remove_dir(&base).unwrap();
        std::os::unix::fs::symlink(fakes.root.path(), &base).unwrap();
        let error = discover_in(fakes.root.path()).unwrap_err().to_string();
        assert!(error.contains("is not a directory"), "{error}");
    }

    #[test]
    fn tol_03c_a_file_elsewhere_is_read_by_its_lines() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("rendezvous");
        let socket = dir.path().join("socket");
        let text = format!("srv.0;unix:{}\n0.1.0\n77\n0:0\n", socket.display());
        fs::write(&file, text).unwrap();
        let info = ServerInfo::read(&file).unwrap();
        assert_eq!((info.pid, info.host, info.is_alive, info.native_uri), (77, None, false, None));
        fs::write(&socket, "").unwrap();
        assert!(ServerInfo::read(&file).unwrap().is_alive);
        // before it the record of another wire, whose lines are not taken for ours
        let both = format!(
            "srv.0;tcp4://127.0.0.1:1\n4.2.2\n5\n0:0\n\nsrv.0;unix:{}\n0.1.0\n77\n",
            socket.display()
        );
        fs::write(&file, both).unwrap();
        let second = ServerInfo::read(&file).unwrap();
        assert_eq!((&second.uri, second.pid, second.version.as_deref()), (&info.uri, 77, Some("0.1.0")));
        assert_eq!(second.native_uri.as_deref(), Some("srv.0;tcp4://127.0.0.1:1"));
        fs::write(&file, "srv.0;unix:/s\n").unwrap();
        assert!(ServerInfo::read(&file).unwrap_err().to_string().contains("third line"));
        let missing = ServerInfo::read(dir.path().join("missing")).unwrap_err();
        assert!(missing.to_string().contains("cannot be read"), "{missing}");
    }
}
