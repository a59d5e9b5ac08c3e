//! The door of a server decides which users may connect to a front end, how many connections each user may hold, and how
//! many log lines they may cause.
//!
//! A connection counts from accept to close. It counts as a *visitor* until its process has been let in. Connections of the
//! server's own user and of root are not counted, because these users can do any damage anyway.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pmix_types::Uid;
use rustix::process::{Resource, getrlimit};

use crate::account::{self, own_uid};
use crate::secrets::Secrets;

/// Connections that may wait to be accepted: all ranks of a job on this node start at the same time.
const BACKLOG: i32 = 2048;
/// With fewer descriptors, connections and jobs of one user can leave other users none.
const FEW_DESCRIPTORS: u64 = 256;
/// How long the server stops accepting when there is no descriptor for another connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// Log lines about one user's connections per window; only one per window while the user exceeds this.
const LINES: u32 = 50;
/// Log lines per window about all users except the server's own: one person may have many uids.
const LINES_OF_OTHERS: u32 = 200;
const WINDOW: Duration = Duration::from_secs(10);
/// Cost of handling strangers that a busy server accepts, in units per second. A unit is about 30 us on the server's thread,
/// and its processes lose about as much again. Beyond this rate accepting pauses. The owner's processes wait in the queue
/// behind the strangers, so this also limits how fast strangers are cleared from the queue.
const UNITS_A_SECOND: f64 = 300.0;
/// For this long after any work for connected processes, the server counts as busy. Longer than its processes wait for
/// their turn on a crowded machine: otherwise strangers would be handled without limit in the meantime and keep the
/// processes waiting.
const BUSY: Duration = Duration::from_millis(100);
/// Most units that can be saved up.
const UNITS_AT_ONCE: f64 = 300.0;
/// Most units that can be owed, so that the pause is short even after an idle server has handled many strangers.
const DEBT: f64 = UNITS_A_SECOND / 100.0;
/// Cost of turning a connection away.
const REFUSAL: f64 = 1.0;
/// Cost of reading a visitor's greeting; refunded when the process is let in.
const VISIT: f64 = 10.0;
/// How many connections a user may have for each one that is free. However many one user opens, another finds some free.
const OF_FREE: usize = 3;
/// How long the databases of users are not asked again for the same uid.
const ASK_AGAIN: Duration = Duration::from_secs(60);
/// Users that are counted separately; all further users are counted as one.
const USERS: usize = 1024;

/// Which users may connect, and which connections exist. Cheap to clone; both front ends share it.
#[derive(Clone, Debug)]
pub(crate) struct Door(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    own: Uid,
    other_users: bool,
    places: Places,
    users: Mutex<Users>,
    budget: Mutex<Budget>,
    /// When the server last worked for a connected process: milliseconds since the door was made, plus one; 0 for never.
    worked: AtomicU64,
    made: tokio::time::Instant,
    turned_away: AtomicU64,
    secrets: Secrets,
    is_subordinate: fn(Uid) -> bool,
    /// Whether subordinate uids have accounts, and when that was asked.
    accounts: Mutex<BTreeMap<Uid, (bool, Instant)>>,
}

/// Limits on the connections of other users, derived from the limit of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    /// Visitors of one user.
    each: usize,
    /// Visitors of all users.
    visitors: usize,
    /// Connections of all users.
    connections: usize,
}

/// Counters of users, including those who disconnected recently.
#[derive(Debug, Default)]
struct Users {
    each: BTreeMap<CountedAs, User>,
    /// Of all other users.
    visitors: usize,
    connections: usize,
    lines: Lines,
    /// When users without connections were last removed.
    pruned: Option<Instant>,
}

/// Whose connections are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CountedAs {
    User(Uid),
    /// Those of whom the kernel does not say who they are.
    Unknown,
    /// All users that are not counted separately.
    TheRest,
}

#[derive(Debug, Default)]
struct User {
    visitors: usize,
    connections: usize,
    lines: Lines,
}

#[derive(Debug, Default)]
struct Lines {
    since: Option<Instant>,
    /// Lines left in this window.
    left: u32,
    left_out: u64,
}

/// Units left for strangers; negative while a debt is being paid off.
#[derive(Debug)]
struct Budget {
    units: f64,
    at: tokio::time::Instant,
}

/// Permission to write one line to the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLine {
    /// Lines about the same user that were suppressed before this one.
    pub(crate) left_out: Option<u64>,
}

/// Logs a warning if permitted: `warn_with!(door.line(uid), fields, "message")`.
macro_rules! warn_with {
    ($leave:expr, $($said:tt)+) => {
        if let Some($crate::door::LogLine { left_out }) = $leave {
            tracing::warn!(left_out, $($said)+);
        }
    };
}
pub(crate) use warn_with;

/// A connection's place, released on drop.
#[derive(Debug)]
pub(crate) struct Guest {
    door: Door,
    /// For whom it counts; `None` if it is not counted.
    counted: Option<CountedAs>,
    is_visitor: bool,
}

impl Door {
    /// A door that admits other users or not. Their limits derive from the limit of descriptors, so raise that first.
    pub(crate) fn new(other_users: bool) -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        if other_users && descriptors < FEW_DESCRIPTORS {
            tracing::warn!(
                descriptors,
                "a server of several users has a low limit of open files (ulimit -n): one user can leave the others none"
            );
        }
        Self::of(own_uid(), other_users, Places::of(descriptors), Uid::is_subordinate)
    }

    fn of(own: Uid, other_users: bool, places: Places, is_subordinate: fn(Uid) -> bool) -> Self {
        let budget = Mutex::new(Budget { units: UNITS_AT_ONCE, at: tokio::time::Instant::now() });
        let (users, turned_away) = (Mutex::default(), AtomicU64::new(0));
        let (worked, made) = (AtomicU64::new(0), tokio::time::Instant::now());
        let (secrets, accounts) = (Secrets::default(), Mutex::default());
        Self(Arc::new(Inner {
            own,
            other_users,
            places,
            users,
            budget,
            worked,
            made,
            turned_away,
            secrets,
            is_subordinate,
            accounts,
        }))
    }

    /// By which processes recognize this server.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    /// Reserves a place for a connection of this user; an error says why there is none.
    pub(crate) fn enter(&self, uid: Uid) -> Result<Guest, String> {
        let mut counted = None;
        if self.is_other(uid) {
            counted = Some(self.take_place(uid)?);
            self.budget().spend(VISIT);
        }
        Ok(Guest { door: self.clone(), counted, is_visitor: true })
    }

    /// Reserves a place for another user's connection; returns for whom it counts.
    fn take_place(&self, uid: Uid) -> Result<CountedAs, String> {
        let Inner { own, other_users, places, .. } = &*self.0;
        if !other_users {
            return Err(format!("it belongs to uid {uid}, but this server serves uid {own} only"));
        }
        // else one person would have the shares of very many
        if self.is_lent(uid) {
            return Err(format!(
                "uid {uid} has no account and is a subordinate uid (/etc/subuid): connect as the user to whom it is lent"
            ));
        }
        if uid.is_unmapped() {
            return Err("it belongs to a user that the user namespace of this server does not map".to_owned());
        }
        let mut users = self.users();
        let (counted, visitors, connections) = {
            let (counted, user) = users.entry(Some(uid), true, now());
            (counted, user.visitors, user.connections)
        };
        if visitors >= places.each || users.visitors >= places.visitors {
            return Err(format!("too many connections without a greeting yet (uid {uid} has {visitors})"));
        }
        let free = places.connections.saturating_sub(users.connections);
        if connections >= free.saturating_mul(OF_FREE) {
            return Err(format!(
                "uid {uid} has {connections} connections, and {free} are left for users other than uid {own}"
            ));
        }
        users.count(counted, 1, 1);
        Ok(counted)
    }

    /// Whether a user has borrowed this uid, who would have the shares of very many users: it is subordinate and has no account.
    fn is_lent(&self, uid: Uid) -> bool {
        if !(self.0.is_subordinate)(uid) {
            return false;
        }
        let now = now();
        let mut accounts = self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((has_account, asked)) = accounts.get(&uid)
            && now.saturating_duration_since(*asked) < ASK_AGAIN
        {
            return !has_account;
        }
        if accounts.len() >= USERS {
            accounts.clear();
        }
        let has_account = account::exists(uid);
        accounts.insert(uid, (has_account, now));
        !has_account
    }

    /// Counts a connection of this user, or of an unknown one, that is refused before it reaches the engine; returns permission to
    /// log that.
    pub(crate) fn turn_away(&self, uid: impl Into<Option<Uid>>) -> Option<LogLine> {
        let uid = uid.into();
        self.0.turned_away.fetch_add(1, Ordering::Relaxed);
        if self.is_other(uid) {
            self.budget().spend(REFUSAL);
        }
        self.line(uid)
    }

    /// Notes that the server has worked for a connected process.
    pub(crate) fn worked(&self) {
        self.0.worked.store(self.age() + 1, Ordering::Relaxed);
    }

    /// Returns when the next connection may be handled: immediately, unless strangers have used up their budget while the
    /// server is busy.
    async fn pace(&self) {
        let wait = self.budget().wait();
        if wait.is_zero() {
            return;
        }
        if self.is_busy() {
            tokio::time::sleep_until(tokio::time::Instant::now() + wait).await;
        } else {
            // let other ready tasks run
            tokio::task::yield_now().await;
        }
    }

    fn is_busy(&self) -> bool {
        let worked = self.0.worked.load(Ordering::Relaxed);
        worked > 0 && self.age() + 1 - worked < BUSY.as_millis() as u64
    }

    /// In milliseconds.
    fn age(&self) -> u64 {
        self.0.made.elapsed().as_millis() as u64
    }

    /// Connections refused before they reached the engine.
    pub(crate) fn turned_away(&self) -> u64 {
        self.0.turned_away.load(Ordering::Relaxed)
    }

    /// Permission for one more log line about the connections of this user or of an unknown one, if there is one left.
    pub(crate) fn line(&self, uid: impl Into<Option<Uid>>) -> Option<LogLine> {
        let uid = uid.into();
        let (now, mut users) = (now(), self.users());
        let line = users.entry(uid, self.is_other(uid), now).1.lines.take(now, LINES)?;
        if !self.is_other(uid) {
            return Some(line);
        }
        // lines suppressed by the common limit are reported with the next line about any user
        let of_all = users.lines.take(now, LINES_OF_OTHERS)?;
        let left_out = line.left_out.unwrap_or(0) + of_all.left_out.unwrap_or(0);
        Some(LogLine { left_out: (left_out > 0).then_some(left_out) })
    }

    fn is_other(&self, uid: impl Into<Option<Uid>>) -> bool {
        uid.into().is_none_or(|uid| uid != self.0.own && !uid.is_root())
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.0.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only the server's own thread takes this lock while it runs, so it never blocks.
    fn users(&self) -> MutexGuard<'_, Users> {
        self.0.users.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Users {
    /// A user's counters, and for whom it counts. Once per window, users without connections are removed.
    fn entry(&mut self, uid: Option<Uid>, is_other: bool, now: Instant) -> (CountedAs, &mut User) {
        if self.pruned.is_none_or(|pruned| now.saturating_duration_since(pruned) >= WINDOW) {
            self.pruned = Some(now);
            self.each.retain(|_, user| user.connections > 0 || user.lines.are_recent(now));
        }
        let separately = uid.map_or(CountedAs::Unknown, CountedAs::User);
        let is_told_apart = !is_other || self.each.len() < USERS || self.each.contains_key(&separately);
        let counted = if is_told_apart { separately } else { CountedAs::TheRest };
        (counted, self.each.entry(counted).or_default())
    }

    /// Adds to the counters of a user and to the totals.
    fn count(&mut self, counted: CountedAs, visitors: isize, connections: isize) {
        // only a place that was taken is released
        let add = |count: &mut usize, more: isize| *count = count.saturating_add_signed(more);
        if let Some(user) = self.each.get_mut(&counted) {
            add(&mut user.visitors, visitors);
            add(&mut user.connections, connections);
            add(&mut self.visitors, visitors);
            add(&mut self.connections, connections);
        }
    }
}

impl Guest {
    /// Whether it belongs to a user who is neither the server's own nor root.
    pub(crate) fn is_other(&self) -> bool {
        self.counted.is_some()
    }

    /// Its process has been let in, so it is no longer a visitor.
    pub(crate) fn let_in(&mut self) {
        let was_visitor = std::mem::take(&mut self.is_visitor);
        if let Some(counted) = self.counted.filter(|_| was_visitor) {
            self.door.users().count(counted, -1, 0);
            self.door.budget().spend(-VISIT);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(counted) = self.counted {
            self.door.users().count(counted, -isize::from(self.is_visitor), -1);
        }
    }
}

impl Places {
    fn of(descriptors: u64) -> Self {
        let part = |divisor: u64, most: usize| {
            usize::try_from(descriptors / divisor).map_or(most, |places| places.min(most))
        };
        Self { each: part(8, 1024), visitors: part(4, 4096), connections: part(2, usize::MAX) }
    }
}

impl Lines {
    fn take(&mut self, now: Instant, most: u32) -> Option<LogLine> {
        if !self.are_recent(now) {
            (self.since, self.left) = (Some(now), if self.left_out > 0 { 1 } else { most });
        }
        if self.left == 0 {
            self.left_out += 1;
            return None;
        }
        self.left -= 1;
        let left_out = std::mem::take(&mut self.left_out);
        Some(LogLine { left_out: (left_out > 0).then_some(left_out) })
    }

    fn are_recent(&self, now: Instant) -> bool {
        self.since.is_some_and(|since| now.saturating_duration_since(since) < WINDOW)
    }
}

impl Budget {
    fn spend(&mut self, units: f64) {
        self.save();
        self.units = (self.units - units).clamp(-DEBT, UNITS_AT_ONCE);
    }

    fn save(&mut self) {
        let now = tokio::time::Instant::now();
        let saved = now.saturating_duration_since(self.at).as_secs_f64() * UNITS_A_SECOND;
        (self.units, self.at) = ((self.units + saved).min(UNITS_AT_ONCE), now);
    }

    /// How long until there is budget again.
    fn wait(&mut self) -> Duration {
        self.save();
        Duration::from_secs_f64((-self.units / UNITS_A_SECOND).max(0.0))
    }
}

/// A spare descriptor of a listener. When all others are in use, the listener gives it up to accept a connection, check it
/// and turn it away.
#[derive(Debug)]
pub(crate) struct Reserve {
    door: Door,
    spare: Option<File>,
}

impl Reserve {
    pub(crate) fn new(door: Door) -> io::Result<Self> {
        Ok(Self { door, spare: Some(spare()?) })
    }

    /// Called after an accepted connection has been handled. Reopens the spare descriptor if it was used, and returns when
    /// the next connection may be accepted.
    pub(crate) async fn on_accepted(&mut self) {
        self.renew();
        self.door.pace().await;
    }

    fn renew(&mut self) {
        if self.spare.is_none() {
            self.spare = spare().ok();
        }
    }

    /// Called when accepting has failed. Returns when it is worth another try.
    pub(crate) async fn on_error(&mut self, error: &io::Error) {
        let is_short = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
        if is_short && self.spare.take().is_some() {
            return;
        }
        // open connections continue, and a descriptor may become free
        warn_with!(self.door.line(self.door.0.own), %error, "cannot accept a connection");
        tokio::time::sleep_until(tokio::time::Instant::now() + ACCEPT_AGAIN).await;
        self.renew();
    }
}

/// The time by which windows are counted: that of the runtime, which tests can stop.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn spare() -> io::Result<File> {
    File::open("/dev/null")
}

/// Raises the backlog of a listener as far as the system allows.
pub(crate) fn deepen(listener: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(listener, BACKLOG)?)
}

#[cfg(test)]
#[path = "door_tests.rs"]
mod tests;
