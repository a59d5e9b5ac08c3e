//! The operations whose messages have the fields of the operation, in the order that its row gives.

use pmix_types::for_each_request;
use pmix_types::message::*;

use super::field::MessageField;
use super::reply::{Body, Results};
use super::{Command, Context};
use crate::codec::{CodecError, Limits, Problem, Reader, Writer};

/// Reads a request.
type Read<T> = fn(&mut Reader<'_>) -> Result<T, CodecError>;

/// What the row of an operation says of its message.
trait Message: Sized {
    /// The command; `None` if the native wire cannot carry the operation.
    const COMMAND: Option<Command>;
    /// The fields of the message; `None` if it has a form of its own.
    const READ: Option<Read<Self>>;

    fn write(&self, w: &mut Writer) -> Result<(), CodecError>;
}

/// A field that has been read, for the constructor of the request.
fn taken<T>(field: &mut Option<T>, r: &Reader<'_>) -> Result<T, CodecError> {
    field
        .take()
        .ok_or_else(|| Problem::Unsuited("the row of the operation names a field twice").at(r.offset()))
}

macro_rules! message {
    ($name:ident ($($field:ident)*) [{
        $command:ident = $number:literal $(, c: $c:literal)? $(, since: $since:tt)?, message: [$($sent:ident),*]
    }]) => {
        impl Message for $name {
            const COMMAND: Option<Command> = Some(Command::$command);
            #[allow(unused_mut, unused_variables, reason = "for requests without fields, or whose constructor takes all")]
            const READ: Option<Read<Self>> = Some(|r| {
                $(let mut $sent = Some(MessageField::read(r)?);)*
                let mut request = Self::new($(taken(&mut $field, r)?),*);
                $(if let Some(rest) = $sent { request.$sent = rest })*
                Ok(request)
            });

            fn write(&self, w: &mut Writer) -> Result<(), CodecError> {
                let _ = &w;
                $(self.$sent.write(w)?;)*
                Ok(())
            }
        }
    };
    ($name:ident $fields:tt [{ $command:ident = $($row:tt)* }]) => {
        own_message! { $name Some(Command::$command) }
    };
    ($name:ident $fields:tt []) => {
        own_message! { $name None }
    };
}

macro_rules! own_message {
    ($name:ident $command:expr) => {
        impl Message for $name {
            const COMMAND: Option<Command> = $command;
            const READ: Option<Read<Self>> = None;

            fn write(&self, w: &mut Writer) -> Result<(), CodecError> {
                Err(Problem::Unsuited("the operation has no message with its fields").at(w.len()))
            }
        }
    };
}

macro_rules! messages {
    ($(
        $name:ident $snake:ident { names: $names:tt, about: $about:tt, by: $by:tt, native: $native:tt } $fields:tt $rest:tt
    )+) => {
        $(message! { $name $fields $native })+

        impl Command {
            /// The command of an operation; `None` if the native wire cannot carry it.
            pub const fn of(request: &Request) -> Option<Self> {
                match request {
                    $(Request::$name(_) => <$name as Message>::COMMAND,)+
                }
            }
        }

        /// Reads a request; `None` if the message of the command has a form of its own, or if the command is not known.
        pub(super) fn read(r: &mut Reader<'_>, command: Command) -> Result<Option<Request>, CodecError> {
            $(if let (true, Some(read)) = (<$name as Message>::COMMAND == Some(command), <$name as Message>::READ) {
                return read(r).map(|request| Some(request.into()));
            })+
            Ok(None)
        }

        pub(super) fn write(w: &mut Writer, request: &Request) -> Result<(), CodecError> {
            match request {
                $(Request::$name(request) => request.write(w),)+
            }
        }

        /// Reads what the reply to an operation says.
        pub(super) fn read_reply(context: &Context, r: &mut Reader<'_>, command: Command) -> Result<Body, CodecError> {
            $(if <$name as Message>::COMMAND == Some(command) {
                return <<$name as Operation>::Reply as Results>::read(context, r);
            })+
            Ok(Body::Empty)
        }

        /// The most memory that the values of a request may take.
        pub(super) fn memory_limit(command: Command) -> usize {
            $(if <$name as Message>::COMMAND == Some(command) {
                return <$name as Operation>::MEMORY_LIMIT.unwrap_or(Limits::MEMORY);
            })+
            MAX_PLAIN
        }
    };
}
for_each_request!(messages);
