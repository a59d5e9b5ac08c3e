//! Which server to ask.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use pmix_tool::types::Nspace;
use pmix_tool::{Error, Tool, ToolBuilder};

#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Server")]
pub(super) struct Selection {
    #[command(flatten)]
    which: Which,

    /// Give up on a server after so many seconds; 0 waits for ever
    #[arg(long, value_name = "SECONDS", default_value = "30")]
    timeout: u32,
}

#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
struct Which {
    /// The server with this process id
    #[arg(long)]
    pid: Option<u32>,

    /// The server at this address: NAMESPACE.RANK;unix:PATH, with the path of its socket
    #[arg(long)]
    uri: Option<String>,

    /// The server that wrote this rendezvous file
    #[arg(long)]
    file: Option<PathBuf>,

    /// The server that has itself this namespace
    #[arg(long, value_name = "NAMESPACE")]
    server: Option<Nspace>,
}

impl Selection {
    /// Whether nothing was selected.
    pub(super) fn is_any(&self) -> bool {
        let Which { pid, uri, file, server } = &self.which;
        pid.is_none() && uri.is_none() && file.is_none() && server.is_none()
    }

    /// The settings of a tool for the server selected, or for the only one.
    pub(super) fn builder(&self) -> ToolBuilder {
        let mut builder = Tool::builder();
        if self.timeout > 0 {
            builder = builder.timeout(Duration::from_secs(self.timeout.into()));
        }
        match self.which.clone() {
            Which { pid: Some(pid), .. } => builder.pid(pid),
            Which { uri: Some(uri), .. } => builder.uri(uri),
            Which { file: Some(file), .. } => builder.rendezvous_file(file),
            Which { server: Some(nspace), .. } => builder.nspace(nspace),
            _ => builder,
        }
    }

    /// A tool attached to the server selected, or to the only one.
    pub(super) async fn connect(&self) -> Result<Tool, Error> {
        self.builder().connect().await
    }
}
