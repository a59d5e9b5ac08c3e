use pmix_types::Value;

use super::{At, ConvertError, Scope, Wire, messages};
use crate::v1;
use crate::v1::value::Kind;

macro_rules! convert_value {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => {
        impl Wire for Value {
            type Form = v1::Value;

            fn to_form(&self) -> v1::Value {
                v1::Value {
                    kind: match self {
                        Self::NullString => Some(Kind::NullString(true)),
                        $(Self::$variant(inner) => encoded(inner, Kind::$variant),)+
                        // Undef; every other variant stands in the list that makes these arms.
                        _ => None,
                    },
                }
            }

            fn from_form(form: v1::Value, scope: &mut Scope) -> Result<Self, ConvertError> {
                scope.nested(|scope| match form.kind {
                    None => Ok(Self::Undef),
                    Some(Kind::NullString(_)) => Ok(Self::NullString),
                    $(Some(Kind::$variant(inner)) => {
                        decoded(inner, scope, Self::$variant, stringify!($variant))
                    })+
                })
            }
        }
    };
}
pmix_types::for_each_data_type!(convert_value);
messages!(Value => Value);

/// One arm of the match above, in its own function to keep the stack frame of the match small for nested values.
fn encoded<T: Wire, K>(inner: &T, kind: fn(T::Form) -> K) -> Option<K> {
    Some(kind(inner.to_form()))
}

/// One arm of the match above, as [`encoded`].
fn decoded<T: Wire>(
    form: T::Form,
    scope: &mut Scope,
    variant: fn(T) -> Value,
    name: &str,
) -> Result<Value, ConvertError> {
    T::from_form(form, scope).map(variant).at(name)
}

/// The optional value of a key.
pub(super) fn value_field(form: Option<Box<v1::Value>>, scope: &mut Scope) -> Result<Value, ConvertError> {
    form.map_or(Ok(Value::Undef), |form| Value::from_form(*form, scope)).at("value")
}

/// The reverse of [`value_field`].
pub(super) fn to_value_field(value: &Value) -> Option<Box<v1::Value>> {
    (*value != Value::Undef).then(|| Box::new(value.to_form()))
}
