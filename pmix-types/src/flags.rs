//! Sets of flags. Bits without name are kept and passed on.
//!
//! The text form is that of the `bitflags` crate: names joined by ` | `, unnamed bits in hex, `0x0` when empty.

use std::fmt;
use std::str::FromStr;

use bitflags::{Flags, bitflags, parser};

use crate::macros::ParseEnumError;

bitflags! {
    /// What the receiver of an info must or may do with it.
    #[doc(alias = "pmix_info_directives_t")]
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct InfoFlags: u32 {
        /// The directive is required: if it is not supported, the call fails with
        /// [`ERR_NOT_SUPPORTED`](crate::Status::ERR_NOT_SUPPORTED).
        #[doc(alias = "PMIX_INFO_REQD")]
        const REQUIRED = 0x1;
        /// Last element of a C array.
        #[doc(alias = "PMIX_INFO_ARRAY_END")]
        const ARRAY_END = 0x2;
        /// A lower level has already carried out the required directive.
        #[doc(alias = "PMIX_INFO_REQD_PROCESSED")]
        const REQUIRED_PROCESSED = 0x4;
        /// The entry qualifies the value that it is sent with.
        #[doc(alias = "PMIX_INFO_QUALIFIER")]
        const QUALIFIER = 0x8;
        /// The value must not be released.
        #[doc(alias = "PMIX_INFO_PERSISTENT")]
        const PERSISTENT = 0x10;
        // Numbers are open: bits without name are as good as those with one.
        const _ = !0;
    }

    /// Standard channels of a process.
    #[doc(alias = "pmix_iof_channel_t")]
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct IofChannels: u16 {
        /// The low eight bits: all channels of the Standard, and room for four more.
        #[doc(alias = "PMIX_FWD_ALL_CHANNELS")]
        const ALL = 0xff;
        /// Standard input.
        #[doc(alias = "PMIX_FWD_STDIN_CHANNEL")]
        const STDIN = 0x1;
        /// Standard output.
        #[doc(alias = "PMIX_FWD_STDOUT_CHANNEL")]
        const STDOUT = 0x2;
        /// Standard error.
        #[doc(alias = "PMIX_FWD_STDERR_CHANNEL")]
        const STDERR = 0x4;
        /// Diagnostics of the launcher.
        #[doc(alias = "PMIX_FWD_STDDIAG_CHANNEL")]
        const STDDIAG = 0x8;
        // Numbers are open: bits without name are as good as those with one.
        const _ = !0;
    }

    /// What two processes, or a process and a device, share.
    #[doc(alias = "pmix_locality_t")]
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Locality: u16 {
        /// Share a hardware thread.
        #[doc(alias = "PMIX_LOCALITY_SHARE_HWTHREAD")]
        const SHARE_HWTHREAD = 0x1;
        /// Share a core.
        #[doc(alias = "PMIX_LOCALITY_SHARE_CORE")]
        const SHARE_CORE = 0x2;
        /// Share an L1 cache.
        #[doc(alias = "PMIX_LOCALITY_SHARE_L1CACHE")]
        const SHARE_L1CACHE = 0x4;
        /// Share an L2 cache.
        #[doc(alias = "PMIX_LOCALITY_SHARE_L2CACHE")]
        const SHARE_L2CACHE = 0x8;
        /// Share an L3 cache.
        #[doc(alias = "PMIX_LOCALITY_SHARE_L3CACHE")]
        const SHARE_L3CACHE = 0x10;
        /// Share a package.
        #[doc(alias = "PMIX_LOCALITY_SHARE_PACKAGE")]
        const SHARE_PACKAGE = 0x20;
        /// Share a NUMA region.
        #[doc(alias = "PMIX_LOCALITY_SHARE_NUMA")]
        const SHARE_NUMA = 0x40;
        /// Share the node.
        #[doc(alias = "PMIX_LOCALITY_SHARE_NODE")]
        const SHARE_NODE = 0x4000;
        /// Nothing shared.
        #[doc(alias = "PMIX_LOCALITY_NONLOCAL")]
        const NONLOCAL = 0x8000;
        // Numbers are open: bits without name are as good as those with one.
        const _ = !0;
    }

    /// Kinds of devices.
    #[doc(alias = "pmix_device_type_t")]
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct DeviceTypes: u64 {
        /// Block device.
        #[doc(alias = "PMIX_DEVTYPE_BLOCK")]
        const BLOCK = 0x1;
        /// GPU.
        #[doc(alias = "PMIX_DEVTYPE_GPU")]
        const GPU = 0x2;
        /// Network device.
        #[doc(alias = "PMIX_DEVTYPE_NETWORK")]
        const NETWORK = 0x4;
        /// OpenFabrics device.
        #[doc(alias = "PMIX_DEVTYPE_OPENFABRICS")]
        const OPENFABRICS = 0x8;
        /// DMA engine.
        #[doc(alias = "PMIX_DEVTYPE_DMA")]
        const DMA = 0x10;
        /// Co-processor.
        #[doc(alias = "PMIX_DEVTYPE_COPROC")]
        const COPROC = 0x20;
        /// Memory (implementation only).
        #[doc(alias = "PMIX_DEVTYPE_MEMORY")]
        const MEMORY = 0x40;
        /// Core (implementation only).
        #[doc(alias = "PMIX_DEVTYPE_CORE")]
        const CORE = 0x80;
        /// Hardware thread (implementation only).
        #[doc(alias = "PMIX_DEVTYPE_HWT")]
        const HWT = 0x100;
        /// Cpu (implementation only).
        #[doc(alias = "PMIX_DEVTYPE_CPU")]
        const CPU = 0x200;
        /// Node (implementation only).
        #[doc(alias = "PMIX_DEVTYPE_NODE")]
        const NODE = 0x400;
        // Numbers are open: bits without name are as good as those with one.
        const _ = !0;
    }

    /// The media of a storage system.
    #[doc(alias = "pmix_storage_medium_t")]
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct StorageMedium: u64 {
        /// Unknown medium.
        #[doc(alias = "PMIX_STORAGE_MEDIUM_UNKNOWN")]
        const UNKNOWN = 0x1;
        /// Tape.
        #[doc(alias = "PMIX_STORAGE_MEDIUM_TAPE")]
        const TAPE = 0x2;
        /// Hard disk.
        #[doc(alias = "PMIX_STORAGE_MEDIUM_HDD")]
        const HDD = 0x4;
        /// Solid state disk.
        #[doc(alias = "PMIX_STORAGE_MEDIUM_SSD")]
        const SSD = 0x8;
        /// NVMe.
        #[doc(alias = "PMIX_STORAGE_MEDIUM_NVME")]
        const NVME = 0x10;
        /// Persistent memory.
        #[doc(alias = "PMIX_STORAGE_MEDIUM_PMEM")]
        const PMEM = 0x20;
        /// Memory.
        #[doc(alias = "PMIX_STORAGE_MEDIUM_RAM")]
        const RAM = 0x40;
        // Numbers are open: bits without name are as good as those with one.
        const _ = !0;
    }

    /// From where a storage system can be reached.
    #[doc(alias = "pmix_storage_accessibility_t")]
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct StorageAccessibility: u64 {
        /// Within the node.
        #[doc(alias = "PMIX_STORAGE_ACCESSIBILITY_NODE")]
        const NODE = 0x1;
        /// Within the session.
        #[doc(alias = "PMIX_STORAGE_ACCESSIBILITY_SESSION")]
        const SESSION = 0x2;
        /// Within the job.
        #[doc(alias = "PMIX_STORAGE_ACCESSIBILITY_JOB")]
        const JOB = 0x4;
        /// Within the rack.
        #[doc(alias = "PMIX_STORAGE_ACCESSIBILITY_RACK")]
        const RACK = 0x8;
        /// Within the cluster.
        #[doc(alias = "PMIX_STORAGE_ACCESSIBILITY_CLUSTER")]
        const CLUSTER = 0x10;
        /// From outside the cluster.
        #[doc(alias = "PMIX_STORAGE_ACCESSIBILITY_REMOTE")]
        const REMOTE = 0x20;
        // Numbers are open: bits without name are as good as those with one.
        const _ = !0;
    }

    /// How long a storage system keeps its content.
    #[doc(alias = "pmix_storage_persistence_t")]
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct StoragePersistence: u64 {
        /// Temporary.
        #[doc(alias = "PMIX_STORAGE_PERSISTENCE_TEMPORARY")]
        const TEMPORARY = 0x1;
        /// As long as the node is in use.
        #[doc(alias = "PMIX_STORAGE_PERSISTENCE_NODE")]
        const NODE = 0x2;
        /// As long as the session.
        #[doc(alias = "PMIX_STORAGE_PERSISTENCE_SESSION")]
        const SESSION = 0x4;
        /// As long as the job.
        #[doc(alias = "PMIX_STORAGE_PERSISTENCE_JOB")]
        const JOB = 0x8;
        /// Scratch policy.
        #[doc(alias = "PMIX_STORAGE_PERSISTENCE_SCRATCH")]
        const SCRATCH = 0x10;
        /// Project policy.
        #[doc(alias = "PMIX_STORAGE_PERSISTENCE_PROJECT")]
        const PROJECT = 0x20;
        /// Archive.
        #[doc(alias = "PMIX_STORAGE_PERSISTENCE_ARCHIVE")]
        const ARCHIVE = 0x40;
        // Numbers are open: bits without name are as good as those with one.
        const _ = !0;
    }

    /// Kind of access to a storage system.
    #[doc(alias = "pmix_storage_access_type_t")]
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct StorageAccessType: u16 {
        /// Read and write.
        #[doc(alias = "PMIX_STORAGE_ACCESS_RDWR")]
        const RDWR = 0x3;
        /// Read.
        #[doc(alias = "PMIX_STORAGE_ACCESS_RD")]
        const RD = 0x1;
        /// Write.
        #[doc(alias = "PMIX_STORAGE_ACCESS_WR")]
        const WR = 0x2;
        // Numbers are open: bits without name are as good as those with one.
        const _ = !0;
    }

}

impl InfoFlags {
    /// Mask of the bits private to the implementation.
    #[doc(alias = "PMIX_INFO_DIR_RESERVED")]
    pub const DIR_RESERVED: Self = Self::from_bits_retain(0xffff_0000);
}

impl IofChannels {
    /// No channel.
    #[doc(alias = "PMIX_FWD_NO_CHANNELS")]
    pub const NONE: Self = Self::empty();
}

impl Locality {
    /// Not known.
    #[doc(alias = "PMIX_LOCALITY_UNKNOWN")]
    pub const UNKNOWN: Self = Self::empty();
}

impl DeviceTypes {
    /// Unknown kind.
    #[doc(alias = "PMIX_DEVTYPE_UNKNOWN")]
    pub const UNKNOWN: Self = Self::empty();
}

macro_rules! text_form {
    ($($Flags:ident),+ $(,)?) => { $(
        impl fmt::Display for $Flags {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_flags(self, f)
            }
        }

        impl FromStr for $Flags {
            type Err = ParseEnumError;

            /// Reads what `Display` writes: names and hex numbers joined by `|`.
            ///
            /// # Errors
            /// A name that is not a flag of this type, or a number that does not fit.
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                parser::from_str(text).map_err(|_| ParseEnumError::new(stringify!($Flags), text))
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $Flags {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+ };
}

text_form!(
    InfoFlags,
    IofChannels,
    Locality,
    DeviceTypes,
    StorageMedium,
    StorageAccessibility,
    StoragePersistence,
    StorageAccessType,
);

fn write_flags<F: Flags<Bits: parser::WriteHex>>(flags: &F, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if flags.is_empty() { f.write_str("0x0") } else { parser::to_writer(flags, f) }
}
