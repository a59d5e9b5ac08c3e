//! Whether a server also speaks the native wire, and PMI-1.

/// Whether and how a server also speaks the protocol of OpenPMIx. Without the feature `native-wire` it never does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NativeWire {
    /// Programs linked with the C library cannot connect.
    #[default]
    Off,
    /// Programs linked with the C library can connect. The environment of processes has a marker for Open MPI 4, `JSM_JSRUN_PORT=0`:
    /// without it, each of its programs starts as a singleton. Nothing else reads the marker, which also turns off Open MPI 4's own
    /// binding of processes.
    #[cfg(feature = "native-wire")]
    On,
    /// Like `On`, without the marker for Open MPI 4.
    #[cfg(feature = "native-wire")]
    WithoutOpenMpi4,
}

impl NativeWire {
    pub(crate) fn is_on(self) -> bool {
        self != Self::Off
    }

    pub(crate) const fn marks_launches_for_open_mpi_4(self) -> bool {
        match self {
            Self::Off => false,
            #[cfg(feature = "native-wire")]
            Self::On => true,
            #[cfg(feature = "native-wire")]
            Self::WithoutOpenMpi4 => false,
        }
    }
}

/// Whether and how a server also speaks PMI-1.1, by which programs of MPICH and its relatives are started. Without the feature
/// `pmi1` it never does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pmi1Wire {
    /// Such programs take themselves for jobs of one process.
    #[default]
    Off,
    /// Each process inherits one end of a pair of sockets as `PMI_FD`: if the host applies the
    /// [`Environment`](crate::Environment), or its launcher opens the [`Pmi1Socket`](crate::Pmi1Socket). Nobody else can connect.
    #[cfg(feature = "pmi1")]
    Inherited,
    /// There is a port on the loopback interface, too, which the environment names in `PMI_PORT`. It serves processes that inherit
    /// no descriptor. The kernel is asked who connects.
    #[cfg(feature = "pmi1")]
    InheritedOrPort,
}

impl Pmi1Wire {
    /// Prefix of the keys that processes put by PMI-1, as they appear in the data of a job and of its processes. A directive
    /// of a spawn whose key has this prefix is a value for the key-value space of the new job: a host that carries out spawns
    /// must make it part of that job's data, as `StandardHost` does.
    pub const KEYS: &'static str = "pmi1.";

    #[cfg(feature = "pmi1")]
    pub(crate) const fn has_port(self) -> bool {
        matches!(self, Self::InheritedOrPort)
    }
}
