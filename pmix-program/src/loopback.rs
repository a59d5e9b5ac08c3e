//! Whom pages and numbers that are served on loopback answer.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use http::HeaderMap;
use http::header::HOST;
use http::uri::Authority;
use pmix_proto::owner::{Owners, SocketPair};
use pmix_types::Uid;

/// Why a request was refused that does not [name this host](names_this_host).
pub const NOT_THIS_HOST: &str = "the Host header must name a loopback address or localhost";

/// Whether a request came by an address of this host. A page of another site whose name was made to mean this address names itself.
#[must_use]
pub fn names_this_host(headers: &HeaderMap) -> bool {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(Ok(authority)) = named.map(str::parse::<Authority>) else { return false };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// Users whose processes have the other end of loopback connections.
#[derive(Debug)]
pub struct Users(Option<Owners>);

impl Users {
    /// Finds nobody where the kernel gives no answer.
    #[must_use]
    pub fn open() -> Self {
        Self(Owners::open().inspect_err(|error| tracing::debug!(%error, "users are not told apart")).ok())
    }

    /// Who has the other end; `None` if that is unknown, or a subordinate uid, as one person has many.
    pub fn of(&self, socket: impl AsFd, from: SocketAddr) -> Option<Uid> {
        self.0.as_ref()?.uid_of(&SocketPair::new(socket, from).ok()?).ok().filter(|uid| !uid.is_subordinate())
    }
}

/// Visitors that are served at once, up to a number. For a further one goes the oldest of whoever has most (a user, an address), so that
/// nobody keeps others out.
#[derive(Debug)]
pub struct Visitors<O, T> {
    all: VecDeque<(O, T)>,
    most: usize,
}

impl<O: Copy + Eq + Hash, T> Visitors<O, T> {
    /// Nobody yet, and so many at most.
    #[must_use]
    pub const fn up_to(most: usize) -> Self {
        Self { all: VecDeque::new(), most }
    }

    /// Forgets those that are no visitors any more.
    pub fn retain(&mut self, mut stays: impl FnMut(&T) -> bool) {
        self.all.retain(|(_, one)| stays(one));
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Adds one of this owner; returns who has to go.
    #[must_use]
    pub fn add(&mut self, owner: O, one: T) -> Option<T> {
        self.all.push_back((owner, one));
        if self.all.len() <= self.most {
            return None;
        }
        let mut counts = HashMap::new();
        for (owner, _) in &self.all {
            *counts.entry(*owner).or_insert(0_usize) += 1;
        }
        let most = counts.values().max().copied();
        let place = self.all.iter().position(|(owner, _)| counts.get(owner).copied() == most)?;
        self.all.remove(place).map(|(_, one)| one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_makes_room_is_the_oldest_of_the_user_who_has_most() {
        let mut visitors = Visitors::up_to(4);
        let (alice, bob) = (Some(1), Some(2));
        assert_eq!(visitors.add(alice, "alice"), None);
        for one in ["first", "second", "third"] {
            assert_eq!(visitors.add(bob, one), None);
        }
        assert_eq!(visitors.add(bob, "fourth"), Some("first"));
        assert_eq!(visitors.add(alice, "again"), Some("second"));
        // as many of each: the oldest of all
        assert_eq!(visitors.add(None, "unknown"), Some("alice"));
        visitors.retain(|one| *one == "again");
        assert_eq!(visitors.add(bob, "fifth"), None);
    }

    #[test]
    fn names_that_others_choose_are_not_this_host() {
        let names = |named: &str| names_this_host(&HeaderMap::from_iter([(HOST, named.parse().unwrap())]));
        for own in ["127.0.0.1:8000", "127.0.0.1", "127.1.2.3:1", "localhost:8000", "LocalHost", "[::1]:80"] {
            assert!(names(own), "{own}");
        }
        for other in [
            "evil.example",
            "192.0.2.1:8000",
            "127.0.0.1.evil.example",
            "localhost.example",
            "xlocalhost",
            "a b",
            "",
        ] {
            assert!(!names(other), "{other}");
        }
        assert!(!names_this_host(&HeaderMap::new()));
    }
}
