//! File systems: those for temporary files, and /dev/shm.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Access, StatVfs, StatVfsMountFlags, access, statvfs};

use super::finding::Finding;

const CHECK: &str = "files";
const MIB: u64 = 1 << 20;

/// What a place is for, and how much it should have.
struct Use {
    purpose: &'static str,
    /// Bytes below which launches fail, and those below which large ones do.
    least: u64,
    few: u64,
    repair: &'static str,
}

const SHM: Use = Use {
    purpose: "MPI libraries exchange messages within a node there",
    least: 4 * MIB,
    few: 256 * MIB,
    repair: "remount it: mount -o remount,size=50% /dev/shm (as root)",
};
const TMP: Use = Use {
    purpose: "servers have their sockets and files there",
    least: MIB,
    few: 64 * MIB,
    repair: "set TMPDIR to a directory with free space",
};

pub(super) fn check() -> Vec<Finding> {
    let mut findings = check_place(Path::new("/dev/shm"), &SHM);
    match pmix_tool::session_root() {
        Ok(root) => findings.extend(check_place(&root, &TMP)),
        Err(error) => {
            findings.push(Finding::failure(CHECK, error.to_string(), "set TMPDIR to an absolute path"));
        }
    }
    findings
}

fn check_place(path: &Path, place: &Use) -> Vec<Finding> {
    let name = path.display();
    let is_shm = path == Path::new("/dev/shm");
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let remedy = if is_shm {
                "mount it: mkdir -m 1777 /dev/shm; mount -t tmpfs tmpfs /dev/shm (as root; in a container, an option \
                 such as --shm-size)"
                    .to_owned()
            } else {
                format!("create it, or set TMPDIR or PMIX_SERVER_TMPDIR to another directory: mkdir {name}")
            };
            return vec![Finding::failure(
                CHECK,
                format!("{name} does not exist; {}", place.purpose),
                remedy,
            )];
        }
        Err(error) => {
            let remedy = "make its parents searchable, or set TMPDIR to another directory";
            return vec![Finding::failure(CHECK, format!("{name} cannot be inspected: {error}"), remedy)];
        }
    };
    if !metadata.is_dir() {
        return vec![Finding::failure(
            CHECK,
            format!("{name} is not a directory"),
            "replace it by a directory",
        )];
    }
    let found = match statvfs(path) {
        Ok(found) => found,
        Err(error) => {
            let text = format!("{name}: cannot read the free space of the file system: {error}");
            return vec![Finding::warning(CHECK, text, "look at the mount: findmnt -T")];
        }
    };
    let mut findings = space(path, &found, place);
    if found.f_flag.contains(StatVfsMountFlags::RDONLY) {
        let remedy =
            if is_shm { "remount it: mount -o remount,rw /dev/shm (as root)" } else { TMP_ELSEWHERE };
        findings.push(Finding::failure(CHECK, format!("{name} is on a read-only file system"), remedy));
    } else if access(path, Access::WRITE_OK | Access::EXEC_OK).is_err() {
        let text =
            format!("{name} has mode {:04o}, so this user cannot create files", metadata.mode() & 0o7777);
        let remedy = format!("chmod 1777 {name} (as its owner), or set TMPDIR to another directory");
        findings.push(Finding::failure(CHECK, text, remedy));
    } else if metadata.mode() & 0o1002 == 0o002 {
        let text = format!("anyone can remove or replace the files of others in {name}: it is not sticky");
        findings.push(Finding::warning(CHECK, text, format!("chmod +t {name} (as its owner)")));
    }
    if !is_shm && found.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        findings.push(Finding::note(
            CHECK,
            format!("{name} is mounted noexec: programs copied there do not start"),
        ));
    }
    findings
}

const TMP_ELSEWHERE: &str = "set TMPDIR to a directory that can be written to";

fn space(path: &Path, found: &StatVfs, place: &Use) -> Vec<Finding> {
    let name = path.display();
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let size = found.f_blocks.saturating_mul(found.f_frsize);
    let mut findings = Vec::new();
    let amounts = format!("{} of {} free", bytes(free), bytes(size));
    let remedy = || format!("remove what is not needed (du -a {name} | sort -n | tail), or {}", place.repair);
    // some file systems say 0 of 0
    if size > 0 && free < place.least {
        findings.push(Finding::failure(
            CHECK,
            format!("{name} is full, {amounts}; {}", place.purpose),
            remedy(),
        ));
    } else if size > 0 && free < place.few {
        let text = format!("{name} is nearly full, {amounts}; {}", place.purpose);
        findings.push(Finding::warning(CHECK, text, remedy()));
    } else {
        findings.push(Finding::ok(CHECK, format!("{name} has {amounts}")));
    }
    let (inodes, all) = (found.f_favail, found.f_files);
    let text = format!("{name} has {inodes} of {all} inodes left; each file takes one");
    if all > 0 && inodes < 16 {
        findings.push(Finding::failure(CHECK, text, "remove files that are not needed"));
    } else if all > 0 && inodes < 1000 {
        findings.push(Finding::warning(CHECK, text, "remove files that are not needed"));
    }
    findings
}

/// In the largest unit of which there is at least one.
pub(super) fn bytes(count: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(size, _)| count >= *size);
    unit.map_or_else(|| format!("{count} bytes"), |(size, name)| format!("{} {name}", count / size))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    fn vfs(free: u64, inodes: u64) -> StatVfs {
        let mut found = statvfs("/").unwrap();
        found.f_frsize = 1;
        (found.f_blocks, found.f_bavail, found.f_files, found.f_favail) = (1 << 34, free, 1 << 20, inodes);
        found
    }

    #[test]
    fn space_and_inodes_are_judged_by_what_they_are_for() {
        let levels = |free, inodes, place| -> Vec<Level> {
            let found = space(Path::new("/x"), &vfs(free, inodes), place);
            found.iter().map(|finding| finding.level).collect()
        };
        assert_eq!(levels(1 << 33, 5000, &SHM), [Level::Ok]);
        assert_eq!(levels(100 * MIB, 5000, &SHM), [Level::Warning]);
        assert_eq!(levels(100 * MIB, 5000, &TMP), [Level::Ok]);
        assert_eq!(levels(4 * MIB - 1, 999, &SHM), [Level::Failure, Level::Warning]);
        assert_eq!(levels(0, 15, &TMP), [Level::Failure, Level::Failure]);
        let mut unknown = vfs(0, 0);
        (unknown.f_blocks, unknown.f_files) = (0, 0);
        assert_eq!(space(Path::new("/x"), &unknown, &TMP)[0].level, Level::Ok);
    }

    #[test]
    fn what_is_missing_or_no_directory_fails_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let found = check_place(&dir.path().join("none"), &TMP);
        assert!(
            found[0].level == Level::Failure && found[0].text.contains("/none does not exist"),
            "{found:?}"
        );
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(check_place(&dir.path().join("file"), &TMP)[0].text.contains("not a directory"));
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(check_place(dir.path(), &TMP).iter().any(|finding| finding.text.contains("not sticky")));
    }

    #[test]
    fn amounts_have_units() {
        assert_eq!([bytes(12), bytes(1 << 20), bytes((1 << 31) + 5)], ["12 bytes", "1 MiB", "2 GiB"]);
    }
}
