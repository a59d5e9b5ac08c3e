//! The options that name etcd.

use std::path::PathBuf;

use clap::Args;

/// Where etcd is, and who this client is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdPlace {
    /// `https://HOST:PORT` of each member; `http` only if that is allowed.
    pub(crate) members: Vec<String>,
    /// PEM file: who signs its certificates.
    pub(crate) authority: Option<PathBuf>,
    /// PEM files: the certificate of this client, and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
    /// Connections without TLS are allowed.
    pub(crate) is_insecure: bool,
    /// Before all keys.
    pub(crate) prefix: String,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "etcd")]
pub(super) struct EtcdArgs {
    /// Keep nodes, jobs and published data in etcd, and have etcd choose one head of the DVM at a time: this one waits while another is the head,
    /// and takes over its nodes and jobs when it is gone. URLS are https://HOST:PORT of each member of etcd, separated by commas
    #[arg(long, value_name = "URLS", value_delimiter = ',', conflicts_with_all = ["store", "vnodes"])]
    etcd: Vec<String>,

    /// What the keys of this DVM in etcd begin with
    #[arg(long, value_name = "PREFIX", default_value = "/pmix", requires = "etcd")]
    etcd_prefix: String,

    /// PEM file with the certificates of those who sign etcd's certificates
    #[arg(long, value_name = "FILE", requires = "etcd")]
    etcd_ca: Option<PathBuf>,

    /// PEM file with the certificate that this client shows to etcd
    #[arg(long, value_name = "FILE", requires = "etcd_key")]
    etcd_cert: Option<PathBuf>,

    /// PEM file with the key of that certificate
    #[arg(long, value_name = "FILE", requires = "etcd_cert")]
    etcd_key: Option<PathBuf>,

    /// Allow http, for tests: whoever can write there can become head
    #[arg(long, requires = "etcd")]
    etcd_insecure: bool,
}

impl EtcdArgs {
    /// `None` for no etcd.
    ///
    /// # Errors
    /// This program cannot use it.
    pub(super) fn place(self) -> Result<Option<EtcdPlace>, &'static str> {
        if self.etcd.is_empty() {
            return Ok(None);
        }
        if !cfg!(feature = "etcd") {
            return Err("this pmixd was built without etcd: cargo build -p pmix-rm --features etcd");
        }
        Ok(Some(EtcdPlace {
            members: self.etcd,
            authority: self.etcd_ca,
            identity: self.etcd_cert.zip(self.etcd_key),
            is_insecure: self.etcd_insecure,
            prefix: self.etcd_prefix.trim_end_matches('/').to_owned(),
        }))
    }
}
