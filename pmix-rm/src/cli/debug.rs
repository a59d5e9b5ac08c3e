//! The options for debuggers.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

/// What looks at the job from its beginning.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct DebugArgs {
    /// Start this debugger when all ranks wait in init. COMMAND is one argument, split into words as by a shell. The debugger gets the terminal
    /// and standard input, the job in PMIXRUN_JOB, and the address of the server to attach to in PMIX_LAUNCHER_RNDZ_URI. If it ends without
    /// having released the job, the job goes on if the debugger has succeeded, and is ended if it has failed
    #[arg(long, value_name = "COMMAND", value_parser = OsStringValueParser::new().try_map(CommandLine::parse))]
    pub(crate) debug: Option<CommandLine>,

    /// Start this debugger daemon on each host of the job when all ranks wait in init. COMMAND is one argument, split into words as by a
    /// shell. The daemons form a separate job, whose DEBUG_TARGET is the job of this pmixrun
    #[arg(long, value_name = "COMMAND", value_parser = OsStringValueParser::new().try_map(CommandLine::parse))]
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
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

impl CommandLine {
    fn parse(text: OsString) -> Result<Self, &'static str> {
        let words = shlex::bytes::split(text.as_bytes()).ok_or("a quote is not closed")?;
        let mut words = words.into_iter().map(OsString::from_vec);
        let program = words.next().ok_or("no program is given")?;
        Ok(Self { program, args: words.collect() })
    }
}
