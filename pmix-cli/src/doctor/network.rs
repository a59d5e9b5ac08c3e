//! The name of this node, and its loopback interface.

use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::finding::Finding;

const CHECK: &str = "network";

pub(super) fn check() -> Vec<Finding> {
    vec![loopback(), hostname()]
}

fn loopback() -> Finding {
    let reach = || -> io::Result<()> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        TcpStream::connect_timeout(&listener.local_addr()?, Duration::from_secs(1)).map(drop)
    };
    match reach() {
        Ok(()) => Finding::ok(CHECK, "127.0.0.1 can be reached"),
        Err(error) => Finding::failure(
            CHECK,
            format!("127.0.0.1 cannot be reached: {error}; programs of the C library connect to it"),
            "bring the interface up and look for firewall rules: ip link set lo up (as root)",
        ),
    }
}

fn hostname() -> Finding {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    match (name.as_str(), 0).to_socket_addrs() {
        Ok(addresses) => {
            let addresses: Vec<_> = addresses.map(|address| address.ip()).collect();
            if addresses.iter().all(|address| address.is_loopback()) {
                let text = format!(
                    "the host name {name} means a loopback address only; other nodes need another one"
                );
                Finding::note(CHECK, text)
            } else {
                Finding::ok(CHECK, format!("the host name {name} resolves"))
            }
        }
        Err(error) => Finding::warning(
            CHECK,
            format!("the host name {name} does not resolve: {error}"),
            "add it to /etc/hosts or DNS, or correct it with hostnamectl",
        ),
    }
}
