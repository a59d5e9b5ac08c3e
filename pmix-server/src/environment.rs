//! [`Environment`]: what a process is started with, so that it finds its server.

use std::collections::BTreeMap;
use std::ffi::OsString;

use pmix_types::{Envar, Info, change_environment};

use crate::pmi1::{Pmi1Socket, inherit_pmi_fd};

/// The environment of a process: the address of its server, and the changes requested by the host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Environment {
    pub(crate) changes: Vec<Info>,
    pub(crate) variables: Vec<(String, String)>,
    pub(crate) defaults: Vec<(String, String)>,
    pub(crate) pmi1: Option<Pmi1Socket>,
}

impl Environment {
    /// Sets the variables for a command; its other variables stay (CLI-07). [`Changes`](Self::changes) come first: they
    /// change what the command has, or else what it inherits from this process. [`Defaults`](Self::defaults) are set only
    /// if neither the command nor the environment of this process has the variable. With [`pmi1`](Self::pmi1), the command also
    /// gets a socket, which is closed here when the command is dropped; apply the environment again for another process.
    pub fn apply(&self, command: &mut std::process::Command) {
        self.change(command);
        let is_set = |command: &std::process::Command, name: &str| {
            command.get_envs().any(|(held, _)| held == name) || std::env::var_os(name).is_some()
        };
        for (name, value) in &self.defaults {
            if !is_set(command, name) {
                command.env(name, value);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let socket = self.pmi1.as_ref().map(Pmi1Socket::open).transpose();
        if let Err(error) =
            socket.and_then(|socket| socket.map_or(Ok(()), |socket| inherit_pmi_fd(command, socket)))
        {
            tracing::warn!(%error, "a process is started without a socket for PMI-1");
        }
    }

    fn change(&self, command: &mut std::process::Command) {
        if self.changes.is_empty() {
            return;
        }
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => env.insert(name.to_owned(), value.to_owned()),
                None => env.remove(name),
            };
        }
        if let Err(error) = change_environment(&self.changes, &mut env) {
            // setup_local_support has checked them
            tracing::warn!(%error, "a change of the environment of a process is left out");
        }
        for info in &self.changes {
            // also where nothing is different from here: the command may not inherit it
            let name = info
                .get::<Envar>()
                .map(|envar| envar.name)
                .or_else(|_| info.get::<String>().map(OsString::from));
            match name.ok().map(|name| (env.get(&name), name)) {
                Some((Some(value), name)) => command.env(name, value),
                Some((None, name)) => command.env_remove(name),
                None => continue,
            };
        }
    }

    /// The changes requested by [`setup_local_support`](crate::ServerHandle::setup_local_support): directives `SET_ENVAR`,
    /// `ADD_ENVAR`, `UNSET_ENVAR`, `PREPEND_ENVAR`, `APPEND_ENVAR` and `FIRST_ENVAR`, in order. A host that does not
    /// use [`apply`](Self::apply) applies them with [`change_environment`] before the variables.
    pub fn changes(&self) -> &[Info] {
        &self.changes
    }

    /// Name and value of each variable by which the process finds its server.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Name and value of each variable that yields to the user's own setting: parameters of MPI libraries.
    pub fn defaults(&self) -> impl Iterator<Item = (&str, &str)> {
        self.defaults.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What makes the socket by which the process speaks PMI-1, if the server serves that
    /// ([`ServerBuilder::pmi1_wire`](crate::ServerBuilder::pmi1_wire)). [`apply`](Self::apply) opens it; a host that starts
    /// processes in another way opens it itself.
    pub const fn pmi1(&self) -> Option<&Pmi1Socket> {
        self.pmi1.as_ref()
    }

    /// Name and value of each variable by which the process finds its server, owned.
    pub fn into_vec(self) -> Vec<(String, String)> {
        self.variables
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::process::Command;

    use super::*;

    #[test]
    fn parameters_give_way_to_those_of_users_and_the_way_to_the_server_does_not() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let inherited = std::env::vars_os().find_map(|(name, _)| name.into_string().ok());
        let inherited = inherited.unwrap_or_else(|| "PMIX_RANK".to_owned());
        let environment = Environment {
            changes: Vec::new(),
            variables: vec![pair("PMIX_RANK", "3")],
            defaults: ["OMPI_MCA_a", "OMPI_MCA_b", inherited.as_str()].map(|name| pair(name, "ours")).into(),
            pmi1: None,
        };
        let mut command = Command::new("program");
        command.env("PMIX_RANK", "theirs").env("OMPI_MCA_b", "theirs");
        environment.apply(&mut command);
        let set: Vec<_> = command.get_envs().map(|(name, value)| (name, value.unwrap())).collect();
        let due = [("OMPI_MCA_a", "ours"), ("OMPI_MCA_b", "theirs"), ("PMIX_RANK", "3")];
        assert_eq!(set, due.map(|(name, value)| (OsStr::new(name), OsStr::new(value))));
        assert_eq!(environment.iter().collect::<Vec<_>>(), [("PMIX_RANK", "3")]);
        assert_eq!(environment.defaults().count(), 3);
    }
}
