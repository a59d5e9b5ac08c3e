//! Jobs that are tools, launchers among them, and programs that start others in their place (TOL-04).

use pmix_types::keys::env::{LAUNCHER_RNDZ_FILE, LAUNCHER_RNDZ_URI};
use pmix_types::{App, DataArray, Directives, Info, keys};

use super::requests::bad;
use crate::LaunchJob;
use pmix_server::host::HostResult;

/// The variables with the address of a process's server. The first is in the words of the C library, for which the address of
/// a tool's starter was made; a server has it if it speaks that library's wire.
const ADDRESSES: [&str; 2] = ["PMIX_SERVER_URI41", "PMIX_GRPC_URI"];

/// What a spawn requests for a tool.
#[derive(Debug, Default)]
pub(crate) struct ToolRequest {
    is_tool: bool,
    rendezvous_file: Option<String>,
    /// Directives for the jobs that a launcher starts, which it reads in its own job data.
    directives: Option<DataArray>,
}

impl ToolRequest {
    pub(super) fn take(job: &mut Directives) -> HostResult<Self> {
        Ok(Self {
            is_tool: job.take_flag(&keys::SPAWN_TOOL)?,
            rendezvous_file: job.take(&keys::LAUNCHER_RENDEZVOUS_FILE)?,
            directives: job.take(&keys::LAUNCH_DIRECTIVES)?,
        })
    }

    pub(super) fn told(&mut self) -> Option<Info> {
        Some(Info::new(&keys::LAUNCH_DIRECTIVES, self.directives.take()?))
    }

    /// Tells the processes where the server of the tool that has requested them is, and where that tool looks for them.
    /// Agents are tools in jobs that are none.
    pub(super) fn tell(&self, job: &mut LaunchJob, agents: &[bool]) {
        for proc in &mut job.procs {
            let address = |name: &&str| proc.env.iter().find(|(held, _)| held == name);
            let calls_back = self.is_tool || agents.get(proc.app) == Some(&true);
            let uri = ADDRESSES.iter().find_map(address).filter(|_| calls_back).map(|(_, uri)| uri.clone());
            proc.env.extend(uri.map(|uri| (LAUNCHER_RNDZ_URI.to_owned(), uri)));
            let file = self.rendezvous_file.clone();
            proc.env.extend(file.map(|file| (LAUNCHER_RNDZ_FILE.to_owned(), file)));
        }
    }
}

/// A program that is started in the place of another, and starts that.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    program: String,
    /// It is a tool of the server, too.
    pub(super) is_tool: bool,
}

impl Agent {
    /// # Errors
    /// `ERR_BAD_PARAM` if two are requested (GEN-07).
    pub(super) fn take(directives: &mut Directives) -> HostResult<Option<Self>> {
        match (directives.take(&keys::EXEC_AGENT)?, directives.take(&keys::FORKEXEC_AGENT)?) {
            (Some(_), Some(_)) => {
                Err(bad("EXEC_AGENT and FORKEXEC_AGENT exclude each other: give one of them".to_owned()))
            }
            (Some(program), None) => Ok(Some(Self { program, is_tool: false })),
            (None, program) => Ok(program.map(|program| Self { program, is_tool: true })),
        }
    }

    /// The agent is given the command line of the program.
    pub(super) fn start(&self, mut app: App) -> App {
        // the name that the program is to have for itself is not the one by which it is found
        let command = std::mem::replace(&mut app.command, self.program.clone().into());
        let arguments = app.argv.drain(..).skip(1);
        app.argv = [self.program.clone().into(), command].into_iter().chain(arguments).collect();
        app
    }
}
