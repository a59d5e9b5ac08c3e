//! Names of values, with and without the type of the value.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::Arc;

use crate::text::find_control;
use crate::{DataType, keys};

/// Name of a value: 1 to 511 bytes without control characters. Cheap to clone, compares as text.
///
/// # Examples
/// ```
/// use pmix_types::{KeyName, keys};
///
/// let own: KeyName = "my.endpoint".parse()?;
/// assert_eq!(&*own, "my.endpoint");
/// assert_eq!(&*keys::JOB_SIZE.key_name(), "pmix.job.size"); // a key of the Standard
/// # Ok::<(), pmix_types::KeyNameError>(())
/// ```
///
/// # Standard
/// `pmix_key_t`, `PMIX_MAX_KEYLEN`; rules GEN-01, GEN-02.
#[derive(Clone)]
#[doc(alias = "pmix_key_t")]
pub struct KeyName(Text);

#[derive(Clone)]
enum Text {
    Static(&'static str),
    Shared(Arc<str>),
}

/// How the names begin that [`KeyName::claimed`] makes.
const CLAIM: char = '!';

/// Text that is not a valid key.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyNameError {
    /// The text is empty.
    #[error("a key needs at least one character")]
    Empty,
    /// Longer than [`KeyName::MAX_LEN`].
    #[error("a key has at most {max} bytes; this one has {0}", max = KeyName::MAX_LEN)]
    TooLong(usize),
    /// Contains a NUL byte, which C peers would treat as its end.
    #[error("a key must not contain a NUL byte; this one has one at byte {0}")]
    Nul(usize),
    /// Contains a control character, which would affect the terminal on which the key is printed.
    #[error("a key must not contain a control character; this one has one at byte {0}")]
    Control(usize),
}

impl KeyName {
    /// Longest key in bytes.
    #[doc(alias = "PMIX_MAX_KEYLEN")]
    pub const MAX_LEN: usize = 511;

    /// Checks a name.
    ///
    /// # Errors
    /// [`KeyNameError`] if the text is empty, longer than 511 bytes, or contains NUL or another control character.
    pub fn new(text: impl AsRef<str>) -> Result<Self, KeyNameError> {
        let text = text.as_ref();
        check(text)?;
        Ok(match keys::find(text) {
            Some(definition) => Self(Text::Static(definition.name)),
            None => Self(Text::Shared(text.into())),
        })
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Static(text) => text,
            Text::Shared(text) => text,
        }
    }

    /// The text, unless it is one of the Standard's, which is part of the program.
    pub(crate) const fn shared(&self) -> Option<&Arc<str>> {
        match &self.0 {
            Text::Static(_) => None,
            Text::Shared(text) => Some(text),
        }
    }

    /// Whether only the host and the library may provide values of this name: it starts with `pmix`, with or without a
    /// dot after it.
    #[must_use]
    #[doc(alias = "PMIx_Check_reserved_key")]
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with("pmix")
    }

    /// The name under which a value of this reserved key is stored that a process itself has put, as the C library lets it. `None`
    /// if the key is about something else than a process, or too long for another name.
    #[must_use]
    pub fn claimed(&self) -> Option<Self> {
        let is_of_process = matches!(Realm::default_for(self), Realm::Proc | Realm::None);
        let name = (self.is_reserved() && is_of_process).then(|| Self::new(format!("{CLAIM}{self}")));
        name?.ok()
    }

    /// The reserved key, if this is the name of a value that a process itself has put under one.
    #[must_use]
    pub fn claim(&self) -> Option<Self> {
        let key = Self::new(self.as_str().strip_prefix(CLAIM)?).ok()?;
        (key.claimed().as_ref() == Some(self)).then_some(key)
    }

    /// The entry of this name in the Standard's table; `None` for other names.
    #[must_use]
    pub fn definition(&self) -> Option<&'static KeyDef> {
        keys::find(self)
    }
}

const fn check(text: &str) -> Result<(), KeyNameError> {
    let bytes = text.as_bytes();
    if bytes.is_empty() {
        return Err(KeyNameError::Empty);
    }
    if bytes.len() > KeyName::MAX_LEN {
        return Err(KeyNameError::TooLong(bytes.len()));
    }
    match find_control(text) {
        Some(at) if bytes[at] == 0 => Err(KeyNameError::Nul(at)),
        Some(at) => Err(KeyNameError::Control(at)),
        None => Ok(()),
    }
}

impl Deref for KeyName {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for KeyName {
    fn borrow(&self) -> &str {
        self
    }
}

impl AsRef<str> for KeyName {
    fn as_ref(&self) -> &str {
        self
    }
}

impl PartialEq for KeyName {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for KeyName {}

impl PartialEq<str> for KeyName {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for KeyName {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for KeyName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for KeyName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for KeyName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl FromStr for KeyName {
    type Err = KeyNameError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

impl TryFrom<&str> for KeyName {
    type Error = KeyNameError;
    fn try_from(text: &str) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl TryFrom<String> for KeyName {
    type Error = KeyNameError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::new(text)
    }
}

impl<T> From<Key<T>> for KeyName {
    fn from(key: Key<T>) -> Self {
        Self(Text::Static(key.name))
    }
}

impl<T> From<&Key<T>> for KeyName {
    fn from(key: &Key<T>) -> Self {
        Self::from(*key)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for KeyName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

/// The name of a value of type `T`. The Standard's keys are in [`keys`](crate::keys); programs can define their own:
///
/// ```
/// use pmix_types::{DataType, Key, keys};
///
/// const PORT: Key<u16> = Key::new("myapp.port", DataType::UINT16);
///
/// assert_eq!(PORT.name(), "myapp.port");
/// assert!(!PORT.key_name().is_reserved());
/// assert!(keys::JOB_SIZE.key_name().is_reserved());
/// ```
pub struct Key<T> {
    name: &'static str,
    data_type: DataType,
    value: PhantomData<fn() -> T>,
}

impl<T> Key<T> {
    /// A key with values of `data_type`; [`DataType::UNDEF`] if the type varies.
    ///
    /// # Panics
    /// If the name is empty, longer than 511 bytes or contains a control character. In a constant, this is a compile
    /// error.
    #[must_use]
    pub const fn new(name: &'static str, data_type: DataType) -> Self {
        assert!(check(name).is_ok(), "a key has 1 to 511 bytes and no control characters");
        Self { name, data_type, value: PhantomData }
    }

    /// The name as text, for example `pmix.job.size`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Type of the values; [`DataType::UNDEF`] if it varies.
    #[must_use]
    pub const fn data_type(&self) -> DataType {
        self.data_type
    }

    /// The name without the type of its values.
    #[must_use]
    pub fn key_name(&self) -> KeyName {
        self.into()
    }

    /// The same key with values of type `String`, for text that may not be a valid namespace.
    ///
    /// # Examples
    /// ```
    /// use pmix_types::{Info, Nspace, keys};
    ///
    /// let job = Nspace::new("job-1")?;
    /// assert_eq!(Info::new(keys::NSPACE, &job), Info::new(keys::NSPACE.text(), "job-1"));
    /// # Ok::<(), pmix_types::NspaceError>(())
    /// ```
    #[must_use]
    pub const fn text(&self) -> Key<String> {
        Key { name: self.name, data_type: DataType::STRING, value: PhantomData }
    }

    /// The entry of this key in the Standard's table; `None` for a program's own key.
    #[must_use]
    pub fn definition(&self) -> Option<&'static KeyDef> {
        keys::find(self.name)
    }
}

// Written out because a derive would ask the same of `T`.
impl<T> Clone for Key<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Key<T> {}

impl<T> PartialEq for Key<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.data_type == other.data_type
    }
}

impl<T> Eq for Key<T> {}

impl<T> fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({:?}, {})", self.name, self.data_type)
    }
}

impl<T> fmt::Display for Key<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// A key's entry in the Standard's table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyDef {
    /// Name of the constant without `PMIX_`, for example `JOB_SIZE`.
    pub constant: &'static str,
    /// The key itself, for example `pmix.job.size`.
    pub name: &'static str,
    /// Type of the values; `None` if it varies.
    pub data_type: Option<DataType>,
    /// Realm in which a get finds the value if the request names none.
    pub realm: Realm,
    /// Version of the Standard that introduced the key; `impl 5.0.0` for a release of the C implementation.
    pub since: &'static str,
    /// Version since which the key is deprecated; empty if it is not.
    pub deprecated: &'static str,
    /// Its meaning, in one line.
    pub doc: &'static str,
}

impl KeyDef {
    /// The key as a name.
    #[must_use]
    pub const fn key_name(&self) -> KeyName {
        KeyName(Text::Static(self.name))
    }

    /// Whether the key is deprecated: requests should no longer use it.
    #[must_use]
    pub const fn is_deprecated(&self) -> bool {
        !self.deprecated.is_empty()
    }
}

/// The level that a value belongs to.
///
/// # Standard
/// Rule GET-40.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Realm {
    /// An allocation of resources to a user.
    Session,
    /// The processes started together, which have one namespace.
    Job,
    /// The processes of a job that run one program.
    App,
    /// One machine.
    Node,
    /// One process.
    Proc,
    /// No realm: the key is a directive, a qualifier or a container.
    None,
}

impl Realm {
    /// Realm in which a get finds a value of this name if the request names none: the process, unless the Standard's
    /// table has another realm for the name.
    ///
    /// ```
    /// use pmix_types::{Realm, keys};
    ///
    /// assert_eq!(Realm::default_for(keys::JOB_SIZE.name()), Realm::Job);
    /// assert_eq!(Realm::default_for("myapp.port"), Realm::Proc);
    /// ```
    #[must_use]
    pub fn default_for(name: &str) -> Self {
        match keys::find(name).map(|definition| definition.realm) {
            None | Some(Self::None) => Self::Proc,
            Some(realm) => realm,
        }
    }
}

crate::message_first!(KeyNameError);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn gen_01_four_letters_reserve_a_key() {
        for (text, reserved) in [
            ("pmix.job.size", true),
            ("pmixlike", true),
            ("pmix", true),
            ("pmi.x", false),
            ("app.pmix", false),
        ] {
            assert_eq!(KeyName::new(text).unwrap().is_reserved(), reserved, "{text}");
        }
    }

    #[test]
    fn gen_02a_key_has_1_to_511_bytes_without_nul() {
        assert!(KeyName::new("k".repeat(511)).is_ok());
        assert_eq!(KeyName::new("k".repeat(512)), Err(KeyNameError::TooLong(512)));
        assert_eq!(KeyName::new("ä".repeat(256)), Err(KeyNameError::TooLong(512)));
        assert_eq!(KeyName::try_from(""), Err(KeyNameError::Empty));
        assert_eq!("a\0b".parse::<KeyName>(), Err(KeyNameError::Nul(1)));
    }

    #[test]
    fn a_key_holds_no_control_character() {
        for key in ["ä\u{1b}[2J", "ä\n", "ä\u{7f}", "ä\u{9b}2J", "ä\u{2028}x", "ä\u{202e}x", "ä\u{2066}"]
        {
            assert_eq!(KeyName::new(key), Err(KeyNameError::Control(2)), "{key:?}");
        }
        for key in ["btl.tcp.4.1", "OMPI_ARCH", "my key/日本"] {
            assert!(KeyName::new(key).is_ok(), "{key}");
        }
    }

    #[test]
    fn get_40_process_is_the_realm_of_keys_without_one() {
        assert_eq!(Realm::default_for("pmix.univ.size"), Realm::Session);
        assert_eq!(Realm::default_for("pmix.job.size"), Realm::Job);
        assert_eq!(Realm::default_for("pmix.app.size"), Realm::App);
        assert_eq!(Realm::default_for("pmix.hname"), Realm::Node);
        assert_eq!(Realm::default_for("pmix.lrank"), Realm::Proc);
        assert_eq!(Realm::default_for("pmix.timeout"), Realm::Proc);
        assert_eq!(Realm::default_for("pmix.nobody.knows"), Realm::Proc);
        assert_eq!(Realm::default_for("own"), Realm::Proc);
    }

    #[test]
    fn names_compare_and_hash_as_text() {
        let of_key = KeyName::from(keys::JOB_SIZE);
        let of_text = KeyName(Text::Shared("pmix.job.size".into()));
        assert_eq!(of_key, of_text);
        assert!(HashSet::from([of_key]).contains("pmix.job.size"));
        assert!(KeyName::new("b").unwrap() < of_text);
    }

    #[test]
    fn definition_is_found_by_key_and_by_name() {
        let definition = keys::JOB_SIZE.definition().unwrap();
        assert_eq!((definition.constant, definition.data_type), ("JOB_SIZE", Some(DataType::UINT32)));
        assert_eq!(KeyName::new("pmix.job.size").unwrap().definition(), Some(definition));
        assert_eq!(Key::<u32>::new("own", DataType::UINT32).definition(), None);
    }
}
