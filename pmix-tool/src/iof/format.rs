use std::path::PathBuf;
use std::time::SystemTime;

use humantime::format_rfc3339_micros;
use pmix_types::{DirectiveError, Directives, ProcId, keys};

/// Format of output (IOF-11). By default, whole lines are written unchanged.
///
/// Prefixes of a line come in this order: the time, then process and channel, as in
/// `2026-01-31T10:00:00.000000Z [job,3]<stdout>: `.
///
/// # Standard
/// The `PMIX_IOF_*` directives for formatting, which the tool's library carries out itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct OutputFormat {
    tag: bool,
    rank: bool,
    timestamp: bool,
    pub(super) xml: bool,
    pub(super) raw: bool,
    pub(super) merge: bool,
    file: Option<PathBuf>,
    pattern: bool,
    directory: Option<PathBuf>,
    pub(super) file_only: bool,
}

macro_rules! switches {
    ($($(#[$doc:meta])* $name:ident = $alias:literal;)+) => {
        impl OutputFormat {
            $(
                $(#[$doc])*
                #[doc(alias = $alias)]
                pub const fn $name(mut self, on: bool) -> Self {
                    self.$name = on;
                    self
                }
            )+
        }
    };
}

switches! {
    /// Prefixes each line with namespace, rank and channel.
    tag = "PMIX_IOF_TAG_OUTPUT";
    /// Prefixes each line with rank and channel.
    rank = "PMIX_IOF_RANK_OUTPUT";
    /// Prefixes each line with the time of writing, in UTC.
    timestamp = "PMIX_IOF_TIMESTAMP_OUTPUT";
    /// Writes each line as an XML element named after its channel, with namespace, rank and time as attributes.
    xml = "PMIX_IOF_XML_OUTPUT";
    /// Writes output as it arrives, without assembling lines. Prefixes have no effect then.
    raw = "PMIX_IOF_OUTPUT_RAW";
    /// Writes standard error to the same place as standard output.
    merge = "PMIX_IOF_MERGE_STDERR_STDOUT";
    /// Treats the name given to [`file`](Self::file) as a pattern: `%n` is replaced by the namespace, `%r` by the rank,
    /// `%%` by a percent sign.
    pattern = "PMIX_IOF_FILE_PATTERN";
    /// Writes output to the files only.
    file_only = "PMIX_IOF_FILE_ONLY";
}

impl OutputFormat {
    /// Also writes output to `<name>.<namespace>.<rank>.out` and `.err`.
    #[doc(alias = "PMIX_IOF_OUTPUT_TO_FILE")]
    pub fn file(mut self, name: impl Into<PathBuf>) -> Self {
        self.file = Some(name.into());
        self
    }

    /// Also writes output to `<directory>/<namespace>/rank.<rank>/stdout` and `stderr`.
    #[doc(alias = "PMIX_IOF_OUTPUT_TO_DIRECTORY")]
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// The format that directives ask for.
    ///
    /// # Errors
    /// [`DirectiveError`] if a directive has the wrong type.
    ///
    /// # Examples
    /// ```
    /// use pmix_tool::OutputFormat;
    /// use pmix_tool::types::{Directives, keys};
    ///
    /// let directives = Directives::new().with(keys::IOF_TAG_OUTPUT, true);
    /// assert_eq!(OutputFormat::from_directives(&directives)?, OutputFormat::default().tag(true));
    /// # Ok::<(), pmix_tool::types::DirectiveError>(())
    /// ```
    pub fn from_directives(directives: &Directives) -> Result<Self, DirectiveError> {
        Ok(Self {
            tag: directives.flag(&keys::IOF_TAG_OUTPUT)?,
            rank: directives.flag(&keys::IOF_RANK_OUTPUT)?,
            timestamp: directives.flag(&keys::IOF_TIMESTAMP_OUTPUT)?,
            xml: directives.flag(&keys::IOF_XML_OUTPUT)?,
            raw: directives.flag(&keys::IOF_OUTPUT_RAW)?,
            merge: directives.flag(&keys::IOF_MERGE_STDERR_STDOUT)?,
            file: directives.get(&keys::IOF_OUTPUT_TO_FILE)?.map(|name: String| name.into()),
            pattern: directives.flag(&keys::IOF_FILE_PATTERN)?,
            directory: directives.get(&keys::IOF_OUTPUT_TO_DIRECTORY)?.map(|name: String| name.into()),
            file_only: directives.flag(&keys::IOF_FILE_ONLY)?,
        })
    }

    /// Prefix and suffix of a line.
    pub(super) fn frame(&self, source: &ProcId, channel: &str) -> (String, &'static str) {
        let ProcId { nspace, rank } = source;
        let time = self.timestamp.then(|| format_rfc3339_micros(SystemTime::now()));
        if self.xml {
            let nspace = escape(nspace.as_str());
            let time = time.map(|time| format!(" timestamp=\"{time}\"")).unwrap_or_default();
            let end = if channel == "stderr" { "</stderr>\n" } else { "</stdout>\n" };
            return (format!("<{channel} nspace=\"{nspace}\" rank=\"{rank}\"{time}>"), end);
        }
        let who = match (self.tag, self.rank) {
            (true, _) => format!("[{nspace},{rank}]<{channel}>: "),
            (false, true) => format!("[{rank}]<{channel}>: "),
            (false, false) => String::new(),
        };
        (time.map(|time| format!("{time} ")).unwrap_or_default() + &who, "")
    }

    pub(super) const fn changes_lines(&self) -> bool {
        self.tag || self.rank || self.timestamp || self.xml
    }

    /// The files for the output of a channel.
    pub(super) fn files(&self, source: &ProcId, channel: &str) -> Vec<PathBuf> {
        let (nspace, rank) = (file_name(source), source.rank);
        let suffix = if channel == "stderr" { "err" } else { "out" };
        let named = self.file.as_deref().map(|name| {
            let name = name.as_os_str().to_string_lossy();
            PathBuf::from(match self.pattern {
                true => format!("{}.{suffix}", fill_in(&name, &nspace, &rank.to_string())),
                false => format!("{name}.{nspace}.{rank}.{suffix}"),
            })
        });
        let below =
            self.directory.as_deref().map(|dir| dir.join(&nspace).join(format!("rank.{rank}")).join(channel));
        named.into_iter().chain(below).collect()
    }
}

/// The namespace as a file name that stays within its directory.
fn file_name(source: &ProcId) -> String {
    match source.nspace.as_str() {
        "." | ".." => "_".to_owned(),
        name => name.replace('/', "_"),
    }
}

fn fill_in(pattern: &str, nspace: &str, rank: &str) -> String {
    let mut name = String::new();
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        match next {
            '%' => match rest.next() {
                Some('n') => name.push_str(nspace),
                Some('r') => name.push_str(rank),
                Some('%') | None => name.push('%'),
                Some(other) => name.extend(['%', other]),
            },
            other => name.push(other),
        }
    }
    name
}

pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for next in text.chars() {
        match next {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\t' => escaped.push(next),
            // XML cannot express them
            control if control.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}
