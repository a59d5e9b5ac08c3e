//! Whom pages and numbers that are served on loopback answer.

use std::net::IpAddr;

use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::http::uri::Authority;

/// Why a request was refused that does not [name this host](names_this_host).
pub const NOT_THIS_HOST: &str = "the Host header must name a loopback address or localhost";

/// Whether a request came by an address of this host. A page of another site whose name was made to mean this address names itself.
#[must_use]
pub fn names_this_host(headers: &HeaderMap) -> bool {
    let named = headers.get(HOST).and_then(|host| host.to_str().ok());
    let Some(Ok(authority)) = named.map(str::parse::<Authority>) else { return false };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_others_choose_are_not_this_host() {
        let names = |named: &str| names_this_host(&HeaderMap::from_iter([(HOST, named.parse().unwrap())]));
        for own in ["127.0.0.1:8000", "127.0.0.1", "127.1.2.3:1", "localhost:8000", "LocalHost", "[::1]:80"] {
            assert!(names(own), "{own}");
        }
        for other in [
            "evil.example",
            "192.0.2.1:8000",
            "127.0.0.1.evil.example",
            "localhost.example",
            "xlocalhost",
            "a b",
            "",
        ] {
            assert!(!names(other), "{other}");
        }
        assert!(!names_this_host(&HeaderMap::new()));
    }
}
