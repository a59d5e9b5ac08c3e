//! A resource manager that only implements [`Launcher`]: how processes start, get signals and input, and end.
//! [`StandardHost`] does the rest - fences, published data, spawn, queries - for Rust and for C programs.
//!
//! ```text
//! cargo run --example launcher_rm -- -n 4 target/debug/examples/hello
//! target/debug/pmix-check -- target/debug/examples/launcher_rm -n 4
//! ```

use std::process::{ExitCode, Stdio};
use std::{collections::BTreeMap, env, error::Error, sync::Arc, time::Duration};

use pmix_host::*;
use pmix_server::{NativeWire, Server, async_trait, types::App, types::ProcId};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, mpsc};

/// Name of the only node.
const NODE: &str = "this-node";

/// Starts processes where it runs, each in a process group of its own. They write where it writes: one that pipes their
/// output and reports it has it forwarded to tools, too.
#[derive(Clone, Debug, Default)]
pub(crate) struct ThisNode(Arc<Mutex<BTreeMap<ProcId, mpsc::Sender<Signal>>>>);

#[async_trait]
impl Launcher for ThisNode {
    fn nodes(&self) -> Vec<String> {
        vec![NODE.into()]
    }

    fn machine(&self, _node: &str) -> Option<Machine> {
        Some(Machine::this())
    }

    async fn launch(&self, job: LaunchJob, reports: mpsc::Sender<LaunchReport>) -> Result<(), LaunchError> {
        let mut started = Vec::new();
        for LaunchProc { rank, app, env, defaults, .. } in job.procs {
            let (proc, app) = (ProcId::new(job.nspace.clone(), rank), &job.apps[app]);
            let mut command = Command::new(&app.command);
            let own = environment(app, env::vars_os())
                .map_err(|refused| LaunchError::new(proc.clone(), NODE, &app.command, refused.to_string()))?;
            command.args(app.argv.iter().skip(1)).current_dir(app.cwd.clone().unwrap_or_else(|| ".".into()));
            // what the server says comes last and wins
            command.env_clear().envs(defaults).envs(own).envs(env);
            // all of a job start or none: on an error the others are dropped, which kills them
            let child = command.stdin(Stdio::null()).process_group(0).kill_on_drop(true).spawn();
            let failed = |error| LaunchError::from_io(proc.clone(), NODE, &app.command, error);
            started.push((proc.clone(), child.map_err(failed)?, app.command.to_string_lossy().into_owned()));
        }
        for (proc, child, executable) in started {
            let (sender, signals) = mpsc::channel(8);
            self.0.lock().await.insert(proc.clone(), sender);
            tokio::spawn(self.clone().look_after((proc, child, executable), signals, reports.clone()));
        }
        Ok(())
    }

    async fn signal(&self, procs: &[ProcId], signal: i32) -> Result<(), LaunchError> {
        for process in self.alive(procs).await {
            let _ = process.send(Signal::from_named_raw(signal).unwrap_or(Signal::TERM)).await;
        }
        Ok(())
    }

    async fn terminate(&self, procs: &[ProcId]) -> Result<(), LaunchError> {
        for process in self.alive(procs).await {
            tokio::spawn(async move {
                let _ = process.send(Signal::TERM).await;
                if tokio::time::timeout(Duration::from_secs(3), process.closed()).await.is_err() {
                    let _ = process.send(Signal::KILL).await;
                }
            });
        }
        Ok(())
    }
}

impl ThisNode {
    async fn alive(&self, procs: &[ProcId]) -> Vec<mpsc::Sender<Signal>> {
        let running = self.0.lock().await;
        procs.iter().filter_map(|proc| running.get(proc).cloned()).collect()
    }

    /// Reports start and end of a process, and hands it the signals that are for it in between.
    async fn look_after(
        self,
        (proc, mut child, executable): (ProcId, Child, String),
        mut signals: mpsc::Receiver<Signal>,
        reports: mpsc::Sender<LaunchReport>,
    ) {
        let pid = child.id().unwrap_or_default() as i32;
        let _ = reports.send(LaunchReport::Started { proc: proc.clone(), pid, executable }).await;
        let exit = loop {
            tokio::select! {
                exit = child.wait() => break exit.map_or(ProcExit::Code(1), ProcExit::from),
                // the id is its own as long as nobody has waited for it
                Some(signal) = signals.recv() => drop(Pid::from_raw(pid).map(|pid| kill_process_group(pid, signal))),
            }
        };
        self.0.lock().await.remove(&proc);
        let _ = reports.send(LaunchReport::Ended { proc, exit }).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let [_, procs, program, args @ ..] = &words[..] else {
        return Err("usage: launcher_rm -n <processes> <program> [arguments]".into());
    };
    let host = StandardHost::new(ThisNode::default(), MemoryExchange::single(NODE));
    let server = Server::builder().host(host.clone()).hostname(NODE).native_wire(NativeWire::On);
    let server = server.start().await?;
    let start = JobStart::new("job-1".parse()?, vec![App::new(program, procs.parse()?).args(args)]);
    let outcome = host.start_job(start).await?.outcome().await.ok_or("the job has vanished")?;
    server.stop().await;
    Ok(u8::try_from(outcome.exit_code).map_or(ExitCode::FAILURE, ExitCode::from))
}
