//! `pmix publish`: data that processes look up.

use std::process::ExitCode;
use std::str::FromStr;

use clap::ValueEnum;
use pmix_tool::types::{DataType, KeyName, Persistence, Value};

use super::Trouble;
use super::published::{PublishRange, publisher};
use super::qualifier::parse_value;
use super::selection::{Selection, finalize};

/// Publishes data, which processes and `pmix lookup` find by its key
///
/// All of the data is published, or none of it. It outlasts this command: by default it stays until the session of the server ends, or until
/// `pmix unpublish`. Only processes of the same user find it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Args {
    /// Keys with their values, which are strings unless a type is given: int, uint, uint64, double, bool, string, ...
    #[arg(value_name = "KEY[:TYPE]=VALUE", required = true)]
    data: Vec<Datum>,

    /// Who finds the data
    #[arg(long, value_enum, default_value_t = PublishRange::Session)]
    range: PublishRange,

    /// How long the data stays
    #[arg(long, value_enum, default_value_t = Stay::Session)]
    persistence: Stay,

    #[command(flatten)]
    selection: Selection,
}

const AFTER_HELP: &str = "\
A key that has a colon itself needs a type: KEY:string=VALUE.

Examples:
  pmix publish service=10.0.0.1:7000 workers:int=4
  pmix publish --range global --persistence first-read ticket=4711

Exit code: 0 if the data is published; 1 if one of the keys is published already in this range, if the server keeps no data, or if it could not \
be queried; 2 for an invalid command line.";

/// Persistences that outlast this command: those of its process and of its application end with it.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Stay {
    /// Until the session of the server ends
    Session,
    /// Until it is unpublished, also on disk if the server has a store (`pmixrun --store`)
    Indef,
    /// Until it was looked up once
    FirstRead,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq)]
struct Datum {
    key: KeyName,
    value: Value,
}

impl FromStr for Datum {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
        let (name, data_type) = match name.rsplit_once(':') {
            Some((name, data_type)) => {
                let known = data_type.parse::<DataType>().ok().filter(|known| known.name().is_some());
                let unknown =
                    || format!("there is no type {data_type:?}: write int, uint, double, bool or string");
                (name, known.ok_or_else(unknown)?)
            }
            None => (name, DataType::STRING),
        };
        let key = KeyName::new(name).map_err(|error| error.to_string())?;
        if key.is_reserved() {
            return Err(format!("{key} is a key of the Standard: choose one that does not begin with pmix"));
        }
        let value = parse_value(value, data_type).map_err(|problem| format!("value of {key}: {problem}"))?;
        Ok(Self { key, value })
    }
}

impl From<Stay> for Persistence {
    fn from(stay: Stay) -> Self {
        match stay {
            Stay::Session => Self::SESSION,
            Stay::Indef => Self::INDEF,
            Stay::FirstRead => Self::FIRST_READ,
        }
    }
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Trouble> {
    let tool = publisher(&args.selection).await?;
    let request = tool.client().publish().range(args.range.into()).persistence(args.persistence.into());
    let request =
        args.data.into_iter().fold(request, |request, Datum { key, value }| request.data(key, value));
    request.await?;
    finalize(tool).await;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_text_unless_a_type_is_named() {
        for (text, key, value) in [
            ("service=a:b=c", "service", Value::from("a:b=c")),
            ("n:int=-4", "n", Value::Int(-4)),
            ("n:UINT64=4", "n", Value::Uint64(4)),
            ("x:double=0.5", "x", Value::Double(0.5)),
            ("on:bool=true", "on", Value::Bool(true)),
            ("a:b:string=", "a:b", Value::from("")),
        ] {
            assert_eq!(text.parse(), Ok(Datum { key: key.parse().unwrap(), value }), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_published_says_why() {
        for (text, expected) in [
            ("service", "write KEY=VALUE"),
            ("=4", "at least one character"),
            ("a:whole=4", r#"no type "whole""#),
            ("a:4711=4", r#"no type "4711""#),
            ("n:uint=-1", "value of n: "),
            ("a:data_array=1", "cannot be given on a command line"),
            ("pmix.range=1", "is a key of the Standard"),
        ] {
            let problem = text.parse::<Datum>().unwrap_err();
            assert!(problem.contains(expected), "{text}: {problem}");
        }
    }
}
