//! A host file: whether it can be read, its names resolve, and ssh gets there.

use std::collections::BTreeMap;
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;

use super::finding::Finding;
use super::run::{find, printed, read_regular, within};

const CHECK: &str = "hosts";
const MOST_BYTES: u64 = 1 << 20;
/// Lines with a finding of their own; a file of another kind has thousands.
const MOST_BAD: usize = 5;
/// For the name service to answer, for all hosts that are looked up at the same time.
const RESOLVE: Duration = Duration::from_secs(5);
const SSH: Duration = Duration::from_secs(10);
const AT_ONCE: usize = 32;

/// A host of a line, with the number of the line.
type Hosts = BTreeMap<String, usize>;

/// Checks a host file, and with `ssh` also its hosts.
pub(super) async fn check(file: PathBuf, ssh: bool) -> Vec<Finding> {
    let path = file.clone();
    let Some(text) = within(RESOLVE, move || read_regular(&path, MOST_BYTES)).await else {
        let text = format!("{} could not be read within {} s", file.display(), RESOLVE.as_secs());
        return vec![Finding::failure(CHECK, text, "look for a hung network file system (mount, dmesg)")];
    };
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            let text = format!("{} cannot be read: {error}", file.display());
            return vec![Finding::failure(CHECK, text, "give the path of a host file, one host a line")];
        }
    };
    let (hosts, mut findings) = parse(&file, &text);
    let resolved = futures::stream::iter(hosts.iter().map(|(host, line)| resolve(&file, host, *line)));
    let unresolved: Vec<Finding> = resolved.buffered(AT_ONCE).filter_map(std::future::ready).collect().await;
    findings.push(Finding::ok(
        CHECK,
        format!("{} of {} hosts in {} resolve", hosts.len() - unresolved.len(), hosts.len(), file.display()),
    ));
    findings.extend(unresolved);
    match (find("ssh").await, ssh) {
        (None, _) => {
            let text = "ssh is not in PATH, so other hosts cannot be reached";
            findings.push(Finding::warning(
                CHECK,
                text,
                "install openssh-client, or add its directory to PATH",
            ));
        }
        (Some(program), true) => {
            let logins = hosts.keys().map(|host| log_in(&program, host));
            findings.extend(futures::stream::iter(logins).buffered(AT_ONCE).collect::<Vec<_>>().await);
        }
        (Some(_), false) => {}
    }
    findings
}

/// The hosts of a file, each once, and what is wrong with it.
fn parse(file: &Path, text: &str) -> (Hosts, Vec<Finding>) {
    let mut hosts = Hosts::new();
    let mut findings = Vec::new();
    let mut bad = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        match parse_line(line) {
            Some(host) => {
                let first = *hosts.entry(host.to_owned()).or_insert(number);
                if first != number {
                    let text = format!("{}:{number}: {host} is already in line {first}", file.display());
                    findings.push(Finding::warning(CHECK, text, "add its slots up in one line"));
                }
            }
            None => {
                bad += 1;
                if bad <= MOST_BAD {
                    let shown: String = line.chars().take(40).collect();
                    let text = format!("{}:{number}: not a host with its slots: {shown}", file.display());
                    findings.push(Finding::failure(CHECK, text, "write it as: node1 slots=8"));
                }
            }
        }
    }
    if bad > MOST_BAD {
        let text = format!("{}: {} more lines are not hosts", file.display(), bad - MOST_BAD);
        findings.push(Finding::failure(CHECK, text, "give a host file, one host a line"));
    }
    if hosts.is_empty() {
        let text = format!("{} names no host", file.display());
        findings.push(Finding::failure(CHECK, text, "write one host a line: node1 slots=8"));
    }
    (hosts, findings)
}

/// The host of `host`, `host:8`, `host slots=8 max_slots=8`, each with `user@` perhaps.
fn parse_line(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    let is_number = |text: &str| text.parse::<u32>().is_ok();
    let host = match first.split_once(':') {
        // with several colons it is an address of IPv6
        Some((host, count)) if !count.contains(':') => is_number(count).then_some(host)?,
        _ => first,
    };
    // `slots = 8` is written, too
    let settings: String = words.collect::<Vec<_>>().join(" ").replace(" =", "=").replace("= ", "=");
    let is_setting = |word: &str| {
        word.split_once('=').is_some_and(|(name, count)| {
            matches!(name, "slots" | "max_slots" | "max-slots" | "cpus" | "count") && is_number(count)
        })
    };
    let is_name = |text: &str| {
        // what begins with a dash would be an option of ssh
        text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == ':')
            && text.chars().all(|one| one.is_ascii_alphanumeric() || "-._:".contains(one))
    };
    let is_good = host.splitn(2, '@').all(is_name) && settings.split_whitespace().all(is_setting);
    is_good.then_some(host)
}

async fn resolve(file: &Path, host: &str, line: usize) -> Option<Finding> {
    let name = host.rsplit('@').next().unwrap_or(host).to_owned();
    let problem = match within(RESOLVE, move || (name.as_str(), 22).to_socket_addrs().map(drop)).await {
        Some(Ok(())) => return None,
        Some(Err(error)) => error.to_string(),
        None => format!("the name service does not answer within {} s", RESOLVE.as_secs()),
    };
    let text = format!("{}:{line}: {host} does not resolve: {problem}", file.display());
    Some(Finding::failure(CHECK, text, "correct the name, or add it to /etc/hosts or DNS"))
}

async fn log_in(program: &Path, host: &str) -> Finding {
    let by_hand = format!("try by hand, and set up keys or host keys: ssh {host} true");
    let options = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "--", host, "true"];
    match printed(SSH, program, &options).await {
        Some(printed) if printed.is_success => Finding::ok(CHECK, format!("ssh gets to {host}")),
        Some(printed) => {
            Finding::failure(CHECK, format!("ssh does not get to {host}: {}", printed.last), by_hand)
        }
        None => {
            let text = format!("ssh does not get to {host} within {} s", SSH.as_secs());
            Finding::failure(CHECK, text, by_hand)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_hosts_with_slots() {
        for line in ["n1", "n1:8", "n1 slots=8", "n1 slots = 8 max_slots=9"] {
            assert_eq!(parse_line(line), Some("n1"), "{line}");
        }
        assert_eq!(parse_line("me@n1.site:2"), Some("me@n1.site"));
        assert_eq!(parse_line("::1"), Some("::1"));
        for line in ["-oProxyCommand=x", "n1 -oX", "n1:x", "n1 slots=x", "a b", "me@-x", "n;1", "\u{1b}[2J"] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }

    #[test]
    fn a_file_of_another_kind_gives_few_lines() {
        let text = format!("n1 # first\n\n# all\nn1\n{}", "no host at all\n".repeat(1000));
        let (hosts, findings) = parse(Path::new("f"), &text);
        assert_eq!(hosts, [("n1".to_owned(), 1)].into());
        assert_eq!(findings.len(), 1 + MOST_BAD + 1, "{findings:?}");
        assert!(findings[0].text.starts_with("f:4: n1 is already in line 1"));
        assert!(findings.last().unwrap().text.contains("995 more lines"));
        assert!(parse(Path::new("f"), "#\n").1[0].text.contains("names no host"));
    }

    #[tokio::test]
    async fn a_name_that_does_not_resolve_is_said_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("hosts");
        std::fs::write(&file, "127.0.0.1\nno-such-host.invalid slots=2\n").unwrap();
        let found = check(file, false).await;
        let said = |words: &str| found.iter().any(|finding| finding.text.contains(words));
        assert!(said("hosts:2: no-such-host.invalid does not resolve") && said("1 of 2 hosts"), "{found:?}");
        let missing = check(dir.path().join("none"), false).await;
        assert!(missing[0].text.contains("cannot be read"), "{missing:?}");
    }
}
