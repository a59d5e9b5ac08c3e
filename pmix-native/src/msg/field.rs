//! The fields of operations as items of messages, by their types.

use bytes::Bytes;
use pmix_types::{AllocDirective, App, Directives, Event, Info, KeyName, Nspace, ProcId, Query, Status};

use crate::codec::{CodecError, Problem, Reader, Writer, kind};

/// A field of a request.
pub(super) trait MessageField: Sized {
    fn read(r: &mut Reader<'_>) -> Result<Self, CodecError>;
    fn write(&self, w: &mut Writer) -> Result<(), CodecError>;
}

/// The number of the session of the caller.
const OWN_SESSION: u32 = u32::MAX;

macro_rules! fields {
    ($($type:ty { |$r:ident| $read:expr, |$field:ident, $w:ident| $write:expr })+) => {$(
        impl MessageField for $type {
            fn read($r: &mut Reader<'_>) -> Result<Self, CodecError> {
                $read
            }

            fn write(&self, $w: &mut Writer) -> Result<(), CodecError> {
                let $field = self;
                $write
            }
        }
    )+};
}

macro_rules! items {
    ($($type:ty as $kind:ident;)+) => {
        fields! { $($type { |r| r.item::<kind::$kind>(), |field, w| w.item::<kind::$kind>(field) })+ }
    };
}

macro_rules! lists {
    ($($of:ty as $kind:ident;)+) => {
        fields! { $(Vec<$of> { |r| r.list::<kind::$kind>(), |field, w| w.list::<kind::$kind>(field) })+ }
    };
}

items! {
    AllocDirective as AllocDirective;
    Bytes as ByteObject;
    Info as Info;
    Option<String> as Text;
    Status as Status;
}

lists! {
    App as App;
    ProcId as Proc;
    Query as Query;
    Status as Status;
}

fields! {
    Directives {
        |r| r.list::<kind::Info>().map(Self::from), |directives, w| w.list::<kind::Info>(directives.as_slice())
    }
    // the exit code of an abort
    i32 { |r| Ok(r.item::<kind::Status>()?.to_raw()), |code, w| w.item::<kind::Status>(&Status::from_raw(*code)) }
    String {
        |r| Ok(r.item::<kind::Text>()?.unwrap_or_default()), |text, w| w.item::<kind::Text>(&Some(text.clone()))
    }
    Option<u32> {
        |r| Ok(Some(r.item::<kind::Uint32>()?).filter(|session| *session != OWN_SESSION)),
        |session, w| w.item::<kind::Uint32>(&session.unwrap_or(OWN_SESSION))
    }
    ProcId {
        |r| Ok(Self::new(r.item::<kind::JobName>()?, r.item::<kind::Rank>()?)),
        |proc, w| w.item::<kind::JobName>(&proc.nspace).and_then(|()| w.item::<kind::Rank>(&proc.rank))
    }
    // no processes are those of the caller's job
    Option<Vec<ProcId>> {
        |r| Ok(Some(r.list::<kind::Proc>()?).filter(|procs| !procs.is_empty())),
        |procs, w| w.list::<kind::Proc>(procs.as_deref().unwrap_or_default())
    }
    // the id of a group
    Nspace {
        |r| {
            let start = r.offset();
            let id = r.item::<kind::String>()?;
            Self::new(id).or_else(|error| r.problem(start, error))
        },
        |id, w| w.item::<kind::String>(&id.to_string())
    }
    Option<Nspace> {
        |r| Ok(Some(r.item::<kind::JobName>()?).filter(|nspace| !nspace.is_empty())),
        |nspace, w| w.item::<kind::JobName>(&nspace.clone().unwrap_or_else(Nspace::none))
    }
    // the last item, which is left out for all keys
    Option<KeyName> {
        |r| {
            let start = r.offset();
            let text = if r.is_empty() { None } else { r.item::<kind::Text>()? };
            text.map(KeyName::new).transpose().or_else(|error| r.problem(start, error))
        },
        |key, w| key.as_ref().map_or(Ok(()), |key| w.item::<kind::KeyText>(key))
    }
    // its source is the caller, which the message does not name
    Event {
        |r| {
            let mut event = Self::new(r.item::<kind::Status>()?, ProcId::none());
            event.range = r.item::<kind::DataRange>()?;
            event.info = MessageField::read(r)?;
            Ok(event)
        },
        |event, w| {
            w.item::<kind::Status>(&event.code)?;
            w.item::<kind::DataRange>(&event.range)?;
            event.info.write(w)
        }
    }
}

/// The keys of a lookup, which are no list of one type.
impl MessageField for Vec<KeyName> {
    fn read(r: &mut Reader<'_>) -> Result<Self, CodecError> {
        let start = r.offset();
        let count = r.item::<kind::Size>()?;
        // each key is an item of two bytes or more
        if count > r.left() as u64 {
            return r.problem(start, Problem::End { needed: count, left: r.left() });
        }
        (0..count).map(|_| r.item::<kind::KeyText>()).collect()
    }

    fn write(&self, w: &mut Writer) -> Result<(), CodecError> {
        w.item::<kind::Size>(&(self.len() as u64))?;
        self.iter().try_for_each(|key| w.item::<kind::KeyText>(key))
    }
}
