//! Conversions between the domain types and the generated messages.
//!
//! Encoding never fails. Decoding is checked: input becomes either a domain value or a [`ConvertError`] with position and
//! reason. Nothing panics, and missing fields are not filled in.

mod array;
mod changes;
mod error;
mod group;
mod iof;
mod job;
mod operation;
mod records;
mod reply;
mod request;
mod scalar;
mod table;
mod value;

pub use error::{ConvertError, Reason};
pub use job::{decode_job, encode_job};
pub(crate) use reply::{fence_file, get_reply, welcome};

pub(crate) use error::At;
pub(crate) use operation::memory_limit;

/// Deepest nesting of values and arrays.
///
/// At most three messages lie between a value and one inside it, so values of this depth stay below the limit of protobuf
/// decoders, which is 100 nested messages.
pub const MAX_DEPTH: usize = 28;

/// Most bytes of text that the process tables of one body may expand to. A few bytes in a column can refer to a long name in the
/// dictionary, so the size of the message is not a limit.
const MAX_TABLE_TEXT: usize = 256 << 20;

/// A domain type and its form on the wire.
pub(crate) trait Wire: Sized {
    type Form;

    fn to_form(&self) -> Self::Form;

    fn from_form(form: Self::Form, scope: &mut Scope) -> Result<Self, ConvertError>;
}

/// Limits of a whole body.
pub(crate) struct Scope {
    depth: usize,
    table_text: usize,
}

impl Default for Scope {
    fn default() -> Self {
        Self { depth: MAX_DEPTH, table_text: MAX_TABLE_TEXT }
    }
}

impl Scope {
    /// Decodes one level deeper.
    fn nested<T>(
        &mut self,
        decode: impl FnOnce(&mut Self) -> Result<T, ConvertError>,
    ) -> Result<T, ConvertError> {
        let too_deep = || ConvertError::new(Reason::TooDeep { limit: MAX_DEPTH });
        self.depth = self.depth.checked_sub(1).ok_or_else(too_deep)?;
        let decoded = decode(self);
        self.depth += 1;
        decoded
    }

    /// Counts text that refers to a table's dictionary.
    fn expand(&mut self, bytes: usize) -> Result<(), ConvertError> {
        let too_large = || {
            ConvertError::new(Reason::TooLarge { what: "the text of a process table", limit: MAX_TABLE_TEXT })
        };
        self.table_text = self.table_text.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    }
}

/// A required message, which protobuf treats as optional.
fn required<T: Wire>(form: Option<T::Form>, scope: &mut Scope) -> Result<T, ConvertError> {
    T::from_form(present(form)?, scope)
}

fn present<F>(form: Option<F>) -> Result<F, ConvertError> {
    form.ok_or_else(|| ConvertError::new(Reason::Missing))
}

impl<T: Wire> Wire for Vec<T> {
    type Form = Vec<T::Form>;

    fn to_form(&self) -> Self::Form {
        self.iter().map(T::to_form).collect()
    }

    fn from_form(forms: Self::Form, scope: &mut Scope) -> Result<Self, ConvertError> {
        forms.into_iter().enumerate().map(|(index, form)| T::from_form(form, scope).at_index(index)).collect()
    }
}

/// An optional field.
impl<T: Wire> Wire for Option<T> {
    type Form = Option<T::Form>;

    fn to_form(&self) -> Self::Form {
        self.as_ref().map(T::to_form)
    }

    fn from_form(form: Self::Form, scope: &mut Scope) -> Result<Self, ConvertError> {
        form.map(|form| T::from_form(form, scope)).transpose()
    }
}

impl<T: Wire> Wire for Box<T> {
    type Form = Box<T::Form>;

    fn to_form(&self) -> Self::Form {
        Box::new(T::to_form(self))
    }

    fn from_form(form: Self::Form, scope: &mut Scope) -> Result<Self, ConvertError> {
        T::from_form(*form, scope).map(Self::new)
    }
}

/// `From<&domain>` and `TryFrom<message>` for types with their own message.
macro_rules! messages {
    ($($domain:ty => $message:ident),+ $(,)?) => {$(
        impl From<&$domain> for $crate::v1::$message {
            fn from(domain: &$domain) -> Self {
                <$domain as $crate::convert::Wire>::to_form(domain)
            }
        }

        impl TryFrom<$crate::v1::$message> for $domain {
            type Error = $crate::convert::ConvertError;

            fn try_from(message: $crate::v1::$message) -> Result<Self, Self::Error> {
                <$domain as $crate::convert::Wire>::from_form(message, &mut $crate::convert::Scope::default())
            }
        }
    )+};
}
use messages;
