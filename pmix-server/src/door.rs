//! The door of a server: which users come to a front end at all, how many connections each may hold, and how many
//! lines the log spends on them.
//!
//! A connection counts for its user from accept to close, and as a *visitor* until the process at its other end has
//! been let in. The server's own user and root are not counted: what they could break they could break anyway.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

/// Connections that may wait to be accepted: a job of many ranks on this node starts all at once.
const BACKLOG: i32 = 4096;
/// How long accepting pauses when the system has no descriptor for one more connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// Lines about one user's connections that a window of time may bring; one, as long as there are too many.
const LINES: u32 = 50;
const WINDOW: Duration = Duration::from_secs(10);
/// What looking at strangers may cost: so many units a second, each about 25 us of the server's thread. Then accepting
/// pauses. The owner's processes wait behind the strangers, so this is also how fast those are got out of the way.
const UNITS_A_SECOND: f64 = 4000.0;
/// What may be spent at once.
const UNITS_AT_ONCE: f64 = 400.0;
/// To turn a connection away.
const REFUSAL: f64 = 1.0;
/// To hear what a visitor has to say; given back when it is let in.
const VISIT: f64 = 6.0;
/// Users of whom something may be remembered before those who have left are forgotten.
const USERS: usize = 64;

/// Who may come in, and who is there. Cheap to clone; both front ends share it.
#[derive(Clone, Debug)]
pub(crate) struct Door(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    own: u32,
    other_users: bool,
    places: Places,
    users: Mutex<BTreeMap<u32, User>>,
    budget: Mutex<Budget>,
    turned_away: AtomicU64,
}

/// Connections that users other than our own may hold, of as many descriptors as there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Places {
    /// Visitors, and connections, of one of them.
    each: (usize, usize),
    /// Visitors, and connections, of them all.
    all: (usize, usize),
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
    /// Lines that the window may still bring.
    left: u32,
    left_out: u64,
}

/// What may still be spent on strangers; less than nothing while that is being saved up.
#[derive(Debug)]
struct Budget {
    units: f64,
    at: tokio::time::Instant,
}

/// Leave to write one line to the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogLine {
    /// Lines about the same user that were left out before this one.
    pub(crate) left_out: Option<u64>,
}

/// A warning, if there is leave for it: `warn_with!(door.line(uid), fields, "words")`.
macro_rules! warn_with {
    ($leave:expr, $($said:tt)+) => {
        if let Some($crate::door::LogLine { left_out }) = $leave {
            tracing::warn!(left_out, $($said)+);
        }
    };
}
pub(crate) use warn_with;

/// A connection's place, given back when dropped.
#[derive(Debug)]
pub(crate) struct Guest {
    door: Door,
    uid: u32,
    is_visitor: bool,
}

impl Door {
    /// With or without other users. Says how many connections they may hold by the limit of descriptors, so that is
    /// to be raised before.
    pub(crate) fn new(other_users: bool) -> Self {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Self::of(geteuid().as_raw(), other_users, Places::of(descriptors))
    }

    fn of(own: u32, other_users: bool, places: Places) -> Self {
        let budget = Mutex::new(Budget { units: UNITS_AT_ONCE, at: tokio::time::Instant::now() });
        let (users, turned_away) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(Inner { own, other_users, places, users, budget, turned_away }))
    }

    /// A place for a connection of that user, or why there is none.
    pub(crate) fn enter(&self, uid: u32) -> Result<Guest, String> {
        if self.is_other(uid) {
            self.take_place(uid)?;
            self.budget().spend(VISIT);
        }
        Ok(Guest { door: self.clone(), uid, is_visitor: true })
    }

    fn take_place(&self, uid: u32) -> Result<(), String> {
        let Inner { own, other_users, places, .. } = &*self.0;
        if !other_users {
            return Err(format!("it belongs to uid {uid}, and this server serves uid {own} only"));
        }
        let mut users = self.users();
        let sum = |count: fn(&User) -> usize| users.values().map(count).sum::<usize>();
        let (visitors, connections) = (sum(|user| user.visitors), sum(|user| user.connections));
        let user = users.entry(uid).or_default();
        if user.visitors >= places.each.0 || visitors >= places.all.0 {
            let message = "connections that have not said who they are, and there is no room for more";
            return Err(format!("uid {uid} holds {} {message}", user.visitors));
        }
        if user.connections >= places.each.1 || connections >= places.all.1 {
            return Err(format!(
                "uid {uid} holds {} connections, and there is no room for more",
                user.connections
            ));
        }
        (user.visitors, user.connections) = (user.visitors + 1, user.connections + 1);
        Ok(())
    }

    /// Counts a connection of that user that is turned away before the engine sees it; whether the log may have a
    /// line about it.
    pub(crate) fn turn_away(&self, uid: u32) -> Option<LogLine> {
        self.0.turned_away.fetch_add(1, Ordering::Relaxed);
        if self.is_other(uid) {
            self.budget().spend(REFUSAL);
        }
        self.line(uid)
    }

    /// Returns when the next connection may be looked at: at once, unless strangers have cost too much.
    async fn pace(&self) {
        let wait = self.budget().wait();
        if !wait.is_zero() {
            tokio::time::sleep_until(tokio::time::Instant::now() + wait).await;
        }
    }

    /// Connections turned away before the engine saw them.
    pub(crate) fn turned_away(&self) -> u64 {
        self.0.turned_away.load(Ordering::Relaxed)
    }

    /// Whether the log may have one more line about connections of that user.
    pub(crate) fn line(&self, uid: u32) -> Option<LogLine> {
        let mut users = self.users();
        let now = Instant::now();
        if users.len() >= USERS {
            users.retain(|_, user| user.connections > 0 || user.lines.are_recent(now));
        }
        users.entry(uid).or_default().lines.take(now)
    }

    fn is_other(&self, uid: u32) -> bool {
        ![self.0.own, 0].contains(&uid)
    }

    fn budget(&self) -> MutexGuard<'_, Budget> {
        self.0.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Only the server's own thread comes here while it runs, so nobody ever waits.
    fn users(&self) -> MutexGuard<'_, BTreeMap<u32, User>> {
        self.0.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back what a guest has held: the place of a visitor, and that of a connection.
    fn leave(&self, uid: u32, visitors: usize, connections: usize) {
        if let Some(user) = self.users().get_mut(&uid).filter(|_| self.is_other(uid)) {
            (user.visitors, user.connections) = (user.visitors - visitors, user.connections - connections);
        }
    }
}

impl Guest {
    /// Whether it is neither of the server's own user nor of root.
    pub(crate) fn is_other(&self) -> bool {
        self.door.is_other(self.uid)
    }

    /// Its process has been let in: it is no visitor any more.
    pub(crate) fn let_in(&mut self) {
        if std::mem::take(&mut self.is_visitor) && self.door.is_other(self.uid) {
            self.door.leave(self.uid, 1, 0);
            self.door.budget().spend(-VISIT);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.door.leave(self.uid, self.is_visitor.into(), 1);
    }
}

impl Places {
    fn of(descriptors: u64) -> Self {
        let part =
            |divisor: u64, most: usize| usize::try_from(descriptors / divisor).map_or(most, |n| n.min(most));
        Self { each: (part(8, 1024), part(4, usize::MAX)), all: (part(4, 4096), part(2, usize::MAX)) }
    }
}

impl Lines {
    fn take(&mut self, now: Instant) -> Option<LogLine> {
        if !self.are_recent(now) {
            (self.since, self.left) = (Some(now), if self.left_out > 0 { 1 } else { LINES });
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
        self.units = (self.units - units).min(UNITS_AT_ONCE);
    }

    fn save(&mut self) {
        let now = tokio::time::Instant::now();
        let saved = now.saturating_duration_since(self.at).as_secs_f64() * UNITS_A_SECOND;
        (self.units, self.at) = ((self.units + saved).min(UNITS_AT_ONCE), now);
    }

    /// How long until there is something to spend.
    fn wait(&mut self) -> Duration {
        self.save();
        Duration::from_secs_f64((-self.units / UNITS_A_SECOND).max(0.0))
    }
}

/// What a listener does when connections cannot be accepted: it holds one descriptor back, so that even when there is
/// no other left a connection can be accepted, looked at and turned away.
#[derive(Debug)]
pub(crate) struct Reserve {
    door: Door,
    spare: Option<File>,
}

impl Reserve {
    pub(crate) fn new(door: Door) -> io::Result<Self> {
        Ok(Self { door, spare: Some(spare()?) })
    }

    /// An accepted connection has been looked at. Takes back the descriptor that it may have cost, and returns when it
    /// is time for the next.
    pub(crate) async fn on_accepted(&mut self) {
        self.renew();
        self.door.pace().await;
    }

    fn renew(&mut self) {
        if self.spare.is_none() {
            self.spare = spare().ok();
        }
    }

    /// Accepting has failed. Returns when it is worth another try.
    pub(crate) async fn on_error(&mut self, error: &io::Error) {
        let is_short = [rustix::io::Errno::MFILE, rustix::io::Errno::NFILE]
            .iter()
            .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
        if is_short && self.spare.take().is_some() {
            return;
        }
        // what is in use must go on, and a descriptor may become free
        warn_with!(self.door.line(self.door.0.own), %error, "cannot accept a connection");
        tokio::time::sleep_until(tokio::time::Instant::now() + ACCEPT_AGAIN).await;
        self.renew();
    }
}

fn spare() -> io::Result<File> {
    File::open("/dev/null")
}

/// Raises the number of descriptors that this process may have as far as it may itself.
pub(crate) fn raise_descriptor_limit() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(?current, ?maximum, %error, "cannot raise the limit of open files");
    }
}

/// Lets as many connections wait to be accepted as the system allows.
pub(crate) fn deepen(listener: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::listen(listener, BACKLOG)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 4000;
    const PLACES: Places = Places { each: (2, 3), all: (3, 5) };

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
    fn a_user_holds_so_many_connections_and_fewer_that_are_silent() {
        let door = door(true);
        let mut held = vec![door.enter(4001).unwrap(), door.enter(4001).unwrap()];
        assert!(door.enter(4001).unwrap_err().contains("holds 2 connections that have not said"));
        held[0].let_in();
        held[0].let_in();
        held.push(door.enter(4001).unwrap());
        held[1].let_in();
        assert!(door.enter(4001).unwrap_err().contains("holds 3 connections"));
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
        assert!(door.enter(4004).is_err(), "and so are five connections");
        drop(silent);
        assert!(door.enter(4004).is_ok());
    }

    #[test]
    fn who_is_turned_away_is_counted_also_without_a_line() {
        let door = door(true);
        let lines = (0..2 * LINES).filter(|_| door.turn_away(4001).is_some()).count();
        assert_eq!((lines, door.turned_away()), (LINES as usize, u64::from(2 * LINES)));
        assert!(door.turn_away(4002).is_some(), "others have lines of their own");
    }

    #[test]
    fn the_log_has_so_many_lines_about_a_user_and_then_tells_how_many_it_left_out() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        for _ in 0..LINES {
            assert!(lines.take(now).is_some_and(|line| line.left_out.is_none()));
        }
        assert!(lines.take(now).is_none() && lines.take(now + WINDOW / 2).is_none());
        let next = lines.take(now + WINDOW).unwrap();
        assert_eq!(next.left_out, Some(2));
        assert!(lines.take(now + WINDOW).is_none(), "it goes on: one line a window is enough");
        assert_eq!(lines.take(now + 2 * WINDOW).unwrap().left_out, Some(1));
        assert_eq!(lines.take(now + 3 * WINDOW).unwrap().left_out, None);
        assert!(lines.take(now + 3 * WINDOW).is_some(), "it was quiet");
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_cost_the_server_a_small_part_of_its_time() {
        let door = door(true);
        let paused = async |times: u32| {
            let begin = tokio::time::Instant::now();
            for _ in 0..times {
                let _ = door.turn_away(4001);
                door.pace().await;
            }
            begin.elapsed()
        };
        assert!(paused(UNITS_AT_ONCE as u32).await.is_zero(), "a few are dealt with at once");
        let second = paused(UNITS_A_SECOND as u32).await;
        assert!(second.abs_diff(Duration::from_secs(1)) < Duration::from_millis(50), "{second:?}");
        // who is let in has cost nothing in the end, and our own user never does
        tokio::time::advance(Duration::from_secs(1)).await;
        let begin = tokio::time::Instant::now();
        for uid in [4001, OWN].repeat(1000) {
            door.enter(uid).unwrap().let_in();
            let _ = door.turn_away(OWN);
            door.pace().await;
        }
        assert!(begin.elapsed().is_zero());
        for _ in 0..UNITS_AT_ONCE as u32 {
            drop(door.enter(4001).unwrap());
        }
        door.pace().await;
        assert!(begin.elapsed() > Duration::from_millis(400), "visitors cost more: {:?}", begin.elapsed());
    }

    #[test]
    fn the_log_remembers_of_users_who_have_left_only_what_is_recent() {
        let door = door(true);
        let _stays = door.enter(1).unwrap();
        let long_ago = Instant::now().checked_sub(WINDOW).unwrap();
        for uid in 2..=USERS as u32 + 1 {
            door.users().entry(uid).or_default().lines.since = Some(long_ago);
        }
        assert!(door.line(7000).is_some());
        assert_eq!(door.users().keys().copied().collect::<Vec<_>>(), [1, 7000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_gives_its_spare_descriptor_up_once_and_then_waits() {
        let mut reserve = Reserve::new(door(false)).unwrap();
        let short = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        let begin = tokio::time::Instant::now();
        reserve.on_error(&short).await;
        assert!(reserve.spare.is_none() && begin.elapsed().is_zero(), "now one can be accepted");
        reserve.on_error(&short).await;
        assert!(reserve.spare.is_some() && begin.elapsed() >= ACCEPT_AGAIN);
        // nothing that a spare descriptor would help against
        reserve.on_error(&io::ErrorKind::OutOfMemory.into()).await;
        assert!(reserve.spare.is_some() && begin.elapsed() >= 2 * ACCEPT_AGAIN);
        reserve.on_error(&short).await;
        reserve.on_accepted().await;
        assert!(reserve.spare.is_some());
    }

    #[test]
    fn places_follow_from_the_limit_of_descriptors() {
        assert_eq!(Places::of(64), Places { each: (8, 16), all: (16, 32) });
        assert_eq!(Places::of(1 << 20), Places { each: (1024, 1 << 18), all: (4096, 1 << 19) });
        assert_eq!(Places::of(u64::MAX).all.0, 4096);
    }
}
