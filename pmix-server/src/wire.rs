//! Which wires a server speaks beside its own.

/// Whether and how a server speaks OpenPMIx's own protocol beside its own. Without the feature `native-wire` it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NativeWire {
    /// It does not.
    #[default]
    Off,
    /// It does.
    #[cfg(feature = "native-wire")]
    On,
    /// It does, and programs of Open MPI 4 find out from their environment that they were launched: without the
    /// marker (`JSM_JSRUN_PORT=0`, which nothing else reads) they start alone. It also turns Open MPI 4's own binding
    /// of processes off.
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
