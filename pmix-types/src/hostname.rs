/// A name of a host without its domain; `None` if it has none, or is an address.
///
/// # Examples
/// ```
/// use pmix_types::short_hostname;
///
/// assert_eq!(short_hostname("n0.example.org"), Some("n0"));
/// assert_eq!([short_hostname("n0"), short_hostname("10.0.0.1")], [None, None]);
/// ```
#[must_use]
pub fn short_hostname(name: &str) -> Option<&str> {
    let (short, domain) = name.split_once('.')?;
    let is_name = !short.is_empty() && !domain.is_empty() && name.parse::<std::net::IpAddr>().is_err();
    is_name.then_some(short)
}

/// Whether two names can be those of one host: the same, or one of them with a domain and the other without. Case does not matter.
///
/// # Examples
/// ```
/// use pmix_types::is_same_host;
///
/// assert!(is_same_host("n0", "N0.example.org"));
/// assert!(!is_same_host("n0.example.com", "n0.example.org"));
/// ```
#[must_use]
pub fn is_same_host(one: &str, other: &str) -> bool {
    let is_first = |short: &str, long: &str| {
        !short.is_empty()
            && !short.contains('.')
            && long.get(..short.len()).is_some_and(|first| first.eq_ignore_ascii_case(short))
            && long[short.len()..].starts_with('.')
            // an address is no name with a domain
            && long.parse::<std::net::IpAddr>().is_err()
    };
    one.eq_ignore_ascii_case(other) || is_first(one, other) || is_first(other, one)
}
