//! What a process shows to be let in.

use std::process::Stdio;

use pmix_native::conn::{Security, User};
use rustix::process::{getegid, geteuid};
use tokio::process::Command;

use crate::error::Error;

/// The variable in which a server lists what it accepts.
const SECURITY: &str = "PMIX_SECURITY_MODE";

/// The first mechanism of the server's list that this process has. A server that lists none takes `native`.
pub(super) async fn of(accepted: &[String]) -> Result<Security, Error> {
    let mut problem = None;
    for mechanism in accepted {
        match mechanism.as_str() {
            "native" => return Ok(native()),
            "none" => return Ok(Security { mechanism: "none".into(), credential: Vec::new().into() }),
            "munge" => match munge().await {
                Ok(security) => return Ok(security),
                Err(error) => problem = Some(error),
            },
            _ => {}
        }
    }
    match (problem, accepted) {
        (None, []) => Ok(native()),
        (Some(problem), _) => Err(Error::config(SECURITY, format!("asks for munge: {problem}"))),
        (None, _) => {
            let known = "this library knows native, munge and none";
            Err(Error::config(SECURITY, format!("is {:?}, and {known}", accepted.join(","))))
        }
    }
}

fn native() -> Security {
    Security::native(own_user())
}

/// User and group of this process.
pub(super) fn own_user() -> User {
    User { uid: geteuid().as_raw().into(), gid: getegid().as_raw().into() }
}

/// A credential made by the system's program, which speaks to the daemon of the node.
async fn munge() -> Result<Security, String> {
    let mut program = Command::new("munge");
    program.arg("--no-input").stdin(Stdio::null()).kill_on_drop(true);
    let output =
        program.output().await.map_err(|error| format!("the program munge cannot be run: {error}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if !output.status.success() {
        return Err(format!("the program munge fails ({}): {}", output.status, said(&output.stderr)));
    }
    let mut credential = said(&output.stdout).into_bytes();
    if !credential.starts_with(b"MUNGE:") {
        return Err("the program munge has printed no credential".to_owned());
    }
    // as text of C
    credential.push(0);
    Ok(Security { mechanism: "munge".into(), credential: credential.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn mechanism(accepted: &[&str]) -> Result<String, Error> {
        let accepted: Vec<_> = accepted.iter().map(|&name| name.to_owned()).collect();
        of(&accepted).await.map(|security| security.mechanism)
    }

    #[tokio::test]
    async fn the_first_mechanism_that_is_known_is_taken() {
        assert_eq!(mechanism(&[]).await.unwrap(), "native");
        assert_eq!(mechanism(&["none", "native"]).await.unwrap(), "none");
        assert_eq!(mechanism(&["gss", "native", "none"]).await.unwrap(), "native");
        // with or without a daemon: what comes next is there for that
        let second = mechanism(&["munge", "native"]).await.unwrap();
        assert!(second == "munge" || second == "native", "{second}");
        let unknown = mechanism(&["gss", "oauth"]).await.unwrap_err().to_string();
        assert!(unknown.contains("PMIX_SECURITY_MODE") && unknown.contains("gss,oauth"), "{unknown}");
    }
}
