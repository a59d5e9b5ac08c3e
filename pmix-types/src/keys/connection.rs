// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use bytes::Bytes;

use crate::{Gid, Pid, ProcId, Uid};

super::keys! {
    /// Creation time of the server's rendezvous file, ctime text.
    #[doc(alias = "PMIX_SERVER_START_TIME")]
    SERVER_START_TIME: String = "pmix.srv.strtime", STRING, None, "4.0";
    /// Namespace the tool wants for itself.
    #[doc(alias = "PMIX_TOOL_NSPACE")]
    TOOL_NSPACE: String = "pmix.tool.nspace", STRING, None, "2.0";
    /// Rank the tool wants for itself; 0 assumed if only the namespace is given.
    #[doc(alias = "PMIX_TOOL_RANK")]
    TOOL_RANK: u32 = "pmix.tool.rank", UINT32, None, "2.0";
    /// Tool: connect to the server in the process with this pid.
    #[doc(alias = "PMIX_SERVER_PIDINFO")]
    SERVER_PIDINFO: Pid = "pmix.srvr.pidinfo", PID, None, "2.0";
    /// Tool: connect only to the local system-level server, else fail.
    #[doc(alias = "PMIX_CONNECT_TO_SYSTEM")]
    CONNECT_TO_SYSTEM: bool = "pmix.cnct.sys", BOOL, None, "2.0";
    /// Tool: try the system-level server first, then carry on silently with other methods.
    #[doc(alias = "PMIX_CONNECT_SYSTEM_FIRST")]
    CONNECT_SYSTEM_FIRST: bool = "pmix.cnct.sys.first", BOOL, None, "2.0";
    /// Tool: URI of the server to contact; as a query key asks for a server's URI.
    #[doc(alias = "PMIX_SERVER_URI")]
    SERVER_URI: String = "pmix.srvr.uri", STRING, None, "2.0";
    /// Node on which the target server runs.
    #[doc(alias = "PMIX_SERVER_HOSTNAME")]
    SERVER_HOSTNAME: String = "pmix.srvr.host", STRING, None, "2.0";
    /// Upper bound on connection attempts.
    #[doc(alias = "PMIX_CONNECT_MAX_RETRIES")]
    CONNECT_MAX_RETRIES: u32 = "pmix.tool.mretries", UINT32, None, "2.0";
    /// Seconds to pause between connection attempts.
    #[doc(alias = "PMIX_CONNECT_RETRY_DELAY")]
    CONNECT_RETRY_DELAY: u32 = "pmix.tool.retry", UINT32, None, "2.0";
    /// Tool initialises without contacting any server.
    #[doc(alias = "PMIX_TOOL_DO_NOT_CONNECT")]
    TOOL_DO_NOT_CONNECT: bool = "pmix.tool.nocon", BOOL, None, "2.0";
    /// Tool connects if it can and otherwise runs unconnected without error.
    #[doc(alias = "PMIX_TOOL_CONNECT_OPTIONAL")]
    TOOL_CONNECT_OPTIONAL: bool = "pmix.tool.conopt", BOOL, None, "4.0";
    /// The tool starts jobs, so it needs server features and rendezvous files of its own.
    #[doc(alias = "PMIX_LAUNCHER")]
    LAUNCHER: bool = "pmix.tool.launcher", BOOL, None, "3.0";
    /// Extra path at which the launcher or server writes its contact info.
    #[doc(alias = "PMIX_LAUNCHER_RENDEZVOUS_FILE")]
    LAUNCHER_RENDEZVOUS_FILE: String = "pmix.tool.lncrnd", STRING, None, "4.0";
    /// File with the contact info of the server to attach to.
    #[doc(alias = "PMIX_TOOL_ATTACHMENT_FILE")]
    TOOL_ATTACHMENT_FILE: String = "pmix.tool.attach", STRING, None, "4.0";
    /// Make the server being attached the tool's primary one.
    #[doc(alias = "PMIX_PRIMARY_SERVER")]
    PRIMARY_SERVER: bool = "pmix.pri.srvr", BOOL, None, "4.0";
    /// Effective user id of the requester; the library adds it to most host upcalls.
    #[doc(alias = "PMIX_USERID")]
    USERID: Uid = "pmix.euid", UINT32, None, "1.1";
    /// Effective group id of the requester; the library adds it to most host upcalls.
    #[doc(alias = "PMIX_GRPID")]
    GRPID: Gid = "pmix.egid", UINT32, None, "1.1";
    /// PMIx version text of the connecting peer.
    #[doc(alias = "PMIX_VERSION_INFO")]
    VERSION_INFO: String = "pmix.version", STRING, None, "2.0";
    /// Spawn requester is a tool.
    #[doc(alias = "PMIX_REQUESTOR_IS_TOOL")]
    REQUESTOR_IS_TOOL: bool = "pmix.req.tool", BOOL, None, "2.0";
    /// Spawn requester is a client.
    #[doc(alias = "PMIX_REQUESTOR_IS_CLIENT")]
    REQUESTOR_IS_CLIENT: bool = "pmix.req.client", BOOL, None, "2.0";
    /// Where to print the listener URI: '-' stdout, '+' stderr, else a file name.
    #[doc(alias = "PMIX_TCP_REPORT_URI")]
    TCP_REPORT_URI: String = "pmix.tcp.repuri", STRING, None, "2.0";
    /// Connect over TCP to this URI, or `file:<path>` holding it; excludes SERVER_URI.
    #[doc(alias = "PMIX_TCP_URI")]
    TCP_URI: String = "pmix.tcp.uri", STRING, None, "2.0";
    /// Network interfaces or CIDR blocks that may be used.
    #[doc(alias = "PMIX_TCP_IF_INCLUDE")]
    TCP_IF_INCLUDE: String = "pmix.tcp.ifinclude", STRING, None, "2.0";
    /// Network interfaces or CIDR blocks that must not be used.
    #[doc(alias = "PMIX_TCP_IF_EXCLUDE")]
    TCP_IF_EXCLUDE: String = "pmix.tcp.ifexclude", STRING, None, "2.0";
    /// IPv4 port to use.
    #[doc(alias = "PMIX_TCP_IPV4_PORT")]
    TCP_IPV4_PORT: i32 = "pmix.tcp.ipv4", INT, None, "2.0";
    /// IPv6 port to use.
    #[doc(alias = "PMIX_TCP_IPV6_PORT")]
    TCP_IPV6_PORT: i32 = "pmix.tcp.ipv6", INT, None, "2.0";
    /// Do not use IPv4.
    #[doc(alias = "PMIX_TCP_DISABLE_IPV4")]
    TCP_DISABLE_IPV4: bool = "pmix.tcp.disipv4", BOOL, None, "2.0";
    /// Do not use IPv6.
    #[doc(alias = "PMIX_TCP_DISABLE_IPV6")]
    TCP_DISABLE_IPV6: bool = "pmix.tcp.disipv6", BOOL, None, "2.0";
    /// Set_server waits until that server has connected.
    #[doc(alias = "PMIX_WAIT_FOR_CONNECTION")]
    WAIT_FOR_CONNECTION: bool = "pmix.wait.conn", BOOL, None, "4.0";
    /// Wanted credential types in order of preference; in a reply, the type given.
    #[doc(alias = "PMIX_CRED_TYPE")]
    CRED_TYPE: String = "pmix.sec.ctype", STRING, None, "3.0";
    /// Tool: connect to the scheduler's server.
    #[doc(alias = "PMIX_CONNECT_TO_SCHEDULER")]
    CONNECT_TO_SCHEDULER: bool = "pmix.cnct.sched", BOOL, None, "impl 5.0.0";
    /// Tool: connect to the system controller's server.
    #[doc(alias = "PMIX_CONNECT_TO_SYS_CONTROLLER")]
    CONNECT_TO_SYS_CONTROLLER: bool = "pmix.cnct.ctrlr", BOOL, None, "impl 6.0.0";
    /// Tool: comma list of connect attributes to try, in order; last one decides whether a default search
    /// follows.
    #[doc(alias = "PMIX_CONNECTION_ORDER")]
    CONNECTION_ORDER: String = "pmix.cnct.ord", STRING, None, "impl 6.0.0";
    /// URI of the listener of the calling process itself.
    #[doc(alias = "PMIX_MYSERVER_URI")]
    MYSERVER_URI: String = "pmix.mysrvr.uri", STRING, None, "impl 4.2.0";
    /// Real user id.
    #[doc(alias = "PMIX_REALUID")]
    REALUID: Uid = "pmix.ruid", UINT32, None, "impl 6.1.0";
    /// Real group id.
    #[doc(alias = "PMIX_REALGID")]
    REALGID: Gid = "pmix.rgid", UINT32, None, "impl 6.1.0";
    /// On whose behalf a relayed request is made, when the call has no such parameter.
    #[doc(alias = "PMIX_REQUESTOR")]
    REQUESTOR: ProcId = "pmix.requestor", PROC, None, "impl 6.0.0";
    /// Blob with a cryptographic key.
    #[doc(alias = "PMIX_CRYPTO_KEY")]
    CRYPTO_KEY: Bytes = "pmix.sec.key", BYTE_OBJECT, None, "3.0", deprecated "deprecated (headers)";
    /// Do not create the legacy Unix socket.
    #[doc(alias = "PMIX_USOCK_DISABLE")]
    USOCK_DISABLE: bool = "pmix.usock.disable", BOOL, None, "2.0", deprecated "deprecated (headers)";
    /// Permission bits of the socket.
    #[doc(alias = "PMIX_SOCKET_MODE")]
    SOCKET_MODE: u32 = "pmix.sockmode", UINT32, None, "1.2", deprecated "deprecated (headers)";
    /// Use only one listener.
    #[doc(alias = "PMIX_SINGLE_LISTENER")]
    SINGLE_LISTENER: bool = "pmix.sing.listnr", BOOL, None, "2.0", deprecated "deprecated (headers)";
}
