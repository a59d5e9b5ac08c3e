//! Servers of OpenPMIx: Open MPI's `mpirun`, `prte`. Their files have the record of the C library only, and lie in session
//! directories `ompi.*` and `prte*` in the temporary directory.

use std::fs::{self, Metadata};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pmix_proto::places::{Places, doubt, system_root};
use pmix_types::{Nspace, ProcId, Rank, Uid};
use procfs::net::{TcpState, tcp, tcp6};

use crate::discovery::{ServerInfo, own_uid, parse_file_name};

/// What the names of session directories begin with.
const SESSIONS: [&str; 2] = ["ompi.", "prte"];
/// Session directories below session directories, as in `prte.<host>.<uid>/dvm.<pid>`.
const DEPTH: usize = 2;
/// No directory is read further.
const MOST: usize = 10_000;

/// Name and address of a server of the C library: `<nspace>.<rank>;tcp4://<address>:<port>`.
pub(crate) fn parse_uri(uri: &str) -> Option<(ProcId, SocketAddr)> {
    let (server, address) = uri.split_once(';')?;
    let (nspace, rank) = server.rsplit_once('.')?;
    let server = ProcId::new(Nspace::new(nspace).ok()?, Rank::new(rank.parse().ok()?).ok()?);
    let address = address.strip_prefix("tcp4://").or_else(|| address.strip_prefix("tcp6://"))?;
    Some((server, address.parse().ok()?))
}

/// The first record of that kind in the text of a rendezvous file of this owner.
pub(crate) fn read_record(path: &Path, text: &str, uid: Uid) -> Option<ServerInfo> {
    let mut lines = text.lines().map(str::trim);
    let uri = lines.next()?;
    let (proc, address) = parse_uri(uri)?;
    let version = lines.next().filter(|line| !line.is_empty()).map(str::to_owned);
    let file_name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = parse_file_name(file_name);
    let pid = lines.next().and_then(|line| line.parse().ok()).or_else(|| name.map(|(_, pid)| pid))?;
    Some(ServerInfo {
        uri: uri.to_owned(),
        native_uri: Some(uri.to_owned()),
        proc,
        pid,
        host: name.map(|(host, _)| host.to_owned()),
        uid,
        version,
        dir: path.parent().unwrap_or(path).to_owned(),
        is_of_session: !file_name.starts_with("pmix.sys."),
        is_alive: is_listening(address, uid),
    })
}

/// Whether this user listens there: once a server has ended, its port may be another's (TOL-05). Found out without a connection, which
/// the server would take for a tool.
fn is_listening(address: SocketAddr, uid: Uid) -> bool {
    let listeners = if address.is_ipv4() { tcp() } else { tcp6() };
    // where that cannot be read, connecting will tell
    let Ok(listeners) = listeners else { return true };
    listeners.iter().any(|socket| {
        let local = socket.local_address;
        socket.state == TcpState::Listen
            && socket.uid == uid.as_raw()
            && local.port() == address.port()
            && (local.ip() == address.ip() || local.ip().is_unspecified())
    })
}

/// The servers of this user whose session directories are in the places, by pid.
pub(crate) fn discover(places: &Places) -> Vec<ServerInfo> {
    let mut roots = vec![places.root().to_owned()];
    if !places.is_given() {
        roots.push(system_root());
    }
    let mut found = Vec::new();
    for root in roots {
        // what a server sets for its processes is a session directory itself
        let is_session = fs::symlink_metadata(&root).is_ok_and(|metadata| is_own(&metadata));
        if is_session {
            files_in(&root, &mut found);
        }
        for dir in entries(&root) {
            let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if SESSIONS.iter().any(|session| name.starts_with(session)) {
                search(&dir, DEPTH, &mut found);
            }
        }
    }
    found.sort_by(|a, b| (a.pid, &a.uri).cmp(&(b.pid, &b.uri)));
    found.dedup_by(|a, b| a.uri == b.uri);
    found
}

/// Only directories of this user into which nobody else can write are trusted (TOL-05).
fn search(dir: &Path, depth: usize, found: &mut Vec<ServerInfo>) {
    if !fs::symlink_metadata(dir).is_ok_and(|metadata| is_own(&metadata)) {
        return;
    }
    files_in(dir, found);
    if depth > 1 {
        entries(dir).iter().for_each(|below| search(below, depth - 1, found));
    }
}

fn is_own(metadata: &Metadata) -> bool {
    metadata.is_dir() && doubt(metadata, own_uid()).is_none()
}

/// Each server has a file with its pid in the name.
fn files_in(dir: &Path, found: &mut Vec<ServerInfo>) {
    for path in entries(dir) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_own =
            |path: &Path| fs::symlink_metadata(path).is_ok_and(|file| Uid::new(file.uid()) == own_uid());
        if parse_file_name(name).is_none() || !is_own(&path) {
            continue;
        }
        match ServerInfo::read(&path) {
            Ok(server) if server.is_of_openpmix() => found.push(server),
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "skipped a malformed rendezvous file"),
        }
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().take(MOST).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn places(root: &Path) -> Places {
        Places::given(root, own_uid()).unwrap()
    }

    /// A session directory as servers of OpenPMIx make them.
    fn session(dir: &Path, pid: u32, release: &str, port: u16) -> PathBuf {
        fs::create_dir_all(dir).unwrap();
        fs::set_permissions(dir, Permissions::from_mode(0o700)).unwrap();
        let text = format!(
            "prte-vm-{pid}@0.0;tcp4://127.0.0.1:{port}\n{release}\n{pid}\n0:0\nSat Nov 21 08:01:56 2026\n\n"
        );
        for name in
            [format!("pmix.vm.tool.{pid}"), format!("pmix.vm.tool.prte-vm-{pid}@0"), "pmix.vm.tool".into()]
        {
            fs::write(dir.join(name), &text).unwrap();
        }
        dir.join(format!("pmix.vm.tool.{pid}"))
    }

    #[test]
    fn tol_05a_a_listener_of_another_user_is_no_server() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, uid) = (listener.local_addr().unwrap(), own_uid());
        let other = Uid::new(uid.as_raw() + 1);
        let text = format!("prte-vm-7@0.0;tcp4://{address}\n5.0.11\n7\n");
        let is_alive = |uid| read_record(Path::new("pmix.vm.tool.7"), &text, uid).unwrap().is_alive;
        assert!(is_alive(uid) && !is_alive(other));
        drop(listener);
        assert!(!is_alive(uid));
    }

    #[test]
    fn tol_03c_sessions_of_openpmix_are_found_once_each_wherever_they_are() {
        let root = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        session(&root.path().join("ompi.7"), 7, "5.0.11rc1", port);
        session(&root.path().join("prte.vm.0/dvm.8"), 8, "6.0.0", port);
        fs::set_permissions(root.path().join("prte.vm.0"), Permissions::from_mode(0o700)).unwrap();
        session(&root.path().join("other.9"), 9, "5.0.11rc1", port);
        let found = discover(&places(root.path()));
        assert_eq!(found.iter().map(|server| server.pid).collect::<Vec<_>>(), [7, 8]);
        let mpirun = &found[0];
        assert_eq!(mpirun.uri, format!("prte-vm-7@0.0;tcp4://127.0.0.1:{port}"));
        assert_eq!((mpirun.proc.to_string().as_str(), mpirun.host.as_deref()), ("prte-vm-7@0:0", Some("vm")));
        assert_eq!(mpirun.version.as_deref(), Some("5.0.11rc1"));
        assert!(mpirun.is_alive && mpirun.is_of_session && mpirun.is_of_openpmix());
        // as its processes have it in their environment
        let inside = discover(&places(&root.path().join("ompi.7")));
        assert_eq!(inside.iter().map(|server| server.pid).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn tol_07c_a_server_of_openpmix_lives_as_long_as_it_listens() {
        let root = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let file = session(&root.path().join("ompi.7"), 7, "5.0.11", listener.local_addr().unwrap().port());
        assert!(ServerInfo::read(&file).unwrap().is_alive);
        drop(listener);
        assert!(!ServerInfo::read(&file).unwrap().is_alive);
    }

    #[test]
    fn tol_05a_session_directories_that_others_may_write_to_are_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("ompi.7");
        session(&dir, 7, "5.0.11", 1);
        for mode in [0o720, 0o702, 0o777] {
            fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
            assert_eq!(discover(&places(root.path())), []);
        }
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
        assert_eq!(discover(&places(root.path())).len(), 1);
        let link = root.path().join("prte.1");
        fs::rename(&dir, root.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(root.path().join("elsewhere"), &link).unwrap();
        assert_eq!(discover(&places(root.path())), []);
    }

    #[test]
    fn addresses_of_the_c_library_are_told_from_others() {
        assert!(parse_uri("a.b.0;tcp4://127.0.0.1:1").is_some_and(|(proc, _)| proc.to_string() == "a.b:0"));
        assert!(parse_uri("a.0;tcp6://[::1]:1").is_some());
        for uri in
            ["", "a.0", "a.0;unix:/s", "a.0;tcp4://vm:1", "a;tcp4://127.0.0.1:1", "a.-1;tcp4://127.0.0.1:1"]
        {
            assert_eq!(parse_uri(uri), None, "{uri}");
        }
    }
}
