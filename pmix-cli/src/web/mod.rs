//! `pmix web`: a page with the jobs of a server.

mod access;
mod feed;
mod hub;
mod serve;
mod state;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use rustix::io::Errno;
use tokio::net::{TcpListener, TcpStream};

use self::access::{Name, Token};
use self::hub::Hub;
use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Shows jobs, ranks by state, what waits and events in a browser, as they change
///
/// It prints an address for a browser on this host, which works as long as this command runs. Whoever has the address sees what you see: it contains a
/// token, without which the page shows nothing. The page loads nothing from elsewhere. This command ends with its server, and on SIGINT.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The port on the loopback interface; by default, the system chooses one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    #[command(flatten)]
    selection: Selection,
}

const AFTER_HELP: &str = "\
From another host: run `ssh -L 8000:127.0.0.1:PORT HOST` there, and open the same address with port 8000. The browser must know that
names below localhost mean its own host, as Chromium, Edge and Firefox do.

Exit code: 0 when the server has ended; 1 if it could not be queried, or the port is in use; 2 for an invalid command line.";

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let tool = args.selection.connect().await?;
    let failed = |error: io::Error| Trouble::Other(format!("port {} of localhost: {error}", args.port));
    let (loopback, port) = Loopback::bind(args.port).await.map_err(failed)?;
    let drawn = Name::draw().and_then(|name| Ok((name, Token::draw()?)));
    let (name, token) = drawn.map_err(|error| Trouble::Other(format!("no token: {error}")))?;
    writeln!(console.out, "http://{name}:{port}/#{token}")?;
    console.out.flush()?;
    let hub = Arc::new(Hub::default());
    let fed = tokio::select! {
        fed = feed::follow(&tool, &hub) => fed,
        never = serve::all(loopback, name, token, Arc::clone(&hub)) => match never {},
    };
    finalize(tool).await;
    match fed {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is_server_stopped() => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
    }
}

/// Attempts to find a port that is free at both addresses.
const ATTEMPTS: usize = 100;

/// A port of both loopback addresses: browsers take either, and another user could listen at the other one.
struct Loopback {
    v4: TcpListener,
    /// None where there is no IPv6.
    v6: Option<TcpListener>,
}

impl Loopback {
    /// Listens at a port, or for 0 at one that is free; returns it as well.
    async fn bind(port: u16) -> io::Result<(Self, u16)> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
            let taken = v4.local_addr()?.port();
            let v6 = match TcpListener::bind((Ipv6Addr::LOCALHOST, taken)).await {
                Ok(v6) => Some(v6),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    if port == 0 && attempts.next().is_some() {
                        continue;
                    }
                    return Err(error);
                }
                Err(error) if is_without_ipv6(&error) => None,
                // whatever has failed, another user may listen there
                Err(error) => return Err(error),
            };
            return Ok((Self { v4, v6 }, taken));
        }
    }

    /// The next connection. Cancel-safe.
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match &self.v6 {
            None => self.v4.accept().await,
            Some(v6) => tokio::select! {
                accepted = self.v4.accept() => accepted,
                accepted = v6.accept() => accepted,
            },
        }
    }
}

fn is_without_ipv6(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    errno.is_some_and(|errno| [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL].contains(&errno))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_somebody_has_at_one_of_the_addresses_is_in_use() {
        for address in [SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), (Ipv6Addr::LOCALHOST, 0).into()] {
            let held = match TcpListener::bind(address).await {
                Err(error) if is_without_ipv6(&error) => continue,
                held => held.unwrap(),
            };
            let refused = Loopback::bind(held.local_addr().unwrap().port()).await.err();
            assert_eq!(refused.map(|error| error.kind()), Some(io::ErrorKind::AddrInUse), "{address}");
        }
    }

    #[tokio::test]
    async fn both_addresses_of_a_port_are_listened_to() {
        let (loopback, port) = Loopback::bind(0).await.unwrap();
        let v6 = loopback.v6.is_some().then(|| SocketAddr::from((Ipv6Addr::LOCALHOST, port)));
        for address in [(Ipv4Addr::LOCALHOST, port).into()].into_iter().chain(v6) {
            let visitor = TcpStream::connect(address).await.unwrap();
            let (_, from) = loopback.accept().await.unwrap();
            assert_eq!(from, visitor.local_addr().unwrap());
        }
    }
}
