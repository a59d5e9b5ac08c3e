use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use pmix_types::{NspaceError, ProcId, Rank, Status};
use thiserror::Error;

/// Name and address of a server: `<namespace>.<rank>;tcp4://127.0.0.1:<port>`.
///
/// # Examples
/// ```
/// use pmix_native::conn::ServerUri;
/// let uri: ServerUri = "prte.vm-1@0.0;tcp4://127.0.0.1:58679".parse()?;
/// assert_eq!(uri.server.nspace, "prte.vm-1@0");
/// assert_eq!(uri.address.port(), 58679);
/// assert_eq!(uri.to_string(), "prte.vm-1@0.0;tcp4://127.0.0.1:58679");
/// # Ok::<(), pmix_native::conn::UriError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerUri {
    /// The server's name.
    pub server: ProcId,
    /// The address it listens on.
    pub address: SocketAddr,
}

/// A text that is not the URI of a server.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UriError {
    /// No `;` between name and address.
    #[error("no `;` between the name and the address of the server")]
    NoAddress,
    /// No `.` between namespace and rank, or the rank is not a number.
    #[error("the name of the server is not <namespace>.<rank>")]
    Name,
    /// The namespace is invalid.
    #[error(transparent)]
    Nspace(#[from] NspaceError),
    /// The address is not numeric, lacks its port, or is of another kind.
    #[error("the address is neither `tcp4://a.b.c.d:port` nor `tcp6://[address]:port`")]
    Address,
}

pmix_types::statuses! {
    UriError, "`ERR_BAD_PARAM`", |_this| Status::ERR_BAD_PARAM;
}

impl FromStr for ServerUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let (name, address) = text.trim_end().split_once(';').ok_or(UriError::NoAddress)?;
        // namespaces may contain dots
        let (nspace, rank) = name.rsplit_once('.').ok_or(UriError::Name)?;
        let rank = rank.parse().map_err(|_| UriError::Name)?;
        let server = ProcId::new(nspace.parse()?, Rank::from_raw(rank));
        Ok(Self { server, address: parse_address(address).ok_or(UriError::Address)? })
    }
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    let (scheme, address) = text.split_once("://")?;
    let address: SocketAddr = address.parse().ok()?;
    (scheme == scheme_of(&address)).then_some(address)
}

const fn scheme_of(address: &SocketAddr) -> &'static str {
    if address.is_ipv4() { "tcp4" } else { "tcp6" }
}

impl fmt::Display for ServerUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, address } = self;
        write!(f, "{}.{};{}://{address}", server.nspace, server.rank.to_raw(), scheme_of(address))
    }
}

pmix_types::message_first!(UriError);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_address_come_back() {
        for text in ["srv.0;tcp4://127.0.0.1:1", "a.b.c.17;tcp6://[::1]:65535"] {
            assert_eq!(text.parse::<ServerUri>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_texts_are_refused_with_the_reason() {
        for (text, expected) in [
            ("srv.0", UriError::NoAddress),
            ("srv;tcp4://127.0.0.1:1", UriError::Name),
            ("srv.x;tcp4://127.0.0.1:1", UriError::Name),
            (".0;tcp4://127.0.0.1:1", UriError::Nspace(NspaceError::Empty)),
            ("srv.0;tcp4://localhost:1", UriError::Address),
            ("srv.0;tcp4://127.0.0.1", UriError::Address),
            ("srv.0;tcp6://127.0.0.1:1", UriError::Address),
            ("srv.0;unix:/tmp/socket", UriError::Address),
        ] {
            assert_eq!(text.parse::<ServerUri>(), Err(expected), "{text}");
        }
    }
}
