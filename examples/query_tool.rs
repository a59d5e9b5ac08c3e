//! A tool: attaches to a server and prints the jobs it knows with their process tables.
//!
//! ```text
//! cargo run --example query_tool                     # the only server of this user
//! cargo run --example query_tool -- --pid 4711       # the server in this process
//! cargo run --example query_tool -- --uri URI        # the server at this address
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::error::Error;
use std::process::ExitCode;

use pmix_tool::Tool;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match query_tool(std::env::args().skip(1).collect()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("query_tool: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn query_tool(args: Vec<String>) -> Result<()> {
    let builder = match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Tool::builder(),
        ["--uri", uri] => Tool::builder().uri(*uri),
        ["--pid", pid] => Tool::builder().pid(pid.parse()?),
        _ => return Err("give --uri URI, --pid PID or nothing".into()),
    };
    let tool = builder.connect().await?;
    for nspace in tool.namespaces().await? {
        let table = tool.proc_table(&nspace).await?;
        println!("{nspace}, size {}", table.len());
        for row in table {
            let hostname = row.hostname.as_deref().unwrap_or("unknown");
            let executable = row.executable.as_deref().unwrap_or("unknown");
            println!("  {:>4} {hostname} {} {} {executable}", row.proc.rank, row.pid.0, row.state);
        }
    }
    Ok(tool.finalize().await?)
}
