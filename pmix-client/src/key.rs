//! The forms of a key as an argument: a string, a [`KeyName`] or a [`Key`], by value or by reference.

use pmix_types::{Key, KeyName, KeyNameError, ValueType};

/// A key as an argument: a string, a [`KeyName`] or a [`Key`], by value or by reference.
pub trait AnyKey: sealed::Sealed {
    /// The checked name.
    ///
    /// # Errors
    /// [`KeyNameError`] for a string that is not a valid key.
    fn into_key_name(self) -> Result<KeyName, KeyNameError>;
}

/// A key as an argument, for a value of type `T`, by value or by reference. A [`Key`] determines the type; for a string
/// or a [`KeyName`], the caller chooses it.
///
/// A [`Key`] read as another type does not compile:
/// ```compile_fail
/// # async fn example(client: pmix_client::Client) -> Result<(), pmix_client::Error> {
/// let size: String = client.get(None, pmix_client::keys::JOB_SIZE).await?;
/// # Ok(())
/// # }
/// ```
pub trait KeyOf<T>: AnyKey {}

/// A [`Key`] as an argument, by value or by reference: the name of a directive or a channel, whose value has its type `T`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), pmix_client::Error> {
/// use pmix_client::{Client, keys};
///
/// let client = Client::singleton().await?;
/// client.fence_all().directive(keys::COLLECT_DATA, true).await?;
/// client.fence_all().directive(&keys::COLLECT_DATA, true).await?;
/// # Ok(())
/// # }
/// ```
pub trait TypedKey<T>: sealed::Sealed {
    /// The key.
    fn key(&self) -> &Key<T>;
}

impl<T> TypedKey<T> for Key<T> {
    fn key(&self) -> &Self {
        self
    }
}

impl<T> TypedKey<T> for &Key<T> {
    fn key(&self) -> &Key<T> {
        self
    }
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
    )+};
}

typed_key!(Key<T>, &Key<T>);
