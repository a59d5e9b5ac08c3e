//! The options of `pmixrun` for clap, named as in Open MPI and `prterun` where these have them. A test compares them with the
//! tables in `docs/pmixrun.md` and `docs/pmixrun-hosts.md`.

use std::ffi::{OsStr, OsString};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, ValueEnum, ValueHint};
use pmix_host::{BadPolicy, BindingPolicy};
use pmix_program::seconds;
use pmix_server::{NativeWire, Pmi1Wire};
use pmix_topology::ThisHost;
use pmix_types::{Directives, Info, Rank, Uid, keys};

use super::debug::DebugArgs;
use super::dvm::DvmPlace;
use super::output::Directive;
use crate::metrics::MetricsPlace;
use crate::nodes::{Allocation, By, HostList};

/// Runs a job of one or more applications, on this node or on several, with PMIx servers.
///
/// Applications are separated by a colon; their ranks are numbered consecutively:
///     pmixrun -n 2 ./solver input.dat : -n 1 -x ROLE=io ./writer
#[derive(Debug, Parser)]
#[command(name = "pmixrun", version, override_usage = USAGE, after_help = AFTER_HELP)]
#[command(verbatim_doc_comment)]
pub(super) struct FirstApp {
    #[command(flatten)]
    pub(super) app: AppArgs,
    #[command(flatten)]
    pub(super) streams: Streams,
    #[command(flatten)]
    pub(super) end: EndArgs,
    #[command(flatten)]
    pub(super) setting: Setting,
    #[command(flatten)]
    pub(super) habit: Habit,
}

/// An application after the first.
#[derive(Debug, Parser)]
#[command(name = "pmixrun", override_usage = USAGE)]
pub(super) struct FurtherApp {
    #[command(flatten)]
    pub(super) app: AppArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Options of each application")]
pub(super) struct AppArgs {
    /// Number of processes to start; also -np N
    #[arg(
        short = 'n', visible_short_alias = 'c', long = "np", alias = "n", value_name = "N", default_value = "1",
        value_parser = parse_count, allow_negative_numbers = true
    )]
    pub(super) count: u16,

    /// Set a variable, or pass on one that ranks do not inherit by default (PMIX_*, PRTE_*, OMPI_* except OMPI_MCA_*)
    #[arg(short = 'x', long, value_name = "NAME[=VALUE]")]
    pub(super) env: Vec<OsString>,

    /// Working directory; a program with a slash in its name is relative to it
    #[arg(long, value_name = "DIR", visible_alias = "wd", value_hint = ValueHint::DirPath)]
    pub(super) wdir: Option<OsString>,

    /// Set a parameter of Open MPI: OMPI_MCA_KEY=VALUE in the environment of the ranks
    #[arg(long, num_args = 2, value_names = ["KEY", "VALUE"], allow_hyphen_values = true)]
    pub(super) mca: Vec<OsString>,

    /// Set a parameter of the C library of PMIx: PMIX_MCA_KEY=VALUE in the environment of the ranks
    #[arg(long, num_args = 2, value_names = ["KEY", "VALUE"], allow_hyphen_values = true)]
    pub(super) pmixmca: Vec<OsString>,

    /// Program, searched on PATH and then in the working directory (if it belongs to this user or root) unless its name has a slash, and its
    /// arguments
    #[arg(trailing_var_arg = true, value_name = "PROGRAM [ARGS]", value_hint = ValueHint::AnyPath)]
    pub(super) program: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output and input")]
pub(super) struct Streams {
    /// Prefix each line of output with rank and channel: "[2]<stdout>: "
    #[arg(long)]
    pub(super) tag_output: bool,

    /// Prefix each line of output with the time, in UTC
    #[arg(long)]
    pub(super) timestamp_output: bool,

    /// Treat standard error of ranks as standard output
    #[arg(long)]
    pub(super) merge_stderr_to_stdout: bool,

    /// Format and files of the output, separated by commas: tag, timestamp, merge, dir=DIR for DIR/NAMESPACE/rank.N/stdout
    /// and stderr, file=NAME for NAME.NAMESPACE.N.out and .err; dir=DIR:copy also prints it
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = of_bytes(Directive::parse))]
    pub(super) output: Vec<Directive>,

    /// The same as --output file=NAME
    #[arg(long, value_name = "NAME", value_parser = of_bytes(Directive::parse_file))]
    pub(super) output_filename: Option<Directive>,

    /// Rank that reads standard input: a number, all or none
    #[arg(long, value_name = "RANK", default_value = "0", value_parser = Stdin::parse)]
    pub(super) stdin: Stdin,

    /// Print the nodes of all ranks before the job starts
    #[arg(long, value_name = "WHAT", value_enum)]
    pub(super) display: Option<Display>,

    /// Print a report on the job as one JSON object, in the last line of standard output
    #[arg(long)]
    pub(super) json: bool,

    /// Write pmixrun's process id to standard output (-), standard error (+) or a file. A file that did not exist
    /// before is removed at the end
    #[arg(long, value_name = "WHERE", allow_hyphen_values = true)]
    pub(super) report_pid: Option<OsString>,

    /// Do not report failed ranks and their consequences, except by the exit code
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Log what pmixrun does to standard error
    #[arg(short, long, conflicts_with = "quiet")]
    pub(super) verbose: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "The end of the job")]
pub(super) struct EndArgs {
    /// End the job after this many seconds, with exit code 124
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = parse_timeout)]
    pub(super) timeout: Option<Duration>,

    /// Seconds that ranks have to react to the failure of one of them before they are asked to end
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "0.3", value_parser = seconds
    )]
    pub(super) reaction: Duration,

    #[command(flatten)]
    pub(super) times: Times,

    /// Write the flight record of each server to a file in this directory when the job fails or is ended early, or nowhere
    /// with `none`. If neither this option nor PMIXRUN_RECORD is given, the last 8 files are kept in pmix/records in
    /// XDG_STATE_HOME or ~/.local/state
    #[arg(long, value_name = "DIR")]
    pub(super) record: Option<PathBuf>,
}

/// How long processes may go on.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Times {
    /// Seconds that ranks have to end after they were asked to, or after a signal, before they are killed
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "5", value_parser = seconds
    )]
    pub(super) grace: Duration,

    /// Seconds that processes which a rank has left in the background may go on after it has ended with code 0, if they hold its output
    /// or are still in the session of the job; then they are killed, and a message names them
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "60", value_parser = seconds
    )]
    pub(super) linger: Duration,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "How the job is set up")]
pub(super) struct Setting {
    /// Read the applications from a file, one per line: [-n N] [other options of an application] PROGRAM [ARGS]
    #[arg(long, value_name = "FILE")]
    pub(super) app: Option<PathBuf>,

    /// Run the job in a DVM whose server (pmixd --head) is on this host. WHERE is the URI that pmixd --report-uri has written, or uri:URI; file:FILE for a rendezvous file;
    /// pid:PID or ns:NAMESPACE of the server; system for the system-level server; only for the only server of this user. The nodes, daemons and servers are those of the DVM;
    /// --host selects some of its nodes
    #[arg(long, value_name = "WHERE", visible_alias = "dvm-uri", value_parser = of_bytes(DvmPlace::parse))]
    pub(super) dvm: Option<DvmPlace>,

    /// Also trust a DVM of this user, besides those of root and of your own
    #[arg(long, value_name = "UID", requires = "dvm", value_parser = clap::value_parser!(u32).map(Uid::new))]
    pub(super) trust_uid: Option<Uid>,

    #[command(flatten)]
    pub(super) nodes: NodeArgs,

    /// Map ranks round-robin over slot, node, hwthread, core, l1cache, l2cache, l3cache, numa or package, or by ppr:N:node, with the
    /// modifiers :PE=N, :OVERSUBSCRIBE and :NOOVERSUBSCRIBE
    #[arg(long, value_name = "POLICY", value_parser = Policy::map_by)]
    pub(super) map_by: Option<Policy>,

    /// At most N ranks of each application on each node, and if -n is not given, N on each: --map-by ppr:N:node
    #[arg(
        short = 'N',
        long = "npernode",
        visible_alias = "ntasks-per-node",
        alias = "ppn",
        value_name = "N",
        conflicts_with = "map_by"
    )]
    pub(super) per_node: Option<NonZeroU32>,

    /// Map ranks to hardware threads: --map-by hwthread
    #[arg(long, conflicts_with_all = ["map_by", "per_node"])]
    pub(super) use_hwthread_cpus: bool,

    /// Allow more ranks than slots: --map-by :OVERSUBSCRIBE. More ranks than processors need no permission
    #[arg(long)]
    pub(super) oversubscribe: bool,

    /// Number ranks by slot, fill or node
    #[arg(long, value_name = "POLICY", value_parser = Policy::rank_by)]
    pub(super) rank_by: Option<Policy>,

    /// Bind ranks to none, hwthread, core, l1cache, l2cache, l3cache, numa or package, with the modifiers
    /// :overload-allowed and :if-supported
    #[arg(long, value_name = "POLICY", value_parser = Policy::bind_to)]
    pub(super) bind_to: Option<Policy>,

    /// Print the binding of each rank on standard error
    #[arg(long)]
    pub(super) report_bindings: bool,

    #[command(flatten)]
    pub(super) serving: Serving,

    /// Make ranks wait in init for a debugger, until `pmix release`
    #[arg(long, overrides_with = "stop_in_init")]
    pub(super) stop_in_init: bool,

    #[command(flatten)]
    pub(super) debug: DebugArgs,
}

/// The nodes that jobs run on, and how their daemons are started.
#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    /// Divide the ranks in blocks over K simulated nodes, HOST-v0, HOST-v1, .., each with its own server
    #[arg(long, value_name = "K", value_parser = parse_vnodes)]
    pub(super) vnodes: Option<u16>,

    /// Run on these hosts, filled in the given order, each with its number of slots after a colon (1 if not given): a:4,b. A job without -n
    /// uses all slots. A daemon, pmixd, is started on each host except this one. Inside a Slurm or PBS allocation, the hosts must belong to
    /// the allocation; if none are named, all its nodes are used, with the slots that it has there
    #[arg(short = 'H', long, value_name = "LIST", value_parser = HostList::parse, conflicts_with = "vnodes")]
    pub(super) host: Option<HostList>,

    /// The same with the hosts of a file, a line for each: NAME slots=N max_slots=N username=USER. --host selects some of them, and gives their slots
    #[arg(
        long, value_name = "FILE", visible_alias = "machinefile", value_hint = ValueHint::FilePath, value_parser = of_bytes(HostList::read), conflicts_with = "vnodes"
    )]
    pub(super) hostfile: Option<HostList>,

    /// What starts daemons
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Launcher::Auto)]
    pub(super) launcher: Launcher,

    /// Start daemons with this program in place of ssh: it is given the name of the host, and the command to run there
    #[arg(long, value_name = "PROGRAM", conflicts_with = "launcher")]
    pub(super) launch_agent: Option<OsString>,

    /// Do not start daemons: wait until somebody else has started `pmixd --join DIR/HOST.join` on each host. The files, which only this
    /// user may read, exist while this program runs
    #[arg(long, value_name = "DIR", conflicts_with_all = ["launcher", "launch_agent", "daemon"])]
    pub(super) await_daemons: Option<PathBuf>,

    /// Path of pmixd on all hosts; by default, the path of the pmixd in the directory of this program
    #[arg(long, value_name = "PROGRAM")]
    pub(super) daemon: Option<PathBuf>,

    /// Seconds within which all daemons must be ready
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "60", value_parser = parse_timeout
    )]
    pub(super) start_timeout: Duration,

    /// Seconds after which the ranks of a launcher or daemon end that is stopped or hangs, and after which a daemon ends its ranks if it
    /// hears nothing from its head (pmixrun, or pmixd --head). It ends
    /// them at once if the head has ended, unless the DVM uses --etcd: then the daemon waits this long for the next head
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "30", value_parser = parse_timeout
    )]
    pub(super) head_grace: Duration,

    /// Seconds after which a host is lost, and the job with it, if pmixrun hears nothing from it
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "20", value_parser = parse_timeout
    )]
    pub(super) host_grace: Duration,

    /// Start all daemons from here, 64 at a time. Otherwise hosts whose daemons are ready start those of others by ssh
    #[arg(long)]
    pub(super) no_tree_spawn: bool,

    /// Degree of the tree of hosts. In a fence, at most this many hosts send their data to one host, which passes it on; and a host
    /// starts at most this many daemons by ssh at a time
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) tree_degree: u16,

    /// Listen for daemons at the address of this interface alone, here and on all hosts. Otherwise they may come to any address
    #[arg(long, value_name = "NAME")]
    pub(super) interface: Option<String>,
}

/// What servers serve.
#[derive(Debug, Args)]
pub(super) struct Serving {
    /// Serve programs linked with the C library of PMIx
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = NativeChoice::On)]
    pub(super) native: NativeChoice,

    /// Whether to serve programs of MPICH and its relatives (MVAPICH, Intel MPI), which start through PMI-1
    #[arg(long, value_name = "WHETHER", value_enum, default_value_t = Pmi1::On)]
    pub(super) pmi1: Pmi1,

    /// Store data that ranks publish with persistence INDEF in this file, and publish its contents
    #[arg(long, value_name = "FILE")]
    pub(super) store: Option<PathBuf>,

    /// Make this the system-level server of the node, which tools find with --system
    #[arg(long, conflicts_with = "vnodes")]
    pub(super) system_server: bool,

    /// Serve numbers about jobs, processes, nodes and servers to Prometheus, at a Unix socket for this user alone (a path with a
    /// slash), or at a port of this host that all its users can read (127.0.0.1:PORT; with port 0 the system chooses a free one, which is printed)
    #[arg(long, value_name = "WHERE", value_parser = MetricsPlace::parse)]
    pub(super) metrics: Option<MetricsPlace>,

    /// Trace fences. WHERE is an OpenTelemetry collector that gets the spans (http://HOST:4317, OTLP over gRPC), or the path of a
    /// file to which each host appends them as lines of JSON. Default: OTEL_EXPORTER_OTLP_ENDPOINT if that is set; otherwise fences
    /// are not traced
    #[arg(long, value_name = "WHERE")]
    pub(super) trace_to: Option<String>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Accepted for compatibility with other launchers")]
pub(super) struct Habit {
    /// No effect: root may run pmixrun
    #[arg(long)]
    pub(super) allow_run_as_root: bool,

    /// A parameter of PRRTE, Open MPI's launcher: no effect except a warning, as pmixrun does not use PRRTE
    #[arg(long, num_args = 2, value_names = ["KEY", "VALUE"], allow_hyphen_values = true)]
    pub(super) prtemca: Vec<String>,

    /// The same as --display map
    #[arg(long)]
    pub(super) display_map: bool,
}

/// [`NativeWire`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum NativeChoice {
    /// None; the servers open no port
    Off,
    /// All; JSM_JSRUN_PORT=0 in the environment tells Open MPI 4 that it was launched, and not to bind ranks to cores
    On,
    /// All except those of Open MPI 4, which run as singletons
    #[value(name = "without-open-mpi-4")]
    WithoutOpenMpi4,
}

impl From<NativeChoice> for NativeWire {
    fn from(native: NativeChoice) -> Self {
        match native {
            NativeChoice::Off => Self::Off,
            NativeChoice::On => Self::On,
            NativeChoice::WithoutOpenMpi4 => Self::WithoutOpenMpi4,
        }
    }
}

/// [`Pmi1Wire`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Pmi1 {
    /// Do not serve them; each process runs as a job of one
    Off,
    /// Serve them by a socket that each rank inherits (PMI_FD)
    On,
}

impl From<Pmi1> for Pmi1Wire {
    fn from(pmi1: Pmi1) -> Self {
        match pmi1 {
            Pmi1::Off => Self::Off,
            Pmi1::On => Self::Inherited,
        }
    }
}

/// What starts daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Launcher {
    /// Slurm inside an allocation of Slurm, otherwise ssh
    Auto,
    /// One ssh for each host
    Ssh,
    /// One srun for all hosts, which must be in the allocation
    Slurm,
}

/// A policy for places or bindings, which the host understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy(String);

impl Policy {
    fn map_by(text: &str) -> Result<Self, BadPolicy> {
        BindingPolicy::default().map_by(text).map(|_| Self(text.to_owned()))
    }

    fn rank_by(text: &str) -> Result<Self, BadPolicy> {
        BindingPolicy::default().rank_by(text).map(|_| Self(text.to_owned()))
    }

    fn bind_to(text: &str) -> Result<Self, BadPolicy> {
        BindingPolicy::default().bind_to(text).map(|_| Self(text.to_owned()))
    }
}

impl NodeArgs {
    /// The hosts to run on: those of an allocation, narrowed by those of a file, narrowed by those of the command line.
    pub(super) fn hosts(
        &self,
        allocation: Option<&Allocation>,
        this: &ThisHost,
    ) -> Result<Option<HostList>, String> {
        let own = |list: &Option<HostList>| list.clone().map(|list| list.calling_own(this)).transpose();
        let named = match (own(&self.hostfile)?, own(&self.host)?) {
            (Some(file), Some(named)) => Some(file.narrowed(named, "the file of hosts")?),
            (file, named) => named.or(file),
        };
        let hosts = match (named, allocation) {
            (Some(named), Some(all)) => Some(all.hosts().narrowed(named, all.name())?),
            (named, all) => named.or_else(|| all.map(|all| all.hosts().clone())),
        };
        hosts.map(HostList::for_session).transpose()
    }

    /// What starts daemons.
    pub(super) fn by(&self, allocation: Option<&Allocation>) -> Result<By, String> {
        if let Some(program) = &self.launch_agent {
            return Ok(By::Program(program.clone()));
        }
        if let Some(dir) = &self.await_daemons {
            return Ok(By::Others(dir.clone()));
        }
        match (self.launcher, allocation.and_then(Allocation::of_slurm)) {
            (Launcher::Ssh, _) | (Launcher::Auto, None) => {
                Ok(By::Ssh { tree: (!self.no_tree_spawn).then_some(usize::from(self.tree_degree)) })
            }
            (Launcher::Auto | Launcher::Slurm, Some(nodes)) => Ok(By::Slurm(nodes)),
            (Launcher::Slurm, None) => {
                Err("'--launcher slurm': not inside a Slurm allocation: start this with salloc or sbatch"
                    .into())
            }
        }
    }
}

impl Setting {
    /// The mapping, as `--map-by` has it.
    fn mapping(&self) -> Option<String> {
        let policy = match (&self.map_by, self.per_node) {
            (Some(Policy(text)), _) => text.clone(),
            (None, Some(count)) => format!("ppr:{count}:node"),
            (None, None) if self.use_hwthread_cpus => "hwthread".to_owned(),
            (None, None) => String::new(),
        };
        let whole = if self.oversubscribe { policy + ":OVERSUBSCRIBE" } else { policy };
        Some(whole).filter(|whole| !whole.is_empty())
    }

    /// How ranks are mapped.
    ///
    /// # Errors
    /// Two options contradict each other.
    pub(super) fn policy(&self) -> Result<BindingPolicy, BadPolicy> {
        BindingPolicy::default().map_by(&self.mapping().unwrap_or_default())
    }

    /// The directives for places and bindings.
    pub(super) fn binding(&self) -> Directives {
        let mut directives = Directives::new();
        let text = |policy: &Option<Policy>| policy.as_ref().map(|Policy(text)| text.clone());
        let given = [
            (&keys::MAPBY, self.mapping()),
            (&keys::RANKBY, text(&self.rank_by)),
            (&keys::BINDTO, text(&self.bind_to)),
        ];
        for (key, policy) in given {
            if let Some(text) = policy {
                directives.push(Info::required(key, text));
            }
        }
        if self.report_bindings {
            directives.push(Info::required(&keys::REPORT_BINDINGS, true));
        }
        directives
    }
}

/// Information that can be printed before a job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Display {
    /// The ranks of each node
    Map,
}

/// The ranks that read the standard input of `pmixrun`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stdin {
    None,
    All,
    Rank(Rank),
}

impl Stdin {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            number => {
                let rank = number.parse().ok().and_then(|rank| Rank::new(rank).ok());
                rank.map(Self::Rank).ok_or_else(|| "not a rank, all or none".into())
            }
        }
    }
}

pub(super) const USAGE: &str = "pmixrun [OPTIONS] [-n N] PROGRAM [ARGS]... [: [-n N] PROGRAM [ARGS]...]...
       pmixrun [OPTIONS] --app FILE";

// each paragraph is one line: clap wraps it to the width of the terminal
const AFTER_HELP: &str = "\
Long options may be written with one dash, as for mpirun: -np 4, -mca KEY VALUE, -tag-output.

Rank 0 reads pmixrun's standard input unless --stdin selects another rank; the others read nothing. SIGINT and SIGTERM \
are passed on to the ranks, and SIGHUP as SIGTERM unless it is ignored at startup, as under nohup; the ranks then have the grace period to end. A second SIGINT \
kills them at once. SIGTSTP (Ctrl-Z) stops ranks and pmixrun until both are continued. Most other signals are only passed on.

When a rank fails, the others are notified through PMIx and have the reaction time to end by themselves. Then they get \
SIGTERM, and after the grace period SIGKILL.

`pmixrun --man` prints the manual page.

Exit code: 0 if all ranks succeeded; otherwise that of the first rank that failed, or 128 plus the number of the signal \
that ended it; 124 after --timeout; 130 or 143 if SIGINT or SIGTERM ended pmixrun before the job had started; 141 if the reader of the \
output has gone away; 1 if the job could not be started for another reason; \
2 for an invalid command line.

RUST_LOG=debug logs what pmixrun does to standard error.";

/// Whether a word separates applications.
pub(super) fn is_separator(arg: &OsString) -> bool {
    arg == ":"
}

/// A parser of values that need not be UTF-8.
fn of_bytes<T: Clone + Send + Sync + 'static>(
    parse: fn(&OsStr) -> Result<T, String>,
) -> impl TypedValueParser<Value = T> {
    OsStringValueParser::new().try_map(move |text: OsString| parse(&text))
}

fn parse_count(text: &str) -> Result<u16, String> {
    match text.parse::<u64>() {
        Ok(0) => Err("a job needs at least one process".into()),
        Ok(count) => u16::try_from(count).map_err(|_| format!("at most {} processes", u16::MAX)),
        Err(_) => Err("not a number of processes".into()),
    }
}

/// Most simulated nodes, as each has a server with its own thread.
const MAX_VNODES: u16 = 256;

fn parse_vnodes(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(count @ 1..=MAX_VNODES) => Ok(count),
        _ => Err(format!("it must be between 1 and {MAX_VNODES}")),
    }
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("it must be greater than 0".into()),
        time => Ok(time),
    }
}
