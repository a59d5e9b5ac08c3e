//! The attributes of `PMIx_server_init`, for hosts that get them from elsewhere.

use pmix_types::message::Failure;
use pmix_types::{Directives, Key, Rank, Status, keys};

use crate::server::ServerBuilder;

/// What no server of this family is.
const ROLES: [&Key<bool>; 3] =
    [&keys::SERVER_GATEWAY, &keys::SERVER_SCHEDULER, &keys::SERVER_REMOTE_CONNECTIONS];

impl ServerBuilder {
    /// Takes settings as attributes of the Standard: `HOSTNAME`, `SERVER_NSPACE`, `SERVER_RANK`, `SERVER_TMPDIR`,
    /// `SYSTEM_TMPDIR`, `SERVER_TOOL_SUPPORT`, `SERVER_SYSTEM_SUPPORT` and `SERVER_SESSION_SUPPORT`. Each has a method of its own,
    /// which is the usual way. Later settings win.
    ///
    /// `SERVER_ENABLE_MONITORING` may be true, as processes can always ask for monitors. `SERVER_GATEWAY`, `SERVER_SCHEDULER` and
    /// `SERVER_REMOTE_CONNECTIONS` may be false: a server answers its own node and passes other requests to its host.
    /// Other attributes, other values of these, and `SYSTEM_TMPDIR` for a server that is not a system-level one, are
    /// ignored with a line in the log.
    ///
    /// # Errors
    /// `ERR_NOT_SUPPORTED` for a required attribute that would be ignored; `ERR_BAD_PARAM` for a value of the wrong
    /// type, and for a rank that is not one of a process.
    ///
    /// # Standard
    /// Rules GEN-05, TOL-01, TOL-02.
    #[doc(alias = "PMIx_server_init")]
    pub fn directives(mut self, directives: Directives) -> Result<Self, Failure> {
        let mut given = directives;
        self = self.take_from(&mut given)?;
        given.deny_unprocessed()?;
        for info in given.iter() {
            tracing::warn!(key = %info.key, "an attribute of server_init is ignored: it is unknown, or its value is not supported");
        }
        Ok(self)
    }

    /// Takes what it can use out of the attributes.
    fn take_from(mut self, given: &mut Directives) -> Result<Self, Failure> {
        if let Some(hostname) = take(given, &keys::HOSTNAME)? {
            self = self.hostname(hostname);
        }
        if let Some(nspace) = take(given, &keys::SERVER_NSPACE)? {
            self = self.nspace(nspace);
        }
        if let Some(rank) = take::<Rank>(given, &keys::SERVER_RANK)? {
            if !rank.is_valid() {
                let message = format!("SERVER_RANK {rank} is not the rank of one process");
                return Err(Failure::new(Status::ERR_BAD_PARAM, message));
            }
            self = self.rank(rank);
        }
        if let Some(root) = take(given, &keys::SERVER_TMPDIR)? {
            self = self.session_root(root);
        }
        if let Some(on) = flag(given, &keys::SERVER_TOOL_SUPPORT)? {
            self = self.tool_support(on);
        }
        if let Some(on) = flag(given, &keys::SERVER_SYSTEM_SUPPORT)? {
            self = self.system_support(on);
        }
        // without such support it would have no effect, so it stays
        if self.is_of_system()
            && let Some(directory) = take::<String>(given, &keys::SYSTEM_TMPDIR)?
        {
            self = self.system_tmpdir(directory);
        }
        if let Some(on) = flag(given, &keys::SERVER_SESSION_SUPPORT)? {
            self = self.session_support(on);
        }
        for (key, only) in
            ROLES.iter().map(|key| (*key, false)).chain([(&keys::SERVER_ENABLE_MONITORING, true)])
        {
            if given.flag(key).is_ok_and(|value| value == only) {
                given.remove(key);
            }
        }
        Ok(self)
    }
}

fn take<T: pmix_types::ValueType>(given: &mut Directives, key: &Key<T>) -> Result<Option<T>, Failure> {
    let value = given.take(key)?;
    given.remove(key);
    Ok(value)
}

fn flag(given: &mut Directives, key: &Key<bool>) -> Result<Option<bool>, Failure> {
    let is_given = given.contains(key);
    let on = given.take_flag(key)?;
    given.remove(key);
    Ok(is_given.then_some(on))
}

#[cfg(test)]
mod tests {
    use pmix_types::Info;

    use super::*;
    use crate::Server;

    #[tokio::test]
    async fn tol_01_gen_05_attributes_of_server_init_are_used_or_refused() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().to_str().unwrap();
        let given = Directives::new()
            .require(&keys::HOSTNAME, "n7")
            .require(&keys::SERVER_NSPACE, "servers")
            .require(&keys::SERVER_RANK, Rank::from_raw(7))
            .require(&keys::SERVER_TMPDIR, directory)
            .require(&keys::SYSTEM_TMPDIR, directory)
            .require(&keys::SERVER_TOOL_SUPPORT, true)
            .require(&keys::SERVER_SYSTEM_SUPPORT, true)
            .require(&keys::SERVER_SESSION_SUPPORT, true)
            .require(&keys::SERVER_ENABLE_MONITORING, true)
            .require(&keys::SERVER_GATEWAY, false)
            .require(&keys::SERVER_SCHEDULER, false)
            .require(&keys::SERVER_REMOTE_CONNECTIONS, false);
        let mut rest = given.clone();
        let _ = Server::builder().take_from(&mut rest).unwrap();
        assert_eq!(rest, Directives::new(), "nothing is left out");
        let server = Server::builder().directives(given).unwrap().start().await.unwrap();
        let handle = server.handle();
        assert_eq!((handle.hostname(), handle.proc_id().to_string().as_str()), ("n7", "servers:7"));
        assert!(handle.session_dir().starts_with(root.path()));
        assert!(
            root.path().join("pmix.sys.n7").exists() && handle.session_dir().join("pmix.n7.tool").exists()
        );
        server.stop().await;

        let directory = Directives::new().require(&keys::SYSTEM_TMPDIR, directory);
        let refused = Server::builder().directives(directory.clone()).unwrap_err();
        assert_eq!(refused.status, Status::ERR_NOT_SUPPORTED, "there is no system-level file to put there");
        assert!(Server::builder().system_support(true).directives(directory).is_ok());
        for key in ROLES {
            let refused = Server::builder().directives(Directives::new().require(key, true)).unwrap_err();
            assert_eq!(refused.status, Status::ERR_NOT_SUPPORTED, "{key:?}");
            assert!(Server::builder().directives(Directives::new().with(key, true)).is_ok());
        }
        let off = Directives::new().require(&keys::SERVER_ENABLE_MONITORING, false);
        assert_eq!(Server::builder().directives(off).unwrap_err().status, Status::ERR_NOT_SUPPORTED);
        let all = Directives::new().with(&keys::SERVER_RANK, Rank::WILDCARD);
        assert_eq!(Server::builder().directives(all).unwrap_err().status, Status::ERR_BAD_PARAM);
        let odd = Directives::from(vec![Info::dynamic(keys::SERVER_RANK.key_name(), 3u32)]);
        assert_eq!(Server::builder().directives(odd).unwrap_err().status, Status::ERR_BAD_PARAM);
    }

    #[tokio::test]
    async fn tol_02_a_server_of_the_system_alone_is_none_of_the_session() {
        let root = tempfile::tempdir().unwrap();
        let server = Server::builder().hostname("n7").session_root(root.path()).system_tmpdir(root.path());
        let server = server.start().await.unwrap();
        let dir = server.handle().session_dir().to_owned();
        assert!(dir.join(format!("pmix.n7.tool.{}", std::process::id())).exists());
        assert!(!dir.join("pmix.n7.tool").exists());
        let second = Server::builder().hostname("n7").session_root(root.path()).system_tmpdir(root.path());
        let error = second.start().await.unwrap_err();
        assert!(error.to_string().contains("is the system-level server of this node"), "{error}");
        server.stop().await;
        let missing = root.path().join("missing");
        let off = Server::builder().session_root(root.path()).system_tmpdir(missing).system_support(false);
        off.start().await.unwrap().stop().await;
    }
}
