//! Whether a server also speaks the native wire.

/// Whether and how a server also speaks the protocol of OpenPMIx. Without the feature `native-wire` it never does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NativeWire {
    /// Programs linked with the C library cannot connect.
    #[default]
    Off,
    /// Programs linked with the C library can connect.
    #[cfg(feature = "native-wire")]
    On,
    /// Like `On`, and the environment tells programs of Open MPI 4 that they were launched: without the marker
    /// `JSM_JSRUN_PORT=0`, which nothing else reads, each of them starts as a singleton. The marker also turns off Open MPI
    /// 4's own binding of processes.
    #[cfg(feature = "native-wire")]
    WithOpenMpi4,
}

impl NativeWire {
    pub(crate) fn is_on(self) -> bool {
        self != Self::Off
    }

    pub(crate) const fn marks_launches_for_open_mpi_4(self) -> bool {
        match self {
            Self::Off => false,
            #[cfg(feature = "native-wire")]
            Self::On => false,
            #[cfg(feature = "native-wire")]
            Self::WithOpenMpi4 => true,
        }
    }
}
