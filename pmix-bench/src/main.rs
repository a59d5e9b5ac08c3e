//! Compares this implementation with the C library; see `docs/performance.md`.

mod agree;
mod c;
mod client;
mod clock;
mod compare;
mod counts;
mod frames;
mod host;
mod job;
mod launch;
mod machine;
mod matrix;
mod memory;
mod node;
mod page;
mod plot;
mod record;
mod table;
mod targets;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tokio::runtime::{Builder, Runtime};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Measures this implementation of PMIx beside the C library, on the same work with the same rules
#[derive(Debug, Parser)]
#[command(name = "pmix-bench")]
struct Cli {
    #[command(subcommand)]
    command: Mode,
}

#[derive(Debug, Subcommand)]
enum Mode {
    /// Measures both sides in turn and prints the table of their ratios
    Compare(compare::Compare),
    /// Prints the table of lines that `compare --json` has printed
    Table { files: Vec<String> },
    /// Lists which ratios of such lines meet their targets
    Targets { files: Vec<String> },
    /// Lists the ratios of times over 50 µs that differ by more than 15 % between two runs
    Agree {
        /// Lines that `compare --json` has printed
        first: String,
        /// Lines of the other run
        second: String,
    },
    /// Draws the same lines as SVG files
    Plot {
        /// Directory for the files
        directory: std::path::PathBuf,
        files: Vec<String>,
    },
    /// Counts instructions, and compares them with another commit
    Counts(counts::Counts),
    /// Runs ranks of a job on our server
    Launch(launch::Launch),
    /// Measures the cost of the data of a job of TOTAL ranks
    Jobdata {
        total: u32,
        /// Describe the job with an array for each node and each rank, as hosts of the C library do
        #[arg(long)]
        arrays: bool,
    },
    /// Measures the cost of the maps of COUNT nodes
    Regex { count: u32 },
    /// Measures start and end of COUNT servers, each in a fresh process
    Init { count: u32 },
    /// One of them
    #[command(hide = true)]
    InitOnce,
    /// A rank, started by `launch`: init barrier frames get put commit fence collect:BYTES dmodex getwait pub query event connect resolve
    Client { phases: Vec<String> },
}

fn main() -> ExitCode {
    let begin = clock::now();
    let mut args = std::env::args().skip(1);
    // a rank has begun in its first line; what reads command lines would be measured too
    if args.next().as_deref() == Some("client") {
        return client::main(begin, &args.collect::<Vec<_>>());
    }
    match Cli::parse().command.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("pmix-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Mode {
    fn run(self) -> Result<()> {
        match self {
            Self::Compare(compare) => compare.run(),
            Self::Table { files } => {
                print!("{}", compare::table_of(&files)?);
                Ok(())
            }
            Self::Targets { files } => {
                print!("{}", targets::Targets::new(&compare::lines_of(&files)?));
                Ok(())
            }
            Self::Agree { first, second } => {
                let [first, second] = [compare::table_of(&[first])?, compare::table_of(&[second])?];
                print!("{}", agree::Agreement::of(&first, &second));
                Ok(())
            }
            Self::Plot { directory, files } => Ok(plot::draw(&compare::table_of(&files)?, &directory)?),
            Self::Counts(counts) => counts.run(),
            Self::Launch(launch) => runtime()?.block_on(launch.run()),
            Self::Jobdata { total, arrays } => runtime()?.block_on(node::job_data(total, arrays)),
            Self::Regex { count } => node::maps(count),
            Self::Init { count } => runtime()?.block_on(node::inits(count)),
            Self::InitOnce => runtime()?.block_on(node::init_once()),
            Self::Client { phases } => Err(format!("a rank is started by `launch`: {phases:?}").into()),
        }
    }
}

/// The host's: its main thread starts ranks and waits for them, one other answers the server.
fn runtime() -> std::io::Result<Runtime> {
    Builder::new_multi_thread().worker_threads(1).enable_all().build()
}
