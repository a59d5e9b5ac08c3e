//! The hosts that a job is to run on: `--host` and `--hostfile`, in the grammar of Open MPI and PRRTE.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::net::Ipv6Addr;
use std::path::Path;

use pmix_host::{Machine, Member};
use pmix_topology::ThisHost;

/// A longer file is no file of hosts.
const MAX_HOSTFILE: usize = 16 << 20;
/// Most hosts of a session: the head has a connection with each.
pub(super) const MAX_HOSTS: usize = 1024;
/// Most hosts of a list, of which a session may use some: those of the largest systems.
pub(super) const MAX_LISTED: usize = 1 << 16;

/// A host, and how many processes of a job it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) slots: u32,
    /// The slots were given; otherwise it has one.
    pub(crate) is_counted: bool,
}

impl Host {
    /// Slots for any number of processes.
    pub(crate) const ANY: u32 = u32::MAX;

    const fn count(&self) -> Count {
        if self.is_counted { Count::Given(self.slots) } else { Count::Usual(self.slots) }
    }

    /// What it is called among the nodes of a DVM, with the slots to use there, if they were given.
    pub(crate) fn in_dvm(&self) -> String {
        if self.is_counted { format!("{}:{}", self.name, self.slots) } else { self.name.clone() }
    }

    /// The node that it is, on this machine.
    pub(super) fn member(self, machine: Machine) -> Member {
        let member = Member::new(self.name, machine);
        if self.slots == Self::ANY { member } else { member.slots(self.slots) }
    }
}

/// Hosts in the order in which they are filled, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HostList {
    hosts: Vec<Host>,
    /// Where each is among them.
    places: HashMap<String, usize>,
}

impl HostList {
    /// One host, for any number of processes.
    pub(crate) fn here(name: String) -> Self {
        let places = HashMap::from([(name.clone(), 0)]);
        Self { hosts: vec![Host { name, slots: Host::ANY, is_counted: false }], places }
    }

    pub(crate) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The list, if a session can use all of it.
    ///
    /// # Errors
    /// There are too many.
    pub(crate) fn for_session(self) -> Result<Self, String> {
        if self.hosts.len() > MAX_HOSTS {
            return Err(format!(
                "there are {} hosts; at most {MAX_HOSTS} can be used: select them by --host",
                self.hosts.len()
            ));
        }
        Ok(self)
    }

    /// The number of slots of all of them.
    pub(crate) fn slots(&self) -> u64 {
        self.hosts.iter().map(|host| u64::from(host.slots)).sum()
    }

    /// All that means this host becomes one host, by the name that this has here. The resolver is asked, unless the list is one of
    /// which a session can only use some.
    ///
    /// # Errors
    /// An address of another host that cannot be the name of a node; too many slots.
    pub(crate) fn calling_own(self, this: &ThisHost) -> Result<Self, String> {
        let names = || self.hosts.iter().map(|host| host.name.as_str());
        let own: BTreeSet<_> = match self.hosts.len() {
            ..=MAX_HOSTS => this.among(names()),
            _ => names().filter(|name| this.is(name)).collect(),
        };
        let mut list = Self::default();
        for host in &self.hosts {
            let (name, slots) = (&host.name, host.count());
            let is_own = |host: &str| this.is_by_itself(host);
            if own.contains(name.as_str()) || host_of_login(name).is_some_and(is_own) {
                list.add(this.name(), slots)?;
            } else if name.contains(':') {
                return Err(format!("{name} is an address of another host: give its name in place of it"));
            } else {
                list.add(name, slots)?;
            }
        }
        Ok(list)
    }

    /// `a:4,b,[::1]`: names with the number of slots, 1 by default. A host that is named again has more slots.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut list = Self::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, number) = split(word);
            let slots = number.map(count).transpose().map_err(|why| format!("{word}: {why}"))?;
            list.add(name, slots.map_or(Count::Usual(1), Count::Given))?;
        }
        list.or_empty()
    }

    /// These names with their numbers of slots.
    ///
    /// # Errors
    /// One is not the name of a host, or there are none, or too many.
    pub(crate) fn of(hosts: impl IntoIterator<Item = (String, u32)>) -> Result<Self, String> {
        let mut list = Self::default();
        hosts.into_iter().try_for_each(|(name, slots)| list.add(&name, Count::Given(slots)))?;
        list.or_empty()
    }

    /// A file with a host a line: `name slots=N max_slots=N username=USER`, and comments after `#`.
    ///
    /// # Errors
    /// The file and the line that cannot be read.
    pub(crate) fn read(path: &OsStr) -> Result<Self, String> {
        let path = Path::new(path);
        let about = |why: &str| format!("{}: {why}", path.display());
        let size = fs::metadata(path).map_err(|error| about(&error.to_string()))?.len();
        if size > MAX_HOSTFILE as u64 {
            return Err(about("too large for a file of hosts"));
        }
        // comments may be in any encoding
        let text = fs::read(path).map_err(|error| about(&error.to_string()))?;
        Self::parse_file(&String::from_utf8_lossy(&text)).map_err(|why| about(&why))
    }

    fn parse_file(text: &str) -> Result<Self, String> {
        let mut list = Self::default();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.split('#').next().unwrap_or_default();
            // some write `slots = 4`
            let line = line.split('=').map(str::trim).collect::<Vec<_>>().join("=");
            let mut words = line.split_whitespace();
            let Some(name) = words.next().map(|name| unbracketed(name).unwrap_or(name)) else { continue };
            let at = |why: String| format!("line {number}: {why}");
            let (mut slots, mut most, mut login) = (None, None, None);
            for word in words {
                let place = match word.split_once('=') {
                    Some(("slots" | "cpu" | "count", _)) => &mut slots,
                    Some(("username" | "user-name" | "user_name", user)) => {
                        if user.is_empty() {
                            return Err(at(format!("{word}: no user is named")));
                        }
                        login = Some(user);
                        continue;
                    }
                    Some(("port", _)) => {
                        return Err(at(format!("{word}: set Port for {name} in the configuration of ssh")));
                    }
                    Some(("max_slots" | "max-slots" | "cpu_max" | "count_max", _)) => &mut most,
                    _ => return Err(at(format!("`{word}` is not slots=N or max_slots=N"))),
                };
                let number = word.split_once('=').map_or("", |(_, number)| number);
                *place = Some(count(number).map_err(|why| at(format!("{word}: {why}")))?);
            }
            let given = slots.or(most);
            if most.zip(given).is_some_and(|(most, slots)| most < slots) {
                return Err(at(format!("{name} has more slots than its max_slots")));
            }
            let name = login.map_or_else(|| name.to_owned(), |user| format!("{user}@{name}"));
            list.add(&name, given.map_or(Count::Usual(1), Count::Given)).map_err(at)?;
        }
        list.or_empty()
    }

    /// Those of this list that another one names, with the slots that it gives them. `what` is what this list is.
    pub(crate) fn narrowed(&self, to: Self, what: &str) -> Result<Self, String> {
        // the file may say as whom to go there
        let logins = self.hosts.iter().filter_map(|host| Some((host_of_login(&host.name)?, &host.name)));
        let logins: HashMap<&str, &String> = logins.collect();
        let mut list = Self::default();
        for host in to.hosts {
            let (slots, name) = (host.count(), host.name);
            let known = if self.has(&name) { Some(&name) } else { logins.get(name.as_str()).copied() };
            list.add(known.ok_or_else(|| format!("{name} is not in {what}"))?, slots)?;
        }
        Ok(list)
    }

    fn add(&mut self, name: &str, slots: Count) -> Result<(), String> {
        let (slots, is_counted) = match slots {
            Count::Given(slots) => (slots, true),
            Count::Usual(slots) => (slots, false),
        };
        // it is an argument of ssh
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        let is_address = || host_of_login(name).unwrap_or(name).parse::<Ipv6Addr>().is_ok();
        if name.is_empty() || name.starts_with('-') || !name.chars().all(is_plain) && !is_address() {
            return Err(format!("`{}` is not the name of a host", pmix_types::escaped(name)));
        }
        if let Some(host) = self.places.get(name).and_then(|place| self.hosts.get_mut(*place)) {
            host.slots = host.slots.checked_add(slots).ok_or_else(|| format!("{name} has too many slots"))?;
            host.is_counted = true;
            return Ok(());
        }
        if self.hosts.len() >= MAX_LISTED {
            return Err(format!("there are more than {MAX_LISTED} hosts"));
        }
        self.places.insert(name.to_owned(), self.hosts.len());
        self.hosts.push(Host { name: name.to_owned(), slots, is_counted });
        Ok(())
    }

    fn or_empty(self) -> Result<Self, String> {
        if self.hosts.is_empty() { Err("no host is named".into()) } else { Ok(self) }
    }
}

/// A number of slots.
#[derive(Clone, Copy)]
enum Count {
    Given(u32),
    Usual(u32),
}

/// The host of `user@host`.
fn host_of_login(name: &str) -> Option<&str> {
    name.split_once('@').map(|(_, host)| host)
}

/// A name, and what stands after its colon. An IPv6 address has colons of its own, unless it stands in brackets.
fn split(word: &str) -> (&str, Option<&str>) {
    if word.parse::<Ipv6Addr>().is_ok() {
        return (word, None);
    }
    match word.rsplit_once(':') {
        Some((name, number)) if !number.ends_with(']') => (unbracketed(name).unwrap_or(name), Some(number)),
        _ => (unbracketed(word).unwrap_or(word), None),
    }
}

fn unbracketed(name: &str) -> Option<&str> {
    name.strip_prefix('[')?.strip_suffix(']')
}

fn count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) => Err("a host needs at least one slot".into()),
        Ok(count) => Ok(count),
        Err(_) => Err(format!("`{}` is not a number of slots", pmix_types::escaped(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(list: Result<HostList, String>) -> Result<Vec<(String, u32)>, String> {
        list.map(|list| list.hosts.into_iter().map(|host| (host.name, host.slots)).collect())
    }

    fn named(list: &[(&str, u32)]) -> Result<Vec<(String, u32)>, String> {
        Ok(list.iter().map(|(name, slots)| ((*name).to_owned(), *slots)).collect())
    }

    #[test]
    fn all_that_means_this_host_is_one_host() {
        let this = ThisHost::called("n0");
        let text =
            "localhost:2,n1,127.0.0.1,[::1]:3,::1,n0,[127.0.0.9]:2,n0.example.invalid,n1.example.invalid";
        let list = HostList::parse(text).unwrap().calling_own(&this);
        assert_eq!(hosts(list), named(&[("n0", 11), ("n1", 1), ("n1.example.invalid", 1)]));
        let text = "localhost slots=2\n[::1] slots=1 username=me\n::1\nlocalhost username=me\n";
        let list = HostList::parse_file(text).unwrap().calling_own(&this);
        assert_eq!(hosts(list), named(&[("n0", 5)]));
        let other = HostList::parse("[2001:db8::1]:2").unwrap().calling_own(&this);
        assert!(other.unwrap_err().starts_with("2001:db8::1 is an address of another host"));
    }

    #[test]
    fn hosts_have_the_slots_that_are_given_and_one_by_default() {
        assert_eq!(hosts(HostList::parse("a:4, b,a,c.d-e:2")), named(&[("a", 5), ("b", 1), ("c.d-e", 2)]));
        for (text, why) in [
            ("", "no host is named"),
            ("a:0", "a:0: a host needs at least one slot"),
            ("a:x", "a:x: `x` is not a number of slots"),
            ("-oProxyCommand=x", "`-oProxyCommand=x` is not the name of a host"),
            ("a b", "`a b` is not the name of a host"),
        ] {
            assert_eq!(hosts(HostList::parse(text)), Err(why.into()));
        }
        let list = |count: usize| HostList::parse(&(0..count).map(|n| format!("n{n},")).collect::<String>());
        assert!(list(MAX_HOSTS).unwrap().for_session().is_ok());
        let error = list(MAX_HOSTS + 1).unwrap().for_session().unwrap_err();
        assert_eq!(error, "there are 1025 hosts; at most 1024 can be used: select them by --host");
        // those of a large system are narrowed at once
        let all = list(MAX_LISTED).unwrap();
        let some = all.narrowed(HostList::parse("n7,n65535").unwrap(), "it").unwrap().for_session();
        assert_eq!(hosts(some), named(&[("n7", 1), ("n65535", 1)]));
        assert_eq!(list(MAX_LISTED + 1).unwrap_err(), "there are more than 65536 hosts");
    }

    #[test]
    fn a_file_has_a_host_a_line_with_slots_and_comments() {
        let text = "# all\nn0 slots=4\n\n  n1 max_slots=8 slots=2 # two\nn2\nn3 max-slots = 3\nn4 username=me slots =2\n";
        let expected = named(&[("n0", 4), ("n1", 2), ("n2", 1), ("n3", 3), ("me@n4", 2)]);
        assert_eq!(hosts(HostList::parse_file(text)), expected);
        for (text, why) in [
            ("a\nb slots=x", "line 2: slots=x: `x` is not a number of slots"),
            ("a user=b", "line 1: `user=b` is not slots=N or max_slots=N"),
            ("a username=", "line 1: username=: no user is named"),
            ("a port=22", "line 1: port=22: set Port for a in the configuration of ssh"),
            ("a slots=3 max_slots=2", "line 1: a has more slots than its max_slots"),
            ("# none", "no host is named"),
        ] {
            assert_eq!(hosts(HostList::parse_file(text)), Err(why.into()));
        }
    }

    #[test]
    fn names_choose_among_those_of_a_file() {
        let file = HostList::parse("a:4,b:4").unwrap();
        let wanted = HostList::parse("b:2").unwrap();
        assert_eq!(file.narrowed(wanted.clone(), "it"), Ok(wanted.clone()));
        let as_me = HostList::parse_file("b username=me slots=8").unwrap().narrowed(wanted, "it");
        assert_eq!(hosts(as_me), named(&[("me@b", 2)]));
        let stranger = HostList::parse("c").unwrap();
        assert_eq!(file.narrowed(stranger, "the file of hosts"), Err("c is not in the file of hosts".into()));
    }
}
