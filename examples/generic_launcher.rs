//! A launcher for every resource manager whose server can start jobs: has it start a program, passes input to it and output
//! from it, and ends as it does. A tool that starts this launcher itself has its directives carried out, such as to stop in init.
//!
//! ```text
//! target/debug/pmixrun -n 1 sleep 1000 &             # any resource manager with a server for tools
//! target/debug/examples/generic_launcher 4 target/debug/examples/hello
//! ```
#![allow(clippy::print_stderr)]

use std::error::Error;
use std::io;

use pmix_tool::types::{App, DataArray};
use pmix_tool::{Client, Directives, EventStream, OutputFormat, OutputWriter, ProcId, Status, Tool, keys};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let [ranks, program, args @ ..] = &args[..] else {
        return Err("give a number of processes and a program with its arguments".into());
    };
    let client = connect().await?;
    let status = run(&client, App::new(program, ranks.parse()?).args(args)).await?;
    // the server may have ended with its last job
    let _ = client.finalize().await;
    let is_success = status == Status::SUCCESS;
    if !is_success {
        eprintln!("the job has ended with {status}");
    }
    // not by return: somebody at the terminal may still be asked for a line of input
    std::process::exit(i32::from(!is_success))
}

/// As a process of a job, where a server has started this launcher, or else as a tool.
async fn connect() -> Result<Client> {
    match Client::from_env().init().await {
        Err(pmix_tool::client::Error::NotLaunched(_)) => Ok(Tool::builder().connect().await?.client()),
        outcome => Ok(outcome?),
    }
}

/// Runs a job to its end.
async fn run(client: &Client, app: App) -> Result<Status> {
    // before the spawn: nothing is missed
    let mut ends = client.events([Status::EVENT_JOB_END]).await?;
    // by default, input is for the first process
    let directives = requested(client).await?.with(&keys::FWD_STDIN, true);
    let job = client.spawn([app]).notify_completion().forward_output().directives(directives).await?;
    let all = ProcId::wildcard(job.clone());
    let mut output = client.pull_output([all.clone()]).await?;
    let input = client.push_stdin([all.clone()]);
    // the job may end before its input does
    tokio::spawn(input.copy_from(tokio::io::stdin()));
    let mut writer = OutputWriter::new(OutputFormat::default(), io::stdout(), io::stderr());
    loop {
        match output.recv().await.ok_or("the server is gone")? {
            Ok(chunk) if chunk.source == all && chunk.is_complete => break,
            Ok(chunk) => writer.write(&chunk)?,
            // output that came too fast is missing at this place
            Err(trouble) => eprintln!("{trouble}"),
        }
    }
    writer.finish()?;
    ended(&mut ends, &all).await
}

/// What the tool that has started this launcher requests for its job; all of it in one get.
async fn requested(client: &Client) -> Result<Directives> {
    let job = ProcId::wildcard(client.proc_id().nspace.clone());
    match client.get(job, keys::LAUNCH_DIRECTIVES).optional().await {
        Ok(DataArray::Info(directives)) => Ok(directives.into()),
        Ok(_) => Err("LAUNCH_DIRECTIVES are no directives".into()),
        Err(error) if error.status() == Status::ERR_NOT_FOUND => Ok(Directives::new()),
        Err(error) => Err(error.into()),
    }
}

async fn ended(ends: &mut EventStream, job: &ProcId) -> Result<Status> {
    loop {
        let event = ends.recv().await.ok_or("the server is gone")??;
        if event.info.get(keys::EVENT_AFFECTED_PROC)?.as_ref() == Some(job) {
            return Ok(event.info.get(keys::JOB_TERM_STATUS)?.ok_or("an end without status")?);
        }
    }
}
