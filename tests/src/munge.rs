use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use pmix_test_wait::block_until;
use tempfile::TempDir;

use crate::peers::{on_path, skipped};

/// A MUNGE daemon of its own, with its own key, for the time of a test.
#[derive(Debug)]
pub struct Munged {
    daemon: Child,
    dir: TempDir,
}

impl Munged {
    /// `None`, with a line on standard error, if MUNGE is not installed, or does not start.
    ///
    /// # Panics
    /// If it is not there and `PMIX_REQUIRE_PEERS` is set.
    pub fn start() -> Option<Self> {
        let munged = on_path("munged", "apt-get install munge")?;
        let dir = tempfile::tempdir().unwrap();
        // other users call it, too
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let file = |name: &str| dir.path().join(name);
        fs::write(file("key"), [7; 64]).unwrap();
        fs::set_permissions(file("key"), Permissions::from_mode(0o600)).unwrap();
        let mut command = Command::new(munged);
        command.args(["--force", "--foreground"]).arg("--socket").arg(file("socket"));
        for (option, name) in [("key", "key"), ("log", "log"), ("pid", "pid"), ("seed", "seed")] {
            command.arg(format!("--{option}-file={}", file(name).display()));
        }
        // below a directory that others may write to, such as /tmp, it warns
        let mut daemon =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let is_up = block_until("munged opens its socket", || match daemon.try_wait().unwrap() {
            Some(_) => Some(false),
            None => file("socket").exists().then_some(true),
        });
        if !is_up {
            let said = fs::read_to_string(file("log")).unwrap_or_default();
            skipped(&format!("munged that starts on this machine: {said}"));
            return None;
        }
        Some(Self { daemon, dir })
    }

    /// Its socket.
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// Ends it.
    pub fn end(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        self.stop();
    }
}
