//! What waits, in English.

use std::collections::{BTreeMap, BTreeSet};

use pmix_types::why::{ProcSet, Wait};
use pmix_types::{Nspace, ProcId, RankSet, escaped, short_duration};

use super::Why;
use super::cases::{Case, Kind, Waiting};
use super::process::{Link, Process, ProcessActivity};

/// Characters for a list of ranks.
const RANKS: usize = 40;
/// Characters for a text of others.
const TEXT: usize = 60;
/// So many kinds of processes are told apart.
const KINDS: usize = 3;

const HOST: &str = "the resource manager (host)";

/// All that a sentence is made from.
#[derive(Debug)]
pub(super) struct Scene<'a> {
    why: &'a Why,
    cases: &'a [Case],
    waiting: &'a Waiting,
}

/// What a process does, in the singular and in the plural, which is the same for all that do the same.
#[derive(Debug, Default)]
struct Plight {
    one: String,
    many: String,
    doing: Option<ProcessActivity>,
}

impl<'a> Scene<'a> {
    pub(super) const fn new(why: &'a Why, cases: &'a [Case], waiting: &'a Waiting) -> Self {
        Self { why, cases, waiting }
    }

    /// Why one of the cases waits.
    pub(super) fn sentence(&self, at: usize) -> String {
        let case = &self.cases[at];
        let wait = &case.wait;
        let jobs: Vec<&Nspace> = match case.kind() {
            Kind::HeldGet => wait.missing.iter().map(|(nspace, _)| nspace).collect(),
            _ => wait.expected.iter().map(|(nspace, _)| nspace).collect(),
        };
        let home = if let [home] = jobs[..] { Some(home) } else { None };
        let names: Vec<String> = jobs.iter().map(ToString::to_string).collect();
        let mut text = if names.is_empty() { String::new() } else { format!("{}: ", listed(&names)) };
        if case.kind() == Kind::Unanswered {
            text += &format!("node {} has not reported its waits", middle(&wait.node, TEXT));
        } else {
            text += &self.what(case, home);
        }
        text += &self.for_whom(at, home);
        if !wait.excused.is_empty() {
            text += &format!("; it continues without {}, which will not enter", named(&wait.excused, home));
        }
        if let Some((status, message)) = &wait.error {
            let failed = if case.kind() == Kind::Unanswered { "" } else { "; it has failed" };
            text += &format!("{failed}: {status}");
            if !message.is_empty() {
                text += &format!(", {}", middle(message, 2 * TEXT));
            }
        }
        if let Some(left) = wait.left {
            text += &format!("; it times out in {}", short_duration(left));
        }
        format!("{}.", escaped(&text))
    }

    /// What the processes of a job do in which nothing waits.
    pub(super) fn idle(&self, job: &Nspace) -> String {
        let procs: ProcSet = self.why.procs_of(job).map(|process| &process.proc).collect();
        let known = if self.why.waits.iter().any(Wait::is_unanswered) {
            "no process is known to be waiting"
        } else {
            "no process is waiting"
        };
        let mut text =
            format!("{job}: {known} inside PMIx (MPI collectives such as MPI_Barrier do not show up here)");
        if !procs.is_empty() {
            text += ". ";
            let counted = match procs.len() {
                1 => "Its process".to_owned(),
                count => format!("Of its {count} processes"),
            };
            text += &match (procs.len(), self.kinds_of(&procs, usize::MAX)) {
                (1, kinds) if kinds.is_empty() => format!("{counted} has no known activity"),
                (1, _) => {
                    let proc = procs.procs().next().map(|proc| self.plight(&proc, usize::MAX).one);
                    format!("{counted} {}", proc.unwrap_or_default())
                }
                (_, kinds) if kinds.is_empty() => format!("{counted} none has a known activity"),
                (_, kinds) => format!("{counted} {}", listed(&kinds)),
            };
        }
        format!("{}. `pmix stack {}` shows where.", escaped(&text), escaped(job))
    }

    /// `a fence of 64 processes has waited 41 s`.
    fn what(&self, case: &Case, home: Option<&Nspace>) -> String {
        let wait = &case.wait;
        let time = short_duration(wait.waited);
        let about = wait.about.as_deref().map(|about| middle(about, TEXT));
        let quoted = about.as_deref().map(|about| format!("\"{about}\"")).unwrap_or_default();
        let who = named(&wait.arrived, home);
        let have = if wait.arrived.len() == 1 { "has waited" } else { "have waited up to" };
        let operation = middle(&wait.operation, TEXT);
        match case.kind() {
            Kind::Collective => {
                let of = if about.is_some() { format!(" {quoted}") } else { String::new() };
                let count = wait.expected.len();
                format!("a {operation}{of} of {count} {} has waited {time}", processes(count))
            }
            Kind::Invite => format!("the invitation to group {quoted} has waited {time}"),
            Kind::Join => format!("{who} {have} {time} to join group {quoted}, led by"),
            Kind::Get if about.is_none() => format!("{who} {have} {time} for the data of"),
            Kind::Get => format!("{who} {have} {time} for key {quoted} of"),
            Kind::HeldGet => format!("a process on another node has waited {time} for key {quoted} of"),
            Kind::Lookup => match about.filter(|about| !about.is_empty()) {
                Some(keys) if keys.contains(", ") => {
                    format!("{who} {have} {time} for keys {keys}, which are not all published")
                }
                Some(key) => format!("{who} {have} {time} for key {key}, which nobody has published"),
                None => format!("{who} {have} {time} for data that nobody has published"),
            },
            Kind::Release => {
                let job = wait.arrived.iter().next().map(|(job, _)| job.to_string()).unwrap_or_default();
                format!("{who} {have} {time} for a debugger; `pmix release {job}` lets the job go on")
            }
            Kind::Request | Kind::Unanswered => {
                let noun = match operation.as_str() {
                    "client connected" => "init".to_owned(),
                    "client finalized" => "finalize".to_owned(),
                    "tool connected" => "attachment of a tool".to_owned(),
                    _ => operation,
                };
                let of = if about.is_some() { format!(" {quoted}") } else { String::new() };
                let has = if case.requests == 1 { "has waited" } else { "has waited up to" };
                format!("the {noun}{of} of {who} {has} {time}")
            }
        }
    }

    /// ` for rank 13 on n2, pid 4711, which is stopped`.
    fn for_whom(&self, at: usize, home: Option<&Nspace>) -> String {
        let case = &self.cases[at];
        let wait = &case.wait;
        let awaited = || self.awaited(&wait.missing, home, at);
        match case.kind() {
            Kind::Lookup | Kind::Release | Kind::Unanswered => String::new(),
            Kind::Get | Kind::HeldGet if wait.missing.is_empty() => " a whole job".to_owned(),
            Kind::Join if wait.missing.is_empty() => " nobody known here".to_owned(),
            Kind::Get | Kind::HeldGet | Kind::Join => format!(" {}", awaited()),
            Kind::Invite if !wait.missing.is_empty() => format!(" for an answer of {}", awaited()),
            _ if !wait.missing.is_empty() => format!(" for {}", awaited()),
            _ if !wait.fetching.is_empty() => {
                format!(" for the data of {}, which a server fetches", named(&wait.fetching, home))
            }
            _ if wait.arrived.len() + wait.excused.len() < wait.expected.len() => {
                " for other nodes".to_owned()
            }
            _ if wait.at_host => format!(" for {HOST}"),
            _ => " and is about to end".to_owned(),
        }
    }

    /// Who is awaited, where that is, and what it does instead.
    fn awaited(&self, missing: &ProcSet, home: Option<&Nspace>, at: usize) -> String {
        let mut text = named(missing, home);
        let mut procs = missing.procs();
        if let (Some(proc), None) = (procs.next(), procs.next()) {
            let process = self.why.procs.get(&proc);
            if let Some(node) = process.and_then(|process| process.node.as_ref()) {
                text += &format!(" on {}", middle(node, TEXT));
            }
            if let Some(pid) = process.and_then(|process| process.pid) {
                text += &format!(", pid {pid}");
            }
            let plight = self.plight(&proc, at);
            if !plight.one.is_empty() {
                text += &format!(", which {}", plight.one);
            }
            return text;
        }
        text += &format!(" ({} processes)", missing.len());
        text += &self.nodes_of(missing);
        let kinds = self.kinds_of(missing, at);
        match &kinds[..] {
            [] => {}
            [all] => text += &format!(", {}", all.replacen(&missing.len().to_string(), "all of which", 1)),
            _ => text += &format!(", of which {}", listed(&kinds)),
        }
        text
    }

    /// ` on n2 and n3`; nothing if no node is known.
    fn nodes_of(&self, procs: &ProcSet) -> String {
        let nodes: BTreeSet<String> = procs
            .procs()
            .filter_map(|proc| self.why.procs.get(&proc)?.node.as_ref())
            .map(|node| middle(node, TEXT))
            .collect();
        if nodes.is_empty() { String::new() } else { format!(" on {}", listed(&Vec::from_iter(nodes))) }
    }

    /// `rank 13 (pid 4711) is stopped`, `6 sleep in futex`: the most telling first, then those that few do.
    fn kinds_of(&self, procs: &ProcSet, at: usize) -> Vec<String> {
        let mut kinds: BTreeMap<String, (Option<ProcessActivity>, Vec<ProcId>)> = BTreeMap::new();
        for proc in procs.procs() {
            let plight = self.plight(&proc, at);
            let kind = kinds.entry(plight.many).or_insert((plight.doing, Vec::new()));
            kind.1.push(proc);
        }
        let unknown = kinds.remove("").map_or(0, |(_, procs)| procs.len());
        let mut kinds: Vec<_> = kinds.into_iter().collect();
        kinds.sort_by_key(|(_, (doing, procs))| {
            (
                doing.filter(|doing| *doing <= ProcessActivity::Blocked).unwrap_or(ProcessActivity::Unknown),
                procs.len(),
            )
        });
        let shown = if unknown == 0 && kinds.len() == KINDS + 1 { KINDS + 1 } else { KINDS };
        let rest: usize = kinds.iter().skip(shown).map(|(_, (_, procs))| procs.len()).sum();
        let kinds = kinds.into_iter().take(shown);
        let mut told: Vec<String> = kinds
            .map(|(many, (_, procs))| match &procs[..] {
                [proc] => self.one_of_many(proc, at),
                _ => format!("{} {many}", procs.len()),
            })
            .collect();
        match rest + unknown {
            others if told.is_empty() || others == 0 => {}
            1 => told.push("1 does something else".into()),
            others => told.push(format!("{others} do something else")),
        }
        told
    }

    /// `rank 13 (pid 4711) is stopped`.
    fn one_of_many(&self, proc: &ProcId, at: usize) -> String {
        let pid = self.why.procs.get(proc).and_then(|process| process.pid);
        let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        format!("rank {}{pid} {}", proc.rank, self.plight(proc, at).one)
    }

    /// What a process does while a case waits for it.
    fn plight(&self, proc: &ProcId, at: usize) -> Plight {
        let process = self.why.procs.get(proc);
        let doing = process.map(does).unwrap_or_default();
        let is_telling = doing.doing.is_some_and(|doing| doing <= ProcessActivity::Blocked);
        let cause = self.waiting.cases_of(proc, at).next().map(|at| &self.cases[at]);
        match (process.map_or(Link::Unknown, |process| process.link), cause) {
            _ if doing.doing == Some(ProcessActivity::Ended) => doing,
            (_, Some(cause)) if !is_telling => {
                let what = self.short(cause);
                Plight {
                    one: format!("itself waits {what}"),
                    many: format!("wait themselves {what}"),
                    ..doing
                }
            }
            (Link::NotYet, _) => doing.after("has not called PMIx_Init yet", "have not called PMIx_Init yet"),
            (Link::Left, _) => doing.after("has finalized", "have finalized"),
            _ => doing,
        }
    }

    /// `for key "x" of rank 3`, `in a fence of 8 processes`.
    fn short(&self, case: &Case) -> String {
        let wait = &case.wait;
        let about = wait.about.as_deref().map(|about| middle(about, TEXT)).unwrap_or_default();
        let operation = middle(&wait.operation, TEXT);
        match case.kind() {
            Kind::Get | Kind::HeldGet if about.is_empty() => format!("for the data of {}", owner(wait)),
            Kind::Get | Kind::HeldGet => format!("for key \"{about}\" of {}", owner(wait)),
            Kind::Lookup if about.is_empty() => "in a lookup".to_owned(),
            Kind::Lookup => format!("in a lookup of {about}"),
            Kind::Join => format!("to join group \"{about}\""),
            Kind::Invite => format!("for answers to its invitation to group \"{about}\""),
            Kind::Collective => {
                format!("in a {operation} of {} {}", wait.expected.len(), processes(wait.expected.len()))
            }
            Kind::Release => "for a debugger".to_owned(),
            Kind::Request | Kind::Unanswered => format!("in its {operation}"),
        }
    }
}

/// Whose data a get wants.
fn owner(wait: &Wait) -> String {
    let home = wait.expected.iter().next().map(|(nspace, _)| nspace);
    if wait.missing.is_empty() { "a whole job".to_owned() } else { named(&wait.missing, home) }
}

/// The activity of a process, as reported by the kernel.
fn does(process: &Process) -> Plight {
    let doing = process.doing();
    let look = process.look.as_ref();
    let text = |text: &Option<String>| text.as_deref().map(|text| middle(text, TEXT));
    let syscall = look.and_then(|look| text(&look.syscall));
    let channel = look.and_then(|look| text(&look.wait_channel));
    let both = |one: &str, many: &str, rest: &str| (format!("{one}{rest}"), format!("{many}{rest}"));
    let (one, many) = match doing {
        ProcessActivity::Ended => {
            let code = process.exit_code.map(|code| format!(" (exit code {code})")).unwrap_or_default();
            both("has ended", "have ended", &code)
        }
        ProcessActivity::Stopped => both("is", "are", " stopped (SIGSTOP or a terminal stop)"),
        ProcessActivity::Traced => {
            let tracer =
                look.and_then(|look| look.tracer).map(|pid| format!(", pid {pid}")).unwrap_or_default();
            (format!("is held by a debugger{tracer}"), "are held by a debugger".to_owned())
        }
        ProcessActivity::Blocked => {
            let at = channel.or(syscall).map(|at| format!(" ({at})")).unwrap_or_default();
            both("waits", "wait", &format!(" for a file system or a device{at}"))
        }
        ProcessActivity::Runs => {
            let share = process.cpu.map(|cpu| format!(" ({} of a processor)", cpu.percent()));
            (format!("computes or spins{}", share.unwrap_or_default()), "compute or spin".to_owned())
        }
        ProcessActivity::Sleeps => {
            let at = syscall.or(channel).map(|at| format!(" in {at}")).unwrap_or_default();
            both("sleeps", "sleep", &at)
        }
        ProcessActivity::Unknown => return Plight::default(),
    };
    Plight { one, many, doing: Some(doing) }
}

impl Plight {
    /// With something that says more than what it does.
    fn after(self, one: &str, many: &str) -> Self {
        let both = |first: &str, second: &str| {
            if second.is_empty() { first.to_owned() } else { format!("{first} and {second}") }
        };
        match self.doing {
            Some(doing) if doing <= ProcessActivity::Blocked => {
                Self { one: both(&self.one, one), many: both(&self.many, many), ..self }
            }
            _ => Self { one: both(one, &self.one), many: both(many, &self.many), ..self },
        }
    }
}

/// `rank 13`, `ranks 13,15-20`; with their jobs unless all are of this one.
fn named(procs: &ProcSet, home: Option<&Nspace>) -> String {
    let parts: Vec<String> = procs
        .iter()
        .map(|(nspace, ranks)| match home == Some(nspace) {
            true => spelled(ranks),
            false => format!("{} of {nspace}", spelled(ranks)),
        })
        .collect();
    if parts.is_empty() { "a process".to_owned() } else { listed(&parts) }
}

fn spelled(ranks: &RankSet) -> String {
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", ranks.to_short_string(RANKS))
}

const fn processes(count: u64) -> &'static str {
    if count == 1 { "process" } else { "processes" }
}

/// `a`, `a and b`, `a, b and c`, `a, b, c and 5 more`.
fn listed(words: &[String]) -> String {
    const SHOWN: usize = KINDS + 1;
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] if words.len() <= SHOWN => format!("{} and {last}", all.join(", ")),
        _ => format!("{} and {} more", words[..SHOWN - 1].join(", "), words.len() - SHOWN + 1),
    }
}

/// The beginning and the end of a text that is too long.
fn middle(text: &str, room: usize) -> String {
    let text = escaped(text).to_string();
    let length = text.chars().count();
    if length <= room {
        return text;
    }
    let side = room.saturating_sub(3) / 2;
    let end: String = text.chars().skip(length - side).collect();
    text.chars().take(side).chain("...".chars()).chain(end.chars()).collect()
}
