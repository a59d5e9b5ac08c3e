//! What can be given as a key.

use pmix_types::{Key, KeyName, KeyNameError, ValueType};

/// What can name a key to put: a text, a [`KeyName`] or a [`Key`].
pub trait PutKey: sealed::Sealed {
    /// The checked name.
    ///
    /// # Errors
    /// [`KeyNameError`] for a text that is no key.
    fn into_key_name(self) -> Result<KeyName, KeyNameError>;
}

/// What can be asked for: a [`Key`], which has the type of its values, or a text or [`KeyName`], for which the
/// caller chooses the type.
///
/// A [`Key`] read as another type does not compile:
/// ```compile_fail
/// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
/// let size: String = client.get(None, pmix_client::keys::JOB_SIZE).await?;
/// # Ok(())
/// # }
/// ```
pub trait AskKey<T>: PutKey {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! plain_key {
    ($($type:ty, $text:ident => $name:expr;)+) => {$(
        impl sealed::Sealed for $type {}

        impl PutKey for $type {
            fn into_key_name(self) -> Result<KeyName, KeyNameError> {
                let $text = self;
                $name
            }
        }

        impl<T: ValueType> AskKey<T> for $type {}
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

        impl<T> PutKey for $type {
            fn into_key_name(self) -> Result<KeyName, KeyNameError> {
                Ok(self.key_name())
            }
        }

        impl<T: ValueType> AskKey<T> for $type {}
    )+};
}

typed_key!(Key<T>, &Key<T>);
