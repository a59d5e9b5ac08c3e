//! Names of hosts that users give.

use std::collections::BTreeSet;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use nix::ifaddrs::getifaddrs;
use nix::unistd::gethostname;
use pmix_types::{is_same_host, short_hostname};

/// How long the resolver may take, for all names together: whoever starts something waits for it.
const PATIENCE: Duration = Duration::from_millis(500);
/// Names that are looked up at a time.
const AT_A_TIME: usize = 32;

/// The host of this process, and what it may be called.
#[derive(Clone, Debug)]
pub struct ThisHost {
    name: String,
    addresses: BTreeSet<IpAddr>,
}

impl ThisHost {
    /// Returns this host, called `name`, with the addresses of all its interfaces.
    #[must_use]
    pub fn called(name: impl Into<String>) -> Self {
        let interfaces = getifaddrs().into_iter().flatten();
        let addresses = interfaces.filter_map(|interface| {
            let address = interface.address?;
            let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
            v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
        });
        Self { name: name.into(), addresses: addresses.collect() }
    }

    /// Returns this host by the name that the system gives it.
    #[must_use]
    pub fn by_hostname() -> Self {
        Self::called(gethostname().unwrap_or_default().to_string_lossy())
    }

    /// Its name, as given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this names it, without asking the resolver: [by itself](Self::is_by_itself), or by its name with or without a domain.
    #[must_use]
    pub fn is(&self, name: &str) -> bool {
        self.is_by_itself(name) || is_same_host(name, &self.name)
    }

    /// Whether this names it whatever the resolver says: its own name, `localhost`, or an address of it, which may stand in brackets.
    #[must_use]
    pub fn is_by_itself(&self, name: &str) -> bool {
        match name.trim_start_matches('[').trim_end_matches(']').parse() {
            Ok(address) => self.has(address),
            Err(_) => {
                let first = name.split('.').next().unwrap_or_default();
                name == self.name
                    || name.eq_ignore_ascii_case("localhost")
                    || first.eq_ignore_ascii_case("localhost") && name[first.len()..] == *".localdomain"
            }
        }
    }

    /// All that means it: its name with and without a domain, `localhost`, and its addresses but those of a link alone.
    #[must_use]
    pub fn aliases(&self) -> Vec<String> {
        let is_of_link = |address: &IpAddr| matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let addresses = self.addresses.iter().filter(|address| !is_of_link(address)).map(IpAddr::to_string);
        let names = [Some(self.name.as_str()), short_hostname(&self.name), Some("localhost")];
        names.into_iter().flatten().map(str::to_owned).chain(addresses).collect()
    }

    fn has(&self, address: IpAddr) -> bool {
        address.to_canonical().is_loopback() || self.addresses.contains(&address.to_canonical())
    }

    /// Those of these names that mean this host. The resolver knows of aliases, and of hosts of other domains that have the same name
    /// there; it is given half a second, and what it does not know is decided as by [`is`](Self::is).
    #[must_use]
    pub fn among<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> BTreeSet<&'a str> {
        let (mut own, mut open) = (BTreeSet::new(), BTreeSet::new());
        for name in names {
            if self.is_by_itself(name) {
                own.insert(name)
            } else {
                open.insert(name)
            };
        }
        let mut resolved = self.resolve(&open);
        for name in open {
            let is_own =
                resolved.iter().position(|(known, _)| known == name).map(|at| resolved.swap_remove(at).1);
            if is_own.unwrap_or_else(|| self.is(name)) {
                own.insert(name);
            }
        }
        own
    }

    /// The names that the resolver knows, and whether they have addresses of this host.
    fn resolve(&self, names: &BTreeSet<&str>) -> Vec<(String, bool)> {
        let queue: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let (threads, queue) = (queue.len().min(AT_A_TIME), std::sync::Arc::new(Mutex::new(queue)));
        let (sender, found) = mpsc::channel();
        for _ in 0..threads {
            let (queue, sender) = (queue.clone(), sender.clone());
            // one that the resolver keeps is left alone
            let look_up = move || {
                let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop();
                while let Some(name) = next() {
                    let addresses = (name.as_str(), 0).to_socket_addrs();
                    let addresses = addresses.map(|all| all.map(|address| address.ip()).collect::<Vec<_>>());
                    if sender.send((name, addresses.unwrap_or_default())).is_err() {
                        return;
                    }
                }
            };
            if std::thread::Builder::new().spawn(look_up).is_err() {
                break;
            }
        }
        drop(sender);
        let until = Instant::now() + PATIENCE;
        let next = || found.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
        std::iter::from_fn(next)
            .filter(|(_, addresses)| !addresses.is_empty())
            // hosts can have one address in common, such as that of a bridge for containers
            .map(|(name, addresses)| (name, addresses.into_iter().all(|address| self.has(address))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_its_name_addresses_and_localhost() {
        let here = ThisHost { name: "n0".into(), addresses: BTreeSet::from([[10, 1, 2, 3].into()]) };
        for name in [
            "n0",
            "N0",
            "n0.example.org",
            "localhost",
            "LOCALHOST",
            "localhost.localdomain",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "[::1]",
            "10.1.2.3",
            "[10.1.2.3]",
            "::ffff:10.1.2.3",
        ] {
            assert!(here.is(name), "{name}");
        }
        for name in [
            "n1",
            "n01",
            "n0x.example.org",
            "localhost.example.org",
            "localhosts",
            "10.1.2.4",
            "::2",
            "",
            "[]",
        ] {
            assert!(!here.is(name), "{name}");
        }
        let here = ThisHost { name: "n0.example.org".into(), ..here };
        assert!(here.is("n0") && here.is("n0.EXAMPLE.org") && !here.is("n0.example.com"));
    }

    #[test]
    fn names_that_the_resolver_does_not_know_are_judged_by_themselves() {
        let here = ThisHost { name: "other".into(), addresses: BTreeSet::new() };
        let names = ["10.1.2.4", "no-such-host.invalid", "other.invalid"];
        let own = here.among(names);
        assert!(
            own.contains("other.invalid")
                && !own.contains("10.1.2.4")
                && !own.contains("no-such-host.invalid"),
            "{own:?}"
        );
    }
}
