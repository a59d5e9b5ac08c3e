//! `pmix why --record`: what servers have on record, in a file.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use futures::future::join_all;
use pmix_proto::files::{self, Existing};
use pmix_tool::types::escaped;
use pmix_tool::{Error, ToolBuilder};

use super::selection::{Selection, finalize};
use super::{Console, Trouble};

/// Stands for standard output.
const STDOUT: &str = "-";

/// Writes the records of the server selected, or of all live servers, one after another.
pub(super) async fn run(
    selection: &Selection,
    file: &Path,
    console: &mut Console<'_>,
) -> Result<ExitCode, Trouble> {
    let mut records = Vec::new();
    let mut is_complete = true;
    for answer in join_all(selection.candidates()?.into_iter().map(read)).await {
        match answer {
            Ok(record) => records.push(record),
            Err(error) => {
                console.complain(&error.to_string());
                is_complete = false;
            }
        }
    }
    if !records.is_empty() {
        if file.as_os_str() == STDOUT {
            write(&records, console.out)?;
        } else {
            let failed = |error: io::Error| Trouble::Other(format!("--record {}: {error}", file.display()));
            // it tells of the jobs of all users
            let opened = files::open(file, Existing::Truncated, 0o600);
            let mut opened = io::BufWriter::new(opened.map_err(failed)?);
            write(&records, &mut opened).and_then(|()| opened.flush()).map_err(failed)?;
        }
    }
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn read(builder: ToolBuilder) -> Result<String, Error> {
    let tool = builder.connect().await?;
    let record = tool.record().await;
    finalize(tool).await;
    record
}

fn write(records: &[String], out: &mut dyn Write) -> io::Result<()> {
    for (index, record) in records.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        record.lines().try_for_each(|line| writeln!(out, "{}", escaped(line)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_parted_by_an_empty_line_and_fit_to_be_shown() {
        let mut out = Vec::new();
        write(&["a\nb\u{1b}[2J\n".to_owned(), "c\n".to_owned()], &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\nb\\u{1b}[2J\n\nc\n");
    }
}
