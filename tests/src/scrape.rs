//! Numbers that a program serves to Prometheus, read as Prometheus would.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use pmix_test_wait::{LIMIT, block_until};

/// What one request has brought.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// The whole text.
    pub text: String,
    /// Each series, as it is written, with its value.
    pub values: BTreeMap<String, f64>,
}

/// A connection to a server of HTTP.
pub trait Connection: Read + Write + Send {}

impl<S: Read + Write + Send> Connection for S {}

/// Connects with a socket (a path) or a port (`HOST:PORT`).
///
/// # Errors
/// Nobody listens there.
pub fn connect(place: &str) -> io::Result<Box<dyn Connection>> {
    if place.contains('/') {
        let stream = UnixStream::connect(place)?;
        stream.set_read_timeout(Some(LIMIT))?;
        return Ok(Box::new(stream));
    }
    let stream = TcpStream::connect(place)?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(Box::new(stream))
}

/// Sends a request and reads the answer up to the end of the connection: its status, headers and body.
pub fn ask(place: &str, request: &str) -> (u16, String, String) {
    let mut stream = connect(place).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{head}")), head.to_owned(), body.to_owned())
}

impl Scrape {
    /// Reads all numbers once.
    pub fn of(place: &str) -> Self {
        let host = if place.contains('/') { "localhost" } else { place };
        let (status, head, text) = ask(place, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(status, 200, "{head}");
        assert!(head.to_lowercase().contains("content-type: text/plain; version=0.0.4"), "{head}");
        let series = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
            (series.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line:?}")))
        });
        let values = series.collect::<BTreeMap<_, _>>();
        assert!(!values.is_empty(), "{text}");
        Self { values, text }
    }

    /// Reads all numbers until they are so.
    pub fn until(place: &str, is_so: impl Fn(&Self) -> bool) -> Self {
        let look = || {
            let scrape = Self::of(place);
            if is_so(&scrape) { Ok(scrape) } else { Err(scrape.text) }
        };
        block_until("the numbers are as expected", look)
    }

    /// The value of a series, spelled as in the text.
    pub fn value(&self, series: &str) -> f64 {
        *self.values.get(series).unwrap_or_else(|| panic!("there is no {series} in {}", self.text))
    }

    /// The sum of all series of a metric whose labels have these words.
    pub fn sum(&self, metric: &str, labels: &str) -> f64 {
        let is_of = |series: &str| series.split('{').next() == Some(metric) && series.contains(labels);
        self.values.iter().filter(|(series, _)| is_of(series)).map(|(_, value)| value).sum()
    }

    /// Names of all metrics with their types and labels, without those of buckets.
    pub fn metrics(&self) -> BTreeMap<String, (String, BTreeSet<String>)> {
        let types = self.text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
        let described = types.map(|(name, kind)| {
            let of_it = self.values.keys().filter_map(|series| {
                let (own, labels) = series.split_once('{').unwrap_or((series, ""));
                let suffixes = ["", "_bucket", "_sum", "_count"];
                let is_own = suffixes.iter().any(|suffix| own.strip_suffix(suffix) == Some(name));
                is_own.then_some(labels)
            });
            let pairs = of_it.flat_map(|labels| labels.split(',')).filter_map(|pair| pair.split_once('='));
            let labels = pairs.map(|(label, _)| label.to_owned()).filter(|label| label != "le");
            (name.to_owned(), (kind.to_owned(), labels.collect()))
        });
        described.collect()
    }
}

/// Whether the other side closes the connection, or has closed it.
pub fn is_closed(stream: &mut impl Read) -> bool {
    match stream.read(&mut [0; 4096]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}
