//! What a head with `--multi-user` and its daemons need, before they start processes of other users.

use std::fs::{self, File};
use std::io;

use pmix_host::Account;
use rustix::fs::OFlags;
use rustix::process::geteuid;

/// Checks that this process may start processes of other users, and closes what they would inherit.
///
/// # Errors
/// What is in the way, and what to do.
pub(crate) fn serve_all() -> Result<(), String> {
    let uid = geteuid();
    if !uid.is_root() || !Account::can_be_assumed() {
        let uid = uid.as_raw();
        return Err(format!("only root may start the processes of other users, and this is uid {uid}"));
    }
    // whoever has the terminal of root can type into it
    if File::open("/dev/tty").is_ok() {
        return Err(
            "processes of other users must not share a terminal with root: start it with setsid, or as a service"
                .into(),
        );
    }
    let failed = |error: io::Error| format!("cannot close what root's shell has left open: {error}");
    let left_open = inherited().map_err(failed)?;
    left_open
        .into_iter()
        .try_for_each(|number| nix::unistd::close(number).map_err(io::Error::from))
        .map_err(failed)
}

/// The descriptors, but for the standard ones, that are left open in a program that is started. This program opens none like that.
fn inherited() -> io::Result<Vec<i32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir("/proc/self/fdinfo")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(number) = number.filter(|number| *number > 2) else { continue };
        // that of the directory itself is closed on exec, as all are that this program opens
        let info = match fs::read_to_string(entry.path()) {
            // another thread has just closed it
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            info => info?,
        };
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        if flags.is_some_and(|flags| !OFlags::from_bits_retain(flags).contains(OFlags::CLOEXEC)) {
            numbers.push(number);
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use rustix::io::{FdFlags, fcntl_setfd};

    use super::*;

    #[test]
    fn what_is_open_is_inherited_unless_it_is_closed_on_exec() {
        use std::os::fd::AsRawFd;
        let file = File::open("/dev/null").unwrap();
        let number = file.as_raw_fd();
        assert!(!inherited().unwrap().contains(&number));
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        assert!(inherited().unwrap().contains(&number));
    }
}
