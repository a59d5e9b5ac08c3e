//! Where numbers can be read.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where numbers can be read, as a command line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MetricsPlace {
    /// A Unix socket for this user alone.
    Socket(PathBuf),
    /// A port of this host for its users.
    Port(SocketAddr),
}

impl MetricsPlace {
    /// A path has a slash, as an address never does.
    ///
    /// # Errors
    /// It is neither a path nor an address of this host alone.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            // stays the same socket if the current directory changes
            return std::path::absolute(text).map(Self::Socket).map_err(|error| error.to_string());
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            "it must be a path with a slash (./metrics.sock), or an address with a port (127.0.0.1:9464)"
                .to_owned()
        })?;
        match address.ip().is_loopback() {
            true => Ok(Self::Port(address)),
            false => Err(format!(
                "{} can be reached from other hosts, and numbers are sent without encryption: use 127.0.0.1 or a path, and a proxy \
                 that knows who may read",
                address.ip()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_host_can_read() {
        assert_eq!(MetricsPlace::parse("/a/b"), Ok(MetricsPlace::Socket("/a/b".into())));
        let Ok(MetricsPlace::Socket(path)) = MetricsPlace::parse("./b") else { panic!() };
        assert!(path.is_absolute() && path.ends_with("b"));
        for own in ["127.0.0.1:0", "127.8.8.8:80", "[::1]:9464"] {
            assert_eq!(MetricsPlace::parse(own), Ok(MetricsPlace::Port(own.parse().unwrap())));
        }
        for other in ["0.0.0.0:9464", "[::]:1", "192.0.2.1:1", "[::ffff:127.0.0.1]:1"] {
            let problem = MetricsPlace::parse(other).unwrap_err();
            assert!(problem.contains("can be reached from other hosts"), "{other}: {problem}");
        }
        for neither in ["", "9464", "localhost:9464", "127.0.0.1", "127.0.0.1:99999", "metrics.sock"] {
            let problem = MetricsPlace::parse(neither).unwrap_err();
            assert!(problem.contains("must be a path"), "{neither}: {problem}");
        }
    }
}
