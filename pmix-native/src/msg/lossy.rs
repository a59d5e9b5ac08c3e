//! Data of others in messages to a process: values that its dialect does not support are omitted, with a line in the debug
//! log, so that the rest arrives.

use pmix_types::{DataArray, Info, KeyVal, Value};

use crate::Encoding;
use crate::codec::{CodecError, Kind, Writer, kind};

/// Writes a pair, without parts of an array that are not supported; or nothing.
pub(super) fn pair(writer: &mut Writer, pair: &KeyVal) {
    let Err(error) = writer.item::<kind::KeyVal>(pair) else { return };
    let rest = without_strangers(writer.encoding(), &pair.value);
    let written = rest
        .is_some_and(|value| writer.item::<kind::KeyVal>(&KeyVal { key: pair.key.clone(), value }).is_ok());
    if !written {
        leave_out(&pair.key, &error);
    }
}

pub(super) fn pairs(writer: &mut Writer, all: &[KeyVal]) {
    all.iter().for_each(|held| pair(writer, held));
}

pub(super) fn infos(writer: &mut Writer, infos: &[Info]) -> Result<(), CodecError> {
    let before = writer.list::<kind::Info>(infos);
    before.or_else(|_| writer.list::<kind::Info>(&carried(writer.encoding(), infos)))
}

/// Writes a list of other items with keys.
pub(super) fn list<K: Kind>(
    writer: &mut Writer,
    all: &[K::Rust],
    key: impl Fn(&K::Rust) -> &str,
) -> Result<(), CodecError>
where
    K::Rust: Clone,
{
    let encoding = writer.encoding();
    let is_carried = |one: &&K::Rust| match Writer::new(encoding).item::<K>(one) {
        Ok(()) => true,
        Err(error) => {
            leave_out(key(one), &error);
            false
        }
    };
    let before = writer.list::<K>(all);
    before.or_else(|_| writer.list::<K>(&all.iter().filter(is_carried).cloned().collect::<Vec<_>>()))
}

/// The infos that are supported, or their supported parts.
fn carried(encoding: Encoding, infos: &[Info]) -> Vec<Info> {
    let carry = |info: &Info| {
        let Err(error) = Writer::new(encoding).item::<kind::Info>(info) else { return Some(info.clone()) };
        let rest = without_strangers(encoding, &info.value);
        if rest.is_none() {
            leave_out(&info.key, &error);
        }
        rest.map(|value| Info::dynamic(info.key.clone(), value).with_flags(info.flags))
    };
    infos.iter().filter_map(carry).collect()
}

/// An array of infos without those that are not supported; `None` for anything else.
fn without_strangers(encoding: Encoding, value: &Value) -> Option<Value> {
    let Value::DataArray(array) = value else { return None };
    let DataArray::Info(infos) = &**array else { return None };
    let rest = Value::from(DataArray::Info(carried(encoding, infos)));
    Writer::new(encoding).item::<kind::Value>(&rest).is_ok().then_some(rest)
}

fn leave_out(key: &str, error: &CodecError) {
    tracing::debug!(key, %error, "omitted a value that the dialect of the peer does not support");
}
