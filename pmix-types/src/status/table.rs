// Generated from the Standard's tables by examples/gen.rs. Do not edit.

super::statuses! {
    /// Done; the only zero value.
    #[doc(alias = "PMIX_SUCCESS")]
    SUCCESS = 0, Success;
    /// Failure of no particular kind.
    #[doc(alias = "PMIX_ERROR")]
    ERROR = -1, Error;
    /// Fail without output.
    #[doc(alias = "PMIX_ERR_SILENT")]
    ERR_SILENT = -2, Error;
    /// Stopped processes or tools may continue.
    #[doc(alias = "PMIX_DEBUGGER_RELEASE")]
    DEBUGGER_RELEASE = -3, Event;
    /// Old name of DEBUGGER_RELEASE.
    #[doc(alias = "PMIX_ERR_DEBUGGER_RELEASE")]
    ERR_DEBUGGER_RELEASE = -3, Event;
    /// Restarting a process failed.
    #[doc(alias = "PMIX_ERR_PROC_RESTART")]
    ERR_PROC_RESTART = -4, Event;
    /// Checkpointing a process failed.
    #[doc(alias = "PMIX_ERR_PROC_CHECKPOINT")]
    ERR_PROC_CHECKPOINT = -5, Event;
    /// Migrating a process failed.
    #[doc(alias = "PMIX_ERR_PROC_MIGRATE")]
    ERR_PROC_MIGRATE = -6, Event;
    /// Process was aborted.
    #[doc(alias = "PMIX_ERR_PROC_ABORTED")]
    ERR_PROC_ABORTED = -7, Event;
    /// Process called abort.
    #[doc(alias = "PMIX_ERR_PROC_REQUESTED_ABORT")]
    ERR_PROC_REQUESTED_ABORT = -8, Event;
    /// Process is being aborted.
    #[doc(alias = "PMIX_ERR_PROC_ABORTING")]
    ERR_PROC_ABORTING = -9, Event;
    /// Server could not serve the request.
    #[doc(alias = "PMIX_ERR_SERVER_FAILED_REQUEST")]
    ERR_SERVER_FAILED_REQUEST = -10, Error;
    /// Something already exists and would be overwritten.
    #[doc(alias = "PMIX_ERR_EXISTS")]
    ERR_EXISTS = -11, Error;
    /// Old name of ERR_EXISTS.
    #[doc(alias = "PMIX_EXISTS")]
    EXISTS = -11, Error;
    /// Credential is not valid.
    #[doc(alias = "PMIX_ERR_INVALID_CRED")]
    ERR_INVALID_CRED = -12, Error;
    /// Connection handshake failed.
    #[doc(alias = "PMIX_ERR_HANDSHAKE_FAILED")]
    ERR_HANDSHAKE_FAILED = -13, Error;
    /// Internal handshake step.
    #[doc(alias = "PMIX_ERR_READY_FOR_HANDSHAKE")]
    ERR_READY_FOR_HANDSHAKE = -14, Error;
    /// The call would have to block.
    #[doc(alias = "PMIX_ERR_WOULD_BLOCK")]
    ERR_WOULD_BLOCK = -15, Error;
    /// Unknown data type.
    #[doc(alias = "PMIX_ERR_UNKNOWN_DATA_TYPE")]
    ERR_UNKNOWN_DATA_TYPE = -16, Error;
    /// Process is not known.
    #[doc(alias = "PMIX_ERR_PROC_ENTRY_NOT_FOUND")]
    ERR_PROC_ENTRY_NOT_FOUND = -17, Error;
    /// Data type differs from the expected one.
    #[doc(alias = "PMIX_ERR_TYPE_MISMATCH")]
    ERR_TYPE_MISMATCH = -18, Error;
    /// Buffer holds more values than there is room for.
    #[doc(alias = "PMIX_ERR_UNPACK_INADEQUATE_SPACE")]
    ERR_UNPACK_INADEQUATE_SPACE = -19, Error;
    /// Unpacking failed.
    #[doc(alias = "PMIX_ERR_UNPACK_FAILURE")]
    ERR_UNPACK_FAILURE = -20, Error;
    /// Packing failed.
    #[doc(alias = "PMIX_ERR_PACK_FAILURE")]
    ERR_PACK_FAILURE = -21, Error;
    /// Packed data does not fit.
    #[doc(alias = "PMIX_ERR_PACK_MISMATCH")]
    ERR_PACK_MISMATCH = -22, Error;
    /// Caller may not do this, or may not read the found data.
    #[doc(alias = "PMIX_ERR_NO_PERMISSIONS")]
    ERR_NO_PERMISSIONS = -23, Error;
    /// A given or internal time limit passed.
    #[doc(alias = "PMIX_ERR_TIMEOUT")]
    ERR_TIMEOUT = -24, Error;
    /// No connection to the server or process, and none can be made.
    #[doc(alias = "PMIX_ERR_UNREACH")]
    ERR_UNREACH = -25, Error;
    /// The error is in errno.
    #[doc(alias = "PMIX_ERR_IN_ERRNO")]
    ERR_IN_ERRNO = -26, Error;
    /// Wrong parameter, wrong value type, or directives that contradict each other.
    #[doc(alias = "PMIX_ERR_BAD_PARAM")]
    ERR_BAD_PARAM = -27, Error;
    /// Resource is in use at the moment.
    #[doc(alias = "PMIX_ERR_RESOURCE_BUSY")]
    ERR_RESOURCE_BUSY = -28, Error;
    /// Resource used up.
    #[doc(alias = "PMIX_ERR_OUT_OF_RESOURCE")]
    ERR_OUT_OF_RESOURCE = -29, Error;
    /// Value was not provided, such as LOCAL_PEERS of a known node.
    #[doc(alias = "PMIX_ERR_DATA_VALUE_NOT_FOUND")]
    ERR_DATA_VALUE_NOT_FOUND = -30, Error;
    /// Library is not initialised.
    #[doc(alias = "PMIX_ERR_INIT")]
    ERR_INIT = -31, Error;
    /// No memory.
    #[doc(alias = "PMIX_ERR_NOMEM")]
    ERR_NOMEM = -32, Error;
    /// Argument not valid.
    #[doc(alias = "PMIX_ERR_INVALID_ARG")]
    ERR_INVALID_ARG = -33, Error;
    /// Key not valid.
    #[doc(alias = "PMIX_ERR_INVALID_KEY")]
    ERR_INVALID_KEY = -34, Error;
    /// Key too long.
    #[doc(alias = "PMIX_ERR_INVALID_KEY_LENGTH")]
    ERR_INVALID_KEY_LENGTH = -35, Error;
    /// Value not valid.
    #[doc(alias = "PMIX_ERR_INVALID_VAL")]
    ERR_INVALID_VAL = -36, Error;
    /// Value too long.
    #[doc(alias = "PMIX_ERR_INVALID_VAL_LENGTH")]
    ERR_INVALID_VAL_LENGTH = -37, Error;
    /// Length not valid.
    #[doc(alias = "PMIX_ERR_INVALID_LENGTH")]
    ERR_INVALID_LENGTH = -38, Error;
    /// Wrong number of arguments.
    #[doc(alias = "PMIX_ERR_INVALID_NUM_ARGS")]
    ERR_INVALID_NUM_ARGS = -39, Error;
    /// Arguments not valid.
    #[doc(alias = "PMIX_ERR_INVALID_ARGS")]
    ERR_INVALID_ARGS = -40, Error;
    /// Wrong number of parsed items.
    #[doc(alias = "PMIX_ERR_INVALID_NUM_PARSED")]
    ERR_INVALID_NUM_PARSED = -41, Error;
    /// Key/value pair not valid.
    #[doc(alias = "PMIX_ERR_INVALID_KEYVALP")]
    ERR_INVALID_KEYVALP = -42, Error;
    /// Size not valid.
    #[doc(alias = "PMIX_ERR_INVALID_SIZE")]
    ERR_INVALID_SIZE = -43, Error;
    /// Namespace is not known.
    #[doc(alias = "PMIX_ERR_INVALID_NAMESPACE")]
    ERR_INVALID_NAMESPACE = -44, Error;
    /// No server.
    #[doc(alias = "PMIX_ERR_SERVER_NOT_AVAIL")]
    ERR_SERVER_NOT_AVAIL = -45, Error;
    /// Information does not exist here.
    #[doc(alias = "PMIX_ERR_NOT_FOUND")]
    ERR_NOT_FOUND = -46, Error;
    /// Neither library nor host can do this (also: required directive nobody handled).
    #[doc(alias = "PMIX_ERR_NOT_SUPPORTED")]
    ERR_NOT_SUPPORTED = -47, Error;
    /// Not implemented.
    #[doc(alias = "PMIX_ERR_NOT_IMPLEMENTED")]
    ERR_NOT_IMPLEMENTED = -48, Error;
    /// A message was lost, but the connection is still open.
    #[doc(alias = "PMIX_ERR_COMM_FAILURE")]
    ERR_COMM_FAILURE = -49, Error;
    /// Buffer holds fewer values than requested.
    #[doc(alias = "PMIX_ERR_UNPACK_READ_PAST_END_OF_BUFFER")]
    ERR_UNPACK_READ_PAST_END_OF_BUFFER = -50, Error;
    /// Cleanup directives contradict each other.
    #[doc(alias = "PMIX_ERR_CONFLICTING_CLEANUP_DIRECTIVES")]
    ERR_CONFLICTING_CLEANUP_DIRECTIVES = -51, Error;
    /// Only part of it worked or was found; result holds that part.
    #[doc(alias = "PMIX_ERR_PARTIAL_SUCCESS")]
    ERR_PARTIAL_SUCCESS = -52, Error;
    /// Key is already published in that range.
    #[doc(alias = "PMIX_ERR_DUPLICATE_KEY")]
    ERR_DUPLICATE_KEY = -53, Error;
    /// Host defined a process set; carries name and members.
    #[doc(alias = "PMIX_PROCESS_SET_DEFINE")]
    PROCESS_SET_DEFINE = -55, Event;
    /// Host deleted a process set; carries the name.
    #[doc(alias = "PMIX_PROCESS_SET_DELETE")]
    PROCESS_SET_DELETE = -56, Event;
    /// Processes wait at a breakpoint; carries their ids and the breakpoint.
    #[doc(alias = "PMIX_READY_FOR_DEBUG")]
    READY_FOR_DEBUG = -58, Event;
    /// Old name of READY_FOR_DEBUG.
    #[doc(alias = "PMIX_DEBUG_WAITING_FOR_NOTIFY")]
    DEBUG_WAITING_FOR_NOTIFY = -58, Event;
    /// Operation exists, but not with this parameter value; nothing was done.
    #[doc(alias = "PMIX_ERR_PARAM_VALUE_NOT_SUPPORTED")]
    ERR_PARAM_VALUE_NOT_SUPPORTED = -59, Error;
    /// Array or list without members.
    #[doc(alias = "PMIX_ERR_EMPTY")]
    ERR_EMPTY = -60, Error;
    /// Connection between server and client or tool is gone.
    #[doc(alias = "PMIX_ERR_LOST_CONNECTION")]
    ERR_LOST_CONNECTION = -61, Error;
    /// Key exists, but was put in a scope that excludes the requester.
    #[doc(alias = "PMIX_ERR_EXISTS_OUTSIDE_SCOPE")]
    ERR_EXISTS_OUTSIDE_SCOPE = -62, Error;
    /// Cannot continue.
    #[doc(alias = "PMIX_ERR_FATAL")]
    ERR_FATAL = -63, Error;
    /// Cannot be served now, for example progress is stopped.
    #[doc(alias = "PMIX_ERR_NOT_AVAILABLE")]
    ERR_NOT_AVAILABLE = -64, Error;
    /// Value outside its range.
    #[doc(alias = "PMIX_ERR_VALUE_OUT_OF_BOUNDS")]
    ERR_VALUE_OUT_OF_BOUNDS = -65, Error;
    /// Caller is not among the named participants.
    #[doc(alias = "PMIX_ERR_NOT_A_MEMBER")]
    ERR_NOT_A_MEMBER = -66, Error;
    /// File could not be opened.
    #[doc(alias = "PMIX_ERR_FILE_OPEN_FAILURE")]
    ERR_FILE_OPEN_FAILURE = -67, Error;
    /// File could not be read.
    #[doc(alias = "PMIX_ERR_FILE_READ_FAILURE")]
    ERR_FILE_READ_FAILURE = -68, Error;
    /// File could not be written.
    #[doc(alias = "PMIX_ERR_FILE_WRITE_FAILURE")]
    ERR_FILE_WRITE_FAILURE = -69, Error;
    /// No more pipes.
    #[doc(alias = "PMIX_ERR_SYS_LIMITS_PIPES")]
    ERR_SYS_LIMITS_PIPES = -70, Error;
    /// No more child processes.
    #[doc(alias = "PMIX_ERR_SYS_LIMITS_CHILDREN")]
    ERR_SYS_LIMITS_CHILDREN = -71, Error;
    /// Pipe could not be set up.
    #[doc(alias = "PMIX_ERR_PIPE_SETUP_FAILURE")]
    ERR_PIPE_SETUP_FAILURE = -72, Error;
    /// Executable not accessible.
    #[doc(alias = "PMIX_ERR_EXE_NOT_ACCESSIBLE")]
    ERR_EXE_NOT_ACCESSIBLE = -73, Error;
    /// Working directory not accessible.
    #[doc(alias = "PMIX_ERR_JOB_WDIR_NOT_ACCESSIBLE")]
    ERR_JOB_WDIR_NOT_ACCESSIBLE = -74, Error;
    /// No more files.
    #[doc(alias = "PMIX_ERR_SYS_LIMITS_FILES")]
    ERR_SYS_LIMITS_FILES = -75, Error;
    /// Connection to the server is gone.
    #[doc(alias = "PMIX_ERR_LOST_CONNECTION_TO_SERVER")]
    ERR_LOST_CONNECTION_TO_SERVER = -101, Event;
    /// Connection to a peer is gone.
    #[doc(alias = "PMIX_ERR_LOST_PEER_CONNECTION")]
    ERR_LOST_PEER_CONNECTION = -102, Event;
    /// Connection to a client is gone.
    #[doc(alias = "PMIX_ERR_LOST_CONNECTION_TO_CLIENT")]
    ERR_LOST_CONNECTION_TO_CLIENT = -103, Event;
    /// Old name of ERR_PARTIAL_SUCCESS for queries.
    #[doc(alias = "PMIX_QUERY_PARTIAL_SUCCESS")]
    QUERY_PARTIAL_SUCCESS = -104, Error;
    /// Allocation request is finished.
    #[doc(alias = "PMIX_NOTIFY_ALLOC_COMPLETE")]
    NOTIFY_ALLOC_COMPLETE = -105, Event;
    /// Client: take a checkpoint.
    #[doc(alias = "PMIX_JCTRL_CHECKPOINT")]
    JCTRL_CHECKPOINT = -106, Event;
    /// Client to server: checkpoint is taken.
    #[doc(alias = "PMIX_JCTRL_CHECKPOINT_COMPLETE")]
    JCTRL_CHECKPOINT_COMPLETE = -107, Event;
    /// Manager is about to preempt.
    #[doc(alias = "PMIX_JCTRL_PREEMPT_ALERT")]
    JCTRL_PREEMPT_ALERT = -108, Event;
    /// Heartbeat missing.
    #[doc(alias = "PMIX_MONITOR_HEARTBEAT_ALERT")]
    MONITOR_HEARTBEAT_ALERT = -109, Event;
    /// Watched file failed its check.
    #[doc(alias = "PMIX_MONITOR_FILE_ALERT")]
    MONITOR_FILE_ALERT = -110, Event;
    /// Process ended (old name).
    #[doc(alias = "PMIX_PROC_TERMINATED")]
    PROC_TERMINATED = -111, Event;
    /// Process ended in a way not allowed.
    #[doc(alias = "PMIX_ERR_INVALID_TERMINATION")]
    ERR_INVALID_TERMINATION = -112, Event;
    /// Endpoints changed, fetch them anew.
    #[doc(alias = "PMIX_FABRIC_UPDATE_ENDPOINTS")]
    FABRIC_UPDATE_ENDPOINTS = -113, Event;
    /// Periodic usage report.
    #[doc(alias = "PMIX_MONITOR_RESUSAGE_UPDATE")]
    MONITOR_RESUSAGE_UPDATE = -114, Event;
    /// Handler could not be registered.
    #[doc(alias = "PMIX_ERR_EVENT_REGISTRATION")]
    ERR_EVENT_REGISTRATION = -144, Error;
    /// All processes of the job ended; carries end status.
    #[doc(alias = "PMIX_EVENT_JOB_END")]
    EVENT_JOB_END = -145, Event;
    /// Old name of EVENT_JOB_END.
    #[doc(alias = "PMIX_ERR_JOB_TERMINATED")]
    ERR_JOB_TERMINATED = -145, Event;
    /// Old name of FABRIC_UPDATE_ENDPOINTS.
    #[doc(alias = "PMIX_ERR_UPDATE_ENDPOINTS")]
    ERR_UPDATE_ENDPOINTS = -146, Event;
    /// A programming model announced itself.
    #[doc(alias = "PMIX_MODEL_DECLARED")]
    MODEL_DECLARED = -147, Event;
    /// Internal data store step done.
    #[doc(alias = "PMIX_GDS_ACTION_COMPLETE")]
    GDS_ACTION_COMPLETE = -148, Event;
    /// A process joined the connect operation.
    #[doc(alias = "PMIX_PROC_HAS_CONNECTED")]
    PROC_HAS_CONNECTED = -149, Event;
    /// Processes are asked to connect.
    #[doc(alias = "PMIX_CONNECT_REQUESTED")]
    CONNECT_REQUESTED = -150, Event;
    /// A model's resource use changed.
    #[doc(alias = "PMIX_MODEL_RESOURCES")]
    MODEL_RESOURCES = -151, Event;
    /// An OpenMP region began.
    #[doc(alias = "PMIX_OPENMP_PARALLEL_ENTERED")]
    OPENMP_PARALLEL_ENTERED = -152, Event;
    /// An OpenMP region ended.
    #[doc(alias = "PMIX_OPENMP_PARALLEL_EXITED")]
    OPENMP_PARALLEL_EXITED = -153, Event;
    /// Launcher is ready for commands.
    #[doc(alias = "PMIX_LAUNCHER_READY")]
    LAUNCHER_READY = -155, Event;
    /// Same operation is already under way; the second request is dropped.
    #[doc(alias = "PMIX_OPERATION_IN_PROGRESS")]
    OPERATION_IN_PROGRESS = -156, Success;
    /// Done at once; no callback will come.
    #[doc(alias = "PMIX_OPERATION_SUCCEEDED")]
    OPERATION_SUCCEEDED = -157, Success;
    /// Known operation, but not allowed now (for example disconnect without connect).
    #[doc(alias = "PMIX_ERR_INVALID_OPERATION")]
    ERR_INVALID_OPERATION = -158, Error;
    /// Invitation to a group; carries group and members.
    #[doc(alias = "PMIX_GROUP_INVITED")]
    GROUP_INVITED = -159, Event;
    /// A member left the group.
    #[doc(alias = "PMIX_GROUP_LEFT")]
    GROUP_LEFT = -160, Event;
    /// An invited process accepted.
    #[doc(alias = "PMIX_GROUP_INVITE_ACCEPTED")]
    GROUP_INVITE_ACCEPTED = -161, Event;
    /// An invited process declined.
    #[doc(alias = "PMIX_GROUP_INVITE_DECLINED")]
    GROUP_INVITE_DECLINED = -162, Event;
    /// An invited process ended without answering.
    #[doc(alias = "PMIX_GROUP_INVITE_FAILED")]
    GROUP_INVITE_FAILED = -163, Event;
    /// Membership changed; carries the new one.
    #[doc(alias = "PMIX_GROUP_MEMBERSHIP_UPDATE")]
    GROUP_MEMBERSHIP_UPDATE = -164, Event;
    /// Construct was abandoned; also returned by a handler to abandon it.
    #[doc(alias = "PMIX_GROUP_CONSTRUCT_ABORT")]
    GROUP_CONSTRUCT_ABORT = -165, Event;
    /// Construct is done; carries the final membership.
    #[doc(alias = "PMIX_GROUP_CONSTRUCT_COMPLETE")]
    GROUP_CONSTRUCT_COMPLETE = -166, Event;
    /// New leader(s).
    #[doc(alias = "PMIX_GROUP_LEADER_SELECTED")]
    GROUP_LEADER_SELECTED = -167, Event;
    /// Leader ended abnormally.
    #[doc(alias = "PMIX_GROUP_LEADER_FAILED")]
    GROUP_LEADER_FAILED = -168, Event;
    /// Host gave the group a context id.
    #[doc(alias = "PMIX_GROUP_CONTEXT_ID_ASSIGNED")]
    GROUP_CONTEXT_ID_ASSIGNED = -169, Event;
    /// A member ended without leaving.
    #[doc(alias = "PMIX_GROUP_MEMBER_FAILED")]
    GROUP_MEMBER_FAILED = -170, Event;
    /// Attributes of that function are already registered at that level.
    #[doc(alias = "PMIX_ERR_REPEAT_ATTR_REGISTRATION")]
    ERR_REPEAT_ATTR_REGISTRATION = -171, Error;
    /// Forwarding failed; carries the channel.
    #[doc(alias = "PMIX_ERR_IOF_FAILURE")]
    ERR_IOF_FAILURE = -172, Event;
    /// Stdin forwarding is finished.
    #[doc(alias = "PMIX_ERR_IOF_COMPLETE")]
    ERR_IOF_COMPLETE = -173, Event;
    /// Last process of the job was started.
    #[doc(alias = "PMIX_LAUNCH_COMPLETE")]
    LAUNCH_COMPLETE = -174, Event;
    /// Fabric objects are updated, access may continue.
    #[doc(alias = "PMIX_FABRIC_UPDATED")]
    FABRIC_UPDATED = -175, Event;
    /// Fabric objects are about to change, stop access.
    #[doc(alias = "PMIX_FABRIC_UPDATE_PENDING")]
    FABRIC_UPDATE_PENDING = -176, Event;
    /// Spawn: file cannot be run.
    #[doc(alias = "PMIX_ERR_JOB_APP_NOT_EXECUTABLE")]
    ERR_JOB_APP_NOT_EXECUTABLE = -177, Error;
    /// Spawn: no executable named.
    #[doc(alias = "PMIX_ERR_JOB_NO_EXE_SPECIFIED")]
    ERR_JOB_NO_EXE_SPECIFIED = -178, Error;
    /// Spawn: mapping failed.
    #[doc(alias = "PMIX_ERR_JOB_FAILED_TO_MAP")]
    ERR_JOB_FAILED_TO_MAP = -179, Error;
    /// Job end status: cancelled by the host.
    #[doc(alias = "PMIX_ERR_JOB_CANCELED")]
    ERR_JOB_CANCELED = -180, Error;
    /// Spawn: at least one process did not start.
    #[doc(alias = "PMIX_ERR_JOB_FAILED_TO_LAUNCH")]
    ERR_JOB_FAILED_TO_LAUNCH = -181, Error;
    /// Job end status: a process called abort.
    #[doc(alias = "PMIX_ERR_JOB_ABORTED")]
    ERR_JOB_ABORTED = -182, Error;
    /// Job end status: killed on command.
    #[doc(alias = "PMIX_ERR_JOB_KILLED_BY_CMD")]
    ERR_JOB_KILLED_BY_CMD = -183, Error;
    /// Job end status: ended by a signal.
    #[doc(alias = "PMIX_ERR_JOB_ABORTED_BY_SIG")]
    ERR_JOB_ABORTED_BY_SIG = -184, Error;
    /// Job end status: a process ended without finalize or without disconnect.
    #[doc(alias = "PMIX_ERR_JOB_TERM_WO_SYNC")]
    ERR_JOB_TERM_WO_SYNC = -185, Error;
    /// Job end status: sensor limit passed.
    #[doc(alias = "PMIX_ERR_JOB_SENSOR_BOUND_EXCEEDED")]
    ERR_JOB_SENSOR_BOUND_EXCEEDED = -186, Error;
    /// Job end status: a process exited non-zero.
    #[doc(alias = "PMIX_ERR_JOB_NON_ZERO_TERM")]
    ERR_JOB_NON_ZERO_TERM = -187, Error;
    /// Spawn: allocation not obtained.
    #[doc(alias = "PMIX_ERR_JOB_ALLOC_FAILED")]
    ERR_JOB_ALLOC_FAILED = -188, Error;
    /// Job end status: system event.
    #[doc(alias = "PMIX_ERR_JOB_ABORTED_BY_SYS_EVENT")]
    ERR_JOB_ABORTED_BY_SYS_EVENT = -189, Error;
    /// Spawn: executable not found.
    #[doc(alias = "PMIX_ERR_JOB_EXE_NOT_FOUND")]
    ERR_JOB_EXE_NOT_FOUND = -190, Error;
    /// First process of the job was started.
    #[doc(alias = "PMIX_EVENT_JOB_START")]
    EVENT_JOB_START = -191, Event;
    /// Session is ready for use.
    #[doc(alias = "PMIX_EVENT_SESSION_START")]
    EVENT_SESSION_START = -192, Event;
    /// Session ended.
    #[doc(alias = "PMIX_EVENT_SESSION_END")]
    EVENT_SESSION_END = -193, Event;
    /// Allocation will expire soon.
    #[doc(alias = "PMIX_ALLOC_TIMEOUT_WARNING")]
    ALLOC_TIMEOUT_WARNING = -194, Event;
    /// Daemon set change is done.
    #[doc(alias = "PMIX_DVM_IS_READY")]
    DVM_IS_READY = -195, Event;
    /// Growing or shrinking the daemon set failed.
    #[doc(alias = "PMIX_ERR_DVM_MOD")]
    ERR_DVM_MOD = -196, Event;
    /// Process ended without finalize, or while connected.
    #[doc(alias = "PMIX_ERR_PROC_TERM_WO_SYNC")]
    ERR_PROC_TERM_WO_SYNC = -200, Event;
    /// Process ended; carries its end status.
    #[doc(alias = "PMIX_EVENT_PROC_TERMINATED")]
    EVENT_PROC_TERMINATED = -201, Event;
    /// Number conversion may have lost precision.
    #[doc(alias = "PMIX_ERR_LOST_PRECISION")]
    ERR_LOST_PRECISION = -202, Error;
    /// Number conversion would change the sign.
    #[doc(alias = "PMIX_ERR_CHANGE_SIGN")]
    ERR_CHANGE_SIGN = -203, Error;
    /// First (largest) value of the system event range.
    #[doc(alias = "PMIX_EVENT_SYS_BASE")]
    EVENT_SYS_BASE = -230, Boundary;
    /// Old name of EVENT_SYS_BASE.
    #[doc(alias = "PMIX_ERR_SYS_BASE")]
    ERR_SYS_BASE = -230, Boundary;
    /// Node is down.
    #[doc(alias = "PMIX_EVENT_NODE_DOWN")]
    EVENT_NODE_DOWN = -231, Event;
    /// Old name of EVENT_NODE_DOWN.
    #[doc(alias = "PMIX_ERR_NODE_DOWN")]
    ERR_NODE_DOWN = -231, Event;
    /// Node is offline.
    #[doc(alias = "PMIX_EVENT_NODE_OFFLINE")]
    EVENT_NODE_OFFLINE = -232, Event;
    /// Old name of EVENT_NODE_OFFLINE.
    #[doc(alias = "PMIX_ERR_NODE_OFFLINE")]
    ERR_NODE_OFFLINE = -232, Event;
    /// Spawn: working directory not found.
    #[doc(alias = "PMIX_ERR_JOB_WDIR_NOT_FOUND")]
    ERR_JOB_WDIR_NOT_FOUND = -233, Error;
    /// Spawn: not enough resources.
    #[doc(alias = "PMIX_ERR_JOB_INSUFFICIENT_RESOURCES")]
    ERR_JOB_INSUFFICIENT_RESOURCES = -234, Error;
    /// Spawn: a system call failed.
    #[doc(alias = "PMIX_ERR_JOB_SYS_OP_FAILED")]
    ERR_JOB_SYS_OP_FAILED = -235, Error;
    /// Last (smallest) value of the system event range.
    #[doc(alias = "PMIX_EVENT_SYS_OTHER")]
    EVENT_SYS_OTHER = -330, Boundary;
    /// Old name of EVENT_SYS_OTHER.
    #[doc(alias = "PMIX_ERR_SYS_OTHER")]
    ERR_SYS_OTHER = -330, Boundary;
    /// Handler did nothing.
    #[doc(alias = "PMIX_EVENT_NO_ACTION_TAKEN")]
    EVENT_NO_ACTION_TAKEN = -331, HandlerResult;
    /// Handler did part of it.
    #[doc(alias = "PMIX_EVENT_PARTIAL_ACTION_TAKEN")]
    EVENT_PARTIAL_ACTION_TAKEN = -332, HandlerResult;
    /// Handler will act later.
    #[doc(alias = "PMIX_EVENT_ACTION_DEFERRED")]
    EVENT_ACTION_DEFERRED = -333, HandlerResult;
    /// Handled; stop the chain here.
    #[doc(alias = "PMIX_EVENT_ACTION_COMPLETE")]
    EVENT_ACTION_COMPLETE = -334, HandlerResult;
    /// Process end status: killed on command.
    #[doc(alias = "PMIX_ERR_PROC_KILLED_BY_CMD")]
    ERR_PROC_KILLED_BY_CMD = -400, Error;
    /// Process end status: did not start.
    #[doc(alias = "PMIX_ERR_PROC_FAILED_TO_START")]
    ERR_PROC_FAILED_TO_START = -401, Error;
    /// Process end status: ended by a signal.
    #[doc(alias = "PMIX_ERR_PROC_ABORTED_BY_SIG")]
    ERR_PROC_ABORTED_BY_SIG = -402, Error;
    /// Process end status: sensor limit passed.
    #[doc(alias = "PMIX_ERR_PROC_SENSOR_BOUND_EXCEEDED")]
    ERR_PROC_SENSOR_BOUND_EXCEEDED = -403, Error;
    /// Process end status: non-zero exit.
    #[doc(alias = "PMIX_ERR_EXIT_NONZERO_TERM")]
    ERR_EXIT_NONZERO_TERM = -404, Error;
    /// Data was taken, but pause until flow is restored.
    #[doc(alias = "PMIX_ERR_IOF_XOFF")]
    ERR_IOF_XOFF = -405, Error;
    /// Values below this (and above zero) are free for users.
    #[doc(alias = "PMIX_EXTERNAL_ERR_BASE")]
    EXTERNAL_ERR_BASE = -3000, Boundary;
    /// A process disconnected.
    #[doc(alias = "PMIX_PROC_HAS_DISCONNECTED")]
    PROC_HAS_DISCONNECTED = -3149, Event;
}
