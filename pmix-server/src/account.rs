//! Users of the system, and work done with their permissions instead of the server's.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::unistd::{User, getgrouplist, setgroups, setresgid, setresuid};
use pmix_types::{Gid, Status, Uid};
use rustix::process::{DumpableBehavior, getegid, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::shares::Shares;

/// Operations that may run with one user's permissions at the same time. Each holds a thread for as long as that user's file
/// system hangs.
const MAX_OF_USER: usize = 8;
/// How long further operations wait for a place, and how often waiting threads check for one.
const WAIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The places of each user with operations in progress. Threads belong to the whole process, and so does this table.
static PLACES: Shares<Uid, Semaphore> = Shares::new();

pub(crate) const NONE: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// The default search path for programs.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A user of the system, with its groups and its entry in the system's databases. Processes of a job run as this user.
///
/// A user without an entry in the databases has only the group with which it connected.
///
/// # Examples
/// ```
/// use pmix_server::Account;
/// use pmix_server::types::Uid;
///
/// let root = Account::look_up(0, 0)?;
/// assert_eq!((root.uid(), root.name()), (Uid::ROOT, Some("root")));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
    known: Option<Known>,
}

/// A user's entry in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    name: String,
    home: PathBuf,
    shell: PathBuf,
}

/// Whether the user database has this uid, or cannot be read. May wait for the network.
pub(crate) fn exists(uid: Uid) -> bool {
    User::from_uid(to_system(uid)).map_or(true, |user| user.is_some())
}

impl Account {
    /// Looks up a user. Its groups are `gid`, its primary one in the user database, and those that the group database lists. May wait
    /// for the network.
    ///
    /// # Errors
    /// The databases cannot be read.
    pub fn look_up(uid: impl Into<Uid>, gid: impl Into<Gid>) -> io::Result<Self> {
        let (uid, gid) = (uid.into(), gid.into());
        let Some(user) = User::from_uid(to_system(uid))? else {
            return Ok(Self { uid, gid, groups: vec![gid], known: None });
        };
        let name = std::ffi::CString::new(user.name.as_str())?;
        let groups = getgrouplist(&name, group_to_system(gid))?;
        let mut groups: Vec<_> = groups.into_iter().map(|group| Gid::new(group.as_raw())).collect();
        // which a process that has changed its group (`sg`) has as well
        let primary = Gid::new(user.gid.as_raw());
        if !groups.contains(&primary) {
            groups.push(primary);
        }
        Ok(Self {
            uid,
            gid,
            groups,
            known: Some(Known { name: user.name, home: user.dir, shell: user.shell }),
        })
    }

    /// Looks up a user with its primary group in the user database, as a login does; `None` if the database does not have the user.
    /// May wait for the network.
    ///
    /// # Errors
    /// The databases cannot be read.
    pub fn look_up_login(uid: impl Into<Uid>) -> io::Result<Option<Self>> {
        let uid = uid.into();
        let user = User::from_uid(to_system(uid))?;
        user.map(|user| Self::look_up(uid, user.gid.as_raw())).transpose()
    }

    /// As [`look_up`](Self::look_up), in a thread of its own, for callers that must not wait.
    ///
    /// # Errors
    /// As [`look_up`](Self::look_up).
    pub async fn look_up_async(uid: impl Into<Uid>, gid: impl Into<Gid>) -> io::Result<Self> {
        let (uid, gid) = (uid.into(), gid.into());
        let found = tokio::task::spawn_blocking(move || Self::look_up(uid, gid)).await;
        found.unwrap_or_else(|panic| Err(io::Error::other(panic)))
    }

    /// A user with these groups, without a lookup. `groups` lists all of them, `gid` included.
    pub const fn with_groups(uid: Uid, gid: Gid, groups: Vec<Gid>) -> Self {
        Self { uid, gid, groups, known: None }
    }

    /// The user id.
    pub const fn uid(&self) -> Uid {
        self.uid
    }

    /// The id of the primary group.
    pub const fn gid(&self) -> Gid {
        self.gid
    }

    /// The ids of all its groups.
    pub fn groups(&self) -> &[Gid] {
        &self.groups
    }

    /// Its name, if it has one.
    pub fn name(&self) -> Option<&str> {
        self.known.as_ref().map(|known| known.name.as_str())
    }

    /// Its home directory, if it has one.
    pub fn home(&self) -> Option<&Path> {
        self.known.as_ref().map(|known| known.home.as_path())
    }

    /// The variables for its processes: `PATH`, and, for a user with an entry in the database, `HOME`, `USER`, `LOGNAME` and
    /// `SHELL`. The launcher's own variables are not passed on to another user.
    pub fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> + '_ {
        let of_user = self.known.iter().flat_map(|Known { name, home, shell }| {
            [
                ("HOME", home.as_os_str()),
                ("USER", name.as_ref()),
                ("LOGNAME", name.as_ref()),
                ("SHELL", shell.as_os_str()),
            ]
        });
        let all = [("PATH", PATH.as_ref())].into_iter().chain(of_user);
        all.map(|(name, value)| (name.into(), std::ffi::OsStr::from_bytes(value.as_bytes()).to_owned()))
    }

    /// Whether this process has permission to become other users.
    pub fn can_be_assumed() -> bool {
        let wanted = CapabilitySet::SETUID | CapabilitySet::SETGID;
        capabilities(None).is_ok_and(|held| held.effective.contains(wanted))
    }

    /// Runs `work` with this user's file permissions, in a separate thread. May take as long as a file system hangs.
    ///
    /// The work fails where the user has no permission, so use this for every operation that opens a file named by a
    /// request. At most eight operations per user run at the same time, including those that start processes; others wait for
    /// up to ten seconds.
    ///
    /// # Errors
    /// This process may not become other users, or cannot create a thread. [`io::ErrorKind::ResourceBusy`]: the user's
    /// earlier operations did not end in time.
    ///
    /// # Cancel safety
    /// Work that has begun continues when the future is dropped; work that still waits is not done.
    pub async fn with_rights<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.clone().start(Self::assume_rights, work).await
    }

    /// The status for an error of [`with_rights`](Self::with_rights): `ERR_RESOURCE_BUSY` if other operations of the same
    /// user hold all places, otherwise `otherwise`.
    pub fn status_of(error: &io::Error, otherwise: Status) -> Status {
        if error.kind() == io::ErrorKind::ResourceBusy { Status::ERR_RESOURCE_BUSY } else { otherwise }
    }

    /// Like [`with_rights`](Self::with_rights), but blocks the calling thread.
    pub(crate) fn with_rights_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.clone().wait_for(Self::assume_rights, work)
    }

    /// Runs `work` that starts processes of this user, in a separate thread. Set the `uid` of each
    /// [`Command`](std::process::Command), but not its group. The processes run as this user, with all of its groups and
    /// without any of the launcher's permissions. Counts towards the user's eight operations.
    ///
    /// # Errors
    /// As [`with_rights`](Self::with_rights).
    ///
    /// # Cancel safety
    /// As [`with_rights`](Self::with_rights).
    pub async fn start_processes<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        self.clone().start(Self::lend_groups, work).await
    }

    /// Makes this process, which must have a single thread, one of the user, with all groups of the user and none of the
    /// permissions that it had. There is no way back. Other processes of the user may signal it, but they can neither trace it nor
    /// read its environment until it runs another program.
    ///
    /// # Errors
    /// This process may not become other users. It may have lost some of its permissions.
    pub fn assume(&self) -> io::Result<()> {
        let (uid, gid) = (to_system(self.uid), group_to_system(self.gid));
        let groups: Vec<_> = self.groups.iter().copied().map(group_to_system).collect();
        setgroups(&groups)?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
        // the system drops them only when root changes its id, not when a service with capabilities does
        set_capabilities(None, NONE)?;
        // whatever `fs.suid_dumpable` says
        Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
    }

    async fn start<T: Send + 'static>(
        self,
        prepare: fn(&Self) -> io::Result<()>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let place = self.place().await?;
        let (done, outcome) = oneshot::channel();
        // the caller may have stopped waiting
        self.in_thread(place, prepare, work, move |outcome| drop(done.send(outcome)))?;
        outcome.await.unwrap_or_else(|_| Err(lost()))
    }

    fn wait_for<T: Send + 'static>(
        self,
        prepare: fn(&Self) -> io::Result<()>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let place = self.place_blocking()?;
        let thread = self.in_thread(place, prepare, work, |outcome| outcome)?;
        thread.join().unwrap_or_else(|_| Err(lost()))
    }

    fn places(&self) -> Arc<Semaphore> {
        PLACES.of(&self.uid, || Semaphore::new(MAX_OF_USER))
    }

    /// Waits for a place for one more operation of this user. Cancel-safe.
    async fn place(&self) -> io::Result<OwnedSemaphorePermit> {
        // the semaphore is never closed
        let place = tokio::time::timeout(WAIT, self.places().acquire_owned()).await.map(Result::ok);
        place.ok().flatten().ok_or_else(|| self.busy())
    }

    /// Like [`place`](Self::place), but blocks the calling thread.
    fn place_blocking(&self) -> io::Result<OwnedSemaphorePermit> {
        let (places, begin) = (self.places(), Instant::now());
        loop {
            if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                return Ok(place);
            }
            if begin.elapsed() >= WAIT {
                return Err(self.busy());
            }
            thread::park_timeout(LOOK_AGAIN);
        }
    }

    fn busy(&self) -> io::Error {
        let reason = format!(
            "all {MAX_OF_USER} file operations of uid {} were still running after {} s: a file system hangs, or there are \
             too many at once",
            self.uid,
            WAIT.as_secs()
        );
        io::Error::new(io::ErrorKind::ResourceBusy, reason)
    }

    /// The thread keeps the user's permissions until it ends, so it must never run other work.
    fn in_thread<T: Send + 'static, R: Send + 'static>(
        self,
        place: OwnedSemaphorePermit,
        prepare: fn(&Self) -> io::Result<()>,
        work: impl FnOnce() -> T + Send + 'static,
        done: impl FnOnce(io::Result<T>) -> R + Send + 'static,
    ) -> io::Result<JoinHandle<R>> {
        let name = format!("uid {}", self.uid);
        thread::Builder::new().name(name).spawn(move || {
            let outcome = prepare(&self).map(|()| work());
            drop(place);
            done(outcome)
        })
    }

    /// Gives the thread the user's file permissions. The real user id stays that of the process: a user may kill a process
    /// if one of its threads has that user's real id.
    fn assume_rights(&self) -> io::Result<()> {
        let gid = rustix::process::Gid::from_raw(self.gid.as_raw());
        self.set_groups()?;
        set_thread_res_gid(None, gid, None)?;
        set_thread_res_uid(None, rustix::process::Uid::from_raw(self.uid.as_raw()), None)?;
        // the system drops capabilities only when root changes its id, not when a service with capabilities does
        Ok(set_capabilities(None, NONE)?)
    }

    /// Gives the thread the user's groups, for the processes that it starts. These would drop the groups when they become
    /// the user, but they lack the capability to do so.
    fn lend_groups(&self) -> io::Result<()> {
        let gid = rustix::process::Gid::from_raw(self.gid.as_raw());
        self.set_groups()?;
        set_thread_res_gid(gid, gid, gid)?;
        let mut held = capabilities(None)?;
        held.effective.remove(CapabilitySet::SETGID);
        held.permitted.remove(CapabilitySet::SETGID);
        held.inheritable = CapabilitySet::empty();
        Ok(set_capabilities(None, held)?)
    }

    fn set_groups(&self) -> io::Result<()> {
        let groups = self.groups.iter().map(|group| rustix::process::Gid::from_raw(group.as_raw()));
        let groups: Vec<_> = groups.collect();
        Ok(set_thread_groups(&groups)?)
    }
}

/// The user as whom this process acts.
pub(crate) fn own_uid() -> Uid {
    Uid::new(geteuid().as_raw())
}

/// The user and the group as whom this process acts.
pub(crate) fn own_user() -> (Uid, Gid) {
    (own_uid(), Gid::new(getegid().as_raw()))
}

const fn to_system(uid: Uid) -> nix::unistd::Uid {
    nix::unistd::Uid::from_raw(uid.as_raw())
}

const fn group_to_system(gid: Gid) -> nix::unistd::Gid {
    nix::unistd::Gid::from_raw(gid.as_raw())
}

fn lost() -> io::Error {
    io::Error::other("the thread with the user's permissions panicked")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Mutex;

    use pmix_test_wait::block_until;

    use super::*;

    const STRANGER: Uid = Uid::new(4001);

    /// A user who is neither root nor the one of this process.
    pub(crate) fn another_uid() -> Uid {
        Uid::new(own_uid().as_raw() + 4001)
    }

    /// The group with the same number.
    pub(crate) const fn group_of(uid: Uid) -> Gid {
        Gid::new(uid.as_raw())
    }

    #[test]
    fn a_user_that_is_not_known_is_in_its_own_group_only() {
        let is_unknown = |uid: &Uid| User::from_uid(to_system(*uid)).unwrap().is_none();
        let unknown = (STRANGER.as_raw()..).map(Uid::new).find(is_unknown).unwrap();
        let stranger = Account::look_up(unknown, 17).unwrap();
        assert_eq!((stranger.groups(), stranger.name(), stranger.home()), (&[Gid::new(17)][..], None, None));
        let names: Vec<_> = stranger.environment().map(|(name, _)| name).collect();
        assert_eq!(names, ["PATH"]);
    }

    #[test]
    fn a_user_that_is_known_finds_its_home() {
        let root = Account::look_up(Uid::ROOT, Gid::ROOT).unwrap();
        assert!(root.groups().contains(&Gid::ROOT));
        let home = root.environment().find(|(name, _)| name == "HOME").unwrap().1;
        assert_eq!(Some(Path::new(&home)), root.home());
    }

    #[test]
    fn a_user_with_another_group_keeps_its_primary_one() {
        let root = User::from_uid(to_system(Uid::ROOT)).unwrap().unwrap();
        let [primary, other] = [0, 17].map(|more| Gid::new(root.gid.as_raw() + more));
        let account = Account::look_up(Uid::ROOT, other).unwrap();
        assert_eq!(account.gid(), other);
        assert!([other, primary].iter().all(|gid| account.groups().contains(gid)), "{account:?}");
    }

    /// Whether this process can become this user. A container may lack most users, and then not even its root can.
    pub(crate) fn can_become(uid: Uid) -> bool {
        let has = |map: &str| {
            let map = std::fs::read_to_string(format!("/proc/self/{map}")).unwrap();
            map.lines().any(|line| {
                let numbers: Vec<u64> = line.split_whitespace().map(|word| word.parse().unwrap()).collect();
                (numbers[0]..numbers[0] + numbers[2]).contains(&uid.as_raw().into())
            })
        };
        Account::can_be_assumed() && has("uid_map") && has("gid_map")
    }

    /// A file that only its owner may read, in a directory that goes with the result.
    fn secret() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "secret").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        (dir, file)
    }

    /// Reads a file of root as a user; `None` if this process cannot assume the user.
    async fn read_as(uid: Uid) -> Option<io::Result<String>> {
        if !can_become(uid) {
            return None;
        }
        let (_dir, file) = secret();
        let account = Account::look_up(uid, group_of(uid)).unwrap();
        let read = account.with_rights({
            let file = file.clone();
            move || std::fs::read_to_string(file)
        });
        let found = read.await.unwrap();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "secret", "the rights of others are as before");
        Some(found)
    }

    #[tokio::test]
    async fn what_a_user_may_not_read_is_not_read_for_it() {
        if let Some(found) = read_as(STRANGER).await {
            assert_eq!(found.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(read_as(Uid::ROOT).await.unwrap().unwrap(), "secret");
        }
    }

    /// Holds all places of a user in hanging threads until the result is dropped.
    pub(crate) async fn hang(uid: Uid) -> std::sync::mpsc::Sender<()> {
        let (release, gate) = std::sync::mpsc::channel::<()>();
        let gate = Arc::new(Mutex::new(gate));
        for _ in 0..MAX_OF_USER {
            let (begun, has_begun) = oneshot::channel();
            let gate = Arc::clone(&gate);
            let hanging = move || {
                let _ = begun.send(());
                // returns in all threads when the sender is dropped
                let _ = gate.lock().unwrap().recv();
            };
            tokio::spawn(Account::with_groups(uid, group_of(uid), vec![]).start(|_| Ok(()), hanging));
            has_begun.await.unwrap();
        }
        release
    }

    fn threads_of(uid: Uid) -> usize {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let names = tasks.map(|task| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default());
        names.filter(|name| name.trim() == format!("uid {uid}")).count()
    }

    #[tokio::test(start_paused = true)]
    async fn work_with_the_rights_of_a_user_that_hangs_takes_a_bounded_number_of_threads() {
        const HANGING: Uid = Uid::new(4011);
        const OTHER: Uid = Uid::new(4012);
        let account = |uid| Account::with_groups(uid, group_of(uid), vec![]);
        let release = hang(HANGING).await;
        let more = (0..100).map(|_| account(HANGING).start(|_| Ok(()), || ()));
        for refused in futures::future::join_all(more).await {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
            assert_eq!(Account::status_of(&error, Status::ERROR), Status::ERR_RESOURCE_BUSY);
            assert!(error.to_string().contains("uid 4011"), "{error}");
        }
        assert_eq!(threads_of(HANGING), MAX_OF_USER);
        account(OTHER).start(|_| Ok(()), || ()).await.expect("others go on");
        let blocked = thread::spawn(move || {
            block_until("there is room again", || account(HANGING).wait_for(|_| Ok(()), || 8))
        });
        drop(release);
        assert_eq!(blocked.join().unwrap(), 8);
        assert_eq!(account(HANGING).start(|_| Ok(()), || 9).await.unwrap(), 9);
    }

    /// Names a file of root in the process that the test below starts.
    const SERVICE: &str = "PMIX_TEST_SERVICE";

    /// A service that is not root, but may become others and open all files.
    #[tokio::test]
    async fn a_service_with_capabilities_lends_none_of_them() {
        if let Some(file) = std::env::var_os(SERVICE) {
            assert!(std::fs::read(&file).is_ok(), "the service may");
            let account = Account::with_groups(STRANGER, group_of(STRANGER), vec![group_of(STRANGER)]);
            let read = account.with_rights(move || std::fs::read(file)).await.unwrap();
            assert_eq!(read.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            return;
        }
        if !can_become(STRANGER) {
            return;
        }
        let capabilities = "+setuid,+setgid,+dac_override,+dac_read_search";
        let test = "account::tests::a_service_with_capabilities_lends_none_of_them";
        let mut service = std::process::Command::new("setpriv");
        service.args(["--reuid", "4002", "--regid", "4002", "--clear-groups"]);
        service.args(["--inh-caps", capabilities, "--ambient-caps", capabilities]);
        let (_dir, file) = secret();
        service.arg(std::env::current_exe().unwrap()).args(["--exact", test]).env(SERVICE, file);
        let output = match service.output() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return println!("skipped: setpriv is not installed");
            }
            output => output.unwrap(),
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    }

    #[tokio::test]
    async fn processes_have_the_users_groups_and_nothing_of_ours() {
        use std::os::unix::process::CommandExt;
        if !can_become(STRANGER) {
            return;
        }
        let groups = [4002, 4003, 4004].map(Gid::new);
        let account = Account::with_groups(STRANGER, groups[0], groups.to_vec());
        let status = account.start_processes(|| {
            let status =
                std::process::Command::new("cat").arg("/proc/self/status").uid(STRANGER.as_raw()).output();
            String::from_utf8(status.unwrap().stdout).unwrap()
        });
        let status = status.await.unwrap();
        let line = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("Uid:"), "4001 4001 4001 4001");
        assert_eq!(line("Gid:"), "4002 4002 4002 4002");
        assert_eq!(line("Groups:"), "4002 4003 4004");
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
            assert_eq!(line(set), "0000000000000000", "{set}");
        }
    }
}
