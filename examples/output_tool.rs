//! A tool: attaches to the only server of this user and prints the output of all its jobs from then on, line by line,
//! until they end.
//!
//! ```text
//! target/debug/pmixrun -n 2 sh -c 'while sleep 1; do date; done' > /dev/null
//! cargo run --example output_tool                    # from another terminal
//! ```
#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::error::Error;
use std::io;

use pmix_tool::{OutputFormat, OutputWriter, ProcId, Tool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let tool = Tool::builder().connect().await?;
    let mut jobs: BTreeSet<ProcId> = tool.namespaces().await?.into_iter().map(ProcId::wildcard).collect();
    // a copy: what they write comes out where it did before, too
    let mut output = tool.pull_output(jobs.clone()).copy().await?;
    let format = OutputFormat::default().tag(true);
    let mut writer = OutputWriter::new(format, io::stdout(), io::stderr());
    while !jobs.is_empty() {
        match output.recv().await.ok_or("the server is gone")? {
            Ok(chunk) => {
                writer.write(&chunk)?;
                if chunk.is_complete {
                    // a process has closed a channel; or, with rank WILDCARD, a job has ended
                    jobs.remove(&chunk.source);
                }
            }
            // output that came too fast is missing at this place
            Err(trouble) => println!("{trouble}"),
        }
    }
    writer.finish()?;
    // the server may have ended with its last job
    let _ = tool.finalize().await;
    Ok(())
}
