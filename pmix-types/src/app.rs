use std::ffi::{OsStr, OsString};

use crate::{Info, TypedKey, ValueType};

/// One application of a job: the executable, its arguments and environment, and the number of processes.
///
/// Command, arguments, environment and directory are bytes, as the system has them; they need not be UTF-8.
///
/// # Standard
/// `pmix_app_t`; rule SPN-01.
#[derive(Clone, Debug, Default, PartialEq)]
#[doc(alias = "pmix_app_t")]
#[non_exhaustive]
pub struct App {
    /// Executable: a path, or a name to be found on `PATH`.
    pub command: OsString,
    /// Arguments, starting with the program's own name; if empty, only that.
    pub argv: Vec<OsString>,
    /// Environment as `NAME=value`, in addition to the launcher's; may be empty.
    pub env: Vec<OsString>,
    /// Working directory; `None` leaves it to the launcher.
    pub cwd: Option<OsString>,
    /// Number of processes to start, as the wires carry it.
    pub max_procs: i32,
    /// Directives for this application; they override those of the job.
    pub info: Vec<Info>,
}

impl App {
    /// An application with this number of processes of a command, without arguments. The Standard counts them in a C
    /// `int`; larger numbers become its maximum.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::App;
    ///
    /// let app = App::new("./solver", 64).arg("--fast").env("OMP_NUM_THREADS", "4").cwd("/scratch");
    /// assert_eq!((app.max_procs, app.argv.len()), (64, 2));
    /// ```
    pub fn new(command: impl Into<OsString>, processes: u32) -> Self {
        let max_procs = i32::try_from(processes).unwrap_or(i32::MAX);
        let command = command.into();
        Self { argv: vec![command.clone()], command, max_procs, ..Self::default() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.argv.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.argv.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push([name.as_ref(), value.as_ref()].join(OsStr::new("=")));
        self
    }

    /// Adds a directive for this application, such as `HOST`, `PREFIX` or `PREPEND_ENVAR`; it overrides that of the job
    /// (SPN-01).
    #[must_use]
    pub fn directive<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.info.push(Info::new(key, value));
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn cwd(mut self, dir: impl Into<OsString>) -> Self {
        self.cwd = Some(dir.into());
        self
    }
}

/// A change to an environment variable.
///
/// # Examples
/// ```
/// use pmix_types::{App, Envar, keys};
///
/// let path = Envar { name: "PATH".into(), value: "/opt/bin".into(), separator: b':' };
/// let app = App::new("solver", 2).directive(keys::PREPEND_ENVAR, path);
/// assert_eq!(app.info.len(), 1);
/// ```
///
/// # Standard
/// `pmix_envar_t`
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "pmix_envar_t")]
#[allow(clippy::exhaustive_structs, reason = "its fields are those of the C struct")]
pub struct Envar {
    /// Name of the variable.
    pub name: OsString,
    /// Its value, or the part to prepend or append.
    pub value: OsString,
    /// Byte between parts when prepending or appending; 0 if there is none.
    pub separator: u8,
}
