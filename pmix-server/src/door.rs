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

use rustix::process::{Resource, geteuid, getrlimit};

use crate::secrets::Secrets;

/// Connections that may wait to be accepted: all ranks of a job on this node start at the same time.
const BACKLOG: i32 = 2048;
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
/// Users that are counted separately; all further users are counted as one.
const USERS: usize = 1024;
/// Stands for the users that are not counted separately; no user of the system has this uid.
const THE_REST: u32 = u32::MAX - 1;

/// Which users may connect, and which connections exist. Cheap to clone; both front ends share it.
#[derive(Clone, Debug)]
pub(crate) struct Door(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    own: u32,
    other_users: bool,
    places: Places,
    users: Mutex<Users>,
    budget: Mutex<Budget>,
    /// When the server last worked for a connected process: milliseconds since the door was made, plus one; 0 for never.
    worked: AtomicU64,
    made: tokio::time::Instant,
    turned_away: AtomicU64,
    secrets: Secrets,
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
    each: BTreeMap<u32, User>,
    /// Of all other users.
    visitors: usize,
    connections: usize,
    lines: Lines,
    /// When users without connections were last removed.
    pruned: Option<Instant>,
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
    /// The uid it counts for; `None` if it is not counted.
    counted: Option<u32>,
    is_visitor: bool,
}

impl Door {
    /// A door that admits other users or not. Their limits derive from the limit of descriptors, so raise that first.
    pub(crate) fn new(other_users: bool) -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self::of(geteuid().as_raw(), other_users, Places::of(descriptors))
    }

    fn of(own: u32, other_users: bool, places: Places) -> Self {
        let budget = Mutex::new(Budget { units: UNITS_AT_ONCE, at: tokio::time::Instant::now() });
        let (users, turned_away) = (Mutex::default(), AtomicU64::new(0));
        let (worked, made) = (AtomicU64::new(0), tokio::time::Instant::now());
        let secrets = Secrets::default();
        Self(Arc::new(Inner { own, other_users, places, users, budget, worked, made, turned_away, secrets }))
    }

    /// By which processes recognize this server.
    pub(crate) fn secrets(&self) -> &Secrets {
        &self.0.secrets
    }

    /// Reserves a place for a connection of this user; an error says why there is none.
    pub(crate) fn enter(&self, uid: u32) -> Result<Guest, String> {
        let mut counted = None;
        if self.is_other(uid) {
            counted = Some(self.take_place(uid)?);
            self.budget().spend(VISIT);
        }
        Ok(Guest { door: self.clone(), counted, is_visitor: true })
    }

    /// Reserves a place for another user's connection; returns the uid for which it counts.
    fn take_place(&self, uid: u32) -> Result<u32, String> {
        let Inner { own, other_users, places, .. } = &*self.0;
        if !other_users {
            return Err(format!("it belongs to uid {uid}, but this server serves uid {own} only"));
        }
        let mut users = self.users();
        let (counted, visitors, connections) = {
            let (counted, user) = users.entry(uid, true, now());
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

    /// Counts a connection of this user that is refused before it reaches the engine; returns permission to log that.
    pub(crate) fn turn_away(&self, uid: u32) -> Option<LogLine> {
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

    /// Permission for one more log line about this user's connections, if there is one left.
    pub(crate) fn line(&self, uid: u32) -> Option<LogLine> {
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

    fn is_other(&self, uid: u32) -> bool {
        ![self.0.own, 0].contains(&uid)
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
    /// A user's counters, and the uid for which it counts. Once per window, users without connections are removed.
    fn entry(&mut self, uid: u32, is_other: bool, now: Instant) -> (u32, &mut User) {
        if self.pruned.is_none_or(|pruned| now.saturating_duration_since(pruned) >= WINDOW) {
            self.pruned = Some(now);
            self.each.retain(|_, user| user.connections > 0 || user.lines.are_recent(now));
        }
        let is_told_apart = !is_other || self.each.len() < USERS || self.each.contains_key(&uid);
        let counted = if is_told_apart { uid } else { THE_REST };
        (counted, self.each.entry(counted).or_default())
    }

    /// Adds to the counters of a user and to the totals.
    fn count(&mut self, counted: u32, visitors: isize, connections: isize) {
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
mod tests {
    use pmix_test_wait::{PausedClock, moment};

    use super::*;

    const OWN: u32 = 4000;
    const PLACES: Places = Places { each: 2, visitors: 3, connections: 5 };

    fn door(other_users: bool) -> Door {
        Door::of(OWN, other_users, PLACES)
    }

    #[test]
    fn sec_01_a_server_without_other_users_serves_its_own_and_root() {
        let door = door(false);
        let guests: Vec<_> = [OWN, 0].repeat(100).into_iter().map(|uid| door.enter(uid).unwrap()).collect();
        let refused = door.enter(4001).unwrap_err();
        assert!(refused.contains("belongs to uid 4001") && refused.contains("uid 4000 only"), "{refused}");
        drop(guests);
    }

    #[test]
    fn a_user_holds_only_so_many_connections_that_are_silent() {
        let door = door(true);
        let mut held = vec![door.enter(4001).unwrap(), door.enter(4001).unwrap()];
        let refused = door.enter(4001).unwrap_err();
        assert!(refused.contains("without a greeting yet (uid 4001 has 2)"), "{refused}");
        held[0].let_in();
        held[0].let_in();
        held.push(door.enter(4001).unwrap());
        assert!(door.enter(4001).is_err());
        assert!(door.enter(OWN).is_ok(), "our own user is not concerned");
        held.clear();
        let again: Vec<_> = (0..2).map(|_| door.enter(4001).unwrap()).collect();
        assert!(door.enter(4001).is_err());
        drop(again);
    }

    #[test]
    fn all_other_users_together_leave_room_for_our_own() {
        let door = door(true);
        let mut silent: Vec<_> = [4001, 4001, 4002].map(|uid| door.enter(uid).unwrap()).into();
        assert!(door.enter(4002).is_err(), "three visitors are all there may be");
        silent.iter_mut().for_each(Guest::let_in);
        let mut more: Vec<_> = [4002, 4003].map(|uid| door.enter(uid).unwrap()).into();
        more.iter_mut().for_each(Guest::let_in);
        assert!(
            door.enter(4004).unwrap_err().contains("users other than uid 4000"),
            "and so are five connections"
        );
        drop(silent);
        assert!(door.enter(4004).is_ok());
    }

    #[test]
    fn a_user_with_as_many_connections_as_it_may_have_leaves_some_to_others() {
        let door = Door::of(OWN, true, Places { each: 64, visitors: 64, connections: 64 });
        let all = |uid| std::iter::from_fn(|| door.enter(uid).ok()).collect::<Vec<_>>();
        let held = [4001, 4002, 4003].map(all);
        assert_eq!(held.each_ref().map(Vec::len), [48, 12, 3]);
        drop(held);
        assert_eq!(all(4004).len(), 48);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_turned_away_is_counted_also_without_a_line() {
        let door = door(true);
        let lines = (0..2 * LINES).filter(|_| door.turn_away(4001).is_some()).count();
        assert_eq!((lines, door.turned_away()), (LINES as usize, u64::from(2 * LINES)));
        assert!(door.turn_away(4002).is_some(), "others have lines of their own");
    }

    #[test]
    fn the_log_has_so_many_lines_about_a_user_and_then_tells_how_many_it_left_out() {
        let (mut lines, now) = (Lines::default(), moment());
        for _ in 0..LINES {
            assert!(lines.take(now, LINES).is_some_and(|line| line.left_out.is_none()));
        }
        assert!(lines.take(now, LINES).is_none() && lines.take(now + WINDOW / 2, LINES).is_none());
        let next = lines.take(now + WINDOW, LINES).unwrap();
        assert_eq!(next.left_out, Some(2));
        assert!(lines.take(now + WINDOW, LINES).is_none(), "it goes on: one line a window is enough");
        assert_eq!(lines.take(now + 2 * WINDOW, LINES).unwrap().left_out, Some(1));
        assert_eq!(lines.take(now + 3 * WINDOW, LINES).unwrap().left_out, None);
        assert!(lines.take(now + 3 * WINDOW, LINES).is_some(), "it was quiet");
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_cost_the_server_a_small_part_of_its_time() {
        let door = door(true);
        let paused = async |times: u32| {
            let clock = PausedClock::start();
            for _ in 0..times {
                let _ = door.turn_away(4001);
                door.worked();
                door.pace().await;
            }
            clock.passed()
        };
        assert!(paused(UNITS_AT_ONCE as u32).await.is_zero(), "a few are dealt with at once");
        let second = paused(UNITS_A_SECOND as u32).await;
        assert!(second.abs_diff(Duration::from_secs(1)) < Duration::from_millis(50), "{second:?}");
        // a visitor that is let in costs nothing in the end, and our own user never does
        tokio::time::advance(Duration::from_secs(1)).await;
        let clock = PausedClock::start();
        for uid in [4001, OWN].repeat(1000) {
            door.enter(uid).unwrap().let_in();
            let _ = door.turn_away(OWN);
            door.worked();
            door.pace().await;
        }
        assert!(clock.passed().is_zero());
        for _ in 0..UNITS_AT_ONCE as u32 / VISIT as u32 + 8 {
            drop(door.enter(4001).unwrap());
        }
        door.worked();
        door.pace().await;
        assert!(clock.passed() >= Duration::from_millis(10), "visitors cost more: {:?}", clock.passed());
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_are_got_out_of_the_way_while_there_is_nothing_else_to_do() {
        let door = door(true);
        let clock = PausedClock::start();
        for _ in 0..10 * UNITS_A_SECOND as u32 {
            let _ = door.turn_away(4001);
            door.pace().await;
        }
        assert!(clock.passed().is_zero());
        // and the next strangers do not pay for that
        door.worked();
        door.pace().await;
        assert!((10..15).contains(&clock.passed().as_millis()), "{:?}", clock.passed());
    }

    #[tokio::test(start_paused = true)]
    async fn many_users_cost_no_more_lines_and_memory_than_a_few() {
        let door = door(true);
        let uids = 100_000..200_000;
        let lines = uids.clone().filter(|uid| door.turn_away(*uid).is_some()).count();
        assert_eq!(lines, LINES_OF_OTHERS as usize, "all of this is one window");
        assert!(door.users().each.len() <= USERS + 1);
        // their visitors still count, and our own user still has its lines
        let guests: Vec<_> = uids.filter_map(|uid| door.enter(uid).ok()).collect();
        assert_eq!(guests.len(), 3);
        assert_eq!(door.users().visitors, 3);
        drop(guests);
        let users = door.users();
        assert_eq!((users.visitors, users.connections), (0, 0));
        drop(users);
        assert!(door.line(OWN).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_log_remembers_of_users_who_have_left_only_what_is_recent() {
        let door = door(true);
        let _stays = door.enter(1).unwrap();
        for uid in 2..100 {
            assert!(door.line(uid).is_some());
        }
        tokio::time::advance(WINDOW).await;
        assert!(door.line(7000).is_some());
        assert_eq!(door.users().each.keys().copied().collect::<Vec<_>>(), [1, 7000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_gives_its_spare_descriptor_up_once_and_then_waits() {
        let mut reserve = Reserve::new(door(false)).unwrap();
        let short = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        let clock = PausedClock::start();
        reserve.on_error(&short).await;
        assert!(reserve.spare.is_none() && clock.passed().is_zero(), "now one can be accepted");
        reserve.on_error(&short).await;
        assert!(reserve.spare.is_some() && clock.passed() >= ACCEPT_AGAIN);
        // a spare descriptor does not help here
        reserve.on_error(&io::ErrorKind::OutOfMemory.into()).await;
        assert!(reserve.spare.is_some() && clock.passed() >= 2 * ACCEPT_AGAIN);
        reserve.on_error(&short).await;
        reserve.on_accepted().await;
        assert!(reserve.spare.is_some());
    }

    #[test]
    fn places_follow_from_the_limit_of_descriptors() {
        assert_eq!(Places::of(64), Places { each: 8, visitors: 16, connections: 32 });
        assert_eq!(Places::of(1 << 20), Places { each: 1024, visitors: 4096, connections: 1 << 19 });
        assert_eq!(Places::of(u64::MAX).visitors, 4096);
    }
}
