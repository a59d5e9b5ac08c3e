//! `pmix unpublish`: takes back what `pmix publish` has published.

use std::process::ExitCode;

use pmix_tool::types::KeyName;

use super::Trouble;
use super::published::{PublishRange, publisher};
use super::selection::{Selection, finalize};

/// Takes back data of `pmix publish`
///
/// Data of processes is left alone, as only the process that has published it can take it back. A key that is not published is no error.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit code: 0 if the keys are no longer published in this range; 1 if the server keeps no data, or could \
                  not be queried; 2 for an invalid command line."
)]
pub(super) struct Args {
    /// The keys
    #[arg(value_name = "KEY", required_unless_present = "all")]
    keys: Vec<KeyName>,

    /// All that `pmix publish` has published in this range
    #[arg(long, conflicts_with = "keys")]
    all: bool,

    /// The range in which the data is published
    #[arg(long, value_enum, default_value_t = PublishRange::Session)]
    range: PublishRange,

    #[command(flatten)]
    selection: Selection,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Trouble> {
    let tool = publisher(&args.selection).await?;
    let client = tool.client();
    let request = if args.all { client.unpublish_all() } else { client.unpublish(args.keys) };
    request.range(args.range.into()).await?;
    finalize(tool).await;
    Ok(ExitCode::SUCCESS)
}
