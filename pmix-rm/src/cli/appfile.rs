//! Files for `--app`, with one application per line.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use pmix_types::without_os_codes;

/// Line number and words of each application in a file. Lines are split as by a shell, without expansion; `#` starts a
/// comment.
///
/// # Errors
/// The problem with the file, and its line.
pub(super) fn read(file: &Path) -> Result<Vec<(usize, Vec<OsString>)>, String> {
    let unreadable =
        |error: io::Error| format!("{}: {}", file.display(), without_os_codes(&error.to_string()));
    let text = std::fs::read(file).map_err(unreadable)?;
    let apps =
        split(&text).map_err(|line| format!("{}, line {line}: a quote is not closed", file.display()))?;
    if let Some((line, _)) = apps.iter().find(|(_, words)| words.iter().any(|word| word == ":")) {
        return Err(format!("{}, line {line}: remove ':', as each line is an application", file.display()));
    }
    match apps.is_empty() {
        true => Err(format!("{} contains no application", file.display())),
        false => Ok(apps),
    }
}

/// As [`read`]; the error is the number of a line with an unclosed quote.
fn split(text: &[u8]) -> Result<Vec<(usize, Vec<OsString>)>, usize> {
    let mut apps = Vec::new();
    // some editors write this mark at the start
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let words = shlex::bytes::split(line).ok_or(number)?;
        let words: Vec<_> = words.into_iter().map(OsString::from_vec).collect();
        if !words.is_empty() {
            apps.push((number, words));
        }
    }
    Ok(apps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_application_with_quotes_and_comments() {
        let apps = split(b"# all\n-n 2 ./a 'b c' # two\n\n  ./d \"\"\n").unwrap();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(apps, [(2, words(&["-n", "2", "./a", "b c"])), (4, words(&["./d", ""]))]);
        assert_eq!(split(b"./a\n./b 'c"), Err(2));
        assert_eq!(split("\u{feff}./a".as_bytes()).unwrap(), [(1, words(&["./a"]))]);
    }

    #[test]
    fn errors_name_the_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().display().to_string();
        assert_eq!(read(file.path()).unwrap_err(), format!("{name} contains no application"));
        std::fs::write(file.path(), "./a : ./b").unwrap();
        assert!(
            read(file.path())
                .unwrap_err()
                .starts_with(&format!("{name}, line 1: remove ':', as each line is an application"))
        );
        std::fs::write(file.path(), "\n'").unwrap();
        assert_eq!(read(file.path()).unwrap_err(), format!("{name}, line 2: a quote is not closed"));
        let missing = file.path().with_extension("missing");
        let said = format!("{}: No such file or directory", missing.display());
        assert_eq!(read(&missing).unwrap_err(), said);
    }
}
