//! Types with one protobuf scalar: numbers, text and bytes.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use bytes::Bytes;
use pmix_types::{
    AllocDirective, AllocInheritance, CoordView, DataRange, DataType, DeviceTypes, FabricOperation, GroupOpt,
    InfoFlags, IofChannels, JobState, KeyName, LinkState, Locality, Nspace, Persistence, Pid, ProcState,
    Rank, ResourceBlockDirective, Scope as PutScope, Status, StorageAccessType, StorageAccessibility,
    StorageMedium, StoragePersistence, Time,
};

use super::{ConvertError, Reason, Scope, Wire};

macro_rules! same {
    ($($type:ty),+ $(,)?) => {$(
        impl Wire for $type {
            type Form = Self;

            fn to_form(&self) -> Self {
                self.clone()
            }

            fn from_form(form: Self, _: &mut Scope) -> Result<Self, ConvertError> {
                Ok(form)
            }
        }
    )+};
}
same!(bool, i32, i64, u32, u64, f32, f64, String, Bytes);

/// Text of the system, which need not be UTF-8.
impl Wire for OsString {
    type Form = Bytes;

    fn to_form(&self) -> Bytes {
        Bytes::copy_from_slice(self.as_bytes())
    }

    fn from_form(form: Bytes, _: &mut Scope) -> Result<Self, ConvertError> {
        Ok(Self::from_vec(form.into()))
    }
}

macro_rules! narrow {
    ($($type:ty as $form:ty),+ $(,)?) => {$(
        impl Wire for $type {
            type Form = $form;

            fn to_form(&self) -> $form {
                (*self).into()
            }

            fn from_form(form: $form, _: &mut Scope) -> Result<Self, ConvertError> {
                Self::try_from(form).map_err(|_| {
                    let (min, max) = (Self::MIN.into(), Self::MAX.into());
                    ConvertError::new(Reason::OutOfRange { value: form.into(), min, max })
                })
            }
        }
    )+};
}
narrow!(i8 as i32, i16 as i32, u8 as u32, u16 as u32);

/// Newtypes of numbers, for which every number is valid.
macro_rules! number {
    ($($type:ty: $raw:ty, $to_raw:expr, $from_raw:expr;)+) => {$(
        impl Wire for $type {
            type Form = <$raw as Wire>::Form;

            fn to_form(&self) -> Self::Form {
                let to_raw: fn(Self) -> $raw = $to_raw;
                to_raw(*self).to_form()
            }

            fn from_form(form: Self::Form, scope: &mut Scope) -> Result<Self, ConvertError> {
                <$raw>::from_form(form, scope).map($from_raw)
            }
        }
    )+};
}
number! {
    Pid: i32, |pid| pid.0, Self;
    Time: i64, |time| time.0, Self;
    Status: i32, Self::to_raw, Self::from_raw;
    Rank: u32, Self::to_raw, Self::from_raw;
    DataType: u16, Self::to_raw, Self::from_raw;
    Persistence: u8, Self::to_raw, Self::from_raw;
    PutScope: u8, Self::to_raw, Self::from_raw;
    DataRange: u8, Self::to_raw, Self::from_raw;
    ProcState: u8, Self::to_raw, Self::from_raw;
    JobState: u8, Self::to_raw, Self::from_raw;
    LinkState: u8, Self::to_raw, Self::from_raw;
    CoordView: u8, Self::to_raw, Self::from_raw;
    AllocDirective: u8, Self::to_raw, Self::from_raw;
    AllocInheritance: u8, Self::to_raw, Self::from_raw;
    ResourceBlockDirective: u8, Self::to_raw, Self::from_raw;
    FabricOperation: u8, Self::to_raw, Self::from_raw;
    GroupOpt: u8, Self::to_raw, Self::from_raw;
    InfoFlags: u32, |flags| flags.bits(), Self::from_bits_retain;
    IofChannels: u16, |flags| flags.bits(), Self::from_bits_retain;
    Locality: u16, |flags| flags.bits(), Self::from_bits_retain;
    DeviceTypes: u64, |flags| flags.bits(), Self::from_bits_retain;
    StorageMedium: u64, |flags| flags.bits(), Self::from_bits_retain;
    StorageAccessibility: u64, |flags| flags.bits(), Self::from_bits_retain;
    StoragePersistence: u64, |flags| flags.bits(), Self::from_bits_retain;
    StorageAccessType: u16, |flags| flags.bits(), Self::from_bits_retain;
}

impl Wire for KeyName {
    type Form = String;

    fn to_form(&self) -> String {
        self.as_str().to_owned()
    }

    fn from_form(form: String, _: &mut Scope) -> Result<Self, ConvertError> {
        Self::new(form).map_err(ConvertError::new)
    }
}

/// A namespace in data, which may be empty.
impl Wire for Nspace {
    type Form = String;

    fn to_form(&self) -> String {
        self.as_str().to_owned()
    }

    fn from_form(form: String, _: &mut Scope) -> Result<Self, ConvertError> {
        if form.is_empty() { Ok(Self::none()) } else { named_nspace(&form) }
    }
}

/// A named namespace, which is not empty.
pub(super) fn named_nspace(text: &str) -> Result<Nspace, ConvertError> {
    Nspace::new(text).map_err(ConvertError::new)
}
