//! Keys and qualifiers on a command line.

use std::fmt::Display;
use std::str::FromStr;

use pmix_tool::types::{DataType, Info, KeyDef, KeyName, Pid, ProcId, Time, Value, keys};

/// A key, given as its text (`pmix.qry.ns`) or the name of its constant, with or without `PMIX_`.
///
/// Any text that does not look like a key of the Standard is accepted, as hosts may define their own keys.
pub(super) fn parse_key(text: &str) -> Result<KeyName, String> {
    if let Some(definition) = definition(text) {
        return KeyName::new(definition.name).map_err(|error| error.to_string());
    }
    let key = KeyName::new(text).map_err(|error| error.to_string())?;
    if key.is_reserved() || text.starts_with("PMIX_") || text.starts_with("QUERY_") {
        return Err("not a key of the Standard; `pmix query --list PATTERN` finds its keys".into());
    }
    Ok(key)
}

/// `KEY=VALUE`, with a value of the key's type in the Standard; a bare `KEY` is a flag.
pub(super) fn parse_qualifier(text: &str) -> Result<Info, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let key = parse_key(name)?;
    let data_type = definition(name).map(|definition| definition.data_type.unwrap_or(DataType::STRING));
    let value = match (value, data_type) {
        (None, Some(data_type)) if data_type != DataType::BOOL => {
            return Err(format!("{key} needs a value, {}: write {name}=VALUE", form(data_type)));
        }
        (None, _) => Value::Bool(true),
        (Some(value), data_type) => parse_value(value, data_type.unwrap_or(DataType::STRING))
            .map_err(|problem| format!("value of {key}: {problem}"))?,
    };
    Ok(Info::dynamic(key, value))
}

fn definition(text: &str) -> Option<&'static KeyDef> {
    keys::find(text).or_else(|| keys::find_constant(text))
}

/// A value of a type that can be written in a word.
pub(super) fn parse_value(text: &str, data_type: DataType) -> Result<Value, String> {
    Ok(match data_type {
        DataType::BOOL => Value::Bool(read(text, data_type)?),
        DataType::STRING => Value::String(text.to_owned()),
        DataType::PROC_NSPACE => Value::Nspace(reasoned(text)?),
        DataType::BYTE => Value::Byte(read(text, data_type)?),
        DataType::SIZE => Value::Size(read(text, data_type)?),
        DataType::PID => Value::Pid(Pid(read(text, data_type)?)),
        DataType::INT => Value::Int(read(text, data_type)?),
        DataType::INT8 => Value::Int8(read(text, data_type)?),
        DataType::INT16 => Value::Int16(read(text, data_type)?),
        DataType::INT32 => Value::Int32(read(text, data_type)?),
        DataType::INT64 => Value::Int64(read(text, data_type)?),
        DataType::UINT => Value::Uint(read(text, data_type)?),
        DataType::UINT8 => Value::Uint8(read(text, data_type)?),
        DataType::UINT16 => Value::Uint16(read(text, data_type)?),
        DataType::UINT32 => Value::Uint32(read(text, data_type)?),
        DataType::UINT64 => Value::Uint64(read(text, data_type)?),
        DataType::FLOAT => Value::Float(read(text, data_type)?),
        DataType::DOUBLE => Value::Double(read(text, data_type)?),
        DataType::TIME => Value::Time(Time(read(text, data_type)?)),
        DataType::STATUS => Value::Status(reasoned(text)?),
        DataType::PROC_RANK => Value::Rank(read(text, data_type)?),
        DataType::PROC => Value::Proc(parse_proc(text)?),
        DataType::SCOPE => Value::Scope(reasoned(text)?),
        DataType::DATA_RANGE => Value::DataRange(reasoned(text)?),
        DataType::PERSIST => Value::Persistence(reasoned(text)?),
        DataType::PROC_STATE => Value::ProcState(reasoned(text)?),
        DataType::JOB_STATE => Value::JobState(reasoned(text)?),
        DataType::ALLOC_DIRECTIVE => Value::AllocDirective(reasoned(text)?),
        DataType::IOF_CHANNEL => Value::IofChannels(reasoned(text)?),
        DataType::DEVTYPE => Value::DeviceTypes(reasoned(text)?),
        _ => return Err(format!("type {data_type} cannot be given on a command line")),
    })
}

fn parse_proc(text: &str) -> Result<ProcId, String> {
    let bad = || format!("{text:?} is not {}", form(DataType::PROC));
    let (nspace, rank) = text.rsplit_once(':').ok_or_else(bad)?;
    Ok(ProcId::new(nspace.parse().map_err(|_| bad())?, rank.parse().map_err(|_| bad())?))
}

/// For types whose errors do not say what is expected.
fn read<T: FromStr>(text: &str, data_type: DataType) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not {}", form(data_type)))
}

fn reasoned<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// The expected form of a value of a type.
fn form(data_type: DataType) -> String {
    match data_type {
        DataType::BOOL => "true or false".into(),
        DataType::STRING => "a string".into(),
        DataType::PROC_NSPACE => "a namespace".into(),
        DataType::PROC_RANK => "a rank: a number, * or a name such as LOCAL_PEERS".into(),
        DataType::PROC => "a process: <namespace>:<rank>".into(),
        DataType::TIME => "a time in seconds since the epoch".into(),
        DataType::FLOAT | DataType::DOUBLE => "a number".into(),
        DataType::BYTE | DataType::UINT8 => "a number from 0 to 255".into(),
        DataType::SIZE | DataType::UINT | DataType::UINT16 | DataType::UINT32 | DataType::UINT64 => {
            format!("a non-negative integer of type {data_type}")
        }
        _ => format!("a {data_type}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn qry_01_a_key_goes_by_its_text_or_its_constant() {
        for text in ["pmix.qry.ns", "QUERY_NAMESPACES", "PMIX_QUERY_NAMESPACES"] {
            assert_eq!(parse_key(text).unwrap(), "pmix.qry.ns", "{text}");
        }
        assert_eq!(parse_key("myhost.load").unwrap(), "myhost.load");
        for text in ["pmix.qry.nope", "PMIX_NOPE", "QUERY_NOPE", ""] {
            assert!(parse_key(text).is_err(), "{text}");
        }
    }

    #[test]
    fn qry_01_a_qualifier_has_the_type_of_its_key() {
        for (text, key, value) in [
            ("pmix.nspace=job=1", "pmix.nspace", Value::String("job=1".into())),
            ("RANK=3", "pmix.rank", Value::Rank("3".parse().unwrap())),
            ("PMIX_RANK=*", "pmix.rank", Value::Rank("*".parse().unwrap())),
            ("PROCID=a:b:7", "pmix.procid", Value::Proc(parse_proc("a:b:7").unwrap())),
            ("QUERY_LOCAL_ONLY", "pmix.qry.local", Value::Bool(true)),
            ("QUERY_LOCAL_ONLY=false", "pmix.qry.local", Value::Bool(false)),
            ("NODEID=4", "pmix.nodeid", Value::Uint32(4)),
            ("myhost.flag", "myhost.flag", Value::Bool(true)),
            ("myhost.queue=", "myhost.queue", Value::String(String::new())),
        ] {
            let info = parse_qualifier(text).unwrap();
            assert_eq!((info.key.as_str(), &info.value), (key, &value), "{text}");
        }
    }

    #[test]
    fn a_qualifier_that_makes_no_sense_says_why() {
        for (text, expected) in [
            ("RANK=first", r#"value of pmix.rank: "first" is not a rank"#),
            ("RANK", "pmix.rank needs a value, a rank"),
            ("PROCID=job", r#"value of pmix.procid: "job" is not a process: <namespace>:<rank>"#),
            ("NODEID=-1", "is not a non-negative integer of type UINT32"),
            ("QUERY_LOCAL_ONLY=maybe", r#""maybe" is not true or false"#),
            ("QUERY_QUALIFIERS=x", "type DATA_ARRAY cannot be given"),
            ("pmix.nope=1", "not a key of the Standard"),
            ("=1", "at least one character"),
        ] {
            let error = parse_qualifier(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn numbers_survive(number: u32, text in "[^=]{0,20}") {
            prop_assert_eq!(parse_value(&number.to_string(), DataType::UINT32), Ok(Value::Uint32(number)));
            prop_assert_eq!(parse_value(&text, DataType::STRING), Ok(Value::String(text)));
        }

        #[test]
        fn any_text_is_a_qualifier_or_an_error(text: String) {
            let _ = parse_qualifier(&text);
        }
    }
}
