//! The attributes that functions of the Standard support, by level of support (ATT-01..06).

use std::collections::BTreeMap;

use crate::{DataArray, Info, Key, KeyDef, KeyName, Query, RegAttr, Status, Value, keys};

/// Who supports an attribute.
///
/// # Standard
/// Rule ATT-02.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AttributeLevel {
    /// The library of the querying process.
    Client,
    /// The library of its server.
    Server,
    /// The host of its server.
    Host,
    /// The tool library, if the querying process is a tool.
    Tool,
}

impl AttributeLevel {
    /// All of them, in the order of answers.
    pub const ALL: [Self; 4] = [Self::Client, Self::Server, Self::Host, Self::Tool];

    /// The key of this level's attributes in an answer, which is also the qualifier that requests them.
    #[doc(alias = "PMIX_CLIENT_ATTRIBUTES")]
    #[doc(alias = "PMIX_SERVER_ATTRIBUTES")]
    #[doc(alias = "PMIX_HOST_ATTRIBUTES")]
    #[doc(alias = "PMIX_TOOL_ATTRIBUTES")]
    pub const fn attributes_key(self) -> &'static Key<String> {
        match self {
            Self::Client => &keys::CLIENT_ATTRIBUTES,
            Self::Server => &keys::SERVER_ATTRIBUTES,
            Self::Host => &keys::HOST_ATTRIBUTES,
            Self::Tool => &keys::TOOL_ATTRIBUTES,
        }
    }

    /// The key of the names of the functions that this level supports, separated by commas.
    #[doc(alias = "PMIX_CLIENT_FUNCTIONS")]
    #[doc(alias = "PMIX_SERVER_FUNCTIONS")]
    #[doc(alias = "PMIX_HOST_FUNCTIONS")]
    #[doc(alias = "PMIX_TOOL_FUNCTIONS")]
    pub const fn functions_key(self) -> &'static Key<String> {
        match self {
            Self::Client => &keys::CLIENT_FUNCTIONS,
            Self::Server => &keys::SERVER_FUNCTIONS,
            Self::Host => &keys::HOST_FUNCTIONS,
            Self::Tool => &keys::TOOL_FUNCTIONS,
        }
    }

    /// The levels that a query for attribute support names; all if it names none (ATT-05).
    pub fn asked_by(query: &Query) -> Vec<Self> {
        let names = |level: &Self| {
            let keys = [level.attributes_key().name(), level.functions_key().name()];
            query.qualifiers.iter().any(|info| keys.contains(&info.key.as_str()) && is_set(&info.value))
        };
        let named: Vec<_> = Self::ALL.into_iter().filter(names).collect();
        if named.is_empty() { Self::ALL.to_vec() } else { named }
    }
}

/// A present qualifier counts as true, whatever its type, unless its value is `false`.
fn is_set(value: &Value) -> bool {
    !matches!(value, Value::Bool(false))
}

impl From<&KeyDef> for RegAttr {
    /// The attribute as the Standard's table describes it.
    fn from(definition: &KeyDef) -> Self {
        Self {
            name: format!("PMIX_{}", definition.constant),
            key: definition.key_name(),
            data_type: definition.data_type.unwrap_or_default(),
            limits: Vec::new(),
            description: vec![definition.doc.to_owned()],
        }
    }
}

/// Functions that support the same attributes.
///
/// Attributes are given by their keys as text; keys that are not in the Standard's table are left out.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "rows of constant tables, which are written out")]
pub struct Supported<'a> {
    /// Names of functions in the Standard, such as `PMIx_Get`.
    pub functions: &'a [&'a str],
    /// The attributes that they support; may be empty.
    pub attributes: &'a [&'a str],
}

/// Functions whose attributes the libraries of client and server both support, as the client passes them on to the
/// server.
impl Supported<'static> {
    /// Get. Directives that name a realm take effect in the lookup of the value.
    pub const GET: Self = Self {
        functions: &["PMIx_Get", "PMIx_Get_nb"],
        attributes: &[
            keys::IMMEDIATE.name(),
            keys::GET_REFRESH_CACHE.name(),
            keys::DATA_SCOPE.name(),
            keys::SESSION_INFO.name(),
            keys::JOB_INFO.name(),
            keys::APP_INFO.name(),
            keys::NODE_INFO.name(),
            keys::PROC_INFO.name(),
            keys::SESSION_ID.name(),
            keys::APPNUM.name(),
            keys::NODEID.name(),
            keys::HOSTNAME.name(),
            keys::TIMEOUT.name(),
        ],
    };

    /// Fence.
    pub const FENCE: Self = Self {
        functions: &["PMIx_Fence", "PMIx_Fence_nb"],
        attributes: &[
            keys::COLLECT_DATA.name(),
            keys::COLLECT_GENERATED_JOB_INFO.name(),
            keys::ALL_CLONES_PARTICIPATE.name(),
            keys::TIMEOUT.name(),
        ],
    };

    /// Registration of an event handler: its place in the chain, and its events.
    pub const REGISTER_EVENTS: Self = Self {
        functions: &["PMIx_Register_event_handler"],
        attributes: &[
            keys::EVENT_HDLR_NAME.name(),
            keys::EVENT_HDLR_FIRST.name(),
            keys::EVENT_HDLR_LAST.name(),
            keys::EVENT_HDLR_FIRST_IN_CATEGORY.name(),
            keys::EVENT_HDLR_LAST_IN_CATEGORY.name(),
            keys::EVENT_HDLR_BEFORE.name(),
            keys::EVENT_HDLR_AFTER.name(),
            keys::EVENT_HDLR_PREPEND.name(),
            keys::EVENT_HDLR_APPEND.name(),
            keys::EVENT_AFFECTED_PROC.name(),
            keys::EVENT_AFFECTED_PROCS.name(),
            keys::EVENT_CUSTOM_RANGE.name(),
            keys::RANGE.name(),
        ],
    };

    /// Notification of an event: its receivers.
    pub const NOTIFY: Self = Self {
        functions: &["PMIx_Notify_event"],
        attributes: &[
            keys::EVENT_NON_DEFAULT.name(),
            keys::EVENT_CUSTOM_RANGE.name(),
            keys::EVENT_AFFECTED_PROC.name(),
            keys::EVENT_AFFECTED_PROCS.name(),
        ],
    };
}

/// The supported functions, by level, each with the attributes that it supports there.
///
/// # Standard
/// `PMIx_Register_attributes`; rules ATT-01..06.
///
/// # Examples
/// ```
/// use pmix_types::{AttributeLevel, AttributeRegistry, Query, RegAttr, Status, keys};
///
/// let timeout = RegAttr::from(keys::find_constant("TIMEOUT").ok_or("no such key")?);
/// let mut registry = AttributeRegistry::new();
/// assert_eq!(registry.register(AttributeLevel::Host, &["PMIx_Get"], vec![timeout.clone()]), Ok(()));
/// assert_eq!(registry.attributes(AttributeLevel::Host, "PMIx_Get"), Some(&[timeout][..]));
/// assert_eq!(registry.attributes(AttributeLevel::Server, "PMIx_Get"), None);
///
/// let again = registry.register(AttributeLevel::Host, &["PMIx_Get"], Vec::new());
/// assert_eq!(again, Err(Status::ERR_REPEAT_ATTR_REGISTRATION));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AttributeRegistry {
    levels: BTreeMap<AttributeLevel, BTreeMap<String, SupportedFunction>>,
}

/// A function that a level supports.
#[derive(Clone, Debug, Default, PartialEq)]
struct SupportedFunction {
    attributes: Vec<RegAttr>,
    is_registered: bool,
}

impl AttributeRegistry {
    /// An empty registry: nothing is supported.
    pub const fn new() -> Self {
        Self { levels: BTreeMap::new() }
    }

    /// The registry of a library. A function in several rows supports the attributes of all of them.
    pub fn of_library(level: AttributeLevel, rows: &[Supported<'_>]) -> Self {
        let mut registry = Self::new();
        for row in rows {
            let known = row.attributes.iter().filter_map(|name| keys::find(name));
            let attributes: Vec<_> = known.map(RegAttr::from).collect();
            let held = registry.levels.entry(level).or_default();
            for function in row.functions {
                let entry = held.entry((*function).to_owned()).or_default();
                entry.is_registered = true;
                let is_new = |attribute: &&RegAttr| !entry.attributes.contains(attribute);
                let new: Vec<_> = attributes.iter().filter(is_new).cloned().collect();
                entry.attributes.extend(new);
            }
        }
        registry
    }

    /// Adds another registry. If both have a function at the same level, the entry of this one stays.
    pub fn merge(&mut self, other: Self) {
        for (level, functions) in other.levels {
            let held = self.levels.entry(level).or_default();
            for (function, entry) in functions {
                held.entry(function).or_insert(entry);
            }
        }
    }

    /// Declares functions as supported at a level; their attributes may be registered later.
    pub fn declare(&mut self, level: AttributeLevel, functions: &[&str]) {
        let held = self.levels.entry(level).or_default();
        for function in functions {
            held.entry((*function).to_owned()).or_default();
        }
    }

    /// Registers the attributes that functions support at a level, once for each function.
    ///
    /// # Errors
    /// `ERR_REPEAT_ATTR_REGISTRATION` if one of them is already registered (ATT-02); nothing changes then.
    #[doc(alias = "PMIx_Register_attributes")]
    pub fn register(
        &mut self,
        level: AttributeLevel,
        functions: &[&str],
        attributes: Vec<RegAttr>,
    ) -> Result<(), Status> {
        let held = self.levels.entry(level).or_default();
        if functions.iter().any(|function| held.get(*function).is_some_and(|entry| entry.is_registered)) {
            return Err(Status::ERR_REPEAT_ATTR_REGISTRATION);
        }
        for function in functions {
            let entry = SupportedFunction { attributes: attributes.clone(), is_registered: true };
            held.insert((*function).to_owned(), entry);
        }
        Ok(())
    }

    /// The attributes that a function supports at a level; `None` if the function is not supported there.
    pub fn attributes(&self, level: AttributeLevel, function: &str) -> Option<&[RegAttr]> {
        Some(&self.levels.get(&level)?.get(function)?.attributes)
    }

    /// Names of the functions that a level supports, in order; `None` if nothing is known about the level.
    pub fn functions(&self, level: AttributeLevel) -> Option<impl Iterator<Item = &str>> {
        Some(self.levels.get(&level)?.keys().map(String::as_str))
    }

    /// The answer to one key of a query; `None` for a key that is not about attribute support, and for
    /// `QUERY_ATTRIBUTE_SUPPORT` itself if names of functions follow it.
    ///
    /// - A function after `QUERY_ATTRIBUTE_SUPPORT`: an info per level, each an array of [`RegAttr`], or of type
    ///   `UNDEF` for a level that does not support it (ATT-06).
    /// - `QUERY_ATTRIBUTE_SUPPORT` alone: an info per level with the names of the functions.
    /// - `CLIENT_FUNCTIONS` and its like: the names for that level.
    pub fn answer(&self, key: &KeyName, query: &Query) -> Option<Value> {
        let level_of = |level: &AttributeLevel| *key == *level.functions_key().name();
        if let Some(level) = AttributeLevel::ALL.into_iter().find(level_of) {
            return Some(self.functions_value(level));
        }
        if !query.is_for_attributes() {
            return None;
        }
        let levels = AttributeLevel::asked_by(query).into_iter();
        let infos: Vec<_> = if *key != *keys::QUERY_ATTRIBUTE_SUPPORT.name() {
            levels.map(|level| self.attributes_info(level, key.as_str())).collect()
        } else if query.keys.len() == 1 {
            levels.map(|level| self.functions_info(level)).collect()
        } else {
            return None;
        };
        Some(DataArray::Info(infos).into())
    }

    /// Completes another level's answer to a key of a query: fills in the infos of type `UNDEF` that this registry can
    /// answer.
    pub fn complete(&self, answer: &mut Info) {
        for level in AttributeLevel::ALL {
            if *answer.key == *level.functions_key().name() && answer.value == Value::Undef {
                answer.value = self.functions_value(level);
            }
        }
        let Value::DataArray(array) = &mut answer.value else { return };
        let DataArray::Info(infos) = &mut **array else { return };
        for info in infos.iter_mut().filter(|info| info.value == Value::Undef) {
            for level in AttributeLevel::ALL {
                if *info.key == *level.attributes_key().name() {
                    *info = self.attributes_info(level, answer.key.as_str());
                } else if *info.key == *level.functions_key().name() {
                    *info = self.functions_info(level);
                }
            }
        }
    }

    fn attributes_info(&self, level: AttributeLevel, function: &str) -> Info {
        let attributes = self.attributes(level, function);
        let value = attributes.map(|attributes| DataArray::RegAttr(attributes.to_vec()).into());
        Info::dynamic(level.attributes_key().key_name(), value.unwrap_or(Value::Undef))
    }

    fn functions_info(&self, level: AttributeLevel) -> Info {
        Info::dynamic(level.functions_key().key_name(), self.functions_value(level))
    }

    fn functions_value(&self, level: AttributeLevel) -> Value {
        let names = self.functions(level).map(|names| names.collect::<Vec<_>>().join(","));
        names.map_or(Value::Undef, Value::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;

    const GET: &[Supported<'_>] =
        &[Supported { functions: &["PMIx_Get", "PMIx_Get_nb"], attributes: &[keys::TIMEOUT.name()] }];

    fn attributes_of(value: &Value) -> Vec<(String, DataType, usize)> {
        let about = |info: &Info| match &info.value {
            Value::DataArray(array) => (info.key.to_string(), array.element_type(), array.len()),
            other => (info.key.to_string(), other.data_type(), 0),
        };
        value.as_infos().unwrap().iter().map(about).collect()
    }

    #[test]
    fn att_05_att_06_a_function_has_an_array_a_level_and_no_type_where_it_is_not_supported() {
        let registry = AttributeRegistry::of_library(AttributeLevel::Server, GET);
        let query = Query::attributes(["PMIx_Get"]);
        let key = query.keys[1].clone();
        assert_eq!(query.keys[0], keys::QUERY_ATTRIBUTE_SUPPORT.key_name());
        let expected = |levels: &[AttributeLevel]| -> Vec<_> {
            let about = |level: &AttributeLevel| match level {
                AttributeLevel::Server => (level.attributes_key().name().to_owned(), DataType::REGATTR, 1),
                level => (level.attributes_key().name().to_owned(), DataType::UNDEF, 0),
            };
            levels.iter().map(about).collect()
        };
        assert_eq!(attributes_of(&registry.answer(&key, &query).unwrap()), expected(&AttributeLevel::ALL));
        let two = [AttributeLevel::Server, AttributeLevel::Host];
        let some = two.into_iter().fold(query.clone(), Query::level);
        assert_eq!(attributes_of(&registry.answer(&key, &some).unwrap()), expected(&two));
        let mut by_functions = query.clone();
        for level in two {
            by_functions.qualifiers.push(Info::dynamic(level.functions_key().key_name(), true));
        }
        assert_eq!(attributes_of(&registry.answer(&key, &by_functions).unwrap()), expected(&two));
        let not = Info::dynamic(keys::HOST_ATTRIBUTES.key_name(), false);
        let mut refused = query.clone().level(AttributeLevel::Server);
        refused.qualifiers.push(not);
        assert_eq!(
            attributes_of(&registry.answer(&key, &refused).unwrap()),
            expected(&[AttributeLevel::Server])
        );
        // the first key says what the others are, and is no question of its own
        assert_eq!(registry.answer(&query.keys[0], &query), None);
        assert_eq!(registry.answer(&key, &Query::dynamic([key.clone()])), None);
    }

    #[test]
    fn att_05_functions_are_listed_by_level() {
        let registry = AttributeRegistry::of_library(AttributeLevel::Server, GET);
        let query = Query::new(&keys::QUERY_ATTRIBUTE_SUPPORT).level(AttributeLevel::Server);
        let server = Info::new(&keys::SERVER_FUNCTIONS, "PMIx_Get,PMIx_Get_nb");
        let answer = registry.answer(&query.keys[0], &query);
        assert_eq!(answer, Some(DataArray::Info(vec![server.clone()]).into()));
        let query = Query::new(&keys::SERVER_FUNCTIONS).key(&keys::HOST_FUNCTIONS);
        assert_eq!(registry.answer(&query.keys[0], &query), Some(server.value));
        assert_eq!(registry.answer(&query.keys[1], &query), Some(Value::Undef));
    }

    #[test]
    fn att_02_a_level_says_it_once_and_others_are_kept_apart() {
        let mut registry = AttributeRegistry::of_library(AttributeLevel::Server, GET);
        registry.declare(AttributeLevel::Host, &["PMIx_Get"]);
        assert_eq!(registry.attributes(AttributeLevel::Host, "PMIx_Get"), Some(&[][..]));
        let timeout = RegAttr::from(keys::find(keys::TIMEOUT.name()).unwrap());
        registry.register(AttributeLevel::Host, &["PMIx_Get"], vec![timeout.clone()]).unwrap();
        for level in [AttributeLevel::Host, AttributeLevel::Server] {
            let again = registry.register(level, &["PMIx_Put", "PMIx_Get"], Vec::new());
            assert_eq!(again, Err(Status::ERR_REPEAT_ATTR_REGISTRATION));
            assert_eq!(registry.attributes(level, "PMIx_Put"), None);
            assert_eq!(registry.attributes(level, "PMIx_Get"), Some(&[timeout.clone()][..]));
        }
    }

    #[test]
    fn att_04_an_entry_says_name_key_type_and_meaning() {
        let definition = keys::find_constant("PMIX_TIMEOUT").unwrap();
        let entry = RegAttr::from(definition);
        assert_eq!((entry.name.as_str(), entry.key.as_str()), ("PMIX_TIMEOUT", "pmix.timeout"));
        assert_eq!(entry.data_type, DataType::INT);
        assert_eq!(entry.description, [definition.doc]);
        assert!(entry.limits.is_empty() && !definition.doc.is_empty());
    }

    #[test]
    fn levels_complete_each_others_answers() {
        let server = AttributeRegistry::of_library(AttributeLevel::Server, GET);
        let mut client = AttributeRegistry::of_library(AttributeLevel::Client, GET);
        for query in [
            Query::attributes(["PMIx_Get"]),
            Query::new(&keys::QUERY_ATTRIBUTE_SUPPORT),
            Query::new(&keys::CLIENT_FUNCTIONS),
        ] {
            let key = query.keys.last().unwrap();
            let mut answer = Info::dynamic(key.clone(), server.answer(key, &query).unwrap());
            client.complete(&mut answer);
            let mut both = client.clone();
            both.merge(server.clone());
            assert_eq!(answer.value, both.answer(key, &query).unwrap());
        }
        let mut without_attributes = AttributeRegistry::new();
        without_attributes.declare(AttributeLevel::Client, &["PMIx_Get"]);
        client.merge(without_attributes);
        assert_eq!(client, AttributeRegistry::of_library(AttributeLevel::Client, GET));
    }
}
