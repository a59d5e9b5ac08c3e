//! Directories of this user's servers, and the servers: which are alive, which answer.

use std::fs::{self, DirEntry, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use pmix_proto::places::{Doubt, Places, doubt};
use pmix_tool::{ServerInfo, Status, Tool, system_file};
use pmix_types::Uid;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use tokio::time::timeout;

use super::clock;
use super::finding::Finding;
use super::run::within;

const CHECK: &str = "servers";
/// A server answers within this time.
const PATIENCE: Duration = Duration::from_secs(1);
/// Servers that are asked at the same time.
const AT_ONCE: usize = 64;
/// Entries of a directory that are looked at.
const MOST: usize = 4096;
const OWN_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Checks directories and servers, the former within a limit.
pub(super) async fn check(limit: Duration) -> Vec<Finding> {
    let Some((mut findings, servers)) = within(limit, look).await else {
        let text = format!("the directories of servers could not be read within {} s", limit.as_secs());
        return vec![Finding::failure(CHECK, text, "look for a hung network file system (mount, dmesg)")];
    };
    let asked = futures::stream::iter(servers.into_iter().map(ask)).buffered(AT_ONCE);
    findings.extend(asked.collect::<Vec<_>>().await);
    findings
}

/// What directories tell, and the live servers that can be asked.
fn look() -> (Vec<Finding>, Vec<ServerInfo>) {
    let mut seen = Survey::default();
    match Places::of_environment(own_uid()) {
        Ok(places) => {
            seen.first(&places);
            places.others().iter().for_each(|place| seen.place(place));
        }
        Err(error) => {
            let text = format!("PMIX_SERVER_TMPDIR or TMPDIR cannot be made an absolute path: {error}");
            seen.findings.push(Finding::failure(CHECK, text, "set it to an absolute path"));
        }
    }
    seen.findings.extend(system());
    if seen.findings.is_empty() && seen.alive.is_empty() {
        seen.findings.push(Finding::ok(CHECK, no_server()));
    }
    (seen.findings, seen.alive)
}

fn own_uid() -> Uid {
    Uid::new(geteuid().as_raw())
}

/// That no server is there, and where tools look for it.
pub(crate) fn no_server() -> String {
    let places = Places::of_environment(own_uid());
    let places =
        places.map(|places| std::iter::once(places.first()).chain(places.others()).collect::<Vec<_>>());
    let looked = places.unwrap_or_default().into_iter().chain([system_file()]);
    let looked: Vec<_> = looked.map(|path| path.display().to_string()).collect();
    format!("no server of this user is running on this node: nothing in {}", looked.join(", "))
}

/// The file of the node's system-level server, which tools look for first.
fn system() -> Option<Finding> {
    let path = system_file();
    let found = fs::symlink_metadata(&path).ok()?;
    let (name, uid) = (path.display(), Uid::new(found.uid()));
    let is_trusted = uid.is_root() || uid == own_uid();
    let remedy = format!("have uid {uid} or root remove it: rm {name}");
    Some(match ServerInfo::read(&path) {
        _ if !is_trusted => Finding::note(
            CHECK,
            format!("{name} belongs to uid {uid}, so tools do without this system-level server"),
        ),
        Ok(server) if server.is_alive => Finding::ok(CHECK, format!("the system-level server is {server}")),
        Ok(server) => {
            let text = format!("{name} was left behind by a dead system-level server, {server}");
            Finding::warning(CHECK, text, format!("start one, which removes it, or {remedy}"))
        }
        Err(error) => Finding::warning(CHECK, error.to_string(), remedy),
    })
}

#[derive(Default)]
struct Survey {
    findings: Vec<Finding>,
    alive: Vec<ServerInfo>,
}

impl Survey {
    /// The usual place, which anyone may have taken.
    fn first(&mut self, places: &Places) {
        let path = places.first();
        if places.is_given() || !places.is_taken(&path) {
            return self.place(&path);
        }
        let Some(found) = fs::symlink_metadata(&path).ok().and_then(|found| doubt(&found, own_uid())) else {
            return;
        };
        let remedy = match found {
            Doubt::Owner(uid) => format!(
                "servers use other directories; to get it back, have uid {uid} or root remove it: rm -r {}",
                path.display()
            ),
            _ => "servers use other directories until then".to_owned(),
        };
        self.findings.push(Finding::warning(CHECK, format!("{} {found}", path.display()), remedy));
    }

    fn place(&mut self, path: &Path) {
        let name = path.display();
        match fs::symlink_metadata(path).map(|found| doubt(&found, own_uid())) {
            Ok(None) => {}
            Ok(Some(found)) => {
                let remedy = match found {
                    Doubt::Owner(_) => "set PMIX_SERVER_TMPDIR to a directory of your own",
                    _ => "servers refuse to start and tools to attach until then",
                };
                return self.findings.push(Finding::failure(CHECK, format!("{name} {found}"), remedy));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return,
            Err(error) => {
                let remedy = "make its parents searchable: chmod u+x";
                let text = format!("{name} cannot be inspected: {error}");
                return self.findings.push(Finding::failure(CHECK, text, remedy));
            }
        }
        let entries: Vec<DirEntry> = match fs::read_dir(path) {
            Ok(entries) => entries.take(MOST).flatten().collect(),
            Err(error) => {
                let text = format!("{name} cannot be listed: {error}");
                return self.findings.push(Finding::failure(CHECK, text, format!("chmod 700 {name}")));
            }
        };
        self.findings.push(Finding::ok(CHECK, format!("{name} is private to this user")));
        if entries.len() == MOST {
            let text = format!("{name} has more than {MOST} entries; only these were looked at");
            self.findings.push(Finding::warning(
                CHECK,
                text,
                "start a server: it removes what dead ones left",
            ));
        }
        entries.iter().for_each(|entry| self.entry(&entry.path()));
        let paths: Vec<PathBuf> = entries.iter().map(DirEntry::path).collect();
        self.findings.extend(clock::of_entries(paths.iter().map(PathBuf::as_path)));
    }

    /// A directory `<host>.<pid>.<n>`.
    fn entry(&mut self, dir: &Path) {
        let Some((host, pid)) = dir.file_name().and_then(|name| parse_name(name.to_str()?)) else { return };
        let name = dir.display();
        let Ok(metadata) = fs::symlink_metadata(dir) else { return };
        if !metadata.is_dir() || Uid::new(metadata.uid()) != own_uid() {
            let text = format!("{name} is not a directory of this user, so that no server can have made it");
            return self.findings.push(Finding::warning(CHECK, text, format!("remove it: rm -r {name}")));
        }
        let is_locked = match is_locked(dir) {
            Ok(is_locked) => is_locked,
            Err(problem) => {
                let text = format!("{name}: whether its server is alive cannot be told: {problem}");
                return self.findings.push(Finding::warning(CHECK, text, format!("remove it: rm -r {name}")));
            }
        };
        if !is_locked {
            let text = format!("server {pid} of node {host} was killed and left {name}");
            let remedy = format!("the next server there removes it, or: rm -r {name}");
            return self.findings.push(Finding::warning(CHECK, text, remedy));
        }
        let file = dir.join(format!("pmix.{host}.tool.{pid}"));
        let kind = fs::symlink_metadata(&file).map(|found| found.is_file());
        match kind {
            Ok(true) => match ServerInfo::read(&file) {
                Ok(info) => match halted(info.pid) {
                    Some(finding) => self.findings.push(finding),
                    None => self.alive.push(info),
                },
                Err(error) => self.findings.push(malformed(pid, &error.to_string())),
            },
            Ok(false) => {
                let problem = format!("{} is not a regular file", file.display());
                self.findings.push(malformed(pid, &problem));
            }
            Err(_) => self.findings.push(halted(pid).unwrap_or_else(|| {
                Finding::note(CHECK, format!("server {pid} of node {host} is running, but admits no tools"))
            })),
        }
    }
}

fn malformed(pid: u32, problem: &str) -> Finding {
    let remedy = format!("tools cannot find this server; end it when its jobs may end: kill {pid}");
    Finding::failure(CHECK, format!("server {pid}: {problem}"), remedy)
}

/// A server that cannot answer, according to the kernel.
fn halted(pid: u32) -> Option<Finding> {
    match state(pid)? {
        'T' => Some(Finding::failure(
            CHECK,
            format!("server {pid} is stopped (SIGSTOP), so all of its processes and tools wait"),
            format!("let it go on: kill -CONT {pid}"),
        )),
        't' => Some(Finding::failure(
            CHECK,
            format!("server {pid} is stopped by a debugger, so all of its processes and tools wait"),
            format!("continue or detach in the debugger (TracerPid in /proc/{pid}/status)"),
        )),
        _ => None,
    }
}

/// State of a process: the letter in /proc, after the name, which may have anything in it.
fn state(pid: u32) -> Option<char> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    stat.get(end + 2).copied().map(char::from)
}

/// Host and pid of `<host>.<pid>.<n>`; host names may contain dots.
fn parse_name(name: &str) -> Option<(&str, u32)> {
    let (rest, count) = name.rsplit_once('.')?;
    let (host, pid) = rest.rsplit_once('.')?;
    count.parse::<u32>().ok()?;
    Some((host, pid.parse().ok()?))
}

/// A live server holds the lock of its directory. Opening waits for nobody, and a shared lock disturbs no other tool.
fn is_locked(dir: &Path) -> Result<bool, String> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let lock = match File::options().read(true).custom_flags(flags).open(dir.join("lock")) {
        Ok(lock) => lock,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(format!("its lock cannot be opened: {error}")),
    };
    if !lock.metadata().is_ok_and(|found| found.is_file()) {
        return Err("its lock is not a regular file".to_owned());
    }
    match lock.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(format!("its lock cannot be tried: {error}")),
    }
}

/// Attaches to a server as any tool does.
async fn ask(info: ServerInfo) -> Finding {
    let pid = info.pid;
    let name = format!("server {info}");
    let version = info.version.clone();
    // the client's own limit leaves the server more time to report it
    let error = match timeout(PATIENCE, Tool::builder().server(info).connect()).await {
        Ok(Ok(tool)) => {
            // what it answers to a farewell tells nothing new
            let _ = timeout(PATIENCE, tool.finalize()).await;
            return answered(&name, version.as_deref());
        }
        Ok(Err(error)) => error,
        Err(_) => return halted(pid).unwrap_or_else(|| silent(&name, pid)),
    };
    let remedy = match error.status() {
        Status::ERR_UNREACH => {
            format!("it is ending, or its socket was removed: kill {pid} and start it again")
        }
        _ => "ask who runs this server to admit tools of this user".to_owned(),
    };
    Finding::failure(CHECK, format!("{name} is running, but refuses tools: {error}"), remedy)
}

fn silent(name: &str, pid: u32) -> Finding {
    let state = match state(pid) {
        Some('D') => "it waits in the kernel, perhaps for a file system",
        Some('R') => "it is busy",
        Some(_) => "it sleeps",
        None => "it runs in another container, or is not the process of that number",
    };
    Finding::failure(
        CHECK,
        format!("{name} does not answer within {} s; {state}", PATIENCE.as_secs()),
        format!("look at what it does (eu-stack -p {pid}), or end it and its jobs: kill {pid}"),
    )
}

fn answered(name: &str, version: Option<&str>) -> Finding {
    match version {
        Some(version) if version != OWN_VERSION => Finding::warning(
            CHECK,
            format!("{name} answers, but has version {version}, and this pmix is {OWN_VERSION}"),
            "use the pmix that was installed with the server (PATH)",
        ),
        _ => Finding::ok(CHECK, format!("{name} answers; version {}", version.unwrap_or("unknown"))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn another_version_is_a_warning_with_both() {
        let other = answered("server 7", Some("0.0.1"));
        assert!(other.level == Level::Warning && other.text.contains("version 0.0.1"), "{other:?}");
        assert!(other.text.contains(OWN_VERSION));
        assert_eq!(answered("server 7", Some(OWN_VERSION)).level, Level::Ok);
    }

    #[test]
    fn names_of_directories_and_states_of_processes_are_read() {
        assert_eq!(parse_name("a.b.12.0"), Some(("a.b", 12)));
        assert_eq!([parse_name("a.b.0"), parse_name("12.0"), parse_name(".lock")], [None; 3]);
        assert!(matches!(state(std::process::id()), Some('R' | 'S')));
        assert_eq!(state(u32::MAX), None);
    }

    #[test]
    fn without_a_lock_a_server_is_dead_and_with_nonsense_it_cannot_be_told() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(is_locked(dir.path()), Ok(false));
        let lock = File::create(dir.path().join("lock")).unwrap();
        assert_eq!(is_locked(dir.path()), Ok(false));
        lock.lock().unwrap();
        assert_eq!(is_locked(dir.path()), Ok(true));
        fs::remove_file(dir.path().join("lock")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("lock"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        assert!(is_locked(dir.path()).unwrap_err().contains("not a regular file"));
    }
}
