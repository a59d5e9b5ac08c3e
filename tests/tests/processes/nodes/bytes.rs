//! Arguments, variables and directories that are not UTF-8.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use pmix_tests::{TestDvm, here, nothing_is_left, pmixrun, run};

/// What two ranks say of themselves with [`described`].
const SAID: &str = "ff.61 ff.62 ff.64\nff.61 ff.62 ff.64\n";

fn bytes(text: &[u8]) -> OsString {
    OsStr::from_bytes(text).to_owned()
}

/// A directory whose name ends in bytes that are not UTF-8, with a program whose name is not, either.
fn directory(dir: &Path) -> PathBuf {
    let made = dir.join(OsStr::from_bytes(b"\xffd"));
    std::fs::create_dir(&made).unwrap();
    let script = "#!/bin/sh\nhex() { printf %s \"$1\" | tail -c 2 | od -An -tx1 | sed 's/ //; s/ /./g'; }\n\
                  echo $(hex \"$1\") $(hex \"$V\") $(hex \"$(/bin/pwd)\")\n";
    let program = made.join(OsStr::from_bytes(b"\xfe"));
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    made
}

/// Adds a program whose two ranks print the last bytes of its argument, its variable and its directory.
fn described(mut command: Command, dir: &Path) -> Command {
    command.args(["-n", "2", "--wdir"]).arg(directory(dir));
    command.arg("-x").arg(bytes(b"V=\xffb")).arg(bytes(b"./\xfe")).arg(bytes(b"\xffa"));
    command
}

#[test]
fn spn_01_arguments_variables_and_directories_of_ranks_on_this_host_are_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = run(described(pmixrun(dir.path(), &[]), dir.path()));
    assert_eq!((code, out.as_str()), (Some(0), SAID), "{err}");
}

#[test]
fn spn_01_arguments_variables_and_directories_of_ranks_on_other_hosts_are_bytes() {
    let (dir, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut command = described(here(dir.path(), "a,b", &["--map-by", "node"]), own.path());
    // it is passed on to all hosts
    command.env(bytes(b"INHERITED_\xff"), bytes(b"\xff"));
    let (code, out, err) = run(command);
    assert_eq!((code, out.as_str()), (Some(0), SAID), "{err}");
    nothing_is_left(dir.path());
}

#[tokio::test]
async fn spn_01_arguments_variables_and_directories_of_jobs_in_a_dvm_are_bytes() {
    let dvm = TestDvm::here("a,b", "exec \"$@\"", &[]).await;
    for command in [dvm.submit(&[]), dvm.pmixrun(&[])] {
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = run(described(command, dir.path()));
        assert_eq!((code, out.as_str()), (Some(0), SAID), "{err}");
    }
    let dir = tempfile::tempdir().unwrap();
    let made = directory(dir.path());
    let stage = dir.path().join("stage");
    std::fs::write(&stage, b"./\xfe \xffa\ncp \xfe '\xff copy'\n").unwrap();
    let mut command = dvm.submit(&["--stage", stage.to_str().unwrap(), "--wdir"]);
    command.arg(&made).arg("-x").arg(bytes(b"V=\xffb"));
    let (code, out, err) = run(command);
    assert_eq!(code, Some(0), "{out} {err}");
    assert!(made.join(OsStr::from_bytes(b"\xff copy")).exists(), "{out} {err}");
    dvm.stop(|dir, _| nothing_is_left(dir.unwrap())).await;
}
