//! A copy of a server's rendezvous file where whoever starts the server looks for it (TOL-04).

use std::fs::{self, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pmix_proto::files::Directory;
use pmix_types::Uid;
use tempfile::NamedTempFile;

use crate::account::own_uid;

const NO_FILE: &str = "something that is not a regular file is there";

/// The copy. Dropping this removes it, unless another server has put its own there.
#[derive(Debug)]
pub(crate) struct ContactFile {
    path: PathBuf,
    _directory: Directory,
    /// The path by way of this directory: another user may put another one in its place.
    reached: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl ContactFile {
    /// Writes the file, readable for its user only, all at once: nobody reads half of it. Replaces a file of this user,
    /// which may be what is left of a server, or an empty one that keeps the name free; nothing else.
    pub(crate) fn write(path: &Path, text: &str) -> io::Result<Self> {
        // stays the same file if the current directory changes
        let path = std::path::absolute(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, NO_FILE));
        };
        let directory = Directory::open(parent)?;
        let reached = directory.path().join(name);
        let in_the_way = match fs::symlink_metadata(&reached) {
            Ok(there) if there.is_file() && Uid::new(there.uid()) == own_uid() => None,
            Ok(there) if there.is_file() => Some("a file of another user is there"),
            Ok(_) => Some(NO_FILE),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(reason) = in_the_way {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, reason));
        }
        // the mode of such files is 0600
        let mut file = NamedTempFile::new_in(directory.path())?;
        file.write_all(text.as_bytes())?;
        let id = id(&file.as_file().metadata()?);
        file.persist(&reached)?;
        Ok(Self { path, _directory: directory, reached, id })
    }
}

impl Drop for ContactFile {
    fn drop(&mut self) {
        let removed = match fs::symlink_metadata(&self.reached) {
            Ok(there) if id(&there) == self.id => fs::remove_file(&self.reached),
            _ => Ok(()),
        };
        if let Err(error) = removed {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the copy of the rendezvous file");
        }
    }
}

fn id(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn tol_04_the_file_is_whole_and_private_and_goes_with_its_server() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("contact");
        fs::write(&path, "left over, and longer than what comes").unwrap();
        let file = ContactFile::write(&path, "uri\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "uri\n");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let other = ContactFile::write(&path, "other\n").unwrap();
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "other\n", "the file of another server stays");
        drop(other);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }

    #[test]
    fn tol_04_nothing_but_a_file_of_this_user_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let victim = dir.path().join("victim");
        fs::write(&victim, "text").unwrap();
        let link = dir.path().join("link");
        symlink(&victim, &link).unwrap();
        for path in [&link, dir.path(), Path::new("/dev/null"), Path::new("/")] {
            let error = ContactFile::write(path, "uri\n").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{}", path.display());
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "text");
        ContactFile::write(&dir.path().join("missing/contact"), "uri\n").unwrap_err();
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);
        // only root can give it away, and not in every container
        if rustix::process::geteuid().is_root()
            && std::os::unix::fs::chown(&victim, Some(12345), None).is_ok()
        {
            ContactFile::write(&victim, "uri\n").unwrap_err();
            assert_eq!(fs::read_to_string(&victim).unwrap(), "text");
        }
    }
}
