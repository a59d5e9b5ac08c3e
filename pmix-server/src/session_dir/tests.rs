//! Tests of what is left behind run alone: processes that other tests start hold a lock of this process for a moment longer,
//! and whoever leaves then takes it for that of a server that starts.

use pmix_test_wait::is_alone;

use super::*;
use crate::account::tests::another_uid;

fn create(root: &Path, hostname: &str, other_users: bool) -> Result<SessionDir, SessionDirError> {
    SessionDir::create(Some(root), hostname, other_users)
}

fn base(root: &Path) -> PathBuf {
    root.join(format!("pmix-{}", own_uid()))
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

#[test]
fn directories_are_private_and_leave_nothing() {
    if !is_alone(directories_are_private_and_leave_nothing) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let dir = create(root.path(), "n0", false).unwrap();
    assert_eq!((mode(&base(root.path())), mode(dir.path())), (0o700, 0o700));
    let second = create(root.path(), "n0", false).unwrap();
    assert_ne!(dir.path(), second.path());
    drop(dir);
    assert!(second.path().exists());
    drop(second);
    assert!(!base(root.path()).exists());
}

#[test]
fn the_name_of_a_directory_that_is_there_already_is_not_taken() {
    let root = tempfile::tempdir().unwrap();
    let first = create(root.path(), "n9", false).unwrap();
    let name = first.path().file_name().unwrap().to_str().unwrap();
    let (stem, number) = name.rsplit_once('.').unwrap();
    let number: u32 = number.parse().unwrap();
    // that of a server in another container, whose lock is held
    let taken = base(root.path()).join(format!("{stem}.{}", number + 1));
    fs::create_dir(&taken).unwrap();
    let lock = open_lock(&taken.join(LOCK)).unwrap();
    lock.lock().unwrap();
    let others: Vec<_> = (0..3).map(|_| create(root.path(), "n9", false).unwrap()).collect();
    assert!(others.iter().all(|other| other.path() != taken && other.path() != first.path()));
}

#[test]
fn who_removes_the_directory_of_a_dead_server_leaves_as_little_as_that_would() {
    if !is_alone(who_removes_the_directory_of_a_dead_server_leaves_as_little_as_that_would) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let [dead, other] = [(); 2].map(|()| create(root.path(), "n0", false).unwrap());
    let [dead, other] = [dead, other].map(|dir| {
        let path = dir.path().to_owned();
        std::mem::forget(dir);
        path
    });
    remove_session_dir(&dead).unwrap();
    assert!(!dead.exists() && other.exists());
    remove_session_dir(&other).unwrap();
    assert!(!base(root.path()).exists());
}

#[test]
fn links_files_and_wide_modes_are_refused_with_the_path_and_what_to_do() {
    let root = tempfile::tempdir().unwrap();
    let base = base(root.path());
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), &base).unwrap();
    let refused = create(root.path(), "n0", false).unwrap_err().to_string();
    assert!(refused.contains(base.to_str().unwrap()) && refused.contains("remove it"), "{refused}");
    fs::remove_file(&base).unwrap();

    fs::create_dir(&base).unwrap();
    for mode in [0o777, 0o744, 0o740, 0o704, 0o720, 0o702] {
        fs::set_permissions(&base, Permissions::from_mode(mode)).unwrap();
        let refused = create(root.path(), "n0", false).unwrap_err().to_string();
        let named = format!("mode {mode:04o}");
        assert!(refused.contains(&named) && refused.contains("chmod 700"), "{refused}");
    }
}

#[test]
fn a_directory_of_somebody_else_is_refused_naming_the_owner() {
    let root = tempfile::tempdir().unwrap();
    let base = base(root.path());
    fs::create_dir(&base).unwrap();
    fs::set_permissions(&base, Permissions::from_mode(0o700)).unwrap();
    let own = own_uid();
    // only the owner matters, so expecting another uid is the same case
    let refused = make_private(&base, 0o700, another_uid()).unwrap_err().to_string();
    assert!(refused.contains(&format!("belongs to uid {own}")), "{refused}");
}

#[test]
fn what_dead_servers_left_is_removed_and_live_ones_stay() {
    let root = tempfile::tempdir().unwrap();
    let live = create(root.path(), "n0", false).unwrap();
    let dead = base(root.path()).join("n0.1.0");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join(LOCK), "").unwrap();
    fs::write(dead.join(SOCKET), "").unwrap();
    let other_node = base(root.path()).join("n1.1.0");
    fs::create_dir(&other_node).unwrap();
    let longer_name = base(root.path()).join("n0.example.1.0");
    fs::create_dir(&longer_name).unwrap();
    let _next = create(root.path(), "n0", false).unwrap();
    assert!(!dead.exists());
    assert!(longer_name.exists(), "a node whose name only begins like ours");
    assert!(live.path().exists());
    assert!(other_node.exists(), "another node's directory is not ours to judge");
}

#[test]
fn the_host_of_a_directory_is_all_but_its_two_numbers() {
    assert_eq!(host_of("n1.12.0"), Some("n1"));
    assert_eq!(host_of("n1.example.12.0"), Some("n1.example"));
    assert_eq!(host_of("10.0.0.1.12.0"), Some("10.0.0.1"));
    for other in ["", GATE, "n1", "n1.12", "n1.example.12", "n1.12.x"] {
        assert_eq!(host_of(other), None, "{other}");
    }
}

#[test]
fn servers_that_come_and_go_at_the_same_time_do_not_harm_each_other() {
    if !is_alone(servers_that_come_and_go_at_the_same_time_do_not_harm_each_other) {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let start = std::sync::Barrier::new(8);
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                start.wait();
                for _ in 0..50 {
                    let dir = create(root.path(), "n0", false).unwrap();
                    assert!(dir.path().join(LOCK).exists(), "nobody takes a live one for stale");
                }
            });
        }
    });
    let last = create(root.path(), "n0", false).unwrap();
    drop(last);
    assert!(!base(root.path()).exists(), "the last one to leave leaves nothing");
}

#[tokio::test]
async fn sockets_below_long_paths_can_be_reached() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("d".repeat(120));
    fs::create_dir(&deep).unwrap();
    let dir = create(&deep, "n0", false).unwrap();
    assert!(dir.socket().as_os_str().len() > SUN_PATH);
    let listener = dir.listen(false).unwrap();
    assert_eq!(mode(&dir.socket()), 0o600);
    let open = File::open(dir.path()).unwrap();
    let short = format!("/proc/self/fd/{}/{SOCKET}", open.as_raw_fd());
    let (_client, accepted) = tokio::join!(tokio::net::UnixStream::connect(short), listener.accept());
    accepted.unwrap();
}

#[test]
fn tol_03a_rendezvous_files_are_named_for_host_pid_and_namespace() {
    let root = tempfile::tempdir().unwrap();
    let dir = create(root.path(), "n0", false).unwrap();
    let (server, pid) = (Nspace::new("srv").unwrap(), std::process::id().to_string());
    let access = Access { is_of_session: true, other_users: false };
    dir.write_rendezvous(&server, &rendezvous("srv.0;unix:/x", None), "n0", access).unwrap();
    for name in ["pmix.n0.tool", "pmix.n0.tool.srv", &format!("pmix.n0.tool.{pid}")] {
        let path = dir.path().join(name);
        assert_eq!(mode(&path), 0o600);
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(text.lines().next(), Some("srv.0;unix:/x"));
        assert_eq!(text.lines().nth(2), Some(&*pid));
    }
}

#[test]
fn tol_03c_the_record_of_the_c_library_is_the_first() {
    let root = tempfile::tempdir().unwrap();
    let dir = create(root.path(), "n0", false).unwrap();
    let native: ServerUri = "a/b.0;tcp4://127.0.0.1:4711".parse().unwrap();
    let (access, text) =
        (Access { is_of_session: true, other_users: true }, rendezvous("a/b.0;unix:/x", Some(&native)));
    dir.write_rendezvous(&native.server.nspace, &text, "n0", access).unwrap();
    let text = fs::read_to_string(dir.path().join("pmix.n0.tool")).unwrap();
    let first: Rendezvous = text.parse().unwrap();
    assert_eq!((&first.uri, first.pid), (&native, Some(std::process::id())));
    let second = text.split("\n\n").nth(1);
    assert_eq!(second.and_then(|record| record.lines().next()), Some("a/b.0;unix:/x"));
}

#[test]
fn a_server_of_root_or_of_several_users_refuses_a_directory_that_others_can_replace() {
    let is_root = is_among_others();
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("open/below");
    fs::create_dir_all(&place).unwrap();
    let open = place.parent().unwrap();
    fs::set_permissions(&place, Permissions::from_mode(0o755)).unwrap();
    for (mode, other_users, refused) in [
        (0o777, true, true),
        (0o1777, true, false),
        (0o755, true, false),
        (0o777, false, is_root),
        (0o711, true, false),
    ] {
        fs::set_permissions(open, Permissions::from_mode(mode)).unwrap();
        let made = create(&place, "n0", other_users);
        assert_eq!(made.is_err(), refused, "{mode:o} {other_users} {made:?}");
        if let Err(error) = made {
            assert!(error.path.ends_with("open") && error.reason.contains("chmod +t"), "{error}");
        }
    }
    // the owner of a directory may replace what lies in it
    if is_root && std::os::unix::fs::chown(open, Some(4001), None).is_ok() {
        for other_users in [true, false] {
            assert!(create(&place, "n0", other_users).is_err());
        }
    }
}
