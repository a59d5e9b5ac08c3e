//! The options for debuggers.

use clap::Args;

/// What looks at the job from its beginning.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DebugArgs {
    /// Start a debugger when all ranks wait in init: a command line in one word, of which a shell's quotes are understood. It has the
    /// terminal, PMIXRUN_JOB names the job, and PMIX_LAUNCHER_RNDZ_URI the server to attach to. If it ends without having released the job, the
    /// job goes on, or ends if the debugger has failed
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(crate) debug: Option<CommandLine>,

    /// Start a daemon of a debugger on each host of the job when all ranks wait in init: a command line in one word. It is a process of a job
    /// of its own, whose DEBUG_TARGET is this one
    #[arg(long, value_name = "COMMAND", value_parser = CommandLine::parse)]
    pub(crate) debug_daemons: Option<CommandLine>,
}

impl DebugArgs {
    /// Whether anything looks at the job.
    pub(crate) const fn is_any(&self) -> bool {
        self.debug.is_some() || self.debug_daemons.is_some()
    }
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
}

impl CommandLine {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let mut words = shlex::split(text).ok_or("a quote is not closed")?.into_iter();
        let program = words.next().ok_or("no program is given")?;
        Ok(Self { program, args: words.collect() })
    }
}
