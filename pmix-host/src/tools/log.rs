//! Data that processes log: to the output of their job, to the syslog of this node or of the first one, and by mail from
//! the first one.

#[cfg(any(feature = "mail", feature = "syslog"))]
use std::path::Path;
use std::sync::{Arc, OnceLock};

use pmix_server::host::{HostError, HostResult, UpcallContext};
use pmix_types::message::{Failure, Log, Reply, Request};
use pmix_types::{Directives, Info, Key, ProcId, Status, Time, Value, escaped, keys};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::mail::{Mail, Mailer, text_of};
use super::syslog::{Priority, Syslog};
use crate::attributes::LOG_STYLE;
use crate::internode::{News, PeerReply, PeerRequest, Site};
use crate::jobs::JobTable;
use crate::user::{User, take_identity};
use crate::{LaunchReport, OutputChannel};

/// Writes what processes log.
pub(crate) struct Logger {
    jobs: Arc<JobTable>,
    site: Arc<Site>,
    syslog: OnceLock<Syslog>,
    mailer: Mailer,
}

/// Where a message can go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Output(OutputChannel),
    /// The global one, or this node's if that does not work.
    Syslog,
    LocalSyslog,
    GlobalSyslog,
}

const STDOUT: Channel = Channel::Output(OutputChannel::Stdout);
const STDERR: Channel = Channel::Output(OutputChannel::Stderr);

/// What a message for no channel of its own is written to (LOG-02).
const ALL: [Channel; 3] = [STDOUT, STDERR, Channel::Syslog];

impl Channel {
    const KEYED: [(&'static Key<String>, Self); 5] = [
        (&keys::LOG_STDOUT, STDOUT),
        (&keys::LOG_STDERR, STDERR),
        (&keys::LOG_SYSLOG, Self::Syslog),
        (&keys::LOG_LOCAL_SYSLOG, Self::LocalSyslog),
        (&keys::LOG_GLOBAL_SYSLOG, Self::GlobalSyslog),
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Output(OutputChannel::Stdout) => "stdout",
            Self::Output(OutputChannel::Stderr) => "stderr",
            Self::Syslog | Self::LocalSyslog | Self::GlobalSyslog => "syslog",
        }
    }
}

/// Whether a key directs how to log, wherever it stands. Two of them are refused if required, and ignored otherwise; MPI
/// libraries give `LOG_AGG` beside their messages.
fn is_style(key: &str) -> bool {
    LOG_STYLE.contains(&key) || IGNORED.contains(&key)
}

const IGNORED: [&str; 2] = [keys::LOG_XML_OUTPUT.name(), keys::LOG_AGG.name()];

/// How messages are to be written.
#[derive(Clone, Debug)]
struct Style {
    once: bool,
    priority: Priority,
    tag: bool,
    /// The time of the messages: that given, or else, if it is to be generated, that of their arrival.
    stamp: Option<Time>,
    /// Whether the time is put into the text.
    time_in_text: bool,
    source: Option<ProcId>,
}

impl Style {
    fn new(mut directives: Directives) -> HostResult<Self> {
        let given = directives.take(&keys::LOG_TIMESTAMP)?;
        let generated = directives.take_flag(&keys::LOG_GENERATE_TIMESTAMP)?.then(now);
        let style = Self {
            once: directives.take_flag(&keys::LOG_ONCE)?,
            priority: directives.take(&keys::LOG_SYSLOG_PRI)?.map_or(Ok(Priority::ERROR), Priority::new)?,
            tag: directives.take_flag(&keys::LOG_TAG_OUTPUT)?,
            stamp: given.or(generated),
            time_in_text: directives.take_flag(&keys::LOG_TIMESTAMP_OUTPUT)?,
            source: directives.take(&keys::LOG_SOURCE)?,
        };
        take_identity(&mut directives)?;
        directives.deny_unprocessed()?;
        for key in IGNORED {
            if directives.get_value(key).is_some() {
                tracing::info!(key, "log directive ignored");
            }
        }
        Ok(style)
    }

    /// A message as it is written to a channel.
    fn text(&self, channel: &str, caller: &ProcId, message: &str) -> String {
        let mut text = String::new();
        let time = self.time_in_text.then(|| self.stamp.unwrap_or_else(now));
        if let Some(time) = time.and_then(|time| OffsetDateTime::from_unix_timestamp(time.0).ok())
            && let Ok(time) = time.format(&Rfc3339)
        {
            text.push_str(&time);
            text.push(' ');
        }
        if self.tag {
            let source = self.source.as_ref().unwrap_or(caller);
            text.push_str(&format!("[{},{}]<{channel}>: ", source.nspace, source.rank));
        }
        text.push_str(message);
        text
    }
}

impl Logger {
    pub(crate) fn new(jobs: Arc<JobTable>, site: Arc<Site>) -> Self {
        Self { jobs, site, syslog: OnceLock::new(), mailer: Mailer::default() }
    }

    #[cfg(feature = "mail")]
    /// The program that sends mails, unless one was given before.
    pub(crate) fn set_mail_program(&self, program: &Path) {
        self.mailer.set_program(program);
    }

    /// The socket of this node's syslog, unless one was given before.
    #[cfg(feature = "syslog")]
    pub(crate) fn set_syslog(&self, socket: &Path) {
        let _ = self.syslog.set(Syslog::at(socket));
    }

    /// Writes each entry to its channel, in order. Never logs through the library itself (HST-08).
    pub(crate) async fn write(&self, cx: &UpcallContext, req: Log) -> HostResult<()> {
        let (how, data): (Vec<_>, Vec<_>) =
            req.data.into_iter().partition(|info| is_style(info.key.as_str()));
        let mut directives = req.directives;
        directives.extend(how);
        let style = Style::new(directives)?;
        let mut tally = Tally::default();
        for info in &data {
            if info.is(&keys::LOG_EMAIL) {
                let sent = self.send_mail(cx, info, &style).await;
                if style.once && sent.is_ok() {
                    return Ok(());
                }
                tally.count(info, sent);
                continue;
            }
            let messages = messages(info);
            if messages.is_empty() {
                tally.count(info, Err(HostError::not_supported(&format!("logging {}", info.key))));
            }
            for (channel, message) in messages {
                let written = self.write_to(cx, channel, &message, &style).await;
                if style.once && written.is_ok() {
                    return Ok(());
                }
                tally.count(info, written);
            }
        }
        tally.outcome()
    }

    async fn write_to(
        &self,
        cx: &UpcallContext,
        channel: Channel,
        message: &str,
        style: &Style,
    ) -> HostResult<()> {
        let caller = User::of(cx);
        let text = style.text(channel.name(), &caller.proc, message);
        match channel {
            Channel::Output(channel) => self.write_output(cx, &caller.proc, channel, text).await,
            Channel::LocalSyslog => self.write_syslog(&caller, text, style.priority).await,
            Channel::GlobalSyslog => self.write_global(cx, caller, text, style.priority).await,
            Channel::Syslog => {
                match self.write_global(cx, caller.clone(), text.clone(), style.priority).await {
                    Err(_) if !self.is_gateway() => self.write_syslog(&caller, text, style.priority).await,
                    written => written,
                }
            }
        }
    }

    /// It becomes output of the caller.
    async fn write_output(
        &self,
        cx: &UpcallContext,
        caller: &ProcId,
        channel: OutputChannel,
        mut text: String,
    ) -> HostResult<()> {
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let output = LaunchReport::Output { proc: caller.clone(), channel, data: text.into() };
        let from_procs = self.jobs.entries().get(&caller.nspace).map(|job| job.from_procs.clone());
        if let Some(from_procs) = from_procs {
            let ended = || {
                let message =
                    format!("all processes of {} have ended, so their output goes nowhere", caller.nspace);
                HostError::new(Status::ERR_NOT_FOUND, message)
            };
            let supervisor = from_procs.upgrade().ok_or_else(ended)?;
            return supervisor.send(output).await.map_err(|_| ended());
        }
        let unknown =
            || HostError::not_supported("logging to the output of a process that this host has not started");
        let head = self.site.head().ok_or_else(unknown)?;
        let news = News::Reports { nspace: caller.nspace.clone(), reports: vec![output] };
        match self.site.ask(cx, head, &PeerRequest::News(news)).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.status == Status::ERR_NOT_FOUND => Err(unknown()),
            Err(failure) => Err(failure.into()),
        }
    }

    async fn write_syslog(&self, caller: &User, text: String, priority: Priority) -> HostResult<()> {
        // who says it is reported by the kernel, whatever the text claims, and it is one entry
        let line = format!("{} (uid {}): {}", caller.proc, caller.uid, escaped(text.trim_end()));
        self.syslog.get_or_init(Syslog::default).write(line, priority).await
    }

    /// The syslog of the first node is that of the system.
    async fn write_global(
        &self,
        cx: &UpcallContext,
        caller: User,
        text: String,
        priority: Priority,
    ) -> HostResult<()> {
        if self.is_gateway() {
            return self.write_syslog(&caller, text, priority).await;
        }
        let mut log = Log::new(vec![Info::new(&keys::LOG_LOCAL_SYSLOG, text)]);
        log.directives.push(Info::new(&keys::LOG_SYSLOG_PRI, priority.number()));
        self.ask_gateway(cx, caller, log).await
    }

    /// Mails are sent by the first node.
    async fn send_mail(&self, cx: &UpcallContext, info: &Info, style: &Style) -> HostResult<()> {
        let caller = User::of(cx);
        let mail = mail_in(info)?.with_text(|text| style.text("email", &caller.proc, text));
        if self.is_gateway() {
            return self.mailer.send(&caller, &mail, style.stamp).await;
        }
        let mut log = Log::new(vec![mail.into_info()]);
        log.directives.extend(style.stamp.map(|time| Info::new(&keys::LOG_TIMESTAMP, time)));
        self.ask_gateway(cx, caller, log).await
    }

    /// Has the first node log something for a process.
    async fn ask_gateway(&self, cx: &UpcallContext, caller: User, log: Log) -> HostResult<()> {
        let nodes = self.site.nodes();
        let Some(gateway) = nodes.first() else { return Err(Status::ERR_UNREACH.into()) };
        let request = PeerRequest::Request { caller, request: Request::Log(log) };
        match self.site.ask(cx, gateway, &request).await {
            Ok(PeerReply::Reply(Reply::Done)) => Ok(()),
            Ok(_) => Err(HostError::new(Status::ERR_UNPACK_FAILURE, "the gateway sent an unexpected answer")),
            Err(failure) => Err(HostError::new(failure.status, format!("{gateway}: {}", failure.message))),
        }
    }

    /// Whether this node's syslog is the global one.
    fn is_gateway(&self) -> bool {
        self.site.nodes().first().is_none_or(|first| first == self.site.node())
    }

    /// Writes to this node's syslog, or sends a mail, for a process of another node.
    pub(crate) async fn write_for(&self, caller: &User, log: Log) -> Result<Reply, Failure> {
        let style = Style::new(log.directives).map_err(Failure::from)?;
        for info in &log.data {
            if info.is(&keys::LOG_EMAIL) {
                let mail = mail_in(info).map_err(Failure::from)?;
                self.mailer.send(caller, &mail, style.stamp).await.map_err(Failure::from)?;
                continue;
            }
            let text = info.get::<String>().map_err(|_| Failure::from(Status::ERR_BAD_PARAM))?;
            if !info.is(&keys::LOG_LOCAL_SYSLOG) {
                return Err(Status::ERR_NOT_SUPPORTED.into());
            }
            self.write_syslog(caller, text, style.priority).await.map_err(Failure::from)?;
        }
        Ok(Reply::Done)
    }
}

/// What is to be written of an entry, and where; nothing if the channel or the type of the message is not known.
fn messages(info: &Info) -> Vec<(Channel, String)> {
    let message = match &info.value {
        Value::String(text) => text.clone(),
        Value::NullString => String::new(),
        Value::ByteObject(bytes) => match text_of(bytes) {
            Some(text) => text,
            None => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    if info.is(&keys::LOG_MSG) || info.is(&keys::LOG_BLOB) {
        return ALL.map(|channel| (channel, message.clone())).into();
    }
    let channel = Channel::KEYED.iter().find(|(key, _)| info.is(key));
    channel.map(|(_, channel)| (*channel, message)).into_iter().collect()
}

fn mail_in(info: &Info) -> HostResult<Mail> {
    match info.value.as_infos() {
        Some(infos) => Mail::read(infos),
        None => Err(HostError::new(Status::ERR_BAD_PARAM, "a mail is described by an array of infos")),
    }
}

/// How the channels have fared (LOG-05).
#[derive(Debug, Default)]
struct Tally {
    written: u32,
    failed: Option<HostError>,
    failed_required: Option<HostError>,
}

impl Tally {
    fn count(&mut self, info: &Info, written: HostResult<()>) {
        match written {
            Ok(()) => self.written += 1,
            Err(error) if info.is_required() => drop(self.failed_required.get_or_insert(error)),
            Err(error) => drop(self.failed.get_or_insert(error)),
        }
    }

    fn outcome(self) -> HostResult<()> {
        match (self.failed_required, self.failed, self.written) {
            (Some(error), ..) | (None, Some(error), 0) => Err(error),
            (None, Some(error), _) => {
                let message = format!("some channels have failed: {error}");
                Err(HostError::new(Status::ERR_PARTIAL_SUCCESS, message))
            }
            (None, None, 0) => Err(HostError::new(Status::ERR_BAD_PARAM, "there is nothing to log")),
            (None, None, _) => Ok(()),
        }
    }
}

fn now() -> Time {
    Time(OffsetDateTime::now_utc().unix_timestamp())
}
