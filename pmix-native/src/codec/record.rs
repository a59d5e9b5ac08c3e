//! Types with several fields.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use pmix_types as t;
use pmix_types::DataType;

use super::int::Integer;
use super::text::{
    kinds, read_bytes, read_key, read_nspace, read_os_text, read_string, read_text, read_text_bytes,
    write_bytes, write_text, write_text_bytes,
};
use super::value::{read_value, write_value};
use super::{CodecError, Kind, Problem, Reader, Writer, kind};

kinds! {
    Timeval(t::Timeval) TIMEVAL,
        |r| Ok(t::Timeval { sec: i64::get(r)?, usec: i64::get(r)? }),
        |w, time| {
            time.sec.put(w);
            time.usec.put(w);
            Ok(())
        };
    Proc(t::ProcId) PROC,
        |r| Ok(t::ProcId { nspace: read_nspace(r)?, rank: kind::Rank::read(r)? }),
        |w, proc| {
            write_text(w, Some(&proc.nspace))?;
            kind::Rank::write(w, &proc.rank)
        };
    Value(t::Value) VALUE, read_value, write_value;
    KeyVal(t::KeyVal) KVAL,
        |r| Ok(t::KeyVal { key: read_key(r)?, value: read_value(r)? }),
        |w, pair| {
            write_text(w, Some(&pair.key))?;
            write_value(w, &pair.value)
        };
    Pdata(t::Pdata) PDATA,
        |r| Ok(t::Pdata::new(kind::Proc::read(r)?, read_key(r)?, read_value(r)?)),
        |w, data| {
            kind::Proc::write(w, &data.proc)?;
            write_text(w, Some(&data.key))?;
            write_value(w, &data.value)
        };
    ProcInfo(t::ProcInfo) PROC_INFO,
        |r| {
            let mut row = t::ProcInfo::new(kind::Proc::read(r)?);
            row.hostname = kind::Text::read(r)?;
            row.executable = kind::Text::read(r)?;
            row.pid = r.one::<kind::Pid>()?;
            row.state = kind::ProcState::read(r)?;
            Ok(row)
        },
        |w, row| {
            kind::Proc::write(w, &row.proc)?;
            write_text(w, row.hostname.as_deref())?;
            write_text(w, row.executable.as_deref())?;
            w.one::<kind::Pid>(&row.pid)?;
            kind::ProcState::write(w, &row.state)
        };
    Query(t::Query) QUERY, read_query, write_query;
    App(t::App) APP, read_app, write_app;
    Envar(t::Envar) ENVAR,
        |r| Ok(t::Envar { name: read_os_text(r)?, value: read_os_text(r)?, separator: r.byte()? }),
        |w, envar| {
            kind::OsText::write(w, &envar.name)?;
            kind::OsText::write(w, &envar.value)?;
            w.byte(envar.separator);
            Ok(())
        };
    Coord(t::Coord) COORD,
        |r| Ok(t::Coord::new(t::CoordView::from_raw(r.byte()?), read_sized::<kind::Uint32>(r)?)),
        |w, coord| {
            w.byte(coord.view.to_raw());
            write_sized::<kind::Uint32>(w, &coord.coords)
        };
    Geometry(t::Geometry) GEOMETRY,
        |r| {
            let (fabric, uuid, osname) = (r.one::<kind::Size>()?, read_string(r)?, read_string(r)?);
            Ok(t::Geometry::new(fabric, uuid, osname, read_sized::<kind::Coord>(r)?))
        },
        |w, geometry| {
            w.one::<kind::Size>(&geometry.fabric)?;
            write_text(w, Some(&geometry.uuid))?;
            write_text(w, Some(&geometry.osname))?;
            write_sized::<kind::Coord>(w, &geometry.coordinates)
        };
    DeviceDistance(t::DeviceDistance) DEVICE_DIST,
        |r| {
            let device = t::Device::new(read_string(r)?, read_string(r)?, kind::DeviceTypes::read(r)?);
            Ok(t::DeviceDistance::new(device, u16::get(r)?, u16::get(r)?))
        },
        |w, distance| {
            write_text(w, Some(&distance.device.uuid))?;
            write_text(w, Some(&distance.device.osname))?;
            kind::DeviceTypes::write(w, &distance.device.device_type)?;
            distance.min.put(w);
            distance.max.put(w);
            Ok(())
        };
    Endpoint(t::Endpoint) ENDPOINT,
        |r| Ok(t::Endpoint::new(kind::Text::read(r)?, read_text(r)?.map(str::to_owned), read_bytes(r)?)),
        |w, endpoint| {
            write_text(w, endpoint.uuid.as_deref())?;
            write_text(w, endpoint.osname.as_deref())?;
            write_bytes(w, &endpoint.endpoint)
        };
}

impl Kind for kind::RegAttr {
    type Rust = t::RegAttr;
    const DATA_TYPE: DataType = DataType::REGATTR;

    fn read(reader: &mut Reader<'_>) -> Result<t::RegAttr, CodecError> {
        let (name, key, data_type) = (read_string(reader)?, read_key(reader)?, reader.data_type()?);
        let description = read_counted::<kind::String>(reader)?;
        Ok(t::RegAttr::new(name, key, data_type, Vec::new(), description))
    }

    /// An attribute without a key stands for none, where a server of the C library lists those of a function.
    fn read_next(reader: &mut Reader<'_>) -> Result<Option<t::RegAttr>, CodecError> {
        let mut ahead = reader.clone();
        read_text(&mut ahead)?;
        let is_named = !read_text(&mut ahead)?.is_none_or(str::is_empty);
        if is_named {
            return Self::read(reader).map(Some);
        }
        read_text(reader)?;
        read_text(reader)?;
        reader.data_type()?;
        read_counted::<kind::String>(reader)?;
        Ok(None)
    }

    fn write(writer: &mut Writer, attr: &t::RegAttr) -> Result<(), CodecError> {
        write_text(writer, Some(&attr.name))?;
        write_text(writer, Some(&attr.key))?;
        writer.tag(attr.data_type);
        write_counted::<kind::String>(writer, &attr.description)
    }
}

impl Kind for kind::Info {
    type Rust = t::Info;
    const DATA_TYPE: DataType = DataType::INFO;

    fn read(reader: &mut Reader<'_>) -> Result<t::Info, CodecError> {
        let key = read_key(reader)?;
        let flags = kind::InfoFlags::read(reader)?;
        Ok(t::Info::dynamic(key, read_value(reader)?).with_flags(flags))
    }

    /// An info without a key is an unused element of a C program's array.
    fn read_next(reader: &mut Reader<'_>) -> Result<Option<t::Info>, CodecError> {
        let is_named = !read_text(&mut reader.clone())?.is_none_or(str::is_empty);
        if is_named {
            return Self::read(reader).map(Some);
        }
        read_text(reader)?;
        kind::InfoFlags::read(reader)?;
        read_value(reader)?;
        Ok(None)
    }

    fn write(writer: &mut Writer, info: &t::Info) -> Result<(), CodecError> {
        write_text(writer, Some(&info.key))?;
        kind::InfoFlags::write(writer, &info.flags)?;
        write_value(writer, &info.value)
    }
}

fn read_query(reader: &mut Reader<'_>) -> Result<t::Query, CodecError> {
    let mut query = t::Query::dynamic(read_counted::<kind::KeyText>(reader)?);
    query.qualifiers = reader.nested(read_sized::<kind::Info>)?.into();
    Ok(query)
}

fn write_query(writer: &mut Writer, query: &t::Query) -> Result<(), CodecError> {
    write_counted::<kind::KeyText>(writer, &query.keys)?;
    writer.nested(|writer| write_sized::<kind::Info>(writer, query.qualifiers.as_slice()))
}

fn read_app(reader: &mut Reader<'_>) -> Result<t::App, CodecError> {
    let mut app = t::App::default();
    app.command = read_os_text(reader)?;
    app.argv = {
        let start = reader.offset();
        let count = reader.one::<kind::Int>()?;
        read_many::<kind::OsText>(reader, start, count)?
    };
    app.env = read_counted::<kind::OsText>(reader)?;
    app.cwd = read_text_bytes(reader)?.map(|cwd| OsString::from_vec(cwd.to_vec()));
    app.max_procs = reader.one::<kind::Int>()?;
    app.info = reader.nested(read_sized::<kind::Info>)?;
    Ok(app)
}

fn write_app(writer: &mut Writer, app: &t::App) -> Result<(), CodecError> {
    kind::OsText::write(writer, &app.command)?;
    let argc = count(writer, app.argv.len())?;
    writer.one::<kind::Int>(&argc)?;
    writer.run::<kind::OsText>(&app.argv)?;
    write_counted::<kind::OsText>(writer, &app.env)?;
    write_text_bytes(writer, app.cwd.as_deref().map(OsStr::as_bytes))?;
    writer.one::<kind::Int>(&app.max_procs)?;
    writer.nested(|writer| write_sized::<kind::Info>(writer, &app.info))
}

/// Values after a count of type SIZE.
pub(super) fn read_sized<K: Kind>(reader: &mut Reader<'_>) -> Result<Vec<K::Rust>, CodecError> {
    let count = reader.one::<kind::Size>()?;
    reader.run::<K>(count)
}

pub(super) fn write_sized<K: Kind>(writer: &mut Writer, values: &[K::Rust]) -> Result<(), CodecError> {
    writer.one::<kind::Size>(&(values.len() as u64))?;
    writer.run::<K>(values)
}

/// Values after a count of type INT32.
fn read_counted<K: Kind>(reader: &mut Reader<'_>) -> Result<Vec<K::Rust>, CodecError> {
    let start = reader.offset();
    let count = i32::get(reader)?;
    read_many::<K>(reader, start, count)
}

fn read_many<K: Kind>(reader: &mut Reader<'_>, start: usize, count: i32) -> Result<Vec<K::Rust>, CodecError> {
    match u64::try_from(count) {
        Ok(count) => reader.run::<K>(count),
        Err(_) => reader.problem(start, Problem::Count(count.into())),
    }
}

fn write_counted<K: Kind>(writer: &mut Writer, values: &[K::Rust]) -> Result<(), CodecError> {
    count(writer, values.len())?.put(writer);
    writer.run::<K>(values)
}

fn count(writer: &Writer, length: usize) -> Result<i32, CodecError> {
    i32::try_from(length).map_err(|_| Problem::Range(DataType::INT32).at(writer.len()))
}
