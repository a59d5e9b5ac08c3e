use std::time::Duration;

#[cfg(feature = "serde")]
use super::json;
use super::{push, read, rows};
use crate::{DataArray, DataType, Info, Key, Pid, ProcId, Value, keys};

const LOOK: Key<DataArray> = Key::new("rs.pmix.look", DataType::DATA_ARRAY);
const STATE: Key<String> = Key::new("rs.pmix.look.state", DataType::STRING);
const SYSCALL: Key<String> = Key::new("rs.pmix.look.syscall", DataType::STRING);
const WAIT_CHANNEL: Key<String> = Key::new("rs.pmix.look.wait_channel", DataType::STRING);
const RSS: Key<u64> = Key::new("rs.pmix.look.rss", DataType::UINT64);
const CPU_TIME: Key<f64> = Key::new("rs.pmix.look.cpu_time", DataType::DOUBLE);
const THREADS: Key<u32> = Key::new("rs.pmix.look.threads", DataType::UINT32);
const TRACER: Key<Pid> = Key::new("rs.pmix.look.tracer", DataType::PID);

/// What a process does, by the letter that the kernel shows for its main thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Activity {
    /// On a processor, or ready for one (R).
    Runs,
    /// Waits for something, and can be interrupted (S, I).
    Sleeps,
    /// Waits for a device or a file system, and cannot be interrupted (D).
    Blocked,
    /// Stopped by a signal: SIGSTOP, SIGTSTP, SIGTTIN or SIGTTOU (T).
    Stopped,
    /// Stopped by a debugger (t).
    Traced,
    /// Has ended, but its exit status has not been collected (Z, X).
    Ended,
    /// Another letter.
    #[default]
    Unknown,
}

impl Activity {
    /// By the letter in `/proc/PID/stat`.
    #[must_use]
    pub const fn from_letter(letter: char) -> Self {
        match letter {
            'R' => Self::Runs,
            'S' | 'I' => Self::Sleeps,
            'D' => Self::Blocked,
            'T' => Self::Stopped,
            't' => Self::Traced,
            'Z' | 'X' | 'x' => Self::Ended,
            _ => Self::Unknown,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Runs => "runs",
            Self::Sleeps => "sleeps",
            Self::Blocked => "blocked",
            Self::Stopped => "stopped",
            Self::Traced => "traced",
            Self::Ended => "ended",
            Self::Unknown => "unknown",
        }
    }

    fn from_name(name: &str) -> Self {
        let all = [Self::Runs, Self::Sleeps, Self::Blocked, Self::Stopped, Self::Traced, Self::Ended];
        all.into_iter().find(|activity| activity.name() == name).unwrap_or_default()
    }
}

/// The kernel's view of a process at one moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ProcLook {
    /// The process.
    pub proc: ProcId,
    /// Its node.
    pub node: String,
    /// Its process id there.
    pub pid: Pid,
    /// What its main thread does.
    pub activity: Activity,
    /// The system call that its main thread is in, by name or else by number; `None` if it is in none, or if the kernel
    /// does not report it.
    pub syscall: Option<String>,
    /// The function of the kernel in which its main thread waits; `None` as for `syscall`.
    pub wait_channel: Option<String>,
    /// Memory that is resident, in bytes.
    pub rss: u64,
    /// Processor time used by all its threads, in user and kernel mode. Two looks tell a process that spins
    /// from one that sleeps.
    #[cfg_attr(feature = "serde", serde(serialize_with = "json::seconds"))]
    pub cpu_time: Duration,
    /// Number of its threads.
    pub threads: u32,
    /// The debugger that has attached to it.
    pub tracer: Option<Pid>,
}

impl ProcLook {
    /// A look at a process of which nothing but pid and node is known yet.
    #[must_use]
    pub fn new(proc: ProcId, node: impl Into<String>, pid: Pid) -> Self {
        Self {
            proc,
            node: node.into(),
            pid,
            activity: Activity::Unknown,
            syscall: None,
            wait_channel: None,
            rss: 0,
            cpu_time: Duration::ZERO,
            threads: 0,
            tracer: None,
        }
    }

    /// Its activity, in words that follow its name: `is stopped`, `sleeps in futex`; `None` if that is unknown.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        let at = |first: &Option<String>, second: &Option<String>| {
            first.as_ref().or(second.as_ref()).map(|at| format!(" in {at}")).unwrap_or_default()
        };
        Some(match self.activity {
            Activity::Runs => "computes or spins".to_owned(),
            Activity::Sleeps => format!("sleeps{}", at(&self.syscall, &self.wait_channel)),
            Activity::Blocked => {
                format!("waits for a file system or a device{}", at(&self.wait_channel, &self.syscall))
            }
            Activity::Stopped => "is stopped (SIGSTOP or a terminal stop)".to_owned(),
            Activity::Traced => "is held by a debugger".to_owned(),
            Activity::Ended => "has ended".to_owned(),
            Activity::Unknown => return None,
        })
    }

    /// The looks in a value of [`LOOKS`](super::LOOKS); none in any other value. Rows without a process are left out, and
    /// fields that cannot be read are empty.
    #[must_use]
    pub fn read_all(value: &Value) -> Vec<Self> {
        rows(value)
            .filter_map(|fields| {
                let time = read(&fields, &CPU_TIME).and_then(|time| Duration::try_from_secs_f64(time).ok());
                Some(Self {
                    proc: read(&fields, &keys::PROCID)?,
                    node: read(&fields, &keys::HOSTNAME).unwrap_or_default(),
                    pid: read(&fields, &keys::PROC_PID)?,
                    activity: Activity::from_name(&read(&fields, &STATE).unwrap_or_default()),
                    syscall: read(&fields, &SYSCALL),
                    wait_channel: read(&fields, &WAIT_CHANNEL),
                    rss: read(&fields, &RSS).unwrap_or_default(),
                    cpu_time: time.unwrap_or_default(),
                    threads: read(&fields, &THREADS).unwrap_or_default(),
                    tracer: read(&fields, &TRACER),
                })
            })
            .collect()
    }

    /// The value of [`LOOKS`](super::LOOKS) for all of these.
    #[must_use]
    pub fn write_all<'a>(looks: impl IntoIterator<Item = &'a Self>) -> Value {
        let rows = looks.into_iter().map(|look| Info::new(&LOOK, DataArray::Info(look.fields())));
        DataArray::Info(rows.collect()).into()
    }

    fn fields(&self) -> Vec<Info> {
        let mut fields = vec![
            Info::new(&keys::PROCID, self.proc.clone()),
            Info::new(&keys::HOSTNAME, self.node.as_str()),
            Info::new(&keys::PROC_PID, self.pid),
            Info::new(&STATE, self.activity.name()),
            Info::new(&RSS, self.rss),
            Info::new(&CPU_TIME, self.cpu_time.as_secs_f64()),
            Info::new(&THREADS, self.threads),
        ];
        push(&mut fields, &SYSCALL, self.syscall.clone());
        push(&mut fields, &WAIT_CHANNEL, self.wait_channel.clone());
        push(&mut fields, &TRACER, self.tracer);
        fields
    }
}
