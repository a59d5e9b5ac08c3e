//! `pmix log`: has a server log a message.

use std::process::ExitCode;

use clap::ValueEnum;
use pmix_tool::client::{LogBuilder, Logged};
use serde::Serialize;

use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Logs a message through a server
///
/// By default the only live server of this user on this node writes it to the syslog. Which channels there are depends on the server's host: that of `pmixrun` and
/// `pmixd` has the syslog; stdout and stderr are those of the job that logs, so this command cannot use them. Servers of `pmixrun` and `pmixd` send no mail,
/// because they have no mail program; a resource manager that is built on pmix-host sends mail if it names one (`StandardHost::with_mail_program`). A server of
/// another family may have others.
///
/// The JSON report is one object: {"schema", "server", "channels", "logged"}; "logged" is "fully", or "partially" if a channel has failed.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// The message
    #[arg(value_name = "MESSAGE")]
    message: String,

    /// Where it goes, in this order; may be given several times
    #[arg(long, value_enum, value_name = "CHANNEL", default_value = "syslog")]
    to: Vec<Channel>,

    /// Send it by mail, to these addresses with commas between them; servers of `pmixrun` and `pmixd` refuse this
    #[arg(long, value_name = "ADDRESSES", conflicts_with = "to")]
    mail: Option<String>,

    /// The subject of the mail
    #[arg(long, requires = "mail", default_value = "")]
    subject: String,

    /// Stop after the first channel that takes it
    #[arg(long)]
    once: bool,

    /// Priority in the syslog: 0 (emergency) to 7 (debug)
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(i32).range(0..=7))]
    priority: i32,

    /// Prefix the message with the time
    #[arg(long)]
    timestamp: bool,

    /// Begin with the name of this command's process and the channel
    #[arg(long)]
    tag: bool,

    /// Print one JSON object when it is logged
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,
}

const AFTER_HELP: &str = "\
Examples:
  pmix log 'node n7 is back'
  pmix log --to global-syslog --priority 3 'disk full'

Exit code: 0 if it was logged; 1 if a channel has failed, or if the server could not be queried; 2 for an invalid command line.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Channel {
    /// Standard output
    Stdout,
    /// Standard error
    Stderr,
    /// The system-wide syslog, or that of the server's node if the former is not available
    Syslog,
    /// The syslog of the server's node
    LocalSyslog,
    /// The syslog of the system
    GlobalSyslog,
}

pub(super) async fn run(args: Args, console: &mut Console<'_>) -> Result<ExitCode, Trouble> {
    #[derive(Serialize)]
    struct Report {
        /// Namespace of the server.
        server: String,
        channels: Vec<String>,
        logged: &'static str,
    }
    let tool = args.selection.connect().await?;
    let request = tool.client().log().priority(args.priority);
    let (request, channels) = match &args.mail {
        Some(addresses) => (request.mail(addresses, &args.subject, &args.message), vec!["mail".to_owned()]),
        None => {
            let add = |request, channel: &Channel| channel.add(request, &args.message);
            (args.to.iter().fold(request, add), args.to.iter().map(Channel::name).collect())
        }
    };
    let request = if args.once { request.once() } else { request };
    let request = if args.timestamp { request.generate_timestamp().timestamp_output() } else { request };
    let request = if args.tag { request.tag_output() } else { request };
    let logged = request.await?;
    let server = tool.server()?.proc_id().nspace.to_string();
    finalize(tool).await;
    let is_partial = logged == Logged::Partially;
    if args.json {
        console.json(&Report { server, channels, logged: if is_partial { "partially" } else { "fully" } })?;
    }
    if is_partial {
        console.complain("not all channels have taken the message");
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

impl Channel {
    fn name(&self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn add(self, request: LogBuilder, message: &str) -> LogBuilder {
        match self {
            Self::Stdout => request.stdout(message),
            Self::Stderr => request.stderr(message),
            Self::Syslog => request.syslog(message),
            Self::LocalSyslog => request.local_syslog(message),
            Self::GlobalSyslog => request.global_syslog(message),
        }
    }
}
