use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use pmix_test_wait::block_until;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::peers::{on_path, skipped};
use crate::programs::stop;

/// How often it is started until it is given up.
const TRIES: u32 = 5;

/// An etcd on loopback, for the time of a test.
#[derive(Debug)]
pub struct TestEtcd {
    /// Its members. Clients use the first one.
    daemons: Vec<Child>,
    dir: TempDir,
    url: String,
    is_tls: bool,
}

impl TestEtcd {
    /// One that everybody may use; `None`, with a line on standard error, if etcd is not installed, or does not start.
    ///
    /// # Panics
    /// If it is not there and `PMIX_REQUIRE_PEERS` is set.
    pub fn plain() -> Option<Self> {
        Self::start(1, false)
    }

    /// One of three members that everybody may use.
    ///
    /// # Panics
    /// As [`plain`](Self::plain).
    pub fn of_three() -> Option<Self> {
        Self::start(3, false)
    }

    /// One that speaks TLS, and only to those who have a certificate of its authority.
    ///
    /// # Panics
    /// As [`plain`](Self::plain).
    pub fn tls() -> Option<Self> {
        Self::start(1, true)
    }

    fn start(members: usize, is_tls: bool) -> Option<Self> {
        let etcd = on_path("etcd", "apt-get install etcd-server")?;
        // something else on this machine may take a port before etcd does
        let started = (0..TRIES).find_map(|_| Self::try_start(&etcd, members, is_tls));
        if started.is_none() {
            skipped("etcd that starts on this machine");
        }
        started
    }

    /// `None` if a member ends at once.
    fn try_start(etcd: &Path, members: usize, is_tls: bool) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let urls: Vec<_> =
            free_ports(3 * members).into_iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let (clients, others) = urls.split_at(members);
        let (peers, healths) = others.split_at(members);
        let peer = |number: usize| format!("http://{}", peers[number]);
        let all: Vec<_> = (0..members).map(|number| format!("e{number}={}", peer(number))).collect();
        if is_tls {
            make_certificates(dir.path());
        }
        let url = |number: usize| format!("http{}://{}", if is_tls { "s" } else { "" }, clients[number]);
        let start = |number: usize| {
            let (own, name) = (url(number), format!("e{number}"));
            let mut command = Command::new(etcd);
            command.args(["--name", &name, "--log-level", "error", "--initial-cluster", &all.join(",")]);
            command.args(["--listen-client-urls", &own, "--advertise-client-urls", &own]);
            let peer = peer(number);
            command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
            // without TLS and certificates
            command.args(["--listen-metrics-urls", &format!("http://{}", healths[number])]);
            command.arg("--data-dir").arg(dir.path().join(name));
            if is_tls {
                command.arg("--client-cert-auth");
                for (option, name) in
                    [("--cert-file", "server"), ("--key-file", "server.key"), ("--trusted-ca-file", "ca")]
                {
                    command.arg(option).arg(dir.path().join(name));
                }
            }
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
        };
        let daemons = (0..members).map(start).collect();
        let mut etcd = Self { daemons, url: url(0), dir, is_tls };
        let is_up = block_until("etcd has a leader", || {
            if etcd.daemons.iter_mut().any(|daemon| daemon.try_wait().unwrap().is_some()) {
                return Some(false);
            }
            healths.iter().all(|health| has_leader(health)).then_some(true)
        });
        is_up.then_some(etcd)
    }

    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The options of `pmixd --head` that name it.
    pub fn options(&self) -> Vec<String> {
        let mut options = vec!["--etcd".to_owned(), self.url.clone()];
        if !self.is_tls {
            options.push("--etcd-insecure".to_owned());
            return options;
        }
        for (option, name) in [("--etcd-ca", "ca"), ("--etcd-cert", "client"), ("--etcd-key", "client.key")] {
            options.extend([option.to_owned(), self.file(name).to_str().unwrap().to_owned()]);
        }
        options
    }

    /// `ca`, the certificate of its authority; `client` and `client.key`, those of a client.
    pub fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// It answers no request until [`go_on`](Self::go_on).
    pub async fn hold(&self) {
        self.hold_from(0).await;
    }

    /// Only its first member runs on, which has no majority.
    pub async fn hold_others(&self) {
        self.hold_from(1).await;
    }

    async fn hold_from(&self, first: usize) {
        for daemon in &self.daemons[first..] {
            stop(i32::try_from(daemon.id()).unwrap()).await;
        }
    }

    /// It answers again.
    pub fn go_on(&self) {
        for daemon in &self.daemons {
            let pid = i32::try_from(daemon.id()).unwrap();
            kill_process(Pid::from_raw(pid).unwrap(), Signal::CONT).unwrap();
        }
    }
}

impl Drop for TestEtcd {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Whether a member says that it has one.
fn has_leader(address: &str) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(b"GET /health HTTP/1.0\r\n\r\n")?;
        std::io::read_to_string(stream)
    };
    ask().is_ok_and(|answer| answer.contains("\"true\""))
}

/// Ports that no program had a moment ago.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    listeners.iter().map(|listener| listener.local_addr().unwrap().port()).collect()
}

/// An authority, and what it has signed for etcd and for a client.
fn make_certificates(dir: &Path) {
    let write = |name: &str, text: String| std::fs::write(dir.join(name), text).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    write("ca", pem("CERTIFICATE", params.self_signed(&key).unwrap().der()));
    let authority = Issuer::new(params, key);
    for name in ["server", "client"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        write(name, pem("CERTIFICATE", params.signed_by(&key, &authority).unwrap().der()));
        write(&format!("{name}.key"), pem("PRIVATE KEY", &key.serialize_der()));
    }
}

fn pem(what: &str, bytes: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(bytes);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", lines.join("\n"))
}
