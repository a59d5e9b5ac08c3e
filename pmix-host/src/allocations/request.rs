//! What a request for an allocation says.

use std::collections::BTreeSet;
use std::time::Duration;

use pmix_server::host::HostResult;
use pmix_types::{AllocDirective, Directives, Info, Value, keys};

use super::choice::{Wanted, bad};

/// A request, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) id: Option<String>,
    /// What its requester calls it.
    pub(super) label: Option<String>,
    pub(super) wanted: Wanted,
    pub(super) time: Option<Duration>,
    pub(super) warning: Option<Duration>,
}

impl Request {
    /// Takes what such a request may say; the rest stays, for the caller to refuse.
    ///
    /// # Errors
    /// `ERR_BAD_PARAM` for values that cannot be read.
    pub(super) fn take(kind: AllocDirective, directives: &mut Directives) -> HostResult<Self> {
        let is_new = kind == AllocDirective::NEW;
        let named = directives.take(&keys::ALLOC_NODE_LIST)?.map(|text: String| nodes(&text));
        if named.as_ref().is_some_and(Vec::is_empty) {
            return Err(bad("ALLOC_NODE_LIST names no node".to_owned()));
        }
        let each = directives.take(&keys::ALLOC_NUM_CPU_LIST)?.map(|text: String| {
            let numbers = list(&text).iter().map(|number| number.parse()).collect::<Result<Vec<u64>, _>>();
            numbers.map_err(|_| bad(format!("ALLOC_NUM_CPU_LIST is not a list of numbers: {text:?}")))
        });
        Ok(Self {
            id: if is_new { None } else { directives.take(&keys::ALLOC_ID)? },
            label: directives.take(&keys::ALLOC_REQ_ID)?,
            wanted: Wanted {
                nodes: directives.take(&keys::ALLOC_NUM_NODES)?,
                named,
                excluded: directives
                    .take(&keys::ALLOC_EXCLUDE)?
                    .map(|text: String| nodes(&text))
                    .unwrap_or_default(),
                slots: directives.take(&keys::ALLOC_NUM_CPUS)?,
                slots_of_each: each.transpose()?,
            },
            time: if kind == AllocDirective::RELEASE { None } else { time(directives)? },
            warning: if is_new { directives.take(&keys::ALLOC_WARN_TIMEOUT)? } else { None }
                .map(|seconds: u32| Duration::from_secs(seconds.into())),
        })
    }
}

/// The words between commas.
fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The names between commas, each once.
fn nodes(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut nodes = list(text);
    nodes.retain(|node| seen.insert(node.clone()));
    nodes
}

/// Seconds as a number, as the Standard has it, or text, as the newest headers have it: `90`, `1:30`, `2:00:00`, `1:00:00:00`.
fn time(directives: &mut Directives) -> HostResult<Option<Duration>> {
    let given = directives.take_each(|info: &Info| info.is(&keys::ALLOC_TIME));
    let Some(info) = given.first() else { return Ok(None) };
    let wrong =
        || bad(format!("ALLOC_TIME is neither seconds nor [[days:]hours:]minutes:seconds: {}", info.value));
    if given.iter().any(|other| other.value != info.value) {
        return Err(bad("conflicting values of ALLOC_TIME".to_owned()));
    }
    let seconds: u64 = match &info.value {
        Value::String(text) => in_words(text).ok_or_else(wrong)?,
        value => value.get().map_err(|_| wrong())?,
    };
    if seconds == 0 {
        return Err(bad(
            "ALLOC_TIME must be at least 1 second; leave it out for an allocation without a time limit"
                .to_owned(),
        ));
    }
    Ok(Some(Duration::from_secs(seconds)))
}

fn in_words(text: &str) -> Option<u64> {
    let parts: Vec<u64> = text.split(':').map(|part| part.trim().parse().ok()).collect::<Option<_>>()?;
    let units = [1, 60, 3600, 86_400];
    if parts.len() > units.len() {
        return None;
    }
    parts
        .iter()
        .rev()
        .zip(units)
        .try_fold(0_u64, |sum, (part, unit)| sum.checked_add(part.checked_mul(unit)?))
}

#[cfg(test)]
mod tests {
    use pmix_types::Status;

    use super::*;

    fn taken(directives: Directives) -> HostResult<Request> {
        let mut directives = directives;
        let request = Request::take(AllocDirective::NEW, &mut directives)?;
        directives.deny_unprocessed()?;
        Ok(request)
    }

    fn time_of(value: impl Into<Value>) -> Result<Option<u64>, Status> {
        let info = Info::dynamic(keys::ALLOC_TIME.key_name(), value.into());
        let request = taken(vec![info].into()).map_err(|error| error.status())?;
        Ok(request.time.map(|time| time.as_secs()))
    }

    #[test]
    fn alc_01_the_time_of_an_allocation_is_a_number_or_text() {
        for (value, seconds) in [
            (Value::Uint32(90), 90),
            (Value::Int(5), 5),
            (Value::from("90"), 90),
            (Value::from("1:30"), 90),
            (Value::from("2:00:01"), 7201),
            (Value::from("1:00:00:00"), 86_400),
        ] {
            assert_eq!(time_of(value.clone()), Ok(Some(seconds)), "{value}");
        }
        for value in [
            Value::from(""),
            Value::from("soon"),
            Value::from("1:0:0:0:0"),
            Value::from("-1"),
            Value::Int(-1),
            Value::Uint32(0),
            Value::from("18446744073709551615:00"),
        ] {
            assert_eq!(time_of(value.clone()), Err(Status::ERR_BAD_PARAM), "{value}");
        }
    }

    #[test]
    fn alc_01_gen_05_what_one_kind_of_request_cannot_say_is_refused() {
        use AllocDirective as Kind;
        let text = |key: &pmix_types::Key<String>| Directives::new().require(key, "5");
        let seconds = Directives::new().require(&keys::ALLOC_WARN_TIMEOUT, 5_u32);
        for (kind, directives, is_taken) in [
            (Kind::NEW, text(&keys::ALLOC_ID), false),
            (Kind::EXTEND, text(&keys::ALLOC_ID), true),
            (Kind::RELEASE, text(&keys::ALLOC_ID), true),
            (Kind::EXTEND, seconds.clone(), false),
            (Kind::RELEASE, seconds, false),
            (Kind::RELEASE, Directives::new().require(&keys::ALLOC_TIME, "5"), false),
        ] {
            let mut rest = directives.clone();
            Request::take(kind, &mut rest).unwrap();
            assert_eq!(rest.deny_unprocessed().is_ok(), is_taken, "{kind} {directives:?}");
        }
    }

    #[test]
    fn alc_01_gen_05_what_an_allocation_is_to_have_is_read() {
        let given = Directives::new()
            .require(&keys::ALLOC_REQ_ID, "mine")
            .require(&keys::ALLOC_NUM_NODES, 2_u64)
            .require(&keys::ALLOC_NODE_LIST, "n1, n0,n1,")
            .require(&keys::ALLOC_EXCLUDE, "n3")
            .require(&keys::ALLOC_NUM_CPUS, 4_u64)
            .require(&keys::ALLOC_NUM_CPU_LIST, "2,2")
            .require(&keys::ALLOC_WARN_TIMEOUT, 5_u32);
        let request = taken(given.clone()).unwrap();
        assert_eq!(request.label.as_deref(), Some("mine"));
        assert_eq!(request.warning, Some(Duration::from_secs(5)));
        let wanted = Wanted {
            nodes: Some(2),
            named: Some(vec!["n1".into(), "n0".into()]),
            excluded: vec!["n3".into()],
            slots: Some(4),
            slots_of_each: Some(vec![2, 2]),
        };
        assert_eq!(request.wanted, wanted);
        let memory = given.require(&keys::ALLOC_MEM_SIZE, 100.0);
        assert_eq!(taken(memory).unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
        for (key, text) in [(&keys::ALLOC_NODE_LIST, ", "), (&keys::ALLOC_NUM_CPU_LIST, "1,two")] {
            let error = taken(Directives::new().with(key, text)).unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{error}");
        }
    }
}
