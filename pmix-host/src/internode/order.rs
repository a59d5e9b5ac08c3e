//! What the head of several nodes has a node do, what a node tells its head, and their form in messages.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use pmix_proto::v1;
use pmix_server::Account;
use pmix_types::message::{IofPull, Request};
use pmix_types::{App, Directives, Event, Gid, Info, IofChannels, Nspace, ProcId, Rank, Uid};

use super::held::{HeldJob, HeldPull};
use super::message::request_in;
use crate::binding::{BindingPolicy, Bound};
use crate::user::User;
use crate::{LaunchReport, OutputChannel, ProcExit};

/// What the head has a node do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Order {
    RegisterJob {
        number: u32,
        nspace: Nspace,
        infos: Vec<Info>,
        /// Its processes there.
        ranks: Vec<Rank>,
        in_session: Vec<u32>,
    },
    Knows(Nspace),
    SetUp {
        nspace: Nspace,
        infos: Vec<Info>,
    },
    WorkDir(u32),
    ProcEnded {
        proc: ProcId,
        reason: String,
    },
    EndJob(Nspace),
    KeepRecord {
        nspace: Nspace,
        why: String,
    },
    Notify(Event),
    Deliver {
        source: ProcId,
        channels: IofChannels,
        data: Bytes,
        info: Directives,
    },
    Launch {
        nspace: Nspace,
        apps: Vec<App>,
        procs: Vec<ProcToLaunch>,
        /// What they inherit; `None` for what the node's launcher gives them.
        base_env: Option<Vec<(OsString, OsString)>>,
    },
    Signal {
        procs: Vec<ProcId>,
        signal: i32,
    },
    Terminate(Vec<ProcId>),
    PushStdin {
        procs: Vec<ProcId>,
        data: Bytes,
        is_end: bool,
    },
    WhichEnded(Vec<ProcId>),
    /// Chooses the processors of processes there.
    Bind {
        nspace: Nspace,
        policy: BindingPolicy,
        /// How many there are there, and in the whole job.
        here: u32,
        all: u32,
    },
    /// Tells what it has of jobs, to the successor of its head.
    Holdings,
    /// One of the orders that differ for the job of another user.
    OfUser {
        uid: Uid,
        gid: Gid,
        order: Box<Self>,
    },
}

/// A process that a node is to start; its environment is known there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProcToLaunch {
    pub(crate) rank: Rank,
    pub(crate) app: usize,
    pub(crate) cwd: Option<String>,
    pub(crate) takes_stdin: bool,
    pub(crate) bound: Option<Bound>,
}

/// What a node tells its head.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum News {
    Connected(ProcId),
    Finalized(ProcId),
    /// A connection has ended without finalize; smaller numbers came first.
    Lost {
        proc: ProcId,
        order: u64,
    },
    /// The last connection of a tool has ended without finalize.
    ToolLost(ProcId),
    /// The caller requests the end of the host.
    EndOfHost(User),
    Reports {
        nspace: Nspace,
        reports: Vec<LaunchReport>,
    },
    /// The caller no longer pulls this output.
    PullEnded {
        caller: User,
        pull: IofPull,
    },
}

/// The answer to an order that asks for something.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) yes: bool,
    pub(crate) text: Option<String>,
    pub(crate) procs: Vec<ProcId>,
    /// Of processes in rank order.
    pub(crate) bound: Vec<Option<Bound>>,
    pub(crate) held: Vec<HeldJob>,
    pub(crate) pulls: Vec<HeldPull>,
}

fn procs_form(procs: &[ProcId]) -> Vec<v1::Proc> {
    procs.iter().map(Into::into).collect()
}

fn procs_in(procs: Vec<v1::Proc>) -> Option<Vec<ProcId>> {
    procs.into_iter().map(|proc| proc.try_into().ok()).collect()
}

fn variable_form((name, value): &(OsString, OsString)) -> Bytes {
    [name.as_bytes(), b"=", value.as_bytes()].concat().into()
}

/// `None` for what no environment can hold.
fn variable_in(form: &Bytes) -> Option<(OsString, OsString)> {
    if form.contains(&0) {
        return None;
    }
    // some systems have names that begin with it
    let at = form.iter().skip(1).position(|byte| *byte == b'=')? + 1;
    let (name, value) = (form.get(..at)?, form.get(at + 1..)?);
    Some((OsStr::from_bytes(name).to_owned(), OsStr::from_bytes(value).to_owned()))
}

fn infos_form<'a>(infos: impl IntoIterator<Item = &'a Info>) -> Vec<v1::Info> {
    infos.into_iter().map(Into::into).collect()
}

fn infos_in(infos: Vec<v1::Info>) -> Option<Vec<Info>> {
    infos.into_iter().map(|info| info.try_into().ok()).collect()
}

/// No process is bound to no processor: the form of one that is not bound has none.
fn binding_form(bound: Option<&Bound>) -> v1::Binding {
    bound.map_or_else(v1::Binding::default, |bound| v1::Binding {
        processors: bound.processors.to_string(),
        place: bound.place.clone(),
        locality: bound.locality.clone(),
        is_exclusive: bound.is_exclusive,
    })
}

fn binding_in(form: v1::Binding) -> Option<Option<Bound>> {
    let v1::Binding { processors, place, locality, is_exclusive } = form;
    if processors.is_empty() {
        return Some(None);
    }
    Some(Some(Bound { processors: processors.parse().ok()?, place, locality, is_exclusive }))
}

fn policy_in(form: &v1::Bind) -> Option<BindingPolicy> {
    let policy = BindingPolicy { is_required: form.is_required, ..BindingPolicy::default() };
    policy.map_by(&form.map_by).ok()?.rank_by(&form.rank_by).ok()?.bind_to(&form.bind_to).ok()
}

impl Order {
    pub(super) fn form(&self) -> v1::Order {
        use v1::order::What;
        let what = match self {
            Self::RegisterJob { number, nspace, infos, ranks, in_session } => {
                What::RegisterJob(v1::RegisterJob {
                    number: *number,
                    nspace: nspace.to_string(),
                    infos: infos_form(infos),
                    ranks: ranks.iter().map(|rank| rank.to_raw()).collect(),
                    in_session: in_session.clone(),
                })
            }
            Self::Knows(nspace) => What::Knows(nspace.to_string()),
            Self::SetUp { nspace, infos } => {
                What::SetUp(v1::SetUp { nspace: nspace.to_string(), infos: infos_form(infos) })
            }
            Self::WorkDir(number) => What::WorkDir(*number),
            Self::ProcEnded { proc, reason } => {
                What::ProcEnded(v1::ProcEnded { proc: Some(proc.into()), reason: reason.clone() })
            }
            Self::EndJob(nspace) => What::EndJob(nspace.to_string()),
            Self::KeepRecord { nspace, why } => {
                What::KeepRecord(v1::KeepRecord { nspace: nspace.to_string(), why: why.clone() })
            }
            Self::Notify(event) => What::Notify(event.into()),
            Self::Deliver { source, channels, data, info } => What::Deliver(v1::Deliver {
                source: Some(source.into()),
                channels: channels.bits().into(),
                data: data.clone(),
                info: infos_form(info.iter()),
            }),
            Self::Launch { nspace, apps, procs, base_env } => {
                let procs = procs.iter().map(|proc| v1::LaunchProc {
                    rank: proc.rank.to_raw(),
                    app: u32::try_from(proc.app).unwrap_or(u32::MAX),
                    cwd: proc.cwd.clone(),
                    takes_stdin: proc.takes_stdin,
                    binding: proc.bound.as_ref().map(|bound| binding_form(Some(bound))),
                });
                What::Launch(v1::Launch {
                    nspace: nspace.to_string(),
                    apps: apps.iter().map(Into::into).collect(),
                    procs: procs.collect(),
                    base_env: base_env.as_ref().map(|base_env| v1::Environment {
                        variables: base_env.iter().map(variable_form).collect(),
                    }),
                })
            }
            Self::Signal { procs, signal } => {
                What::Signal(v1::Signal { procs: procs_form(procs), signal: *signal })
            }
            Self::Terminate(procs) => What::Terminate(v1::Procs { procs: procs_form(procs) }),
            Self::PushStdin { procs, data, is_end } => What::PushStdin(v1::PushStdin {
                procs: procs_form(procs),
                data: data.clone(),
                is_end: *is_end,
            }),
            Self::WhichEnded(procs) => What::WhichEnded(v1::Procs { procs: procs_form(procs) }),
            Self::Bind { nspace, policy, here, all } => {
                let [map_by, rank_by, bind_to] = policy.spelled();
                let (nspace, is_required) = (nspace.to_string(), policy.is_required);
                What::Bind(v1::Bind { nspace, map_by, rank_by, bind_to, is_required, here: *here, all: *all })
            }
            Self::Holdings => What::Holdings(v1::Holdings {}),
            Self::OfUser { uid, gid, order } => What::OfUser(Box::new(v1::OfUser {
                uid: uid.as_raw(),
                gid: gid.as_raw(),
                order: Some(Box::new(order.form())),
            })),
        };
        v1::Order { what: Some(what) }
    }

    /// The same for a job of this user; `None` for the job of the daemon's own.
    pub(crate) fn of(self, user: Option<&Account>) -> Self {
        match user {
            None => self,
            Some(user) => Self::OfUser { uid: user.uid(), gid: user.gid(), order: Box::new(self) },
        }
    }

    /// Whether it starts processes.
    pub(crate) fn is_launch(&self) -> bool {
        match self {
            Self::OfUser { order, .. } => order.is_launch(),
            order => matches!(order, Self::Launch { .. }),
        }
    }

    /// Whether it differs for the job of another user.
    const fn has_user(&self) -> bool {
        matches!(self, Self::RegisterJob { .. } | Self::WorkDir(_) | Self::Launch { .. })
    }

    pub(super) fn read(form: v1::Order) -> Option<Self> {
        use v1::order::What;
        let nspace = |name: String| Nspace::new(name).ok();
        Some(match form.what? {
            What::RegisterJob(job) => Self::RegisterJob {
                number: job.number,
                nspace: nspace(job.nspace)?,
                infos: infos_in(job.infos)?,
                ranks: job.ranks.into_iter().map(Rank::from_raw).collect(),
                in_session: job.in_session,
            },
            What::Knows(name) => Self::Knows(nspace(name)?),
            What::SetUp(set_up) => {
                Self::SetUp { nspace: nspace(set_up.nspace)?, infos: infos_in(set_up.infos)? }
            }
            What::WorkDir(number) => Self::WorkDir(number),
            What::ProcEnded(ended) => {
                Self::ProcEnded { proc: ended.proc?.try_into().ok()?, reason: ended.reason }
            }
            What::EndJob(name) => Self::EndJob(nspace(name)?),
            What::KeepRecord(keep) => Self::KeepRecord { nspace: nspace(keep.nspace)?, why: keep.why },
            What::Notify(event) => Self::Notify(event.try_into().ok()?),
            What::Deliver(deliver) => Self::Deliver {
                source: deliver.source?.try_into().ok()?,
                channels: IofChannels::from_bits_retain(deliver.channels.try_into().ok()?),
                data: deliver.data,
                info: infos_in(deliver.info)?.into(),
            },
            What::Launch(launch) => {
                let proc = |proc: v1::LaunchProc| {
                    Some(ProcToLaunch {
                        rank: Rank::from_raw(proc.rank),
                        app: usize::try_from(proc.app).ok()?,
                        cwd: proc.cwd,
                        takes_stdin: proc.takes_stdin,
                        bound: binding_in(proc.binding.unwrap_or_default())?,
                    })
                };
                let base_env = match launch.base_env {
                    Some(base_env) => {
                        Some(base_env.variables.iter().map(variable_in).collect::<Option<_>>()?)
                    }
                    None => None,
                };
                Self::Launch {
                    nspace: nspace(launch.nspace)?,
                    apps: launch.apps.into_iter().map(|app| app.try_into().ok()).collect::<Option<_>>()?,
                    procs: launch.procs.into_iter().map(proc).collect::<Option<_>>()?,
                    base_env,
                }
            }
            What::Signal(signal) => Self::Signal { procs: procs_in(signal.procs)?, signal: signal.signal },
            What::Terminate(procs) => Self::Terminate(procs_in(procs.procs)?),
            What::PushStdin(push) => {
                Self::PushStdin { procs: procs_in(push.procs)?, data: push.data, is_end: push.is_end }
            }
            What::WhichEnded(procs) => Self::WhichEnded(procs_in(procs.procs)?),
            What::Bind(bind) => Self::Bind {
                policy: policy_in(&bind)?,
                nspace: nspace(bind.nspace)?,
                here: bind.here,
                all: bind.all,
            },
            What::Holdings(v1::Holdings {}) => Self::Holdings,
            What::OfUser(of_user) => {
                let order = Self::read(*of_user.order?).filter(Self::has_user)?;
                let (uid, gid) = (of_user.uid.into(), of_user.gid.into());
                Self::OfUser { uid, gid, order: Box::new(order) }
            }
        })
    }
}

impl News {
    /// The process on whose behalf it is told, if it is told for one.
    pub(super) const fn caller(&self) -> Option<&User> {
        match self {
            Self::PullEnded { caller, .. } | Self::EndOfHost(caller) => Some(caller),
            _ => None,
        }
    }

    pub(super) fn form(&self) -> v1::News {
        use v1::news::What;
        let what = match self {
            Self::Connected(proc) => What::Connected(proc.into()),
            Self::Finalized(proc) => What::Finalized(proc.into()),
            Self::Lost { proc, order } => What::Lost(v1::LostProc { proc: Some(proc.into()), order: *order }),
            Self::ToolLost(tool) => What::ToolLost(tool.into()),
            Self::EndOfHost(_) => What::EndOfHost(v1::EndOfHost {}),
            Self::Reports { nspace, reports } => What::Reports(v1::Reports {
                nspace: nspace.to_string(),
                reports: reports.iter().map(report_form).collect(),
            }),
            Self::PullEnded { pull, .. } => What::PullEnded((&Request::IofPull(pull.clone())).into()),
        };
        v1::News { what: Some(what) }
    }

    pub(super) fn read(form: v1::News, caller: impl FnOnce() -> Option<User>) -> Option<Self> {
        use v1::news::What;
        Some(match form.what? {
            What::Connected(proc) => Self::Connected(proc.try_into().ok()?),
            What::Finalized(proc) => Self::Finalized(proc.try_into().ok()?),
            What::Lost(lost) => Self::Lost { proc: lost.proc?.try_into().ok()?, order: lost.order },
            What::ToolLost(tool) => Self::ToolLost(tool.try_into().ok()?),
            What::EndOfHost(v1::EndOfHost {}) => Self::EndOfHost(caller()?),
            What::Reports(v1::Reports { nspace, reports }) => {
                let nspace = Nspace::new(nspace).ok()?;
                let read = |report| report_in(&nspace, report);
                let reports = reports.into_iter().map(read).collect::<Option<_>>()?;
                Self::Reports { nspace, reports }
            }
            What::PullEnded(body) => {
                let Some(Request::IofPull(pull)) = request_in(Some(body)) else { return None };
                Self::PullEnded { caller: caller()?, pull }
            }
        })
    }
}

fn report_form(report: &LaunchReport) -> v1::Report {
    use v1::report::What;
    let (proc, what) = match report {
        LaunchReport::Started { proc, pid, executable } => {
            (proc, What::Started(v1::StartedProc { pid: *pid, executable: executable.clone() }))
        }
        LaunchReport::Output { proc, channel: OutputChannel::Stdout, data } => {
            (proc, What::Stdout(data.clone()))
        }
        LaunchReport::Output { proc, channel: OutputChannel::Stderr, data } => {
            (proc, What::Stderr(data.clone()))
        }
        LaunchReport::Ended { proc, exit: ProcExit::Code(code) } => (proc, What::ExitCode(*code)),
        LaunchReport::Ended { proc, exit: ProcExit::Signal(signal) } => (proc, What::ExitSignal(*signal)),
    };
    v1::Report { rank: proc.rank.to_raw(), what: Some(what) }
}

fn report_in(nspace: &Nspace, report: v1::Report) -> Option<LaunchReport> {
    use v1::report::What;
    let proc = ProcId::new(nspace.clone(), Rank::from_raw(report.rank));
    let output = |proc, channel, data| LaunchReport::Output { proc, channel, data };
    Some(match report.what? {
        What::Started(v1::StartedProc { pid, executable }) => LaunchReport::Started { proc, pid, executable },
        What::Stdout(data) => output(proc, OutputChannel::Stdout, data),
        What::Stderr(data) => output(proc, OutputChannel::Stderr, data),
        What::ExitCode(code) => LaunchReport::Ended { proc, exit: ProcExit::Code(code) },
        What::ExitSignal(signal) => LaunchReport::Ended { proc, exit: ProcExit::Signal(signal) },
    })
}

impl Told {
    pub(super) fn form(&self) -> v1::Told {
        v1::Told {
            yes: self.yes,
            text: self.text.clone(),
            procs: procs_form(&self.procs),
            bindings: self.bound.iter().map(|bound| binding_form(bound.as_ref())).collect(),
            held: self.held.iter().map(HeldJob::form).collect(),
            pulls: self.pulls.iter().map(HeldPull::form).collect(),
        }
    }

    pub(super) fn read(form: v1::Told) -> Option<Self> {
        let bound = form.bindings.into_iter().map(binding_in).collect::<Option<_>>()?;
        let held = form.held.into_iter().map(HeldJob::read).collect::<Option<_>>()?;
        let pulls = form.pulls.into_iter().map(HeldPull::read).collect::<Option<_>>()?;
        Some(Self { yes: form.yes, text: form.text, procs: procs_in(form.procs)?, bound, held, pulls })
    }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
