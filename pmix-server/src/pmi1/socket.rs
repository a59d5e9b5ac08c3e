//! The pair of sockets between a process and its server.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;

use command_fds::CommandFdExt;
use pmix_types::ProcId;
use rustix::io::fcntl_dupfd_cloexec;

use super::Front;

/// Shell scripts use the descriptors below this one for their own purposes.
const FIRST: i32 = 10;

/// Makes the socket by which a process speaks PMI-1. Cheap to clone.
///
/// A launcher opens it when it starts the process, and has the process inherit what it gets, with the number in `PMI_FD`:
/// [`inherit_pmi_fd`] does both. [`Environment::apply`](crate::Environment::apply) does all of this.
#[derive(Clone)]
pub struct Pmi1Socket {
    front: Arc<Front>,
    proc: ProcId,
}

impl Pmi1Socket {
    pub(super) const fn new(front: Arc<Front>, proc: ProcId) -> Self {
        Self { front, proc }
    }

    /// Makes a pair of sockets and gives one end to the server. Returns the other end, for the process, with `FD_CLOEXEC` still
    /// set. Close your copy once the process has started: the server notices that the process is lost only when all copies of
    /// this end are closed.
    ///
    /// Whoever has this end speaks for the process.
    ///
    /// # Errors
    /// As `socketpair`: mostly that too many files are open.
    pub fn open(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        self.front.serve(self.proc.clone(), ours);
        Ok(theirs.into())
    }
}

impl fmt::Debug for Pmi1Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pmi1Socket").field("proc", &self.proc).finish_non_exhaustive()
    }
}

impl PartialEq for Pmi1Socket {
    fn eq(&self, other: &Self) -> bool {
        self.proc == other.proc && Arc::ptr_eq(&self.front, &other.front)
    }
}

/// Has a command pass a descriptor on to its process, and sets `PMI_FD` to its number there, which is 10 or more. Processes that
/// this one starts inherit it in turn, so the command may be a shell that starts the program.
///
/// The command owns the descriptor: drop the command when the process is started.
///
/// # Errors
/// Too many files are open.
pub fn inherit_pmi_fd(command: &mut Command, descriptor: OwnedFd) -> io::Result<()> {
    let descriptor = number_pmi_fd(command, descriptor)?;
    command.preserved_fds(vec![descriptor]);
    Ok(())
}

/// The first half of [`inherit_pmi_fd`]: moves the descriptor to a number of 10 or more, sets `PMI_FD` to that number, and
/// returns the descriptor with `FD_CLOEXEC` still set.
///
/// The other half runs code in the new process between fork and exec, for which the whole of this process must be forked; that
/// takes longer the larger this process is. A caller that starts no other process at the same time can instead clear `FD_CLOEXEC`
/// itself, start the process, and drop the descriptor.
///
/// # Errors
/// Too many files are open.
pub fn number_pmi_fd(command: &mut Command, descriptor: OwnedFd) -> io::Result<OwnedFd> {
    // with the same number in the new process, it takes the place of no other that the system needs on the way
    let descriptor = fcntl_dupfd_cloexec(descriptor, FIRST)?;
    command.env("PMI_FD", descriptor.as_raw_fd().to_string());
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_and_its_children_inherit_the_socket_under_its_number() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo $PMI_FD; sh -c 'readlink /proc/self/fd/$PMI_FD'"]);
        inherit_pmi_fd(&mut command, theirs.into()).unwrap();
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let (number, what) = said.split_once('\n').unwrap();
        assert!(number.parse::<i32>().unwrap() >= FIRST && what.starts_with("socket:["), "{said}");
        drop(command);
        // nobody else has it
        assert_eq!(io::Read::read(&mut &ours, &mut [0]).unwrap(), 0);
    }
}
