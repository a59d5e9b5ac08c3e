//! Ranks in containers: processes with a mapping of users, a view of the files and a network of their own.

use std::path::Path;
use std::process::Command;

use pmix_tests::{OtherUser, Peer, pmixrun, program, rank_program, run, skipped};

/// What makes a container, as any user may: inside, the user is root.
const CONTAINER: &[&str] = &["unshare", "--user", "--map-root-user", "--mount"];
/// Hides the directory of the session from what runs after it.
const HIDE: &str = "mount -t tmpfs none \"$PMIX_SERVER_TMPDIR\" && ";

/// The user who runs `pmixrun`: that of the tests, or an ordinary one.
struct Owner(Option<OtherUser>);

impl Owner {
    /// All of them who can make containers.
    fn all() -> Vec<Self> {
        let other = OtherUser::second().map(|user| Self(Some(user)));
        [Some(Self(None)), other].into_iter().flatten().filter(Self::makes_containers).collect()
    }

    fn makes_containers(&self) -> bool {
        let mut command = match &self.0 {
            None => Command::new(CONTAINER[0]),
            Some(user) => user.command(CONTAINER[0]),
        };
        let made = command.args(&CONTAINER[1..]).arg("true").output();
        let is_made = made.is_ok_and(|output| output.status.success());
        if !is_made {
            let who = self
                .0
                .as_ref()
                .map_or_else(|| "whoever runs the tests".to_owned(), |user| format!("uid {}", user.uid));
            skipped(&format!("user namespaces for {who} (unshare --user --map-root-user --mount)"));
        }
        is_made
    }

    /// Runs two ranks, each in a container of its own, after a command there.
    fn run(
        &self,
        options: &[&str],
        before: &str,
        rank: &Path,
        args: &[&str],
    ) -> (Option<i32>, String, String) {
        let dir = tempfile::tempdir().unwrap();
        let (mut command, rank) = match &self.0 {
            None => (pmixrun(dir.path(), &[]), rank.to_owned()),
            Some(user) => {
                let mut command = user.command(user.copy_of(&program("pmixrun")));
                command.args(["--timeout", "600"]).env_remove("RUST_LOG").env("PMIXRUN_RECORD", "none");
                (command, user.copy_of(rank))
            }
        };
        command.args(["-n", "2"]).args(CONTAINER).args(options);
        command.args(["sh", "-c", &format!("{before}exec \"$0\" \"$@\"")]).arg(rank).args(args);
        run(command)
    }
}

#[test]
fn a_rank_in_a_container_reaches_the_server_through_the_socket() {
    for owner in Owner::all() {
        // a network of its own makes no difference to a socket in the file system
        for options in [&[][..], &["--net"]] {
            let (code, out, err) = owner.run(options, "", &rank_program(), &["fence"]);
            assert_eq!((code, out.matches("finalized").count()), (Some(0), 2), "{options:?}: {out}{err}");
        }
    }
}

#[test]
fn a_rank_in_a_container_without_the_socket_says_what_to_mount_and_fails() {
    for owner in Owner::all() {
        let (code, out, err) = owner.run(&[], HIDE, &rank_program(), &["fence"]);
        assert!(code.is_some_and(|code| code != 0) && !out.contains("connected"), "{code:?} {out}{err}");
        let line = err.lines().find(|line| line.contains("mount the socket's directory")).expect(&err);
        assert!(line.contains("/pmix-") && line.contains("/server@sock"), "{line}");
    }
}

/// It claims to be root, as it sees itself; it is known by what the kernel says outside. It needs no file of ours.
#[test]
fn cli_02_a_c_rank_in_a_container_is_known_by_the_kernels_uid() {
    let Some(rank) = Peer::Libpmix.program("pmix_basic") else { return };
    for owner in Owner::all() {
        for before in ["", HIDE] {
            let (code, out, err) = owner.run(&[], before, &rank, &[]);
            assert_eq!((code, out.matches("done, 0 checks failed").count()), (Some(0), 2), "{out}{err}");
            assert!(!err.contains("refused a connection"), "{err}");
        }
    }
}

/// Another loopback interface is another machine to the library, which is all it says.
#[test]
fn a_c_rank_in_a_network_of_its_own_fails_in_its_init() {
    let Some(rank) = Peer::Libpmix.program("pmix_basic") else { return };
    for owner in Owner::all() {
        let (code, out, err) = owner.run(&["--net"], "", &rank, &[]);
        assert!(code.is_some_and(|code| code != 0), "{out}{err}");
        assert!(out.contains("FAIL init (UNREACHABLE)"), "{out}{err}");
    }
}
