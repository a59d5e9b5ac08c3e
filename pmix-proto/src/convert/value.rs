use bytes::Bytes;
use pmix_types::Value;

use super::{At, ConvertError, Scope, Wire, messages};
use crate::v1;
use crate::v1::value::Kind;

macro_rules! convert_value {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => {
        impl Wire for Value {
            type Form = v1::Value;

            fn to_form(&self) -> v1::Value {
                let kind = match self {
                    $(Self::$variant(inner) => Some(Kind::$variant(inner.to_form())),)+
                    // Undef; every other variant stands in the list that makes these arms.
                    _ => None,
                };
                v1::Value { kind }
            }

            fn from_form(form: v1::Value, scope: &mut Scope) -> Result<Self, ConvertError> {
                scope.nested(|scope| {
                    Ok(match form.kind {
                        None => Self::Undef,
                        $(Some(Kind::$variant(inner)) => {
                            Self::$variant(<$type>::from_form(inner, scope).at(stringify!($variant))?)
                        })+
                    })
                })
            }
        }
    };
}
pmix_types::for_each_data_type!(convert_value);
messages!(Value => Value);

/// The value of a key: absent means that there is none.
pub(super) fn value_field(form: Option<Box<v1::Value>>, scope: &mut Scope) -> Result<Value, ConvertError> {
    form.map_or(Ok(Value::Undef), |form| Value::from_form(*form, scope)).at("value")
}

/// The reverse of [`value_field`].
pub(super) fn to_value_field(value: &Value) -> Option<Box<v1::Value>> {
    (*value != Value::Undef).then(|| Box::new(value.to_form()))
}
