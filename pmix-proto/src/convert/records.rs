//! The structures of the Standard.

use std::ffi::OsString;

use pmix_types::{
    App, Coord, Cpuset, Device, DeviceDistance, Directives, Endpoint, Envar, Event, Geometry, Info, KeyVal,
    NodePid, Pdata, ProcId, ProcInfo, Query, RegAttr, Regex2, ResourceUnit, Timeval,
};

use super::scalar::named_nspace;
use super::value::{to_value_field, value_field};
use super::{At, ConvertError, Scope, Wire, messages, present, required};
use crate::v1;

/// A process in data, which may be "no process".
impl Wire for ProcId {
    type Form = v1::Proc;

    fn to_form(&self) -> v1::Proc {
        v1::Proc { nspace: self.nspace.to_form(), rank: self.rank.to_form() }
    }

    fn from_form(form: v1::Proc, scope: &mut Scope) -> Result<Self, ConvertError> {
        let nspace = Wire::from_form(form.nspace, scope).at("nspace")?;
        Ok(Self { nspace, rank: Wire::from_form(form.rank, scope)? })
    }
}

impl From<&ProcId> for v1::Proc {
    fn from(proc: &ProcId) -> Self {
        proc.to_form()
    }
}

/// A named process: the namespace is not empty.
impl TryFrom<v1::Proc> for ProcId {
    type Error = ConvertError;

    fn try_from(form: v1::Proc) -> Result<Self, ConvertError> {
        let nspace = named_nspace(&form.nspace).at("nspace")?;
        Ok(Self { nspace, rank: pmix_types::Rank::from_raw(form.rank) })
    }
}

/// A field with a named process.
pub(super) fn named(form: Option<v1::Proc>) -> Result<ProcId, ConvertError> {
    present(form)?.try_into()
}

/// A list of named processes.
pub(super) fn all_named(forms: Vec<v1::Proc>) -> Result<Vec<ProcId>, ConvertError> {
    forms.into_iter().enumerate().map(|(index, form)| ProcId::try_from(form).at_index(index)).collect()
}

impl Wire for Directives {
    type Form = Vec<v1::Info>;

    fn to_form(&self) -> Vec<v1::Info> {
        self.iter().map(Info::to_form).collect()
    }

    fn from_form(forms: Vec<v1::Info>, scope: &mut Scope) -> Result<Self, ConvertError> {
        Vec::from_form(forms, scope).map(Self::from)
    }
}

/// The source of an event; absent for the host.
impl Wire for Event {
    type Form = v1::Event;

    fn to_form(&self) -> v1::Event {
        v1::Event {
            code: self.code.to_form(),
            source: Some(self.source.to_form()),
            range: self.range.to_form(),
            info: self.info.to_form(),
        }
    }

    fn from_form(form: v1::Event, scope: &mut Scope) -> Result<Self, ConvertError> {
        let source = Option::from_form(form.source, scope).at("source")?.unwrap_or_else(ProcId::none);
        let range = Wire::from_form(form.range, scope).at("range")?;
        let mut event = Self::new(Wire::from_form(form.code, scope)?, source).with_range(range);
        event.info = Wire::from_form(form.info, scope).at("info")?;
        Ok(event)
    }
}

impl Wire for Info {
    type Form = v1::Info;

    fn to_form(&self) -> v1::Info {
        v1::Info { key: self.key.to_form(), flags: self.flags.to_form(), value: to_value_field(&self.value) }
    }

    fn from_form(form: v1::Info, scope: &mut Scope) -> Result<Self, ConvertError> {
        let key = Wire::from_form(form.key, scope).at("key")?;
        let flags = Wire::from_form(form.flags, scope).at("flags")?;
        Ok(Self::dynamic(key, value_field(form.value, scope)?).with_flags(flags))
    }
}

impl Wire for Pdata {
    type Form = v1::Pdata;

    fn to_form(&self) -> v1::Pdata {
        v1::Pdata {
            proc: Some(self.proc.to_form()),
            key: self.key.to_form(),
            value: to_value_field(&self.value),
        }
    }

    fn from_form(form: v1::Pdata, scope: &mut Scope) -> Result<Self, ConvertError> {
        let proc = required(form.proc, scope).at("proc")?;
        let key = Wire::from_form(form.key, scope).at("key")?;
        Ok(Self::new(proc, key, value_field(form.value, scope)?))
    }
}

impl Wire for KeyVal {
    type Form = v1::KeyVal;

    fn to_form(&self) -> v1::KeyVal {
        v1::KeyVal { key: self.key.to_form(), value: to_value_field(&self.value) }
    }

    fn from_form(form: v1::KeyVal, scope: &mut Scope) -> Result<Self, ConvertError> {
        Ok(Self { key: Wire::from_form(form.key, scope).at("key")?, value: value_field(form.value, scope)? })
    }
}

impl Wire for App {
    type Form = v1::App;

    fn to_form(&self) -> v1::App {
        v1::App {
            command: self.command.to_form(),
            argv: self.argv.to_form(),
            env: self.env.to_form(),
            cwd: self.cwd.to_form(),
            max_procs: self.max_procs,
            info: self.info.to_form(),
        }
    }

    fn from_form(form: v1::App, scope: &mut Scope) -> Result<Self, ConvertError> {
        let mut app = Self::new(OsString::from_form(form.command, scope)?, 0);
        app.max_procs = form.max_procs;
        app.argv = Wire::from_form(form.argv, scope)?;
        app.env = Wire::from_form(form.env, scope)?;
        app.cwd = Wire::from_form(form.cwd, scope)?;
        app.info = Wire::from_form(form.info, scope).at("info")?;
        Ok(app)
    }
}

impl Wire for Query {
    type Form = v1::Query;

    fn to_form(&self) -> v1::Query {
        v1::Query { keys: self.keys.to_form(), qualifiers: self.qualifiers.to_form() }
    }

    fn from_form(form: v1::Query, scope: &mut Scope) -> Result<Self, ConvertError> {
        let mut query = Self::default();
        query.keys = Wire::from_form(form.keys, scope).at("keys")?;
        query.qualifiers = Wire::from_form(form.qualifiers, scope).at("qualifiers")?;
        Ok(query)
    }
}

impl Wire for ProcInfo {
    type Form = v1::ProcInfo;

    fn to_form(&self) -> v1::ProcInfo {
        v1::ProcInfo {
            proc: Some(self.proc.to_form()),
            hostname: self.hostname.clone(),
            executable: self.executable.clone(),
            pid: self.pid.to_form(),
            exit_code: self.exit_code,
            state: self.state.to_form(),
        }
    }

    fn from_form(form: v1::ProcInfo, scope: &mut Scope) -> Result<Self, ConvertError> {
        let mut row = Self::new(required(form.proc, scope).at("proc")?);
        (row.hostname, row.executable) = (form.hostname, form.executable);
        row.pid = Wire::from_form(form.pid, scope)?;
        row.exit_code = form.exit_code;
        row.state = Wire::from_form(form.state, scope).at("state")?;
        Ok(row)
    }
}

impl Wire for DeviceDistance {
    type Form = v1::DeviceDistance;

    fn to_form(&self) -> v1::DeviceDistance {
        v1::DeviceDistance {
            device: Some(self.device.to_form()),
            min: self.min.to_form(),
            max: self.max.to_form(),
        }
    }

    fn from_form(form: v1::DeviceDistance, scope: &mut Scope) -> Result<Self, ConvertError> {
        let device = required(form.device, scope).at("device")?;
        let min = Wire::from_form(form.min, scope).at("min")?;
        Ok(Self::new(device, min, Wire::from_form(form.max, scope).at("max")?))
    }
}

/// Some structures are open: they are made without a constructor.
macro_rules! made {
    (Regex2 $fields:tt) => { made!(open Regex2 $fields) };
    (Cpuset $fields:tt) => { made!(open Cpuset $fields) };
    (Envar $fields:tt) => { made!(open Envar $fields) };
    (Timeval $fields:tt) => { made!(open Timeval $fields) };
    (open $type:ident { $($field:ident),+ }) => { $type { $($field),+ } };
    ($type:ident { $($field:ident),+ }) => { $type::new($($field),+) };
}

/// Structures with the same fields as their messages, in the order of their constructor.
macro_rules! fields {
    ($($type:ident { $($field:ident),+ $(,)? })+) => {$(
        impl Wire for $type {
            type Form = v1::$type;

            fn to_form(&self) -> v1::$type {
                v1::$type { $($field: self.$field.to_form()),+ }
            }

            fn from_form(form: v1::$type, scope: &mut Scope) -> Result<Self, ConvertError> {
                $(let $field = Wire::from_form(form.$field, scope).at(stringify!($field))?;)+
                Ok(made!($type { $($field),+ }))
            }
        }
        messages!($type => $type);
    )+};
}
fields! {
    RegAttr { name, key, data_type, limits, description }
    Coord { view, coords }
    Geometry { fabric, uuid, osname, coordinates }
    Endpoint { uuid, osname, endpoint }
    Device { uuid, osname, device_type }
    ResourceUnit { device_type, count }
    NodePid { hostname, nodeid, pid }
    Regex2 { encoding, bytes }
    Cpuset { source, list }
    Envar { name, value, separator }
    Timeval { sec, usec }
}
messages!(
    App => App, DeviceDistance => DeviceDistance, Event => Event, Info => Info, KeyVal => KeyVal, Pdata => Pdata,
    ProcInfo => ProcInfo, Query => Query,
);
