//! Credentials of MUNGE, through its programs: its daemon reads from the kernel who calls it.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::OnceLock;

use bytes::Bytes;
use pmix_server::Account;
use pmix_server::host::{HostError, HostResult};
use pmix_types::{Gid, Status, Uid};
use tokio::process::Command;

use super::invalid;
use super::seal::Holder;
use crate::program::Programs;
use crate::user::User;

/// What its credentials begin with.
const ARMOR: &[u8] = b"MUNGE:";

/// Longest credential that is handed to its program; MUNGE itself accepts payloads up to a megabyte, but we ask for none.
const MAX_ARMORED: usize = 8192;

/// Exit codes of `unmunge` that say nothing of the credential: there is no socket of a daemon, or no answer from it.
const NO_SOCKET: i32 = 6;
const NO_ANSWER: i32 = 7;

/// The way to the MUNGE daemon of this node.
#[derive(Debug, Default)]
pub(super) struct Munge {
    socket: OnceLock<PathBuf>,
    programs: Programs,
}

/// Whether a credential is one of MUNGE.
pub(super) fn is_one(credential: &[u8]) -> bool {
    credential.starts_with(ARMOR)
}

impl Munge {
    pub(super) fn set_socket(&self, socket: &Path) {
        let _ = self.socket.set(socket.to_owned());
    }

    /// A credential of this user.
    pub(super) async fn issue(&self, user: &User, own: Uid) -> HostResult<Bytes> {
        let account = self.account(user, own).await?;
        let mut command = self.command("munge");
        command.arg("--no-input");
        let output = self.programs.run(user.uid, command, account.as_ref(), Vec::new()).await;
        let output = succeeded("munge", output).map_err(|reason| {
            HostError::new(Status::ERR_NOT_SUPPORTED, format!("no credential of type munge: {reason}"))
        })?;
        let credential = output.stdout.trim_ascii_end();
        if !is_one(credential) {
            let message = "no credential of type munge: munge has written something else";
            return Err(HostError::new(Status::ERR_NOT_SUPPORTED, message));
        }
        Ok(Bytes::copy_from_slice(credential))
    }

    /// Who holds a credential, for a user: it may be for some users only, so that this user asks. The daemon of a node validates each of
    /// them once.
    pub(super) async fn validate(&self, user: &User, own: Uid, credential: Bytes) -> HostResult<Holder> {
        if credential.len() > MAX_ARMORED {
            return Err(invalid(format!(
                "it has {} bytes; those of munge have {MAX_ARMORED} at most",
                credential.len()
            )));
        }
        let account = self.account(user, own).await?;
        let mut command = self.command("unmunge");
        command.args(["--numeric", "--keys=UID,GID"]);
        // unmunge looks for the end of a line
        let input = [&credential[..], b"\n"].concat();
        let cannot = |status: Status, reason: &dyn Display| {
            HostError::new(status, format!("credentials of type munge cannot be validated: {reason}"))
        };
        let output = self.programs.run(user.uid, command, account.as_ref(), input).await;
        let output =
            output.map_err(|error| cannot(Status::ERR_NOT_SUPPORTED, &format_args!("unmunge: {error}")))?;
        let no_daemon = matches!(output.status.code(), Some(NO_SOCKET | NO_ANSWER));
        let output = succeeded("unmunge", Ok(output)).map_err(|reason| match no_daemon {
            true => cannot(Status::ERR_UNREACH, &reason),
            false => invalid(reason),
        })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let number = |key: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse::<u32>().ok())
        };
        let uid = number("UID").ok_or_else(|| invalid("unmunge reports no UID"))?;
        Ok(Holder { uid: uid.into(), gid: number("GID").map(Gid::new) })
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if let Some(socket) = self.socket.get() {
            command.arg("--socket").arg(socket);
        }
        command
    }

    /// The user for whom a program is to be run, if that is not the server's.
    async fn account(&self, user: &User, own: Uid) -> HostResult<Option<Account>> {
        let uid = user.uid;
        // root may ask for anybody, also a server that cannot become root
        if uid == own || uid.is_root() && !Account::can_be_assumed() {
            return Ok(None);
        }
        let cannot = |reason: &dyn Display| {
            let message = format!("no credentials of type munge for uid {uid}: {reason}");
            HostError::new(Status::ERR_NOT_SUPPORTED, message)
        };
        if !Account::can_be_assumed() {
            return Err(cannot(&"this server may not run programs of other users"));
        }
        let gid = user.gid.ok_or_else(|| cannot(&"its group is not known"))?;
        Account::look_up_async(uid, gid).await.map(Some).map_err(|error| cannot(&error))
    }
}

/// The output of a program that has succeeded, otherwise why it has not.
fn succeeded(program: &str, output: io::Result<Output>) -> Result<Output, String> {
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or_default();
    let said = said.strip_prefix(program).and_then(|said| said.strip_prefix(": ")).unwrap_or(said);
    let said: String = said.chars().filter(|c| !c.is_control()).take(200).collect();
    Err(if said.is_empty() { format!("{program} ended with {}", output.status) } else { said })
}
