//! `pmix web`: a page with the jobs of a server.

mod access;
mod feed;
mod hub;
mod serve;
mod state;

use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::sync::Arc;

use tokio::net::TcpListener;

use self::access::Token;
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
    /// The port on 127.0.0.1; by default, the system chooses one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    #[command(flatten)]
    selection: Selection,
}

const AFTER_HELP: &str = "\
From another host: run `ssh -L 8000:127.0.0.1:PORT HOST` there, and open the same address with port 8000.

Exit code: 0 when the server has ended; 1 if it could not be queried, or the port is in use; 2 for an invalid command line.";

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    let tool = args.selection.connect().await?;
    let address = (Ipv4Addr::LOCALHOST, args.port);
    let failed = |error: std::io::Error| Trouble::Other(format!("127.0.0.1:{}: {error}", args.port));
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let token = Token::draw().map_err(|error| Trouble::Other(format!("no token: {error}")))?;
    writeln!(console.out, "http://{}/#{token}", listener.local_addr().map_err(failed)?)?;
    console.out.flush()?;
    let hub = Arc::new(Hub::default());
    let fed = tokio::select! {
        fed = feed::follow(&tool, &hub) => fed,
        never = serve::all(listener, token, Arc::clone(&hub)) => match never {},
    };
    finalize(tool).await;
    match fed {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if error.is_server_stopped() => Ok(ExitCode::SUCCESS),
        Err(error) => Err(error.into()),
    }
}
