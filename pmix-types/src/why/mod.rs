//! Why a job waits: the operations of a server that are not complete, and the kernel's view of processes.
//!
//! None of this is in the Standard. It travels as values of keys of our own, [`WAITS`], [`LOOKS`] and [`RECORD`], so that any
//! PMIx library can ask with `PMIx_Query`; their names, and those of what is in them, begin with `rs.pmix.`.

#[cfg(feature = "serde")]
mod json;
mod look;
mod proc_set;
mod wait;

use crate::{DataArray, DataType, Directives, Info, Key, Value, ValueType};

pub use look::{Activity, ProcLook};
pub use proc_set::ProcSet;
pub use wait::{WAITS_FOR_DEBUGGER, Wait};

/// A query for the operations that are not complete on any node: an array with one array for each, which
/// [`Wait::read_all`] reads. An empty array means that nothing waits. Qualified by `NSPACE`, as often as wanted, it names
/// only those in which processes of these namespaces take part.
pub const WAITS: Key<DataArray> = Key::new("rs.pmix.waits", DataType::DATA_ARRAY);

/// A query for the kernel's view of the processes of a job: an array with one array for each, which
/// [`ProcLook::read_all`] reads. Needs `NSPACE` or `PROCID`, takes `RANK`, all as often as wanted. Processes that
/// have ended are left out.
pub const LOOKS: Key<DataArray> = Key::new("rs.pmix.looks", DataType::DATA_ARRAY);

/// A query for the flight recorder of the server that is asked: what happened there last, and what waits, as text with a line
/// for each. Only the server's user and root may have it.
pub const RECORD: Key<String> = Key::new("rs.pmix.record", DataType::STRING);

/// The elements of an array of arrays of infos; others are skipped, as a later version may say more.
pub(crate) fn rows(value: &Value) -> impl Iterator<Item = Directives> + '_ {
    let rows = match value {
        Value::DataArray(array) => match &**array {
            DataArray::Info(rows) => rows.as_slice(),
            _ => &[],
        },
        _ => &[],
    };
    rows.iter().filter_map(|row| match &row.value {
        Value::DataArray(array) => match &**array {
            DataArray::Info(fields) => Some(fields.iter().cloned().collect()),
            _ => None,
        },
        _ => None,
    })
}

pub(crate) fn push<T: ValueType>(fields: &mut Vec<Info>, key: &Key<T>, value: Option<impl Into<T>>) {
    fields.extend(value.map(|value| Info::new(key, value)));
}

/// What cannot be read counts as absent: the other fields of the row may still help.
pub(crate) fn read<T: ValueType>(fields: &Directives, key: &Key<T>) -> Option<T> {
    fields.get(key).ok().flatten()
}
