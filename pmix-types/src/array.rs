use std::fmt;

use bytes::Bytes;

use crate::{DataType, Info, ProcId, ProcInfo, Rank, Value};

macro_rules! define_array {
    ($($variant:ident($type:ty) $constant:ident, $doc:literal;)+) => {
        /// Values of one type, which is known even if the array is empty (VAL-02).
        ///
        /// Unlike in [`Value`], elements of large types are not boxed; see [`DataArray::Info`].
        ///
        /// # Standard
        /// `pmix_data_array_t`
        #[derive(Clone, Debug, Default, PartialEq)]
        #[doc(alias = "pmix_data_array_t")]
        #[non_exhaustive]
        pub enum DataArray {
            /// An array without element type: always empty.
            #[default]
            Undef,
            $(#[doc = $doc] $variant(Vec<<$type as Element>::Held>),)+
        }

        impl DataArray {
            /// Type of the elements.
            pub const fn element_type(&self) -> DataType {
                match self {
                    Self::Undef => DataType::UNDEF,
                    $(Self::$variant(_) => DataType::$constant,)+
                }
            }

            /// Number of elements.
            pub const fn len(&self) -> usize {
                match self {
                    Self::Undef => 0,
                    $(Self::$variant(elements) => elements.len(),)+
                }
            }

            /// An empty array of this type; `None` for a type that cannot be a value.
            pub const fn empty(element_type: DataType) -> Option<Self> {
                match element_type {
                    DataType::UNDEF => Some(Self::Undef),
                    $(DataType::$constant => Some(Self::$variant(Vec::new())),)+
                    _ => None,
                }
            }

            /// A copy of one element as a value; `None` past the end.
            pub fn get(&self, index: usize) -> Option<Value> {
                match self {
                    Self::Undef => None,
                    $(Self::$variant(elements) => {
                        elements.get(index).map(|held| Value::$variant(<$type as Element>::wrap(held.clone())))
                    })+
                }
            }

            /// Appends a value of the element type.
            ///
            /// # Errors
            /// Returns the value if its type is not the element type, or if it is a NULL string.
            pub fn push(&mut self, value: Value) -> Result<(), Value> {
                match (self, value) {
                    $((Self::$variant(elements), Value::$variant(element)) => {
                        elements.push(<$type as Element>::unwrap(element));
                        Ok(())
                    })+
                    (_, other) => Err(other),
                }
            }
        }
    };
}
crate::for_each_data_type!(define_array);

/// How a type is held in an array: without the box that keeps [`Value`] small.
#[doc(hidden)]
pub trait Element {
    type Held: Clone + fmt::Debug + PartialEq;
    fn wrap(held: Self::Held) -> Self;
    fn unwrap(self) -> Self::Held;
}

impl<T: Clone + fmt::Debug + PartialEq> Element for Box<T> {
    type Held = T;
    fn wrap(held: T) -> Self {
        Self::new(held)
    }
    fn unwrap(self) -> T {
        *self
    }
}

macro_rules! held_as_is {
    ($($type:ty),+ $(,)?) => {$(
        impl Element for $type {
            type Held = Self;
            fn wrap(held: Self) -> Self {
                held
            }
            fn unwrap(self) -> Self {
                self
            }
        }
    )+};
}
held_as_is!(
    bool,
    u8,
    u16,
    u32,
    u64,
    i8,
    i16,
    i32,
    i64,
    f32,
    f64,
    String,
    Bytes,
    ProcId,
    Rank,
    crate::Nspace,
    crate::Pid,
    crate::Time,
    crate::Timeval,
    crate::Status,
    crate::Persistence,
    crate::Scope,
    crate::DataRange,
    crate::InfoFlags,
    DataType,
    crate::ProcState,
    crate::JobState,
    crate::LinkState,
    crate::AllocDirective,
    crate::AllocInheritance,
    crate::IofChannels,
    crate::DeviceTypes,
    crate::Locality,
    crate::StorageMedium,
    crate::StorageAccessibility,
    crate::StoragePersistence,
    crate::StorageAccessType,
    crate::Coord,
    crate::ResourceBlockDirective,
    crate::ResourceUnit,
);

impl DataArray {
    /// Whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies of the elements as values.
    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// The infos, if that is the element type.
    pub fn as_infos(&self) -> Option<&[Info]> {
        match self {
            Self::Info(infos) => Some(infos),
            _ => None,
        }
    }

    /// The processes, if that is the element type: members of a process set or a group.
    pub fn as_procs(&self) -> Option<&[ProcId]> {
        match self {
            Self::Proc(procs) => Some(procs),
            _ => None,
        }
    }

    /// The texts, if that is the element type.
    pub fn as_strings(&self) -> Option<&[String]> {
        match self {
            Self::String(texts) => Some(texts),
            _ => None,
        }
    }

    /// The rows of a process table, if that is the element type.
    pub fn as_proc_infos(&self) -> Option<&[ProcInfo]> {
        match self {
            Self::ProcInfo(rows) => Some(rows),
            _ => None,
        }
    }
}

impl fmt::Display for DataArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, element) in self.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            element.fmt(f)?;
        }
        f.write_str("]")
    }
}
