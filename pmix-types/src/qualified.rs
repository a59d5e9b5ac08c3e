use std::fmt::{self, Write as _};

use crate::{DataArray, Info, InfoFlags, KeyName, KeyNameError, Value};

/// A value that a process has put under a key together with qualifiers. Only a get with equal qualifiers returns it, so a
/// process can put several values under one key, beside one without qualifiers.
///
/// # Examples
/// ```
/// use pmix_types::{Info, QualifiedValue, Value, keys};
///
/// let group = Info::new(&keys::GROUP_CONTEXT_ID, 7u64);
/// let id = QualifiedValue::new("id".parse()?, 3u32, [group]);
/// let array = Value::from(id.clone()); // the form in which it passes the wires
/// assert_eq!(QualifiedValue::read(&array), Some(id));
/// # Ok::<(), pmix_types::KeyNameError>(())
/// ```
///
/// # Standard
/// None; `PMIX_QUALIFIED_VALUE` of OpenPMIx 4.2.
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "PMIX_QUALIFIED_VALUE")]
#[non_exhaustive]
pub struct QualifiedValue {
    /// The key.
    pub key: KeyName,
    /// The value.
    pub value: Value,
    /// At least one; their order does not matter.
    pub qualifiers: Vec<Info>,
}

/// How the names begin under which values with qualifiers are stored.
const PREFIX: &str = "?pmix.qual.val:";

impl QualifiedValue {
    /// A value under a key, with qualifiers.
    pub fn new(key: KeyName, value: impl Into<Value>, qualifiers: impl IntoIterator<Item = Info>) -> Self {
        let marked = |info: Info| Info { flags: info.flags | InfoFlags::QUALIFIER, ..info };
        Self { key, value: value.into(), qualifiers: qualifiers.into_iter().map(marked).collect() }
    }

    /// Reads the value of `QUALIFIED_VALUE`: an array whose first element is the value under its key. Those of the others that
    /// are marked as qualifiers are its qualifiers. `None` for any other value.
    #[must_use]
    pub fn read(array: &Value) -> Option<Self> {
        let (first, others) = array.as_infos()?.split_first()?;
        Some(Self::new(first.key.clone(), first.value.clone(), qualifiers(others).cloned()))
    }

    /// The name under which it is stored beside other keys of its process.
    ///
    /// # Errors
    /// [`KeyNameError::TooLong`] if the key and its qualifiers, as text, are longer than a key may be.
    pub fn name(&self) -> Result<KeyName, KeyNameError> {
        Self::name_of(&self.key, &self.qualifiers)
    }

    /// The name under which the value of a key with these qualifiers is stored: the key itself if there are none.
    ///
    /// # Errors
    /// [`KeyNameError::TooLong`] if the key and its qualifiers, as text, are longer than a key may be.
    pub fn name_of<'a>(
        key: &KeyName,
        qualifiers: impl IntoIterator<Item = &'a Info>,
    ) -> Result<KeyName, KeyNameError> {
        let mut texts = Vec::new();
        let mut len = PREFIX.len();
        for info in qualifiers {
            let mut text = Bounded(String::new());
            let written = write!(text, ";{:?}={:?}", info.key.as_str(), info.value);
            len += text.0.len();
            if written.is_err() || len > KeyName::MAX_LEN {
                return Err(KeyNameError::TooLong(len));
            }
            texts.push(text.0);
        }
        if texts.is_empty() {
            return Ok(key.clone());
        }
        texts.sort_unstable();
        KeyName::new(format!("{PREFIX}{:?}{}", key.as_str(), texts.concat()))
    }

    /// The name under which an array is stored that [`read`](Self::read) can read, without a copy of its value; `None` for any
    /// other value.
    pub(crate) fn name_in(array: &Value) -> Option<Result<KeyName, KeyNameError>> {
        let (first, others) = array.as_infos()?.split_first()?;
        Some(Self::name_of(&first.key, qualifiers(others)))
    }

    /// Whether [`Self::name`] has made this name.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    /// Takes the value out of an array that is stored under a name that [`Self::name`] has made, and returns other values as they
    /// are.
    #[must_use]
    pub fn plain<'a>(name: &str, stored: &'a Value) -> &'a Value {
        let first = || stored.as_infos()?.first();
        let qualified = if Self::is_name(name) { first() } else { None };
        qualified.map_or(stored, |info| &info.value)
    }
}

/// Those of these infos that are marked as qualifiers.
fn qualifiers(infos: &[Info]) -> impl Iterator<Item = &Info> {
    infos.iter().filter(|info| info.is_qualifier())
}

/// Text that ends with an error where it is longer than a key may be, whatever is written.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > KeyName::MAX_LEN {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

impl From<QualifiedValue> for Value {
    fn from(qualified: QualifiedValue) -> Self {
        let QualifiedValue { key, value, qualifiers } = qualified;
        let all = std::iter::once(Info::dynamic(key, value)).chain(qualifiers);
        DataArray::Info(all.collect()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;
    use crate::message::PutEntry;
    use crate::{KeyVal, Scope};

    fn key(text: &str) -> KeyName {
        text.parse().unwrap()
    }

    fn qualifier(name: &str, value: impl Into<Value>) -> Info {
        Info::dynamic(key(name), value)
    }

    fn name(name: &str, qualifiers: &[Info]) -> KeyName {
        QualifiedValue::name_of(&key(name), qualifiers).unwrap()
    }

    #[test]
    fn names_differ_with_the_key_and_each_qualifier_and_not_with_their_order() {
        let (a, b) = (qualifier("a", 1u32), qualifier("b", "x"));
        let both = name("k", &[a.clone(), b.clone()]);
        assert_eq!(both, name("k", &[b.clone(), a.clone()]));
        for other in [
            name("k", &[]),
            name("l", &[a.clone(), b.clone()]),
            name("k", std::slice::from_ref(&a)),
            name("k", &[a.clone(), qualifier("b", "y")]),
            name("k", &[qualifier("a", 1u64), b.clone()]),
            // one that contains the text of both
            name("k", &[qualifier("a", "1\";\"b\"=\"x")]),
        ] {
            assert_ne!(both, other);
        }
        assert_eq!(name("k", &[]), key("k"));
        assert!(QualifiedValue::is_name(&both) && !both.is_reserved());
        let many: Vec<_> = (0..100).map(|number| qualifier("a", number)).collect();
        for long in [vec![qualifier("a", "x".repeat(500))], many, vec![qualifier("a", vec![0u8; 1 << 20])]] {
            let long = QualifiedValue::name_of(&key("k"), &long);
            assert!(matches!(long, Err(KeyNameError::TooLong(len)) if len < 2000), "{long:?}");
        }
    }

    #[test]
    fn put_02_pairs_of_programs_in_c_keep_their_form() {
        let pair = |name: KeyName, value: Value| KeyVal { key: name, value };
        let read = |pair| PutEntry::from_pair(Scope::GLOBAL, pair);
        let qualified = QualifiedValue::new(key("k"), 5u32, [qualifier("q", 1u32)]);
        let array = Value::from(qualified.clone());
        for (put, stored, plain) in [
            (pair(key("k"), 5u32.into()), key("k"), 5u32.into()),
            (pair(keys::QUALIFIED_VALUE.key_name(), array), qualified.name().unwrap(), Value::Uint32(5)),
            (pair(key("pmix.mine"), 5u32.into()), key("!pmix.mine"), 5u32.into()),
            (pair(keys::CPUSET.key_name(), "hwloc:0".into()), key("!pmix.cpuset"), "hwloc:0".into()),
        ] {
            let entry = read(put.clone()).unwrap();
            assert_eq!((&entry.key, entry.plain()), (&stored, &plain));
            assert_eq!(entry.to_pair(), put);
        }
        // elements that are not marked are no qualifiers
        let bare = DataArray::Info(vec![qualifier("k", 5u32), qualifier("q", 1u32)]);
        let bare = read(pair(keys::QUALIFIED_VALUE.key_name(), bare.into())).unwrap();
        assert_eq!(bare, PutEntry::new(Scope::GLOBAL, key("k"), 5u32));
        for wrong in [
            pair(keys::HOSTNAME.key_name(), "n7".into()),
            pair(keys::JOB_SIZE.key_name(), 7u32.into()),
            pair(keys::QUALIFIED_VALUE.key_name(), 7u32.into()),
            pair(keys::QUALIFIED_VALUE.key_name(), DataArray::Info(Vec::new()).into()),
            // a value that is not stored under such a name
            pair(key("?pmix.qual.val:x"), 7u32.into()),
        ] {
            let failure = read(wrong.clone()).unwrap_err();
            assert!(failure.message.contains(wrong.key.as_str()), "{failure}");
        }
        assert_eq!(
            [key("pmix.mine").claim(), key("!mine").claim(), key("!pmix.hname").claim()],
            [None, None, None]
        );
    }
}
