use std::fmt;

use thiserror::Error;

use crate::{InfoFlags, KeyName, Status, TypedKey, Value, ValueError, ValueType};

/// A key with its value and flags: a directive, a qualifier, or a piece of information.
///
/// # Examples
/// ```
/// use pmix_types::{Info, keys};
///
/// let size = Info::new(keys::JOB_SIZE, 64u32);
/// assert!(size.is(keys::JOB_SIZE) && !size.is_required());
/// assert_eq!(size.get::<u32>()?, 64);
/// assert!(Info::required(keys::TIMEOUT, 5).is_required());
/// # Ok::<(), pmix_types::ValueError>(())
/// ```
///
/// # Standard
/// `pmix_info_t`
#[derive(Clone, Debug, PartialEq)]
#[doc(alias = "pmix_info_t")]
#[non_exhaustive]
pub struct Info {
    /// The key.
    pub key: KeyName,
    /// Whether it must be carried out, and whether that was done.
    pub flags: InfoFlags,
    /// The value; [`Value::Undef`] for a key given without one, which reads as true.
    pub value: Value,
}

impl Info {
    /// An optional info: receivers that do not know it ignore it (GEN-04).
    pub fn new<T: ValueType>(key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        let key = key.key();
        Self::dynamic(key.key_name(), value.into().into_value(key.data_type()))
    }

    /// A required info: if it is not carried out, the call fails with `ERR_NOT_SUPPORTED` (GEN-05).
    pub fn required<T: ValueType>(key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        Self { flags: InfoFlags::REQUIRED, ..Self::new(key, value) }
    }

    /// An info whose key or type is known only at run time.
    pub fn dynamic(key: KeyName, value: impl Into<Value>) -> Self {
        Self { key, flags: InfoFlags::empty(), value: value.into() }
    }

    /// The same info with these flags.
    #[must_use]
    pub fn with_flags(self, flags: InfoFlags) -> Self {
        Self { flags, ..self }
    }

    /// Whether the info has this key.
    pub fn is<T>(&self, key: impl TypedKey<T>) -> bool {
        *self.key == *key.key().name()
    }

    /// Reads the value as this type.
    ///
    /// # Errors
    /// [`ValueError`] if the value cannot be read as this type.
    pub fn get<T: ValueType>(&self) -> Result<T, ValueError> {
        self.value.get()
    }

    /// Whether it must be carried out.
    pub const fn is_required(&self) -> bool {
        self.flags.contains(InfoFlags::REQUIRED)
    }

    /// Whether it qualifies what it comes with.
    #[doc(alias = "PMIx_Info_is_qualifier")]
    pub const fn is_qualifier(&self) -> bool {
        self.flags.contains(InfoFlags::QUALIFIER)
    }

    /// Whether it must still be carried out (GEN-05).
    pub const fn is_unprocessed(&self) -> bool {
        self.is_required() && !self.flags.contains(InfoFlags::REQUIRED_PROCESSED)
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// The infos given with a call, in the order they were given.
///
/// # Standard
/// `pmix_info_t[]` with its count; rules GEN-04..07.
///
/// # Examples
/// ```
/// use pmix_types::{Directives, keys};
/// let directives = Directives::new().with(keys::TIMEOUT, 5).require(keys::COLLECT_DATA, true);
/// assert_eq!(directives.get(keys::TIMEOUT)?, Some(5));
/// assert!(directives.flag(keys::COLLECT_DATA)?);
/// assert!(!directives.flag(keys::OPTIONAL)?);
/// # Ok::<(), pmix_types::DirectiveError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Directives(Vec<Info>);

/// A directive that is invalid or cannot be carried out.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DirectiveError {
    /// The value has the wrong type or is out of range.
    #[error("directive {key}: {source}")]
    Value {
        /// The directive.
        key: KeyName,
        /// What is wrong with its value.
        source: ValueError,
    },
    /// The directive occurs twice with different values.
    #[error("directive {key} is given twice with different values")]
    Contradiction {
        /// The directive.
        key: KeyName,
    },
    /// A required directive that was not carried out.
    #[error("directive {key} is required but not supported")]
    Unsupported {
        /// The directive.
        key: KeyName,
    },
}

impl DirectiveError {
    /// The Standard's status for this failure: `ERR_BAD_PARAM`, or `ERR_NOT_SUPPORTED` for a required directive that
    /// was not carried out (GEN-05, GEN-07).
    pub const fn status(&self) -> Status {
        match self {
            Self::Value { .. } | Self::Contradiction { .. } => Status::ERR_BAD_PARAM,
            Self::Unsupported { .. } => Status::ERR_NOT_SUPPORTED,
        }
    }
}

impl Directives {
    /// No directives.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds an optional directive.
    #[must_use]
    pub fn with<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.0.push(Info::new(key, value));
        self
    }

    /// Adds a directive that must be carried out.
    #[must_use]
    pub fn require<T: ValueType>(mut self, key: impl TypedKey<T>, value: impl Into<T>) -> Self {
        self.0.push(Info::required(key, value));
        self
    }

    pub(crate) const fn held(&self) -> &Vec<Info> {
        &self.0
    }

    pub(crate) const fn held_mut(&mut self) -> &mut Vec<Info> {
        &mut self.0
    }

    /// Appends an info.
    pub fn push(&mut self, info: Info) {
        self.0.push(info);
    }

    /// Removes every instance of a key.
    pub fn remove<T>(&mut self, key: impl TypedKey<T>) {
        let key = key.key();
        self.0.retain(|info| !info.is(key));
    }

    /// The typed value of a directive; `None` if it is absent.
    ///
    /// # Errors
    /// [`DirectiveError::Value`] for a value of the wrong type, [`DirectiveError::Contradiction`] for two
    /// instances with different values.
    pub fn get<T: ValueType>(&self, key: impl TypedKey<T>) -> Result<Option<T>, DirectiveError> {
        let key = key.key();
        let mut given = self.0.iter().filter(|info| info.is(key)).map(|info| &info.value);
        let Some(first) = given.next() else { return Ok(None) };
        if !given.all(|other| means_the_same(first, other)) {
            return Err(DirectiveError::Contradiction { key: key.key_name() });
        }
        first.get().map(Some).map_err(|source| DirectiveError::Value { key: key.key_name(), source })
    }

    /// A boolean directive: true if present and true, or present without value (GEN-06).
    ///
    /// # Errors
    /// Those of [`Directives::get`].
    pub fn flag(&self, key: impl TypedKey<bool>) -> Result<bool, DirectiveError> {
        Ok(self.get(key)?.unwrap_or(false))
    }

    /// The first value of a key, of any type.
    pub fn get_value(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|info| *info.key == *key).map(|info| &info.value)
    }

    /// Whether there is a directive with this key.
    pub fn contains<T>(&self, key: impl TypedKey<T>) -> bool {
        self.get_value(key.key().name()).is_some()
    }

    /// Like [`Directives::get`], but also marks the directive as carried out (GEN-05).
    ///
    /// # Errors
    /// Those of [`Directives::get`].
    pub fn take<T: ValueType>(&mut self, key: impl TypedKey<T>) -> Result<Option<T>, DirectiveError> {
        let key = key.key();
        let found = self.get(key)?;
        for info in self.0.iter_mut().filter(|info| info.is(key) && info.is_required()) {
            info.flags |= InfoFlags::REQUIRED_PROCESSED;
        }
        Ok(found)
    }

    /// Like [`Directives::flag`], but also marks the directive as carried out (GEN-05).
    ///
    /// # Errors
    /// Those of [`Directives::get`].
    pub fn take_flag(&mut self, key: impl TypedKey<bool>) -> Result<bool, DirectiveError> {
        Ok(self.take(key)?.unwrap_or(false))
    }

    /// The infos that `wanted` selects, in order, including repeated keys; marks them as carried out (GEN-05). For
    /// directives that can be given several times.
    pub fn take_each(&mut self, wanted: impl Fn(&Info) -> bool) -> Vec<Info> {
        let mut taken = Vec::new();
        for info in self.0.iter_mut().filter(|info| wanted(info)) {
            if info.is_required() {
                info.flags |= InfoFlags::REQUIRED_PROCESSED;
            }
            taken.push(info.clone());
        }
        taken
    }

    /// Refuses required directives that were not carried out: the check of the last level (GEN-05).
    ///
    /// # Errors
    /// [`DirectiveError::Unsupported`] for the first of them.
    pub fn deny_unprocessed(&self) -> Result<(), DirectiveError> {
        self.deny_beyond(&[])
    }

    /// Like [`Directives::deny_unprocessed`], but accepts directives with these keys, which are read later.
    ///
    /// # Errors
    /// Those of [`Directives::deny_unprocessed`].
    pub fn deny_beyond(&self, known: &[&str]) -> Result<(), DirectiveError> {
        match self.0.iter().find(|info| info.is_unprocessed() && !known.contains(&info.key.as_str())) {
            Some(info) => Err(DirectiveError::Unsupported { key: info.key.clone() }),
            None => Ok(()),
        }
    }

    /// The infos in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Info> {
        self.0.iter()
    }

    /// Number of infos.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The infos as a slice.
    pub fn as_slice(&self) -> &[Info] {
        &self.0
    }

    /// The infos themselves.
    pub fn into_vec(self) -> Vec<Info> {
        self.0
    }
}

impl From<Vec<Info>> for Directives {
    fn from(infos: Vec<Info>) -> Self {
        Self(infos)
    }
}

impl FromIterator<Info> for Directives {
    fn from_iter<I: IntoIterator<Item = Info>>(infos: I) -> Self {
        Self(infos.into_iter().collect())
    }
}

impl Extend<Info> for Directives {
    fn extend<I: IntoIterator<Item = Info>>(&mut self, infos: I) {
        self.0.extend(infos);
    }
}

impl<'a> IntoIterator for &'a Directives {
    type Item = &'a Info;
    type IntoIter = std::slice::Iter<'a, Info>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl IntoIterator for Directives {
    type Item = Info;
    type IntoIter = std::vec::IntoIter<Info>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

crate::message_first!(DirectiveError);

/// A key without value is a true one (GEN-06).
fn means_the_same(one: &Value, other: &Value) -> bool {
    one == other || matches!((one.is_true(), other.is_true()), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys;

    #[test]
    fn gen_04_unknown_optional_directives_are_ignored() {
        let mut unknown = Directives::new();
        unknown.push(Info::dynamic("my.own.key".parse().unwrap(), 7));
        assert_eq!(unknown.deny_unprocessed(), Ok(()));
    }

    #[test]
    fn gen_05_a_required_directive_must_be_carried_out() {
        let mut directives = Directives::new().require(&keys::TIMEOUT, 3).with(&keys::OPTIONAL, true);
        let refused = directives.deny_unprocessed().unwrap_err();
        assert_eq!(refused.status(), Status::ERR_NOT_SUPPORTED);
        assert_eq!(directives.take(&keys::TIMEOUT), Ok(Some(3)));
        assert_eq!(directives.deny_unprocessed(), Ok(()));
        assert!(directives.as_slice()[0].flags.contains(InfoFlags::REQUIRED_PROCESSED));
        assert!(directives.as_slice()[1].flags.is_empty());
    }

    #[test]
    fn gen_06_flag_reads_a_bare_key_as_true() {
        let mut directives = Directives::new();
        assert_eq!(directives.flag(&keys::IMMEDIATE), Ok(false));
        directives.push(Info::dynamic(keys::IMMEDIATE.key_name(), Value::Undef));
        assert_eq!(directives.flag(&keys::IMMEDIATE), Ok(true));
        assert_eq!(directives.clone().with(&keys::IMMEDIATE, true).flag(&keys::IMMEDIATE), Ok(true));
        assert!(directives.with(&keys::IMMEDIATE, false).flag(&keys::IMMEDIATE).is_err());
    }

    #[test]
    fn gen_07a_gen_07c_contradictions_and_wrong_types_are_bad_param() {
        let same = Directives::new().with(&keys::TIMEOUT, 3).with(&keys::TIMEOUT, 3);
        assert_eq!(same.get(&keys::TIMEOUT), Ok(Some(3)));
        let twice = Directives::new().with(&keys::TIMEOUT, 3).with(&keys::TIMEOUT, 4);
        assert_eq!(twice.get(&keys::TIMEOUT).unwrap_err().status(), Status::ERR_BAD_PARAM);
        // which equals nothing, not even itself
        let nan = Directives::from_iter([Info::dynamic("my.own.key".parse().unwrap(), f64::NAN)]);
        let own = crate::Key::<f64>::new("my.own.key", crate::DataType::DOUBLE);
        assert!(nan.get(&own).unwrap().unwrap().is_nan());
        let mut wrong = Directives::new();
        wrong.push(Info::dynamic(keys::TIMEOUT.key_name(), "soon"));
        assert_eq!(wrong.get(&keys::TIMEOUT).unwrap_err().status(), Status::ERR_BAD_PARAM);
    }
}
