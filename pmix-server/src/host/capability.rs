use std::collections::BTreeMap;

use pmix_types::RegAttr;

/// Declares the entries of the host module: the method's name, further names of it in C, and the functions it serves.
macro_rules! upcalls {
    ($($name:ident $method:literal $(| $c_name:literal)* => [$($function:literal),*];)+) => {
        /// The entries of the host module, for saying which of them a host serves.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Upcall {
            $(#[doc = concat!("[`HostModule::", $method, "`](crate::host::HostModule::", $method, ")")] $name,)+
        }

        impl Upcall {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Name of the method.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $method,)+
                }
            }

            /// The entry of a name: that of the method, or that of the function in the Standard's module, where it is
            /// another; `None` for any other text.
            ///
            /// # Examples
            /// ```
            /// use pmix_server::host::Upcall;
            /// assert_eq!(Upcall::from_name("publish"), Some(Upcall::Publish));
            /// assert_eq!(Upcall::from_name("fence_nb"), Some(Upcall::Fence));
            /// assert_eq!(Upcall::from_name("PMIx_Fence"), None);
            /// ```
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($method $(| $c_name)* => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// The Standard's functions that this entry serves; empty if processes have none for it (ATT-03).
            ///
            /// # Examples
            /// ```
            /// use pmix_server::host::Upcall;
            /// assert_eq!(Upcall::Publish.functions(), ["PMIx_Publish", "PMIx_Publish_nb"]);
            /// assert!(Upcall::ClientLost.functions().is_empty());
            /// ```
            pub const fn functions(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &[$($function),*],)+
                }
            }
        }
    };
}

upcalls! {
    ClientConnected "client_connected" | "client_connected2" => ["PMIx_Init"];
    ClientFinalized "client_finalized" => ["PMIx_Finalize"];
    ClientLost "client_lost" => [];
    Abort "abort" => ["PMIx_Abort"];
    Fence "fence" | "fence_nb" => ["PMIx_Fence", "PMIx_Fence_nb"];
    DirectModex "direct_modex" => ["PMIx_Get", "PMIx_Get_nb"];
    Publish "publish" => ["PMIx_Publish", "PMIx_Publish_nb"];
    Lookup "lookup" => ["PMIx_Lookup", "PMIx_Lookup_nb"];
    Unpublish "unpublish" => ["PMIx_Unpublish", "PMIx_Unpublish_nb"];
    Spawn "spawn" => ["PMIx_Spawn", "PMIx_Spawn_nb"];
    Connect "connect" => ["PMIx_Connect", "PMIx_Connect_nb"];
    Disconnect "disconnect" => ["PMIx_Disconnect", "PMIx_Disconnect_nb"];
    RegisterEvents "register_events" => ["PMIx_Register_event_handler"];
    DeregisterEvents "deregister_events" => ["PMIx_Deregister_event_handler"];
    NotifyEvent "notify_event" => ["PMIx_Notify_event"];
    Query "query" => ["PMIx_Query_info", "PMIx_Query_info_nb"];
    ToolConnected "tool_connected" | "tool_connected2" => ["PMIx_tool_init", "PMIx_tool_attach_to_server"];
    Log "log" | "log2" => ["PMIx_Log", "PMIx_Log_nb"];
    Allocate "allocate" => ["PMIx_Allocation_request", "PMIx_Allocation_request_nb"];
    JobControl "job_control" => ["PMIx_Job_control", "PMIx_Job_control_nb"];
    Monitor "monitor" => ["PMIx_Process_monitor", "PMIx_Process_monitor_nb", "PMIx_Heartbeat"];
    GetCredential "get_credential" => ["PMIx_Get_credential", "PMIx_Get_credential_nb"];
    ValidateCredential "validate_credential" => ["PMIx_Validate_credential", "PMIx_Validate_credential_nb"];
    IofPull "iof_pull" => ["PMIx_IOF_pull"];
    PushStdin "push_stdin" => ["PMIx_IOF_push"];
    Group "group" => [
        "PMIx_Group_construct", "PMIx_Group_construct_nb", "PMIx_Group_destruct", "PMIx_Group_destruct_nb"
    ];
    Fabric "fabric" => [
        "PMIx_Fabric_register", "PMIx_Fabric_register_nb", "PMIx_Fabric_update", "PMIx_Fabric_update_nb"
    ];
    SessionControl "session_control" => ["PMIx_Session_control"];
    ResourceBlock "resource_block" => ["PMIx_Resource_block", "PMIx_Resource_block_nb"];
}

impl Upcall {
    /// The operation's name, for messages.
    pub(crate) const fn operation(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Lookup => "lookup",
            Self::Unpublish => "unpublish",
            Self::Spawn => "spawn",
            Self::JobControl => "job control",
            Self::Log => "log",
            Self::Allocate => "allocation",
            Self::Monitor => "monitoring",
            Self::GetCredential => "get credential",
            Self::ValidateCredential => "validate credential",
            Self::SessionControl => "session control",
            Self::ResourceBlock => "resource block",
            Self::Fabric => "fabric",
            _ => "this operation",
        }
    }
}

/// Which upcalls a host serves, and which attributes each of them takes.
///
/// Read once when the server starts. An upcall that is not declared is never made: the server answers as
/// for an absent entry of the module (GEN-11).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capabilities(BTreeMap<Upcall, Vec<RegAttr>>);

impl Capabilities {
    /// Serves nothing: processes still find local data (INI-10).
    pub const fn none() -> Self {
        Self(BTreeMap::new())
    }

    /// Declares an upcall.
    #[must_use]
    pub fn with(mut self, upcall: Upcall) -> Self {
        self.0.entry(upcall).or_default();
        self
    }

    /// Declares an upcall with the attributes it takes.
    #[must_use]
    pub fn with_attributes(mut self, upcall: Upcall, attributes: impl IntoIterator<Item = RegAttr>) -> Self {
        self.0.entry(upcall).or_default().extend(attributes);
        self
    }

    /// Whether an upcall is served.
    pub fn has(&self, upcall: Upcall) -> bool {
        self.0.contains_key(&upcall)
    }

    /// The declared upcalls in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = Upcall> + '_ {
        self.0.keys().copied()
    }

    /// The attributes declared for an upcall; empty if it is not declared.
    pub fn attributes(&self, upcall: Upcall) -> &[RegAttr] {
        self.0.get(&upcall).map_or(&[], Vec::as_slice)
    }
}

impl FromIterator<Upcall> for Capabilities {
    fn from_iter<I: IntoIterator<Item = Upcall>>(upcalls: I) -> Self {
        upcalls.into_iter().fold(Self::none(), Self::with)
    }
}
