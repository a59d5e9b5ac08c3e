//! Where a node keeps what its flight recorder held when a job failed.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use pmix_proto::files::{self, Directory};
use pmix_server::ServerHandle;
use pmix_types::job::Target;
use pmix_types::{Nspace, Uid, Value, keys};
use time::OffsetDateTime;

/// Files that a node keeps of the jobs of a user; older ones are removed.
const KEPT: usize = 8;
/// Files that it keeps of all users: beyond it the oldest of the user with most of them go.
const KEPT_OF_ALL: usize = 64;
/// The part of the name of a job that the name of a file has at most.
const NAME: usize = 64;

/// Where the flight records of the servers are written when a job fails, or is ended by a call of abort, by its owner
/// or by its time limit: see [`StandardHost::with_records`](crate::StandardHost::with_records).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Records {
    /// `records` in the session directory of each server, which is removed when the server stops.
    #[default]
    Session,
    /// This directory, which is created if necessary. All nodes may share it.
    Directory(PathBuf),
    /// Nowhere.
    Off,
}

/// The files of one node.
#[derive(Debug, Default)]
pub(crate) struct RecordFiles {
    place: OnceLock<Records>,
    /// Those that are there, the oldest first, with the user of the job.
    kept: Mutex<VecDeque<(Option<Uid>, PathBuf)>>,
}

impl RecordFiles {
    /// The first one given counts.
    pub(crate) fn set_place(&self, place: Records) {
        let _ = self.place.set(place);
    }

    /// Writes what the server has on record, because of a job. Returns the file; `None` if there is to be none, or it cannot
    /// be written, which is logged.
    pub(crate) async fn write(&self, server: &ServerHandle, nspace: &Nspace, why: &str) -> Option<PathBuf> {
        let directory = match self.place.get_or_init(Records::default) {
            Records::Session => server.session_dir().join("records"),
            Records::Directory(directory) => directory.clone(),
            Records::Off => return None,
        };
        let record = server.record().await;
        if record.is_empty() {
            // it has stopped
            return None;
        }
        let user = user_of(server, nspace).await;
        let path = directory.join(file_name(nspace, server.hostname(), OffsetDateTime::now_utc()));
        let text = format!("job {nspace}: {why}\n{record}");
        let file = path.clone();
        let written = tokio::task::spawn_blocking(move || write(&directory, &file, &text)).await;
        match written.unwrap_or_else(|panic| Err(io::Error::other(panic))) {
            Ok(()) => {
                tracing::info!(%nspace, why, file = %path.display(), "wrote the record of a job that failed");
                self.keep(user, path.clone());
                Some(path)
            }
            Err(error) => {
                tracing::warn!(%nspace, file = %path.display(), %error, "cannot write the record of a job that failed");
                None
            }
        }
    }

    fn keep(&self, user: Option<Uid>, path: PathBuf) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back((user, path));
        let mut counts = BTreeMap::<_, usize>::new();
        kept.iter().for_each(|(user, _)| *counts.entry(*user).or_default() += 1);
        // of several with as many, the one with the oldest file
        let largest = counts.values().max().copied();
        let most = kept.iter().map(|(user, _)| *user).find(|user| counts.get(user).copied() == largest);
        let goes = if counts.get(&user).is_some_and(|count| *count > KEPT) {
            Some(user)
        } else {
            most.filter(|_| kept.len() > KEPT_OF_ALL)
        };
        let oldest = goes.and_then(|user| kept.iter().position(|(of, _)| *of == user));
        if let Some((_, file)) = oldest.and_then(|at| kept.remove(at)) {
            // somebody may have taken it away
            let _ = files::remove(&file);
        }
    }
}

/// The user of a job, if it has not gone meanwhile.
async fn user_of(server: &ServerHandle, nspace: &Nspace) -> Option<Uid> {
    let job = server.job_data(nspace).await.ok()?;
    match job.lookup(keys::USERID.name(), &Target::Job) {
        Some(Value::Uint32(user)) => Some(Uid::new(user)),
        _ => None,
    }
}

/// Job, node and time, with nothing in it that a path or a shell would take for something else.
fn file_name(nspace: &Nspace, node: &str, at: OffsetDateTime) -> String {
    let plain = |text: &str| -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        text.chars().take(NAME).map(|c| if is_plain(c) { c } else { '_' }).collect()
    };
    let (year, month, day) = at.to_calendar_date();
    let (hour, minute, second, milli) = at.to_hms_milli();
    format!(
        "record.{}.{}.{year:04}{:02}{day:02}T{hour:02}{minute:02}{second:02}.{milli:03}Z.txt",
        plain(nspace),
        plain(node),
        u8::from(month)
    )
}

/// For its owner only: it tells of the jobs of all users.
fn write(directory: &Path, path: &Path, text: &str) -> io::Result<()> {
    files::create_dir_all(directory, 0o700)?;
    let held = Directory::open(directory)?;
    let path = held.path().join(path.file_name().unwrap_or_default());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(text.as_bytes()).inspect_err(|_| {
        // half of it would pass for all of it
        let _ = fs::remove_file(&path);
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn at(millis: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp_nanos(i128::from(millis) * 1_000_000).unwrap()
    }

    #[test]
    fn a_file_is_named_for_job_node_and_time_whatever_these_hold() {
        let job = |name: &str| Nspace::new(name).unwrap();
        let name = file_name(&job("run.n0.12"), "n0", at(1_709_210_096_007));
        assert_eq!(name, "record.run.n0.12.n0.20240229T123456.007Z.txt");
        let name = file_name(&job("../a b/é"), "n/0", at(0));
        assert_eq!(name, "record..._a_b__.n_0.19700101T000000.000Z.txt");
        assert!(file_name(&job(&"x".repeat(255)), &"y".repeat(255), at(0)).len() < 200);
    }

    #[test]
    fn a_file_is_for_its_owner_and_replaces_none() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("a/records");
        let path = directory.join("x");
        write(&directory, &path, "text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&path)), (0o700, 0o600));
        assert_eq!(write(&directory, &path, "other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        // nor does it follow a link
        let (link, target) = (directory.join("link"), root.path().join("target"));
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write(&directory, &link, "text").unwrap_err();
        assert!(!target.exists());
    }

    #[test]
    fn the_oldest_go_when_there_are_more_than_a_handful_and_those_of_others_stay() {
        let root = tempfile::tempdir().unwrap();
        let path = |number: usize| root.path().join(number.to_string());
        let files = RecordFiles::default();
        fs::write(root.path().join("of-another"), "").unwrap();
        for number in 0..KEPT + 2 {
            fs::write(path(number), "").unwrap();
            files.keep(Some(Uid::new(4001)), path(number));
        }
        let is_there: Vec<_> = (0..KEPT + 2).map(|number| path(number).exists()).collect();
        assert_eq!(is_there, [[false; 2].as_slice(), &[true; KEPT]].concat());
        assert!(root.path().join("of-another").exists());
    }

    #[test]
    fn root_removes_none_by_way_of_a_link_of_another_user() {
        let (root, others) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = others.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        // only root can make a directory another's
        if std::os::unix::fs::chown(others.path(), Some(4001), None).is_err() {
            return;
        }
        let files = RecordFiles::default();
        for number in 0..=KEPT {
            fs::write(root.path().join(number.to_string()), "").unwrap();
            files.keep(None, link.join(number.to_string()));
        }
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), KEPT + 1);
    }

    #[test]
    fn jobs_of_one_user_displace_no_records_of_another() {
        let root = tempfile::tempdir().unwrap();
        let files = RecordFiles::default();
        let keep = |user: u32, name: &str| {
            let path = root.path().join(name);
            fs::write(&path, "").unwrap();
            files.keep(Some(Uid::new(user)), path);
        };
        let is_there = |name: &str| root.path().join(name).exists();
        keep(4001, "first");
        (0..3 * KEPT).for_each(|number| keep(4002, &format!("b{number}")));
        assert!(is_there("first") && !is_there("b0") && is_there(&format!("b{}", 3 * KEPT - 1)));
        // when there are too many, those of the user with most of them go
        for user in 0..KEPT_OF_ALL as u32 - KEPT as u32 {
            keep(5000 + user, &format!("c{user}"));
        }
        assert!(is_there("first") && is_there("c0") && !is_there(&format!("b{}", 2 * KEPT)));
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), KEPT_OF_ALL);
    }
}
