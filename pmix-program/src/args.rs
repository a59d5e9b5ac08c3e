//! Values of options that several programs take.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use pmix_types::split_variable;

/// A variable for [`App::env`](pmix_types::App::env), as options of launchers take it: `NAME=VALUE` as it is, and `NAME` with its value in this environment;
/// `None` if it has none there, of which launchers warn.
///
/// # Errors
/// What is wrong with it, for people.
///
/// # Examples
/// ```
/// use pmix_program::variable;
///
/// assert_eq!(variable("ROLE=io".as_ref()), Ok(Some("ROLE=io".into())));
/// assert_eq!(variable("PATH".as_ref())?, Some(format!("PATH={}", std::env::var("PATH").unwrap()).into()));
/// assert_eq!(variable("NO_SUCH_VARIABLE".as_ref()), Ok(None));
/// assert!(variable("=io".as_ref()).is_err());
/// # Ok::<(), String>(())
/// ```
pub fn variable(entry: &OsStr) -> Result<Option<OsString>, String> {
    match split_variable(entry) {
        Some((name, _)) if name.is_empty() => Err("a variable needs a name".into()),
        Some(_) => Ok(Some(entry.to_owned())),
        None => Ok(std::env::var_os(entry).map(|value| [entry, &value].join(OsStr::new("=")))),
    }
}

/// The longest time that is taken for one: a century.
const MAX_TIME: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A time in seconds, which need not be whole, as options of launchers take it.
///
/// # Errors
/// What is wrong with it, for people.
///
/// # Examples
/// ```
/// use pmix_program::seconds;
///
/// assert_eq!(seconds("1.5"), Ok(std::time::Duration::from_millis(1500)));
/// assert!(["-1", "1e12", "inf", "soon"].iter().all(|text| seconds(text).is_err()));
/// ```
pub fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| String::from("not a number of seconds"))?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= MAX_TIME => Ok(time),
        Ok(_) => Err("longer than a century".into()),
        Err(error) => Err(error.to_string()),
    }
}
