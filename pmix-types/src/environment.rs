//! The environment of a job's processes: the variables of the application, and changes by directives (SPN-03).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::message::Failure;
use crate::{App, Envar, Info, Status, keys};

/// The environment of an application's processes, based on the variables that they inherit; for launchers.
///
/// The application's own variables are added first, then the directives `SET_ENVAR`, `ADD_ENVAR`, `UNSET_ENVAR`,
/// `PREPEND_ENVAR`, `APPEND_ENVAR` and `FIRST_ENVAR` of its `info` are applied in order. A value that is prepended or
/// appended to an empty or missing variable becomes the whole value, without a separator. `FIRST_ENVAR` removes the
/// parts of the value from its other positions.
///
/// # Errors
/// `ERR_BAD_PARAM` for a variable that is not of the form `NAME=value`, and for a directive without name or with a value
/// of another type.
///
/// # Standard
/// Rule SPN-03.
///
/// # Examples
/// ```
/// use pmix_types::{App, Envar, Info, environment, keys};
///
/// let mut app = App::new("./worker", 2).env("THREADS", "4");
/// let bin = Envar { name: "PATH".into(), value: "/opt/bin".into(), separator: b':' };
/// app.info.push(Info::new(keys::PREPEND_ENVAR, bin));
/// let env = environment(&app, [("PATH".into(), "/bin".into())])?;
/// assert_eq!(env.into_iter().collect::<Vec<_>>(), [
///     ("PATH".into(), "/opt/bin:/bin".into()),
///     ("THREADS".into(), "4".into()),
/// ]);
/// # Ok::<(), pmix_types::message::Failure>(())
/// ```
pub fn environment(
    app: &App,
    inherited: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<BTreeMap<OsString, OsString>, Failure> {
    let mut env: BTreeMap<_, _> = inherited.into_iter().collect();
    for entry in &app.env {
        let Some((name, value)) =
            split_variable(entry).filter(|(name, value)| is_name(name) && !has_nul(value))
        else {
            return Err(bad(format!("environment entry {entry:?} is not of the form NAME=value")));
        };
        env.insert(name.into(), value.into());
    }
    change_environment(&app.info, &mut env)?;
    Ok(env)
}

/// Name and value of an entry `NAME=value`; `None` for an entry without `=`. Both are bytes, and need not be UTF-8.
///
/// # Examples
/// ```
/// use std::ffi::OsStr;
///
/// assert_eq!(pmix_types::split_variable(OsStr::new("A=b=c")), Some((OsStr::new("A"), OsStr::new("b=c"))));
/// ```
#[must_use]
pub fn split_variable(entry: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = entry.as_bytes();
    let (name, rest) = bytes.split_at(bytes.iter().position(|byte| *byte == b'=')?);
    Some((OsStr::from_bytes(name), OsStr::from_bytes(rest.get(1..)?)))
}

/// Applies changes to an environment, in order: the directives that [`environment`] applies. Other infos are left out.
///
/// # Errors
/// As [`environment`]; the changes before the wrong one are applied then.
pub fn change_environment(changes: &[Info], env: &mut BTreeMap<OsString, OsString>) -> Result<(), Failure> {
    changes.iter().filter(|info| changes_environment(info)).try_for_each(|info| apply(info, env))
}

/// Whether a directive changes the environment.
pub fn changes_environment(info: &Info) -> bool {
    let envars =
        [&keys::SET_ENVAR, &keys::ADD_ENVAR, &keys::PREPEND_ENVAR, &keys::APPEND_ENVAR, &keys::FIRST_ENVAR];
    info.is(&keys::UNSET_ENVAR) || envars.iter().any(|key| info.is(key))
}

fn apply(info: &Info, env: &mut BTreeMap<OsString, OsString>) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| bad(format!("directive {}: {error}", info.key));
    if info.is(&keys::UNSET_ENVAR) {
        let name: String = info.get().map_err(|error| wrong(&error))?;
        if !is_name(OsStr::new(&name)) {
            return Err(wrong(&format_args!("{name:?} is not a valid name of a variable")));
        }
        env.remove(OsStr::new(&name));
        return Ok(());
    }
    let Envar { name, value, separator } = info.get().map_err(|error| wrong(&error))?;
    if !is_name(&name) || has_nul(&value) {
        return Err(wrong(&format_args!(
            "{name:?} is not a valid name of a variable, or its value contains a NUL"
        )));
    }
    let held = env.get(&name).map(|held| held.as_bytes());
    if info.is(&keys::ADD_ENVAR) && held.is_some() {
        return Ok(());
    }
    let others = held.filter(|held| !held.is_empty());
    let (value, separator) = (value.as_bytes(), (separator != 0).then_some(separator));
    let changed = match others {
        Some(others) if info.is(&keys::PREPEND_ENVAR) => joined([value, others], separator),
        Some(others) if info.is(&keys::APPEND_ENVAR) => joined([others, value], separator),
        Some(others) if info.is(&keys::FIRST_ENVAR) => {
            let split = |list| <[u8]>::split(list, |byte| Some(*byte) == separator);
            let rest = split(others).filter(|part| split(value).all(|first| first != *part));
            joined(std::iter::once(value).chain(rest), separator)
        }
        _ => value.to_vec(),
    };
    env.insert(name, OsString::from_vec(changed));
    Ok(())
}

fn joined<'a>(parts: impl IntoIterator<Item = &'a [u8]>, separator: Option<u8>) -> Vec<u8> {
    let parts: Vec<_> = parts.into_iter().collect();
    parts.join(separator.as_slice())
}

fn is_name(name: &OsStr) -> bool {
    !name.is_empty() && !name.as_bytes().iter().any(|byte| b"=\0".contains(byte))
}

fn has_nul(value: &OsStr) -> bool {
    value.as_bytes().contains(&0)
}

fn bad(message: String) -> Failure {
    Failure::new(Status::ERR_BAD_PARAM, message)
}

#[cfg(test)]
mod tests {
    use crate::Key;

    use super::*;

    fn changed(held: Option<&str>, changes: &[(&Key<Envar>, &str, char)]) -> Option<String> {
        let mut app = App::new("program", 1);
        for (key, value, separator) in changes {
            let envar = Envar {
                name: "V".into(),
                value: (*value).into(),
                separator: u8::try_from(*separator).unwrap(),
            };
            app.info.push(Info::new(key, envar));
        }
        let held = held.map(|held| ("V".into(), held.into()));
        environment(&app, held).unwrap().remove(OsStr::new("V")).map(|value| value.into_string().unwrap())
    }

    #[test]
    fn spn_03_each_directive_changes_a_variable_in_its_way() {
        use keys::{ADD_ENVAR, APPEND_ENVAR, FIRST_ENVAR, PREPEND_ENVAR, SET_ENVAR};
        for (key, held, now) in [
            (&SET_ENVAR, None, "x"),
            (&SET_ENVAR, Some("a:b"), "x"),
            (&ADD_ENVAR, None, "x"),
            (&ADD_ENVAR, Some("a:b"), "a:b"),
            (&ADD_ENVAR, Some(""), ""),
            (&PREPEND_ENVAR, None, "x"),
            (&PREPEND_ENVAR, Some(""), "x"),
            (&PREPEND_ENVAR, Some("a:b"), "x:a:b"),
            (&APPEND_ENVAR, None, "x"),
            (&APPEND_ENVAR, Some("a:b"), "a:b:x"),
            (&FIRST_ENVAR, None, "x"),
            (&FIRST_ENVAR, Some("a:b"), "x:a:b"),
            (&FIRST_ENVAR, Some("a:x:b"), "x:a:b"),
            (&FIRST_ENVAR, Some("x:a"), "x:a"),
            (&FIRST_ENVAR, Some("x"), "x"),
            (&FIRST_ENVAR, Some("x:x"), "x"),
        ] {
            assert_eq!(changed(held, &[(key, "x", ':')]).as_deref(), Some(now), "{key:?} {held:?}");
        }
        for (held, now) in [("x:a:b", "b:a:x"), ("a", "b:a"), ("b:a", "b:a")] {
            assert_eq!(changed(Some(held), &[(&FIRST_ENVAR, "b:a", ':')]).as_deref(), Some(now), "{held}");
        }
        assert_eq!(changed(Some("a"), &[(&PREPEND_ENVAR, "x", '\0')]).as_deref(), Some("xa"));
        assert_eq!(changed(Some("a;b"), &[(&APPEND_ENVAR, "x", ';')]).as_deref(), Some("a;b;x"));
    }

    #[test]
    fn spn_03_directives_are_carried_out_in_order_on_top_of_the_applications_own() {
        let steps =
            [(&keys::SET_ENVAR, "a", ':'), (&keys::APPEND_ENVAR, "b", ':'), (&keys::ADD_ENVAR, "c", ':')];
        assert_eq!(changed(Some("held"), &steps).as_deref(), Some("a:b"));
        let mut app = App::new("program", 1).env("V", "own").env("V", "last");
        app.info.push(Info::new(&keys::UNSET_ENVAR, "W"));
        let inherited = [("V".into(), "held".into()), ("W".into(), "held".into())];
        let env = environment(&app, inherited).unwrap();
        assert_eq!(env.into_iter().collect::<Vec<_>>(), [("V".into(), "last".into())]);
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        for entry in ["novalue", "=x", "A=a\0b"] {
            let mut app = App::new("program", 1);
            app.env.push(entry.into());
            let error = environment(&app, []).unwrap_err();
            assert_eq!(error.status, Status::ERR_BAD_PARAM, "{error}");
        }
        for name in ["", "A=B", "A\0"] {
            let mut app = App::new("program", 1);
            let envar = Envar { name: name.into(), value: "x".into(), separator: 0 };
            app.info.push(Info::new(&keys::SET_ENVAR, envar));
            assert_eq!(environment(&app, []).unwrap_err().status, Status::ERR_BAD_PARAM);
            app.info = vec![Info::new(&keys::UNSET_ENVAR, name)];
            assert_eq!(environment(&app, []).unwrap_err().status, Status::ERR_BAD_PARAM);
        }
        let mut app = App::new("program", 1);
        app.info.push(Info::dynamic(keys::SET_ENVAR.key_name(), 7_u32));
        assert!(environment(&app, []).unwrap_err().message.contains("pmix.envar.set"));
    }
}
