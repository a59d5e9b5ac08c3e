//! The arguments of functions that take a key, by value or by reference.

use crate::{Key, KeyName, KeyNameError, ValueType};

/// A key as an argument: a string, a [`KeyName`] or a [`Key`], by value or by reference.
pub trait AnyKey: sealed::Sealed {
    /// The checked name.
    ///
    /// # Errors
    /// [`KeyNameError`] for a string that is not a valid key.
    fn into_key_name(self) -> Result<KeyName, KeyNameError>;

    /// Nothing: clippy calls the reference in `keys::JOB_SIZE` needless, unless a method may change what is borrowed.
    #[doc(hidden)]
    fn may_be_borrowed(&mut self) {}
}

/// A key as an argument, for a value of type `T`, by value or by reference. A [`Key`] determines the type; for a string
/// or a [`KeyName`], the caller chooses it.
///
/// A [`Key`] read as another type does not compile:
/// ```compile_fail
/// # use pmix_types::{KeyOf, ValueType, keys};
/// # fn get<T: ValueType>(key: impl KeyOf<T>) -> Option<T> { None }
/// let size: Option<String> = get(keys::JOB_SIZE);
/// ```
pub trait KeyOf<T>: AnyKey {
    /// As in [`AnyKey`].
    #[doc(hidden)]
    fn may_be_borrowed(&mut self) {}
}

/// A [`Key`] as an argument, by value or by reference: the name of a directive, whose value has its type `T`.
///
/// ```
/// use pmix_types::{Info, keys};
///
/// assert_eq!(Info::new(keys::TIMEOUT, 5), Info::new(keys::TIMEOUT, 5));
/// ```
pub trait TypedKey<T>: sealed::Sealed {
    /// The key.
    fn key(&self) -> &Key<T>;

    /// As in [`AnyKey`].
    #[doc(hidden)]
    fn may_be_borrowed(&mut self) {}
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! plain_key {
    ($($type:ty, $text:ident => $name:expr;)+) => {$(
        impl sealed::Sealed for $type {}

        impl AnyKey for $type {
            fn into_key_name(self) -> Result<KeyName, KeyNameError> {
                let $text = self;
                $name
            }
        }

        impl<T: ValueType> KeyOf<T> for $type {}
    )+};
}

plain_key! {
    &str, text => KeyName::new(text);
    &String, text => KeyName::new(text);
    String, text => KeyName::new(text);
    KeyName, name => Ok(name);
    &KeyName, name => Ok(name.clone());
}

macro_rules! typed_key {
    ($($type:ty),+) => {$(
        impl<T> sealed::Sealed for $type {}

        impl<T> AnyKey for $type {
            fn into_key_name(self) -> Result<KeyName, KeyNameError> {
                Ok(self.key_name())
            }
        }

        impl<T: ValueType> KeyOf<T> for $type {}

        impl<T> TypedKey<T> for $type {
            fn key(&self) -> &Key<T> {
                self
            }
        }
    )+};
}

// the last one is what iterators over keys give to closures
typed_key!(Key<T>, &Key<T>, &&Key<T>);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Directives, Query, keys};

    fn name_of(key: impl AnyKey) -> Result<KeyName, KeyNameError> {
        key.into_key_name()
    }

    fn read<T: ValueType>(key: impl KeyOf<T>, value: T) -> (KeyName, T) {
        (key.into_key_name().unwrap(), value)
    }

    #[test]
    fn a_key_is_given_by_value_or_by_reference() {
        let name = keys::TIMEOUT.key_name();
        for given in
            [name_of(keys::TIMEOUT), name_of(&keys::TIMEOUT), name_of(&name), name_of("pmix.timeout")]
        {
            assert_eq!(given.as_ref(), Ok(&name));
        }
        assert_eq!(name_of(""), Err(KeyNameError::Empty));
        assert_eq!(read(keys::TIMEOUT, 5), read(&keys::TIMEOUT, 5));
        assert_eq!(read(&name, 5), read(String::from("pmix.timeout"), 5));
        let directives = Directives::new().with(keys::TIMEOUT, 5);
        assert_eq!(directives, Directives::new().with(&keys::TIMEOUT, 5));
        assert_eq!(directives.get(keys::TIMEOUT), directives.get(&keys::TIMEOUT));
        assert!(directives.contains(keys::TIMEOUT) && directives.contains(&keys::TIMEOUT));
        assert_eq!(Query::new(keys::JOB_SIZE), Query::new(&keys::JOB_SIZE));
    }
}
