//! The parameters of a process to start, for the launcher itself or the leader of a job.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use pmix_host::Account;
use pmix_topology::Processors;

/// All parameters of a process except its standard streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recipe {
    /// Executable, as an absolute path.
    pub(crate) path: PathBuf,
    /// Arguments, the program's own name first.
    pub(crate) argv: Vec<OsString>,
    /// The complete environment.
    pub(crate) env: BTreeMap<OsString, OsString>,
    /// Working directory; `None` for that of the launcher.
    pub(crate) cwd: Option<PathBuf>,
    /// User of the process; `None` for the launcher's. Who starts it must be a process of this user, or do it in
    /// [`Account::start_processes`].
    pub(crate) user: Option<Account>,
    /// The processors to bind it to; `None` for no binding.
    pub(crate) processors: Option<Processors>,
}

impl Recipe {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg0(self.argv.first().unwrap_or(&OsString::new()));
        command.args(self.argv.iter().skip(1)).env_clear().envs(&self.env);
        if let Some(cwd) = &self.cwd {
            command.current_dir(cwd);
        }
        if let Some(user) = &self.user {
            // takes effect before it enters its directory and finds its program
            command.uid(user.uid().as_raw());
        }
        command
    }

    /// Encoding for a leader: strings terminated by NUL, in the order path, directory, user, processors, number of
    /// arguments, arguments, environment.
    ///
    /// # Errors
    /// A string contains a NUL character, so no system could start this.
    pub(crate) fn to_bytes(&self) -> io::Result<Vec<u8>> {
        let count = OsString::from(self.argv.len().to_string());
        let cwd = self.cwd.as_ref().map_or_else(|| OsStr::new(""), |cwd| cwd.as_os_str());
        let user =
            OsString::from(self.user.as_ref().map_or_else(String::new, |user| numbers(user).join(" ")));
        let processors =
            OsString::from(self.processors.as_ref().map_or_else(String::new, Processors::to_string));
        let head = [self.path.as_os_str(), cwd, &user, &processors, &count];
        let env = self.env.iter().flat_map(|(name, value)| [name.as_os_str(), value]);
        let mut bytes = Vec::new();
        for part in head.into_iter().chain(self.argv.iter().map(OsString::as_os_str)).chain(env) {
            if part.as_bytes().contains(&0) {
                let message = format!("{} contains a NUL character", part.display());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            bytes.extend_from_slice(part.as_bytes());
            bytes.push(0);
        }
        Ok(bytes)
    }

    /// Decodes the result of [`to_bytes`](Self::to_bytes); `None` for anything else.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut parts = bytes.strip_suffix(&[0])?.split(|&byte| byte == 0);
        let mut next = || parts.next().map(|part| OsString::from_vec(part.to_vec()));
        let path = next()?.into();
        let cwd = Some(PathBuf::from(next()?)).filter(|cwd| !cwd.as_os_str().is_empty());
        let user = user(next()?.to_str()?)?;
        let processors = match next()?.to_str()? {
            "" => None,
            list => Some(list.parse().ok()?),
        };
        let count: usize = next()?.to_str()?.parse().ok()?;
        let argv = (0..count).map(|_| next()).collect::<Option<_>>()?;
        let mut env = BTreeMap::new();
        while let Some(name) = next() {
            env.insert(name, next()?);
        }
        Some(Self { path, argv, env, cwd, user, processors })
    }
}

/// User, group and all groups of an account.
fn numbers(user: &Account) -> Vec<String> {
    let groups = [user.gid()].into_iter().chain(user.groups().iter().copied());
    std::iter::once(user.uid().to_string()).chain(groups.map(|group| group.to_string())).collect()
}

/// Reverses [`numbers`]. The empty string means the launcher's user; `None` is returned for malformed text.
fn user(numbers: &str) -> Option<Option<Account>> {
    if numbers.is_empty() {
        return Some(None);
    }
    let mut numbers = numbers.split(' ');
    let uid = numbers.next()?.parse().ok()?;
    let gid = numbers.next()?.parse().ok()?;
    let groups: Option<_> = numbers.map(|number| number.parse().ok()).collect();
    Some(Some(Account::with_groups(uid, gid, groups?)))
}

#[cfg(test)]
mod tests {
    use pmix_types::{Gid, Uid};

    use super::*;

    fn recipe(argv: &[&str], env: &[(&str, &str)], cwd: Option<&str>) -> Recipe {
        Recipe {
            path: "/bin/x".into(),
            argv: argv.iter().map(OsString::from).collect(),
            env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: cwd.map(PathBuf::from),
            user: None,
            processors: None,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut odd = recipe(&["x", "", "\n"], &[("A", ""), ("B", "=1")], Some("/dir"));
        odd.env.insert("C".into(), OsString::from_vec(vec![0xff]));
        let mut of_other = recipe(&["x"], &[], None);
        of_other.user =
            Some(Account::with_groups(Uid::new(4001), Gid::new(4002), [4002, 4003].map(Gid::new).to_vec()));
        let mut bound = recipe(&["x"], &[], None);
        bound.processors = Some("1,17-18".parse().unwrap());
        for recipe in [recipe(&[], &[], None), recipe(&["x"], &[], None), odd, of_other, bound] {
            assert_eq!(Recipe::from_bytes(&recipe.to_bytes().unwrap()), Some(recipe));
        }
    }

    #[test]
    fn strings_with_a_nul_are_refused_and_pieces_are_not_read() {
        assert!(recipe(&["a\0b"], &[], None).to_bytes().is_err());
        let whole = recipe(&["x", "y"], &[("A", "1")], None).to_bytes().unwrap();
        let pieces = (0..whole.len()).filter(|&end| Recipe::from_bytes(&whole[..end]).is_some());
        // without its variable it is whole too
        assert_eq!(pieces.collect::<Vec<_>>(), [whole.len() - b"A\0".len() - b"1\0".len()]);
    }
}
