use bytes::Bytes;
use pmix_types::{DataRange, Directives, Event, IofChannels, ProcId};

use super::{Command, Context, lossy};
use crate::codec::{CodecError, Problem, Reader, Writer, kind};
use crate::conn::tag;

/// A message of the server that is not a reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Push {
    /// An event.
    Event(Event),
    /// Output, or input for the receiver.
    Iof(IofDelivery),
}

/// Forwarded output or input.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct IofDelivery {
    /// The process that wrote it.
    pub source: ProcId,
    /// Its channel.
    pub channels: IofChannels,
    /// The receiver's number from its output subscription; 0 for its default handler.
    pub id: u64,
    /// More about it; may be empty.
    pub info: Directives,
    /// The output. Receivers ignore empty output.
    pub data: Bytes,
}

impl IofDelivery {
    /// Output of a process for the receiver's default handler.
    pub fn new(source: ProcId, channels: IofChannels, data: Bytes) -> Self {
        Self { source, channels, id: 0, info: Directives::new(), data }
    }
}

impl Push {
    /// Its tag.
    pub const fn tag(&self) -> u32 {
        match self {
            Self::Event(_) => tag::EVENT,
            Self::Iof(_) => tag::IOF,
        }
    }

    /// Decodes a push with this tag; `None` if the tag is not that of a push.
    ///
    /// An event without a range, as some servers send it, gets range `UNDEF`.
    ///
    /// # Errors
    /// [`CodecError`] if the payload is malformed.
    pub fn decode(context: &Context, tag: u32, payload: &[u8]) -> Result<Option<Self>, CodecError> {
        let mut reader = context.reader(payload);
        Ok(match tag {
            tag::EVENT => Some(Self::Event(read_event(&mut reader)?)),
            tag::IOF => Some(Self::Iof(read_iof(&mut reader)?)),
            _ => None,
        })
    }

    /// Encodes the push. Infos that the dialect does not support are omitted.
    ///
    /// # Errors
    /// [`CodecError`] if there are too many infos for a message.
    pub fn encode(&self, context: &Context) -> Result<Bytes, CodecError> {
        let mut writer = context.writer();
        match self {
            Self::Event(event) => write_event(&mut writer, event)?,
            Self::Iof(delivery) => write_iof(&mut writer, delivery)?,
        }
        Ok(writer.finish())
    }
}

fn read_event(reader: &mut Reader<'_>) -> Result<Event, CodecError> {
    let start = reader.offset();
    let command = reader.item::<kind::Command>()?;
    if command != Command::NOTIFY.to_raw() {
        return reader.problem(start, Problem::Command(command));
    }
    let code = reader.item::<kind::Status>()?;
    let mut event = Event::new(code, reader.item::<kind::Proc>()?);
    event.info = reader.list::<kind::Info>()?.into();
    event.range = if reader.is_empty() { DataRange::UNDEF } else { reader.item::<kind::DataRange>()? };
    Ok(event)
}

fn write_event(writer: &mut Writer, event: &Event) -> Result<(), CodecError> {
    writer.item::<kind::Command>(&Command::NOTIFY.to_raw())?;
    writer.item::<kind::Status>(&event.code)?;
    writer.item::<kind::Proc>(&event.source)?;
    lossy::infos(writer, event.info.as_slice())?;
    writer.item::<kind::DataRange>(&event.range)
}

fn read_iof(reader: &mut Reader<'_>) -> Result<IofDelivery, CodecError> {
    Ok(IofDelivery {
        source: reader.item::<kind::Proc>()?,
        channels: reader.item::<kind::IofChannels>()?,
        id: reader.item::<kind::Size>()?,
        info: reader.list::<kind::Info>()?.into(),
        data: reader.item::<kind::ByteObject>()?,
    })
}

fn write_iof(writer: &mut Writer, delivery: &IofDelivery) -> Result<(), CodecError> {
    writer.item::<kind::Proc>(&delivery.source)?;
    writer.item::<kind::IofChannels>(&delivery.channels)?;
    writer.item::<kind::Size>(&delivery.id)?;
    lossy::infos(writer, delivery.info.as_slice())?;
    writer.item::<kind::ByteObject>(&delivery.data)
}
