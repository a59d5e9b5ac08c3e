//! Nodes by name: those that `HOST` and `HOSTFILE` request, out of those available (SPN-02).

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use pmix_types::{Directives, Key, Status, is_same_host};
use rustix::fs::OFlags;

use pmix_server::Account;
use pmix_server::host::{HostError, HostResult};

/// A longer file of hosts is no file of hosts.
const MAX_FILE: u64 = 16 << 20;

/// Requested nodes; none means any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hosts {
    /// Names with commas between them.
    names: Option<String>,
    /// A file with one name a line.
    file: Option<PathBuf>,
}

impl Hosts {
    pub(crate) fn take(
        directives: &mut Directives,
        names: &Key<String>,
        file: &Key<String>,
    ) -> HostResult<Self> {
        let (names, file) = (directives.take(names)?, directives.take(file)?);
        Ok(Self { names, file: file.map(PathBuf::from) })
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.names.is_none() && self.file.is_none()
    }

    /// Returns the requested nodes in the order of the request, each once. If both names and a file are given, the file, which is read with
    /// the user's rights, must have the names.
    ///
    /// # Errors
    /// `status` for a file that cannot be read, for a name that is not known, and for no name at all. What stands in a
    /// file is not told.
    pub(crate) async fn among(
        &self,
        all: &[String],
        status: Status,
        user: Option<&Account>,
    ) -> HostResult<Vec<NamedNode>> {
        let refused = |message: String| HostError::new(status, message);
        let every: Vec<NamedNode> = (0..all.len()).map(|node| NamedNode { node, most: None }).collect();
        let of_file = match self.file.clone() {
            None => every,
            Some(file) => {
                let shown = file.display().to_string();
                let failed = |status, reason: &dyn fmt::Display| {
                    HostError::new(status, format!("host file {shown}: {reason}"))
                };
                let of_file = |reason: &dyn fmt::Display| failed(status, reason);
                let text = read_as(user, file).await;
                let text = text.map_err(|error| failed(Account::status_of(&error, status), &error))?;
                let names = text.lines().map(|line| line.split('#').next()?.split_whitespace().next());
                let named = names.map(|name| (name.unwrap_or_default(), None)).zip(1_u64..);
                pick(named, all, &every).map_err(|refusal| match refusal {
                    Unpicked::Unknown(_, line) => {
                        of_file(&format_args!("line {line} does not begin with the name of a node to use"))
                    }
                    Unpicked::Nobody => of_file(&"no node is named"),
                })?
            }
        };
        let Some(names) = &self.names else { return Ok(of_file) };
        pick(names.split(',').map(|name| with_slots(name.trim())).zip(1..), all, &of_file).map_err(
            |refusal| match refusal {
                Unpicked::Unknown(name, _) => refused(format!("unknown node `{name}`")),
                Unpicked::Nobody => refused("no node is named".to_owned()),
            },
        )
    }
}

/// A node that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NamedNode {
    /// Its index among all nodes.
    pub(crate) node: usize,
    /// How many slots are to be used there; `None` for those that it has.
    pub(crate) most: Option<u32>,
}

/// Why no node is picked.
enum Unpicked<'a> {
    /// This name, at this place.
    Unknown(&'a str, u64),
    Nobody,
}

/// `name:N`; without a number that makes sense, all of it is the name.
fn with_slots(word: &str) -> (&str, Option<u32>) {
    let counted = word.rsplit_once(':').and_then(|(name, count)| Some((name, Some(count.parse().ok()?))));
    counted.unwrap_or((word, None))
}

/// The nodes of these names with their slots, and places. An empty name is none. A name that comes again adds its slots.
fn pick<'a>(
    names: impl Iterator<Item = ((&'a str, Option<u32>), u64)>,
    all: &[String],
    among: &[NamedNode],
) -> Result<Vec<NamedNode>, Unpicked<'a>> {
    let mut picked = Vec::<NamedNode>::new();
    for ((name, most), place) in names.filter(|((name, _), _)| !name.is_empty()) {
        let is = |means: &dyn Fn(&str) -> bool| {
            let nodes = among.iter().map(|named| named.node);
            let mut meant = nodes.filter(|node| all.get(*node).is_some_and(|known| means(known)));
            meant.next().filter(|_| meant.next().is_none())
        };
        let node = is(&|known| known == name).or_else(|| is(&|known| is_same_host(known, name)));
        let Some(node) = node else { return Err(Unpicked::Unknown(name, place)) };
        match picked.iter_mut().find(|known| known.node == node) {
            Some(known) => known.most = known.most.zip(most).map(|(one, other)| one.saturating_add(other)),
            None => picked.push(NamedNode { node, most }),
        }
    }
    if picked.is_empty() { Err(Unpicked::Nobody) } else { Ok(picked) }
}

async fn read_as(user: Option<&Account>, file: PathBuf) -> io::Result<String> {
    match user {
        Some(user) => user.with_rights(move || read(&file)).await.flatten(),
        None => tokio::task::spawn_blocking(move || read(&file)).await?,
    }
}

fn read(file: &Path) -> io::Result<String> {
    // to open a pipe would wait for its writer
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(file)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use pmix_types::keys;

    use super::*;

    fn hosts(names: Option<&str>, file: Option<&str>) -> Hosts {
        Hosts { names: names.map(Into::into), file: file.map(Into::into) }
    }

    async fn found(hosts: Hosts) -> Result<Vec<usize>, (Status, String)> {
        let found = named(hosts).await?;
        assert!(found.iter().all(|named| named.most.is_none()), "{found:?}");
        Ok(found.into_iter().map(|named| named.node).collect())
    }

    async fn named(hosts: Hosts) -> Result<Vec<NamedNode>, (Status, String)> {
        let all = ["n0", "n1", "n2"].map(String::from);
        let found = hosts.among(&all, Status::ERR_JOB_FAILED_TO_MAP, None).await;
        found.map_err(|error| (error.status(), error.to_string()))
    }

    #[tokio::test]
    async fn spn_02_hosts_are_taken_by_name_in_their_order() {
        assert_eq!(found(Hosts::default()).await.unwrap(), [0, 1, 2]);
        assert_eq!(found(hosts(Some("n2, n0,n2"), None)).await.unwrap(), [2, 0]);
        // with the domain, which the launcher does not know
        assert_eq!(found(hosts(Some("n2.example.org,N1,n2"), None)).await.unwrap(), [2, 1]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# nodes\nn1 slots=4\n\n  n2 # the last\nn1\n").unwrap();
        let path = file.path().to_str();
        assert_eq!(found(hosts(None, path)).await.unwrap(), [1, 2]);
        assert_eq!(found(hosts(Some("n2"), path)).await.unwrap(), [2]);
        for (refused, why) in [
            (hosts(Some("n1,n3"), None), "n3"),
            (hosts(Some("n0"), path), "n0"),
            (hosts(Some(" ,"), None), "no node"),
            (hosts(None, Some("/nowhere/hosts")), "/nowhere/hosts"),
            (hosts(None, Some("/dev/zero")), "not a file"),
        ] {
            let (status, words) = found(refused).await.unwrap_err();
            assert_eq!(status, Status::ERR_JOB_FAILED_TO_MAP);
            assert!(words.contains(why), "{words}");
        }
    }

    #[tokio::test]
    async fn spn_02_a_number_after_a_name_is_that_of_the_slots_to_use() {
        let found = named(hosts(Some("n2:3,n0,n2:1,n0:2,n1:0"), None)).await.unwrap();
        let slots = |node, most| NamedNode { node, most };
        assert_eq!(found, [slots(2, Some(4)), slots(0, None), slots(1, Some(0))]);
        for unknown in ["n1:x", "n1:-1", "n1:99999999999", ":2"] {
            assert_eq!(named(hosts(Some(unknown), None)).await.unwrap_err().0, Status::ERR_JOB_FAILED_TO_MAP);
        }
    }

    #[tokio::test]
    async fn a_name_without_the_domain_that_two_nodes_share_means_neither() {
        let all = ["a.x", "a.y", "b.x"].map(String::from);
        for (name, index) in [("a.y", Some(1)), ("b", Some(2)), ("a", None), ("b.y", None)] {
            let found = hosts(Some(name), None).among(&all, Status::ERR_JOB_FAILED_TO_MAP, None).await;
            assert_eq!(found.ok(), index.map(|node| vec![NamedNode { node, most: None }]), "{name}");
        }
    }

    #[tokio::test]
    async fn of_a_file_that_names_no_nodes_only_the_line_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "n0\n\nroot:$6$secret:19000:\n").unwrap();
        let path = file.path().to_str().unwrap();
        let (_, words) = found(hosts(None, Some(path))).await.unwrap_err();
        let told = format!("host file {path}: line 3 does not begin with the name of a node to use");
        assert_eq!(words, told);
        std::fs::write(file.path(), b"n0\n\xffsecret").unwrap();
        let (_, words) = found(hosts(None, Some(path))).await.unwrap_err();
        assert!(words.contains(path) && !words.contains("secret"), "{words}");
    }

    #[test]
    fn they_are_taken_from_directives() {
        let mut directives = Directives::new().require(&keys::HOST, "n0").with(&keys::HOSTFILE, "f");
        let taken = Hosts::take(&mut directives, &keys::HOST, &keys::HOSTFILE).unwrap();
        assert_eq!(taken, hosts(Some("n0"), Some("f")));
        assert!(directives.deny_unprocessed().is_ok() && !taken.is_empty());
    }
}
