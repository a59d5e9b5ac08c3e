//! The JSON form of values, for tools that print them.
//!
//! Numbers, text, booleans and arrays have the same type in JSON; the absence of a value is `null`. Numbers with names
//! (statuses, states, scopes, types) and sets of flags are strings, as [`Display`](std::fmt::Display) writes them.
//! Structures are objects with the fields of the Rust type: a process is `{"nspace": "job-1", "rank": 3}`, an info is
//! `{"key": "pmix.job.size", "value": 4}`, with `"flags"` if it has any. Bytes of any kind are `{"bytes": "00ff"}`, in
//! lower-case hex, so that they cannot be mistaken for text. Arguments, variables and directories are strings, or `{"base64": "/w=="}` if
//! they are not UTF-8.
//!
//! The form is for people and scripts. It does not distinguish a 16-bit number from a 64-bit one, so it cannot be
//! converted back.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};

use crate::{
    App, DataArray, Device, DeviceDistance, Directives, Endpoint, Envar, Info, KeyVal, Pdata, Query, RegAttr,
    Regex2, ResourceUnit, Value,
};

/// Opaque bytes.
struct Hex<'a>(&'a Bytes);

impl Serialize for Hex<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("bytes", &format!("{:x}", self.0))?;
        map.end()
    }
}

/// Text of the system, which need not be UTF-8.
struct SystemText<'a>(&'a OsStr);

impl Serialize for SystemText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(text) = self.0.to_str() {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &STANDARD.encode(self.0.as_bytes()))?;
        map.end()
    }
}

/// A list of such text.
struct SystemTexts<'a>(&'a [OsString]);

impl Serialize for SystemTexts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|text| SystemText(text)))
    }
}

impl Serialize for App {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("App", 6)?;
        fields.serialize_field("command", &SystemText(&self.command))?;
        fields.serialize_field("argv", &SystemTexts(&self.argv))?;
        fields.serialize_field("env", &SystemTexts(&self.env))?;
        fields.serialize_field("cwd", &self.cwd.as_deref().map(SystemText))?;
        fields.serialize_field("max_procs", &self.max_procs)?;
        fields.serialize_field("info", &self.info)?;
        fields.end()
    }
}

impl Serialize for Envar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Envar", 3)?;
        fields.serialize_field("name", &SystemText(&self.name))?;
        fields.serialize_field("value", &SystemText(&self.value))?;
        fields.serialize_field("separator", &self.separator)?;
        fields.end()
    }
}

macro_rules! serialize_value {
    // bytes have no form of their own
    (one $held:ident, $serializer:ident, Bytes) => { Hex($held).serialize($serializer) };
    (one $held:ident, $serializer:ident, $($type:tt)+) => { $held.serialize($serializer) };
    (many $held:ident, $serializer:ident, Bytes) => { $serializer.collect_seq($held.iter().map(Hex)) };
    (many $held:ident, $serializer:ident, $($type:tt)+) => { $held.serialize($serializer) };

    ($($variant:ident($($type:tt)+) $constant:ident, $doc:literal;)+) => {
        impl Serialize for Value {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Undef | Self::NullString => serializer.serialize_none(),
                    $(Self::$variant(held) => serialize_value!(one held, serializer, $($type)+),)+
                }
            }
        }

        impl Serialize for DataArray {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    Self::Undef => serializer.collect_seq([(); 0]),
                    $(Self::$variant(held) => serialize_value!(many held, serializer, $($type)+),)+
                }
            }
        }
    };
}
crate::for_each_data_type!(serialize_value);

impl Serialize for Info {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Info", 2 + usize::from(!self.flags.is_empty()))?;
        fields.serialize_field("key", &self.key)?;
        fields.serialize_field("value", &self.value)?;
        if !self.flags.is_empty() {
            fields.serialize_field("flags", &self.flags)?;
        }
        fields.end()
    }
}

impl Serialize for Directives {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(serializer)
    }
}

/// Writes structures field by field; a field after `hex` holds bytes.
macro_rules! serialize_fields {
    ($($Type:ident { $($field:ident),+ $(; hex $bytes:ident)? })+) => { $(
        impl Serialize for $Type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                const FIELDS: &[&str] = &[$(stringify!($field),)+ $(stringify!($bytes))?];
                let mut fields = serializer.serialize_struct(stringify!($Type), FIELDS.len())?;
                $(fields.serialize_field(stringify!($field), &self.$field)?;)+
                $(fields.serialize_field(stringify!($bytes), &Hex(&self.$bytes))?;)?
                fields.end()
            }
        }
    )+ };
}

serialize_fields! {
    Device { uuid, osname, device_type }
    DeviceDistance { device, min, max }
    Endpoint { uuid, osname; hex endpoint }
    KeyVal { key, value }
    Pdata { proc, key, value }
    Query { keys, qualifiers }
    RegAttr { name, key, data_type, limits, description }
    Regex2 { encoding; hex bytes }
    ResourceUnit { device_type, count }
}
