//! Types encoded as one integer.

use pmix_types as t;
use pmix_types::DataType;

use super::int::Integer;
use super::{CodecError, Kind, Reader, Writer, kind};
use crate::Dialect;

/// `Marker(Rust type) CONSTANT as integer of the wire, from it, to it, type before a run;`
macro_rules! scalars {
    ($($name:ident($rust:ty) $constant:ident as $wire:ty, $from:expr, $to:expr, $tag:ident;)+) => {$(
        impl Kind for kind::$name {
            type Rust = $rust;
            const DATA_TYPE: DataType = DataType::$constant;

            fn run_tag(dialect: Dialect) -> Option<DataType> {
                $tag(dialect, DataType::$constant)
            }

            fn read(reader: &mut Reader<'_>) -> Result<$rust, CodecError> {
                let from: fn($wire) -> $rust = $from;
                <$wire>::get(reader).map(from)
            }

            fn write(writer: &mut Writer, value: &$rust) -> Result<(), CodecError> {
                let to: fn($rust) -> $wire = $to;
                to(*value).put(writer);
                Ok(())
            }
        }
    )+};
}

/// Types of the same width everywhere.
const fn none(_: Dialect, _: DataType) -> Option<DataType> {
    None
}

/// Types whose width depends on the machine. Their width on the wire is written before them: always for process ids, and for
/// the others if integers have fixed width.
const fn width(dialect: Dialect, data_type: DataType) -> Option<DataType> {
    match data_type {
        DataType::PID => Some(DataType::UINT32),
        _ if dialect.is_flexible() => None,
        DataType::SIZE => Some(DataType::UINT64),
        _ => Some(DataType::INT32),
    }
}

const fn same<T: Copy>(number: T) -> T {
    number
}

scalars! {
    Bool(bool) BOOL as u8, |byte| byte != 0, u8::from, none;
    Byte(u8) BYTE as u8, same, same, none;
    Size(u64) SIZE as u64, same, same, width;
    Pid(t::Pid) PID as u32, |pid| t::Pid(pid.cast_signed()), |pid| pid.0.cast_unsigned(), width;
    Int(i32) INT as i32, same, same, width;
    Int8(i8) INT8 as i8, same, same, none;
    Int16(i16) INT16 as i16, same, same, none;
    Int32(i32) INT32 as i32, same, same, none;
    Int64(i64) INT64 as i64, same, same, none;
    // the C library sends it as a signed number
    Uint(u32) UINT as i32, i32::cast_unsigned, u32::cast_signed, width;
    Uint8(u8) UINT8 as u8, same, same, none;
    Uint16(u16) UINT16 as u16, same, same, none;
    Uint32(u32) UINT32 as u32, same, same, none;
    Uint64(u64) UINT64 as u64, same, same, none;
    Time(t::Time) TIME as u64, |time| t::Time(time.cast_signed()), |time| time.0.cast_unsigned(), none;
    Status(t::Status) STATUS as i32, t::Status::from_raw, t::Status::to_raw, none;
    Persistence(t::Persistence) PERSIST as u8, t::Persistence::from_raw, t::Persistence::to_raw, none;
    Scope(t::Scope) SCOPE as u8, t::Scope::from_raw, t::Scope::to_raw, none;
    DataRange(t::DataRange) DATA_RANGE as u8, t::DataRange::from_raw, t::DataRange::to_raw, none;
    Command(u8) COMMAND as u8, same, same, none;
    InfoFlags(t::InfoFlags) INFO_DIRECTIVES as u32, t::InfoFlags::from_bits_retain, |flags| flags.bits(), none;
    DataType(DataType) DATA_TYPE as u16, DataType::from_raw, DataType::to_raw, none;
    ProcState(t::ProcState) PROC_STATE as u8, t::ProcState::from_raw, t::ProcState::to_raw, none;
    Rank(t::Rank) PROC_RANK as u32, t::Rank::from_raw, t::Rank::to_raw, none;
    AllocDirective(t::AllocDirective) ALLOC_DIRECTIVE as u8, t::AllocDirective::from_raw, t::AllocDirective::to_raw, none;
    IofChannels(t::IofChannels) IOF_CHANNEL as u16, t::IofChannels::from_bits_retain, |flags| flags.bits(), none;
    JobState(t::JobState) JOB_STATE as u8, t::JobState::from_raw, t::JobState::to_raw, none;
    LinkState(t::LinkState) LINK_STATE as u8, t::LinkState::from_raw, t::LinkState::to_raw, none;
    DeviceTypes(t::DeviceTypes) DEVTYPE as u64, t::DeviceTypes::from_bits_retain, |flags| flags.bits(), none;
    Locality(t::Locality) LOCTYPE as u16, t::Locality::from_bits_retain, |flags| flags.bits(), none;
    StorageMedium(t::StorageMedium) STOR_MEDIUM as u64, t::StorageMedium::from_bits_retain, |flags| flags.bits(), none;
    StorageAccessibility(t::StorageAccessibility) STOR_ACCESS as u64, t::StorageAccessibility::from_bits_retain, |flags| flags.bits(), none;
    StoragePersistence(t::StoragePersistence) STOR_PERSIST as u64, t::StoragePersistence::from_bits_retain, |flags| flags.bits(), none;
    StorageAccessType(t::StorageAccessType) STOR_ACCESS_TYPE as u16, t::StorageAccessType::from_bits_retain, |flags| flags.bits(), none;
}
