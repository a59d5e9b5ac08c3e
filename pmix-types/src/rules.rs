// Generated from the Standard's tables by examples/gen.rs. Do not edit.

//! The rules of the PMIx Standard that these crates follow, for documentation only.
//!
//! Documentation names a rule by its id, as in (FEN-01); where a rule has parts, as GET-41a to GET-41c, its number means
//! all of them. Brackets at the end of a rule name its sources: chapters, headers and
//! RFCs of the Standard, and 000 to 004 for five older texts on which this implementation is based.
//!
//! # 1. General rules
//!
//! - <a id="GEN-01"></a>**GEN-01**: A key whose string starts with `pmix` is reserved: only host and library
//!   may provide it \[004, Sharing, RFC0009\]. Test the four letters, not `pmix.`.
//! - <a id="GEN-02"></a><a id="GEN-02a"></a>**GEN-02a**: Key at most 511 bytes, NUL not counted \[Struct,
//!   headers\].
//! - <a id="GEN-02b"></a>**GEN-02b**: Namespace at most 255 bytes, NUL not counted \[Struct, headers\].
//! - <a id="GEN-02c"></a>**GEN-02c**: Group ids have the namespace limit \[Groups\].
//! - <a id="GEN-03"></a>**GEN-03**: Status 0 is success, all errors are negative; any positive value and any
//!   value below -3000 is free for users \[Struct, Event\]. A status is an open set: never reject an unknown
//!   number.
//! - <a id="GEN-04"></a>**GEN-04**: Each directive (info) is optional unless flagged REQD. An unknown or
//!   unsupported optional directive is ignored \[Struct, 001\].
//! - <a id="GEN-05"></a>**GEN-05**: A REQD directive must be carried out by some level (client, server,
//!   host). The level that does so sets REQD\_PROCESSED; one that cannot passes it up; the last level answers
//!   NOT\_SUPPORTED \[Struct, Server\]. Last level is the server when the host has no entry for the call.
//! - <a id="GEN-06"></a>**GEN-06**: An info that is to be a boolean is true if its type is BOOL and its flag
//!   is set, or if its type is UNDEF (key given without value) \[Struct\].
//! - <a id="GEN-07"></a><a id="GEN-07a"></a>**GEN-07a**: Two instances of one directive with different values
//!   give BAD\_PARAM \[Struct\].
//! - <a id="GEN-07b"></a>**GEN-07b**: Directives that exclude each other give BAD\_PARAM \[Struct\].
//! - <a id="GEN-07c"></a>**GEN-07c**: A directive whose value has the wrong type gives BAD\_PARAM \[Struct\].
//! - <a id="GEN-08"></a>**GEN-08**: A non-blocking call that returns SUCCESS will call back exactly once,
//!   never before the call itself has returned \[002, Server\]. A call that returns an error, or
//!   OPERATION\_SUCCEEDED, never calls back \[002, Server\].
//! - <a id="GEN-09"></a>**GEN-09**: Non-blocking Fence, Publish and the like called without a callback are an
//!   error \[004\]. \*\*DIFF\*\* server calls (register\_nspace, register\_client, ...) without a callback
//!   are blocking calls in the newest standard \[Server\]; source 002 does not say so. An async Rust API
//!   makes both moot: every call is a future.
//! - <a id="GEN-10"></a>**GEN-10**: Calls before init (or after the last finalize) give ERR\_INIT; exempt:
//!   Initialized, Get\_version, the `*_string` helpers, constants, and a blocking query that asks only for
//!   the two ABI version keys \[Init, Query, Struct\].
//! - <a id="GEN-11"></a>**GEN-11**: A host upcall that is absent makes every client call that needs it return
//!   NOT\_SUPPORTED \[Server, Terms\]. A host entry may itself return NOT\_SUPPORTED, directly or in the
//!   callback \[Server\].
//! - <a id="GEN-12"></a>**GEN-12**: TIMEOUT is in whole seconds, 0 means for ever, and expiry gives
//!   ERR\_TIMEOUT \[Sharing\]. Only one level may run the clock: a server library that times an operation
//!   itself must not pass TIMEOUT on to the host, and must settle the race with a late answer \[004\].
//! - <a id="GEN-13"></a>**GEN-13**: The library adds USERID and GRPID (effective ids, taken from the
//!   connection, not from what the client claims) to the info of these upcalls: publish, lookup, unpublish,
//!   spawn, register\_events, query, tool connect, log, allocate, job\_control, monitor, get/validate
//!   credential, iof\_pull, push\_stdin \[004, Server, Security\]. Others get only what the client gave.
//! - <a id="GEN-14"></a>**GEN-14**: All attributes a client gives are passed up to the host unchanged when
//!   the host serves the call \[004, Server\].
//! - <a id="GEN-15"></a>**GEN-15**: Input data is copied (blocking) or must live until the callback
//!   (non-blocking); results belong to the caller \[004, Sharing\]. In Rust: owned values.
//! - <a id="GEN-16"></a>**GEN-16**: Host upcalls must return quickly and work asynchronously; the host may
//!   answer from any task \[Server\].
//! - <a id="GEN-17"></a>**GEN-17**: A blocking call must not be made from inside an event handler or
//!   callback; in async Rust a handler may await freely but must not stall delivery to others \[Groups,
//!   Init\].
//! - <a id="GEN-18"></a>**GEN-18**: All tables of numeric values are open: persistence, scope, range, data
//!   type and status are plain numbers so that others may extend them \[001\]. Unknown values must survive
//!   decode and re-encode.
//! - <a id="GEN-19"></a><a id="GEN-19a"></a>**GEN-19a**: Rank, status and data type are distinct types, never
//!   plain integers \[001\].
//! - <a id="GEN-19b"></a>**GEN-19b**: They are so in packed data too \[001\].
//! - <a id="GEN-19c"></a>**GEN-19c**: They are so in what the host registers too: a plain integer in place of
//!   one is refused \[001\].
//!
//! # 2. Init and finalize
//!
//! - <a id="INI-01"></a><a id="INI-01a"></a>**INI-01a**: A process takes one role (client, tool or server)
//!   and must use that role's finalize \[Init\].
//! - <a id="INI-01b"></a>**INI-01b**: Tools may use every client call \[Init\].
//! - <a id="INI-01c"></a>**INI-01c**: Servers may use every client call that needs no job \[Init\].
//! - <a id="INI-01d"></a>**INI-01d**: Servers may put, commit, fence, connect and make groups \[Init\].
//! - <a id="INI-02"></a>**INI-02**: Client init needs the server's contact data from its environment (put
//!   there by setup\_fork); missing data or a refused connection is an error \[Init, 002\].
//! - <a id="INI-03"></a>**INI-03**: Init returns the process's own nspace and rank; job-level data is
//!   readable at once by Get \[Init\].
//! - <a id="INI-04"></a>**INI-04**: Init and tool init count references; each needs its finalize; the
//!   connection closes at zero \[Init, Tools\].
//! - <a id="INI-05"></a>**INI-05**: A repeated init with directives that contradict earlier ones is an error
//!   \[Init\].
//! - <a id="INI-06"></a>**INI-06**: Finalize does not synchronise unless EMBED\_BARRIER is true; then it is a
//!   fence over the own namespace first \[Init\].
//! - <a id="INI-07"></a>**INI-07**: The client stays blocked in init until the host answers
//!   client\_connected, and in finalize until it answers client\_finalized; an absent entry means no wait
//!   \[Server\].
//! - <a id="INI-08"></a>**INI-08**: A process that finalized may init again and take part in collectives
//!   again; its finalize is not a failure \[impl\].
//! - <a id="INI-09"></a>**INI-09**: A client in DEBUG\_STOP\_IN\_INIT tells its server, waits in init until
//!   the DEBUGGER\_RELEASE event, then goes on \[Tools\].
//! - <a id="INI-10"></a>**INI-10**: Without a host module, or with an empty one, a server still serves local
//!   data to its clients; only multi-node operations are missing \[Server\].
//! - <a id="INI-11"></a>**INI-11**: A process says at init which programming model it uses
//!   (PROGRAMMING\_MODEL, MODEL\_LIBRARY\_NAME, MODEL\_LIBRARY\_VERSION, THREADING\_MODEL); MODEL\_DECLARED
//!   tells the libraries of the process, and queries find it \[Init, Query\].
//!
//! # 3. Process identity
//!
//! - <a id="IDN-01"></a>**IDN-01**: Rank is u32. Special: UNDEF 4294967295, WILDCARD 4294967294, LOCAL\_NODE
//!   4294967293, INVALID 4294967292, LOCAL\_PEERS 4294967291. Valid means below VALID 4294967245 \[001,
//!   Struct, headers\]. Source 001 fixes WILDCARD at `UINT32_MAX-1`.
//! - <a id="IDN-02"></a>**IDN-02**: Two process ids match if the namespaces are equal and the ranks are equal
//!   or either is WILDCARD \[Struct\].
//! - <a id="IDN-03"></a>**IDN-03**: A process id is invalid if its namespace is empty or its rank is INVALID
//!   \[Struct\].
//! - <a id="IDN-04"></a>**IDN-04**: Namespaces are unique only within a session \[000, Reserved\]; other
//!   sessions are addressed with SESSION\_ID.
//! - <a id="IDN-05"></a><a id="IDN-05a"></a>**IDN-05a**: Namespaces are unique only within a cluster: for a
//!   process on another cluster the id is `cluster:nspace`, cluster taken from CLUSTER\_ID \[003\].
//! - <a id="IDN-05b"></a>**IDN-05b**: The joined length must fit the namespace limit (standard: below limit
//!   minus 2) \[Struct\].
//! - <a id="IDN-05c"></a>**IDN-05c**: A namespace may itself contain a colon: split at the first one only if
//!   the part before it is a known cluster id \[project's reading; impl warns of colons in namespaces\].
//! - <a id="IDN-06"></a>**IDN-06**: A group id may stand in place of a namespace in a procs array; the server
//!   puts the members' real ids in before anything else sees it \[Groups\].
//! - <a id="IDN-07"></a><a id="IDN-07a"></a>**IDN-07a**: Clones (forked copies of a client) connect with the
//!   same nspace and rank \[Terms\].
//! - <a id="IDN-07b"></a>**IDN-07b**: A collective counts ranks, not clones \[Sync, impl\].
//! - <a id="IDN-07c"></a>**IDN-07c**: ALL\_CLONES\_PARTICIPATE makes a collective wait for each clone \[Sync,
//!   impl\].
//!
//! # 4. Put, Store_internal, Commit
//!
//! - <a id="PUT-01"></a>**PUT-01**: Put stages a key under one scope in the caller's own process realm; value
//!   is copied before return \[004, Sharing\].
//! - <a id="PUT-02"></a>**PUT-02**: A reserved key gives BAD\_PARAM \[Sharing\]; source 004 only forbids it.
//! - <a id="PUT-03"></a>**PUT-03**: Scopes: LOCAL same node only, REMOTE other nodes only, GLOBAL both,
//!   INTERNAL this process only \[Sharing\]. GLOBAL is the one every implementation must have \[004\]. An
//!   unsupported scope gives NOT\_SUPPORTED \[Sharing\].
//! - <a id="PUT-04"></a>**PUT-04**: Putting a key again replaces its value; there is no way to remove a key
//!   \[Sharing\]. (impl has DEL\_\* scopes 5..8 as an extension.)
//! - <a id="PUT-05"></a>**PUT-05**: Nothing staged is visible to other processes before Commit \[Sharing,
//!   004\]. The caller's own Get may see it \[impl\].
//! - <a id="PUT-06"></a>**PUT-06**: Commit sends all staged data to the local server, returns at once, and
//!   does not circulate it among nodes \[004, Sharing\].
//! - <a id="PUT-07"></a>**PUT-07**: Commit with nothing staged succeeds \[project choice; no text\].
//! - <a id="PUT-08"></a>**PUT-08**: Data of LOCAL scope is left out of what goes to other nodes (fence and
//!   dmodex blobs); data of REMOTE scope is not given to processes on the same node \[Sharing\].
//! - <a id="PUT-09"></a>**PUT-09**: Store\_internal files a value under any process id, in this process only;
//!   it is never sent anywhere \[004, Sharing\].
//! - <a id="PUT-10"></a>**PUT-10**: \*\*DIFF\*\* Store\_internal with a reserved key: source 004 allows it,
//!   the newest standard says BAD\_PARAM in its return list but also says reserved keys may be cached this
//!   way \[Sharing\]. Do: allow.
//! - <a id="PUT-11"></a>**PUT-11**: Values cross hosts of different architecture unharmed \[004\]; protobuf
//!   settles this.
//!
//! # 5. Get
//!
//! - <a id="GET-01"></a>**GET-01**: proc may be left out: it then means the caller itself \[Sharing\]. Rank
//!   WILDCARD reads job-level data of the namespace \[004, Reserved\].
//! - <a id="GET-02"></a>**GET-02**: Rule of thumb: give the poster's rank for Put data, WILDCARD for
//!   everything the host provided \[004\]. \*\*DIFF\*\* newest standard: process-realm reserved keys
//!   (LOCAL\_RANK, HOSTNAME of a process, ...) need that process's rank \[Reserved, RFC0009\]. Do: the
//!   newest; it contains the older rule for job-level keys.
//! - <a id="GET-03"></a>**GET-03**: OPTIONAL: look only in the client's own store; not there gives
//!   NOT\_FOUND, no server contact \[004, Sharing\].
//! - <a id="GET-04"></a>**GET-04**: IMMEDIATE: the server answers from what it holds; it does not ask the
//!   host and does not hold the request; not there gives NOT\_FOUND \[004, Sharing\].
//! - <a id="GET-05"></a>**GET-05**: DATA\_SCOPE: search only data put under that scope \[004, Sharing\].
//! - <a id="GET-06"></a>**GET-06**: A key that exists but was put in a scope that leaves the asker out gives
//!   EXISTS\_OUTSIDE\_SCOPE \[Sharing\].
//! - <a id="GET-07"></a>**GET-07**: TIMEOUT limits the wait; without it a Get for a missing key may wait for
//!   ever \[004, Sharing\].
//! - <a id="GET-08"></a>**GET-08**: GET\_REFRESH\_CACHE: the client first asks the server for new data of
//!   that process, updates its cache (all keys if key is absent; job data if rank is WILDCARD), then searches
//!   only the cache: NOT\_FOUND if still missing \[Sharing\].
//! - <a id="GET-09"></a>**GET-09**: GET\_POINTER\_VALUES and GET\_STATIC\_VALUES are C memory notions; the
//!   non-blocking form never supports the static one \[Sharing\]. Rust: ignore if optional, NOT\_SUPPORTED if
//!   REQD.
//! - <a id="GET-10"></a>**GET-10**: Non-blocking Get with WAIT is a host matter \[Sharing\].
//! - <a id="GET-20"></a>**GET-20**: Order: refresh if asked; client cache; (OPTIONAL or refresh: stop,
//!   NOT\_FOUND); server cache; (IMMEDIATE: stop, NOT\_FOUND); then by target: \[Sharing\]
//! - <a id="GET-21"></a><a id="GET-21a"></a>**GET-21a**: target rank UNDEF: key is unique in the namespace
//!   whoever posted it; the server holds the request until the key shows up or TIMEOUT. \[Sharing\]
//! - <a id="GET-21b"></a>**GET-21b**: target rank UNDEF: only data already exchanged by fence can be found
//!   this way on other nodes. \[Sharing\]
//! - <a id="GET-22"></a>**GET-22**: target local: the server holds the request until the target commits the
//!   key or TIMEOUT. \[Sharing\]
//! - <a id="GET-23"></a>**GET-23**: target remote, host has direct\_modex: the request goes up; the target's
//!   server holds it until the target commits the key or TIMEOUT; the answer comes back. \[Sharing\]
//! - <a id="GET-24"></a>**GET-24**: target remote, host has no direct\_modex: NOT\_FOUND at once. \[Sharing\]
//! - <a id="GET-25"></a>**GET-25**: Several requests for one missing key, or one process's blob, share one
//!   upcall \[impl practice\]; each asker still has its own timeout.
//! - <a id="GET-26"></a>**GET-26**: A held request ends with an error when the target dies or the asker
//!   disconnects \[impl practice\].
//! - <a id="GET-30"></a>**GET-30**: They exist from start; so for the own namespace: client cache, else
//!   NOT\_FOUND at once. \*\*DIFF\*\* source 004 speaks of blocking till available for every key; do not
//!   block for reserved keys of the own namespace. \[Reserved\]
//! - <a id="GET-31"></a>**GET-31**: Other namespace: forwarded to the server. Server knows the namespace:
//!   value or NOT\_FOUND. Server does not know it: IMMEDIATE gives NOT\_FOUND; else direct\_modex upcall for
//!   all data of that namespace; no such entry gives NOT\_FOUND. \[Reserved\]
//! - <a id="GET-32"></a>**GET-32**: A host asked this way returns everything about the namespace, so that
//!   later questions are answered locally; it answers NOT\_FOUND, or TIMEOUT if a limit was given and passed.
//!   \[Reserved\]
//! - <a id="GET-33"></a>**GET-33**: Get of a process in another namespace also brings that namespace's
//!   job-level data \[RFC0009\].
//! - <a id="GET-40"></a>**GET-40**: Five realms: session, job, app, process, node. Without a realm directive
//!   a key has its default realm (column `realm` in attributes.tsv); process-level is the default for keys
//!   that have no other. \[Reserved\]
//! - <a id="GET-41"></a><a id="GET-41a"></a>**GET-41a**: SESSION\_INFO takes the value from the session
//!   realm. \[Reserved\]
//! - <a id="GET-41b"></a>**GET-41b**: With SESSION\_INFO, proc is ignored. \[Reserved\]
//! - <a id="GET-41c"></a>**GET-41c**: With SESSION\_INFO, SESSION\_ID picks another session. \[Reserved\]
//! - <a id="GET-42"></a>**GET-42**: JOB\_INFO takes it from the job of the given namespace, rank WILDCARD.
//!   \[Reserved\]
//! - <a id="GET-43"></a>**GET-43**: APP\_INFO takes it from an app: APPNUM picks it; else the app of the
//!   given process; with rank WILDCARD the caller's own app number if it is the caller's namespace, else app
//!   0. (Source 004 has no realms; source 002 has the arrays.) \[Reserved\]
//! - <a id="GET-44"></a>**GET-44**: NODE\_INFO takes it from a node: HOSTNAME or NODEID picks it, else the
//!   local node. \[Reserved\]
//! - <a id="GET-45"></a>**GET-45**: One name may have several values in different realms (NUM\_NODES,
//!   MAX\_PROCS, NODE\_MAP, NODE\_LIST, NUM\_SLOTS, PROC\_MAP). They default to job. \[Reserved\]
//! - <a id="GET-46"></a>**GET-46**: PROCID as key returns the caller's own id whatever proc says; NSPACE with
//!   no proc returns the caller's own namespace. \[Reserved\]
//! - <a id="GET-47"></a><a id="GET-47a"></a>**GET-47a**: SPAWNED not found means false \[Proc\_Mgmt\].
//! - <a id="GET-47b"></a>**GET-47b**: LOCALITY\_STRING not found means the process is on another node
//!   \[Proc\_Mgmt\].
//! - <a id="GET-48"></a>**GET-48**: HOSTNAME has one meaning only: name of the node (of the process or of the
//!   NODE\_INFO target); the older overloaded use is gone \[001\].
//! - <a id="GET-49"></a>**GET-49**: HOSTNAME and NODEID are interchangeable names of a node everywhere;
//!   HOSTNAME\_ALIASES names match too \[Reserved\].
//!
//! # 6. Fence
//!
//! - <a id="FEN-01"></a>**FEN-01**: No procs (NULL) means all processes of the caller's namespace \[004,
//!   Sync\].
//! - <a id="FEN-02"></a>**FEN-02**: A rank WILDCARD entry means all processes of that namespace \[004\].
//! - <a id="FEN-03"></a>**FEN-03**: Order of procs does not matter \[Sync\]. All callers must name the set
//!   the same way: WILDCARD does not match a full list of ranks \[Sync\]. NULL equals {own nspace, WILDCARD}
//!   \[impl\].
//! - <a id="FEN-04"></a>**FEN-04**: The operation is identified by the set of procs (as given, sorted,
//!   duplicates removed); different sets run in parallel without mixing. Two fences over the same set are
//!   served in the order each process called them; a second call by the same process before the first is
//!   complete belongs to the next round \[Sync for one at a time on connect; impl\].
//! - <a id="FEN-05"></a>**FEN-05**: The caller must be a participant, else NOT\_A\_MEMBER \[impl\]; empty but
//!   present procs is BAD\_PARAM \[project choice\].
//! - <a id="FEN-06"></a>**FEN-06**: By default no data moves \[004, Sync\]. COLLECT\_DATA true: all committed
//!   data of the participants is at each participant's server when the fence ends \[004, Sync\].
//! - <a id="FEN-07"></a><a id="FEN-07a"></a>**FEN-07a**: COLLECT\_DATA also brings job-level data generated
//!   by servers \[Sync\].
//! - <a id="FEN-07b"></a>**FEN-07b**: COLLECT\_GENERATED\_JOB\_INFO false keeps COLLECT\_DATA from bringing
//!   that job-level data \[Sync\].
//! - <a id="FEN-07c"></a>**FEN-07c**: COLLECT\_GENERATED\_JOB\_INFO true alone brings only that job-level
//!   data \[Sync\].
//! - <a id="FEN-08"></a>**FEN-08**: If local participants disagree on COLLECT\_DATA, treat it as an error or
//!   as true, but the same for all \[project choice; impl reports a mismatch\].
//! - <a id="FEN-09"></a>**FEN-09**: The server waits for all local participants, then makes exactly one
//!   upcall fence\_nb with the full procs, the merged info and one blob of local data (none: no data) \[Sync,
//!   Server\]. Host answers with all servers' blobs joined end to end in any order; so a blob must describe
//!   its own length \[Server\].
//! - <a id="FEN-10"></a>**FEN-10**: Number of local participants comes from register\_nspace (`nlocalprocs`):
//!   a fence may start before all local clients have connected, so wait for the registered number \[002,
//!   Server\].
//! - <a id="FEN-11"></a>**FEN-11**: A fence that names a namespace the server does not know yet waits for its
//!   registration \[002: every namespace that may take part must be registered\].
//! - <a id="FEN-12"></a>**FEN-12**: If all participants are local, the library may finish without the host
//!   (OPERATION\_SUCCEEDED for the non-blocking form) \[Sync\].
//! - <a id="FEN-13"></a>**FEN-13**: Death of a participant before it called: the fence ends with an error for
//!   the rest; the server reports the local outcome to the host in LOCAL\_COLLECTIVE\_STATUS (absent means
//!   success) \[Sync, Server\]. impl: PARTIAL\_SUCCESS while other participants remain, LOST\_CONNECTION if
//!   none does.
//! - <a id="FEN-14"></a>**FEN-14**: Death after it called: its contribution and data stay; nothing changes
//!   for the rest \[impl\].
//! - <a id="FEN-15"></a>**FEN-15**: Count participants by identity, not by number: a duplicate call must not
//!   complete the fence early \[impl\].
//! - <a id="FEN-16"></a>**FEN-16**: Once handed to the host, later deaths do not change the operation; result
//!   goes to those still connected \[impl\].
//! - <a id="FEN-17"></a>**FEN-17**: TIMEOUT is optional for hosts; on expiry all local participants get
//!   ERR\_TIMEOUT \[004, Sync\].
//! - <a id="FEN-18"></a>**FEN-18**: \*\*DIFF\*\* COLLECTIVE\_ALGO and COLLECTIVE\_ALGO\_REQD are optional
//!   \[004\], removed in 4.0 \[Chap\_Revisions\]. Do: accept and pass on; if ALGO\_REQD is true and nobody
//!   knows the algorithm, NOT\_SUPPORTED.
//!
//! # 7. Publish, Lookup, Unpublish
//!
//! - <a id="PUB-01"></a>**PUB-01**: Default range SESSION, default persistence APP \[004, Publish\].
//!   \*\*DIFF\*\* the host upcall text expects persistence SESSION by default \[Server\]: so the client
//!   library must always send both explicitly.
//! - <a id="PUB-02"></a>**PUB-02**: Info entries that are directives (RANGE, PERSISTENCE, TIMEOUT,
//!   ACCESS\_\*, USERID, GRPID) are not data; every other entry is published \[004\].
//! - <a id="PUB-03"></a>**PUB-03**: Blocking publish returns when the data can be looked up \[004\].
//! - <a id="PUB-04"></a>**PUB-04**: Same key in the same range: ERR\_DUPLICATE\_KEY, first one stays
//!   \[Publish, impl\]. \*\*DIFF\*\* source 004 wants an error but names none. Do: DUPLICATE\_KEY (-53),
//!   nothing of that call is published.
//! - <a id="PUB-05"></a>**PUB-05**: Same key in different ranges is allowed \[Publish\].
//! - <a id="PUB-06"></a>**PUB-06**: Range means: RM host only; LOCAL same node as publisher; NAMESPACE same
//!   namespace; SESSION same session; GLOBAL all; CUSTOM listed processes; PROC\_LOCAL publisher only
//!   \[Publish\].
//! - <a id="PUB-07"></a>**PUB-07**: Access from outside the publisher's range is refused: the item counts as
//!   not found \[004, Publish\].
//! - <a id="PUB-08"></a>**PUB-08**: Persistence: INDEF until unpublished; FIRST\_READ removed after one
//!   successful lookup; PROC until the publisher ends; APP until its app ends; SESSION until the session ends
//!   \[Publish\].
//! - <a id="PUB-09"></a>**PUB-09**: Only data of the same user is returned, with no way to change that
//!   \[004\]. \*\*DIFF\*\* newest: publisher may give ACCESS\_PERMISSIONS with ACCESS\_USERIDS/ACCESS\_GRPIDS
//!   \[Publish\]. Do: same user by default, explicit permissions widen or narrow it.
//! - <a id="PUB-10"></a>**PUB-10**: Lookup default range SESSION, as a limit on who published \[004,
//!   Publish\]. An item is returned if the publisher is inside the asker's range, the key matches, the asker
//!   is inside the publisher's range and the permissions fit, in that order \[Publish\].
//! - <a id="PUB-11"></a>**PUB-11**: Lookup returns per key the value and the publisher's id; a missing key
//!   has type UNDEF (blocking form) or is left out (callback form) \[004, Publish\].
//! - <a id="PUB-12"></a>**PUB-12**: Status: none found NOT\_FOUND; all there but none readable
//!   NO\_PERMISSIONS \[Publish\]. \*\*DIFF\*\* some found: SUCCESS \[004, impl\] or PARTIAL\_SUCCESS
//!   \[Publish\]. Do: carry PARTIAL\_SUCCESS on the wire; the Rust call is `Ok` in both cases with a result
//!   that tells which keys are missing.
//! - <a id="PUB-13"></a>**PUB-13**: Lookup does not wait for data unless WAIT is given: WAIT n waits until n
//!   of the keys exist, 0 (or a bare flag) until all do; TIMEOUT limits it \[004, Sharing\].
//! - <a id="PUB-14"></a>**PUB-14**: If several items match a key through overlapping ranges the store may
//!   choose; choose the narrowest range \[Publish leaves it open\].
//! - <a id="PUB-15"></a>**PUB-15**: Unpublish removes only what this very process published, in the given
//!   range (default SESSION); no keys means all of its data \[004\]. Range must be the one used to publish
//!   \[impl\]. A key that is not there is not an error \[project choice\].
//! - <a id="PUB-16"></a>**PUB-16**: When Unpublish returns, the key may be published again \[004\].
//! - <a id="PUB-17"></a>**PUB-17**: A library or host that has one of the three has all of them; no data
//!   store at all gives NOT\_SUPPORTED \[004, Publish\].
//! - <a id="PUB-18"></a>**PUB-18**: Published data is apart from Put data: neither call sees the other's
//!   \[Sharing\].
//!
//! # 8. Connect and Disconnect
//!
//! - <a id="CON-01"></a>**CON-01**: Connected means: the host treats the failure of any of the processes as
//!   an event for all, as if they were one application \[003, Proc\_Mgmt\].
//! - <a id="CON-02"></a>**CON-02**: Collective: done when all named processes have called it and the host is
//!   done \[003, Proc\_Mgmt\]. Server gathers local participants, one upcall \[Server\].
//! - <a id="CON-03"></a>**CON-03**: procs are required (no NULL shorthand) and must contain the caller
//!   \[impl: BAD\_PARAM, NOT\_A\_MEMBER\]. Order does not matter; WILDCARD means all of a namespace \[003\];
//!   mixed ways of naming do not match \[Proc\_Mgmt\].
//! - <a id="CON-04"></a>**CON-04**: Identity of the operation: the set of procs plus, if given, CONNECT\_ID
//!   \[003\]. All participants must give the same CONNECT\_ID. With different ids the same set can connect
//!   several times in parallel.
//! - <a id="CON-05"></a>**CON-05**: Without CONNECT\_ID a process can be in one connect (or disconnect) per
//!   identical set at a time, and in any number with different sets \[Proc\_Mgmt, 003\].
//! - <a id="CON-06"></a>**CON-06**: \*\*DIFF\*\* result: a new namespace and the caller's new rank in it
//!   \[003\]; only a status, and the host keeps such a namespace to itself \[Proc\_Mgmt\]. Do: the answer
//!   carries optional nspace and rank; the host may leave them out; with XCHG\_ONLY they are always absent.
//! - <a id="CON-07"></a>**CON-07**: Each process learns its own rank in the new namespace; the group can be
//!   addressed by that namespace in Fence, Notify\_event, Disconnect and so on \[003\]. Numbering 0..n-1
//!   without holes is usual but not stated: it is the host's to assign \[project reading\].
//! - <a id="CON-08"></a>**CON-08**: Each participant gets the job-level data of every participating namespace
//!   it did not have \[003\]. \*\*DIFF\*\* newest standard does not require it \[Proc\_Mgmt\]. Do: as the
//!   source.
//! - <a id="CON-09"></a>**CON-09**: CONNECT\_XCHG\_ONLY: only that data exchange, no new namespace or rank
//!   \[003\]; so there is nothing to disconnect by name \[follows\].
//! - <a id="CON-10"></a>**CON-10**: CONNECT\_NOTIFY\_EACH: the server makes a local event
//!   PROC\_HAS\_CONNECTED each time a process connects, PROC\_HAS\_DISCONNECTED each time one disconnects;
//!   given to Disconnect, the other members that registered for it hear of that departure \[003\].
//! - <a id="CON-11"></a>**CON-11**: CONNECT\_NOTIFY\_REQ: the server sends CONNECT\_REQUESTED to each named
//!   process \[003\].
//! - <a id="CON-12"></a>**CON-12**: Default: a participant that ends without calling connect makes it fail
//!   for all others \[003\]. CONNECT\_OPTIONAL: no error, it goes on without them \[003\].
//! - <a id="CON-13"></a>**CON-13**: Default: all must disconnect before they end; ending (or finalizing)
//!   while connected raises a termination event to every group member that registered for it \[003\]:
//!   ERR\_PROC\_TERM\_WO\_SYNC, and ERR\_JOB\_TERM\_WO\_SYNC for each job ended because of it \[Proc\_Mgmt\].
//!   CONNECT\_EARLY\_TERM\_ALLOWED: no such error, and host and server lower what running and later
//!   collectives of that group wait for \[003\].
//! - <a id="CON-14"></a>**CON-14**: \*\*DIFF\*\* Disconnect: names the group by its namespace, applies to the
//!   calling process, error if the namespace is not known \[003\]; takes the same procs array, is collective,
//!   INVALID\_OPERATION if that set is not connected \[Proc\_Mgmt\]. Do: accept either form; unknown
//!   namespace gives INVALID\_NAMESPACE in the source text's form, a set that is not connected gives
//!   INVALID\_OPERATION.
//! - <a id="CON-15"></a>**CON-15**: \*\*DIFF\*\* A set cannot be connected again before its disconnect is
//!   complete \[impl header\]; servers of the reference answer SUCCESS each time, and Open MPI connects again
//!   without disconnecting \[tried\]. Do: succeed and change nothing; one disconnect ends the connection.
//! - <a id="CON-16"></a>**CON-16**: Disconnect does not make the server forget the namespace data: that waits
//!   for deregister\_nspace \[impl history of RFC0003\].
//! - <a id="CON-17"></a>**CON-17**: Connecting only processes of one namespace is pointless; it may succeed
//!   or fail \[Proc\_Mgmt\]. Do: succeed.
//! - <a id="CON-18"></a>**CON-18**: A spawned job is connected to its parent by default: both sides hear of
//!   errors of either \[Proc\_Mgmt\].
//! - <a id="CON-19"></a><a id="CON-19a"></a>**CON-19a**: Processes on several clusters use `cluster:nspace`
//!   ids in connect \[003\].
//! - <a id="CON-19b"></a>**CON-19b**: They learn these ids through Publish/Lookup with range GLOBAL \[003\].
//! - <a id="CON-20"></a>**CON-20**: The source's attribute strings are not in today's headers; those used by
//!   the implementation in 2017-2018 are in attributes.tsv. CONNECT\_EARLY\_TERM\_ALLOWED never had a string
//!   and PROC\_HAS\_DISCONNECTED never had a number: the project must pick them \[003; impl history\].
//!
//! # 9. Resolve peers and nodes
//!
//! - <a id="RES-01"></a>**RES-01**: Both look at job-level layout; no session can be given, so only the
//!   current session is searched. \[000\]
//! - <a id="RES-02"></a>**RES-02**: Unconnected client: answers from its own data (own job, plus jobs learned
//!   by Connect or Group construct). \[000\]
//! - <a id="RES-03"></a>**RES-03**: Connected client: forwards to its server. \[000\]
//! - <a id="RES-04"></a>**RES-04**: Server (for a client or for itself): if the host has the query upcall,
//!   ask it; if there is none, or the host says it does not support that query, answer from the server's own
//!   data. impl falls back on any status but SUCCESS that the upcall returns at once. impl asks with keys
//!   QUERY\_RESOLVE\_PEERS (qualifiers NSPACE, HOSTNAME) and QUERY\_RESOLVE\_NODE (qualifier NSPACE). \[000\]
//! - <a id="RES-05"></a>**RES-05**: The host's status is passed on as it is. The one duty of a host: SUCCESS
//!   if the request ran, also when nothing was found. \[000\]
//! - <a id="RES-06"></a>**RES-06**: Library answer, namespace not known: ERR\_INVALID\_NAMESPACE (-44). The
//!   newest standard has removed that constant; keep it, the source demands it. \[000\]
//! - <a id="RES-07"></a>**RES-07**: Resolve\_nodes, namespace known: SUCCESS and the names of its nodes; no
//!   nodes assigned: SUCCESS and no list (NULL; Rust: empty). \[000\]
//! - <a id="RES-08"></a>**RES-08**: Resolve\_peers, node not among the namespace's nodes (also: node unknown,
//!   or misspelt): SUCCESS, no procs, count 0. The inner not-found status must not leak out. \[000\]
//! - <a id="RES-09"></a><a id="RES-09a"></a>**RES-09a**: Node found, host gave LOCAL\_PEERS for it: SUCCESS
//!   and those processes. \[000\]
//! - <a id="RES-09b"></a>**RES-09b**: The value of LOCAL\_PEERS is empty: SUCCESS and no processes. \[000\]
//! - <a id="RES-09c"></a>**RES-09c**: The value of LOCAL\_PEERS is NULL (type UNDEF): SUCCESS and no
//!   processes. \[000\]
//! - <a id="RES-10"></a>**RES-10**: Node found, host gave no LOCAL\_PEERS: ERR\_DATA\_VALUE\_NOT\_FOUND
//!   (-30), also removed from the standard and kept here. \*\*Two sources pull apart\*\*: 000 says the
//!   library does not rebuild the list from locations of single processes; 002 lets the library derive values
//!   from required ones, and impl does derive LOCAL\_PEERS when it files a PROC\_MAP. Do: a list derived from
//!   PROC\_MAP at registration counts as given (REG-20); never build one at question time from per-process
//!   NODEID or HOSTNAME. \[000\]
//! - <a id="RES-11"></a>**RES-11**: Node name absent: local node. Namespace absent: all namespaces known
//!   (peers: every process on the node; nodes: union without repeats) \[Query, impl\].
//! - <a id="RES-12"></a>**RES-12**: No directives; blocking form only \[Query\].
//!
//! # 10. Query
//!
//! - <a id="QRY-01"></a>**QRY-01**: A request is a list of queries; each has one or more keys and any number
//!   of qualifiers that hold for all its keys \[001, Query\].
//! - <a id="QRY-02"></a>**QRY-02**: \*\*DIFF\*\* result shape. Source 001: one info per query, value single
//!   or an array. Newest: one QUERY\_RESULTS info per query, whose array starts with QUERY\_QUALIFIERS (if
//!   there were qualifiers) and then has one info per found key \[Query\]. Do: the newest on the wire, with a
//!   helper that gives per-key values.
//! - <a id="QRY-03"></a>**QRY-03**: Status: all found SUCCESS; some PARTIAL\_SUCCESS; none NOT\_FOUND; host
//!   cannot query NOT\_SUPPORTED \[Query\]. Results only with the first two.
//! - <a id="QRY-04"></a>**QRY-04**: An unsupported key is treated like a key that was not found \[Query\].
//! - <a id="QRY-05"></a>**QRY-05**: PROCID together with NSPACE or RANK in one query is BAD\_PARAM; NSPACE
//!   and RANK belong together when a process is meant \[Query\]. Several processes need several queries.
//! - <a id="QRY-06"></a>**QRY-06**: Several qualifiers of one name are allowed (two NODEIDs: both nodes); the
//!   result is then one joined array without saying which came from where; ask with two queries to tell them
//!   apart \[001\].
//! - <a id="QRY-07"></a>**QRY-07**: Qualifiers that do not apply to a key are ignored \[Query\].
//! - <a id="QRY-08"></a>**QRY-08**: The same key in two queries is answered twice \[Query\].
//! - <a id="QRY-09"></a><a id="QRY-09a"></a>**QRY-09a**: Answers may be cached and served from the cache
//!   \[Query\].
//! - <a id="QRY-09b"></a>**QRY-09b**: QUERY\_REFRESH\_CACHE bypasses and renews the cache \[Query\].
//! - <a id="QRY-09c"></a>**QRY-09c**: QUERY\_LOCAL\_ONLY stops at local knowledge \[Query\].
//! - <a id="QRY-10"></a>**QRY-10**: What the library cannot answer goes to the host's query upcall with the
//!   asker's id \[Server\]. Access control is the host's job \[Query\].
//! - <a id="QRY-11"></a>**QRY-11**: QUERY\_PROC\_TABLE / QUERY\_LOCAL\_PROC\_TABLE need NSPACE and give an
//!   array of proc\_info (id, host, executable, pid, exit code, state) in rank order; local means the asker's
//!   node or the HOSTNAME qualifier \[001, Tools\].
//! - <a id="QRY-12"></a>**QRY-12**: QUERY\_NAMESPACES, QUERY\_QUEUE\_LIST and the like are comma lists; keys
//!   with required qualifiers: see attributes.tsv \[Query\].
//! - <a id="QRY-13"></a>**QRY-13**: \*\*DIFF\*\* the blocking form was taken out \[001\] and is back since
//!   4.0 \[Query\]. Do: offer one async call.
//! - <a id="QRY-14"></a>**QRY-14**: QUERY\_STABLE\_ABI\_VERSION / QUERY\_PROVISIONAL\_ABI\_VERSION alone work
//!   before init \[Query\].
//! - <a id="QRY-15"></a><a id="QRY-15a"></a>**QRY-15a**: NUM\_GROUPS and GROUP\_NAMES tell which groups there
//!   are, GROUP\_MEMBERSHIP with GROUP\_ID who is in one \[Query\].
//! - <a id="QRY-15b"></a>**QRY-15b**: AVAIL\_SERVERS tells of each server on the node its name and how to
//!   attach to it \[Query\].
//! - <a id="ATT-01"></a>**ATT-01**: Host registers attributes per module function name ("publish",
//!   "allocate"); library registers its own for each API during init, never at first use \[002, Server\].
//! - <a id="ATT-02"></a>**ATT-02**: Levels: client, server, host, tool. Second registration for the same
//!   function at the same level: ERR\_REPEAT\_ATTR\_REGISTRATION (-171); at another level it is kept apart
//!   \[002, Server\].
//! - <a id="ATT-03"></a>**ATT-03**: Reports name user-facing APIs: the library maps module function names to
//!   them (one module function may serve several APIs) \[002\].
//! - <a id="ATT-04"></a>**ATT-04**: An entry: name, string, data type, optional
//!   MIN\_VALUE/MAX\_VALUE/ENUM\_VALUE infos, description lines \[Server\]. Source 002 points to the same
//!   structure.
//! - <a id="ATT-05"></a>**ATT-05**: Query: first key QUERY\_ATTRIBUTE\_SUPPORT, then API names ("PMIx\_Get");
//!   qualifiers CLIENT\_/SERVER\_/HOST\_/TOOL\_ATTRIBUTES or \_FUNCTIONS choose levels; none means all
//!   \[Query\].
//! - <a id="ATT-06"></a>**ATT-06**: Answer: per function one info, holding per level an array of regattr; a
//!   level without support is present with type UNDEF \[Query\].
//!
//! # 11. Tools: rendezvous
//!
//! - <a id="TOL-01"></a>**TOL-01**: A server accepts tools only if SERVER\_TOOL\_SUPPORT was given; without a
//!   tool\_connected upcall every tool is refused \[Tools, Security\].
//! - <a id="TOL-02"></a>**TOL-02**: A system-level server (SERVER\_SYSTEM\_SUPPORT) has one rendezvous point
//!   per node, without pid in its name, in SYSTEM\_TMPDIR: `pmix.sys.<host>` \[001, Tools\]. A second one on
//!   a node is refused.
//! - <a id="TOL-03"></a><a id="TOL-03a"></a>**TOL-03a**: A session-level (other) server puts its files in
//!   SERVER\_TMPDIR: `pmix.<host>.tool.<nspace>`, `pmix.<host>.tool.<pid>`, `pmix.<host>.tool` (the last not
//!   if several servers share the directory) \[Tools\]; source 001 knows the pid form only.
//! - <a id="TOL-03b"></a>**TOL-03b**: TMPDIR variable if no directory is given \[Tools\].
//! - <a id="TOL-03c"></a>**TOL-03c**: Rendezvous files hold at least nspace, rank and URI \[Tools\].
//! - <a id="TOL-04"></a>**TOL-04**: Extra copy at LAUNCHER\_RENDEZVOUS\_FILE or env LAUNCHER\_RNDZ\_FILE
//!   \[Tools\].
//! - <a id="TOL-05"></a><a id="TOL-05a"></a>**TOL-05a**: File access rights are the first gate: own user only
//!   \[Tools, impl\].
//! - <a id="TOL-05b"></a>**TOL-05b**: Foreign tools pass the file access rights where the server allows them
//!   \[Tools, impl\].
//! - <a id="TOL-06"></a><a id="TOL-06a"></a>**TOL-06a**: Search order of a tool; the first selection that is
//!   given is used and its failure is final, except where noted; 1 TOOL\_ATTACHMENT\_FILE \[Tools\].
//! - <a id="TOL-06b"></a>**TOL-06b**: 2 SERVER\_URI or TCP\_URI (both: error) \[Tools\].
//! - <a id="TOL-06c"></a>**TOL-06c**: 3 SERVER\_PIDINFO \[Tools\].
//! - <a id="TOL-06d"></a>**TOL-06d**: 4 SERVER\_NSPACE \[Tools\].
//! - <a id="TOL-06e"></a>**TOL-06e**: 5 CONNECT\_TO\_SYSTEM \[Tools\].
//! - <a id="TOL-06f"></a>**TOL-06f**: 6 CONNECT\_SYSTEM\_FIRST (failure: go on silently) \[Tools\].
//! - <a id="TOL-06g"></a>**TOL-06g**: 7 default search, where nothing is given \[Tools\].
//! - <a id="TOL-07"></a><a id="TOL-07a"></a>**TOL-07a**: \*\*DIFF\*\* default search. Older \[001\]: first
//!   the system-level point, then session-level ones. Newest \[Tools\]: look only at the files below
//!   SERVER\_TMPDIR and try each until one accepts. Do: the source, as it is predictable: system first.
//! - <a id="TOL-07b"></a>**TOL-07b**: Several live session-level candidates without selection are an error
//!   \[001\].
//! - <a id="TOL-07c"></a>**TOL-07c**: Stale files of dead servers do not count as candidates \[001\].
//! - <a id="TOL-08"></a><a id="TOL-08a"></a>**TOL-08a**: Retry: CONNECT\_MAX\_RETRIES attempts,
//!   CONNECT\_RETRY\_DELAY seconds apart, at each step of the chain \[Tools\].
//! - <a id="TOL-08b"></a>**TOL-08b**: Waiting for a file to appear is allowed at each step but the default
//!   search \[Tools\].
//! - <a id="TOL-09"></a><a id="TOL-09a"></a>**TOL-09a**: Identity: TOOL\_NSPACE (+ TOOL\_RANK, default 0) if
//!   given \[Tools\].
//! - <a id="TOL-09b"></a>**TOL-09b**: Without a wish the host assigns an identity in the tool\_connected
//!   answer \[Tools\].
//! - <a id="TOL-09c"></a>**TOL-09c**: A tool without server: self-made unique id, or empty nspace and rank
//!   UNDEF returned from init \[Tools\].
//! - <a id="TOL-09d"></a>**TOL-09d**: The identity of a tool never changes afterwards \[Tools\].
//! - <a id="TOL-09e"></a>**TOL-09e**: A server where the identity of a tool would clash refuses it \[Tools\].
//! - <a id="TOL-10"></a>**TOL-10**: TOOL\_DO\_NOT\_CONNECT: init without server. TOOL\_CONNECT\_OPTIONAL:
//!   connect if possible, no error otherwise \[Tools\].
//! - <a id="TOL-11"></a>**TOL-11**: First server connected is the primary one; all calls go to it.
//!   set\_server changes that (WAIT\_FOR\_CONNECTION, TIMEOUT); attach with PRIMARY\_SERVER too \[Tools\].
//!   Registrations made with the old primary may be lost.
//! - <a id="TOL-12"></a>**TOL-12**: attach to a server already connected: SUCCESS, no change; no new
//!   connection: UNREACH. Servers already connected are skipped in the search \[Tools\].
//! - <a id="TOL-13"></a>**TOL-13**: disconnect of the primary: calls needing a server give UNREACH until
//!   another is chosen \[Tools\].
//! - <a id="TOL-14"></a>**TOL-14**: get\_servers: primary first, then by time of attachment \[Tools\].
//! - <a id="TOL-15"></a>**TOL-15**: The server takes the tool's uid/gid from the OS and hands them, its
//!   VERSION\_INFO, wished id and CREDENTIAL to the host, which alone decides \[Security, Server\].
//! - <a id="TOL-16"></a>**TOL-16**: Tools the host itself starts are ordinary clients as far as connection
//!   checks go \[Security\].
//! - <a id="TOL-17"></a>**TOL-17**: A server that loses a tool drops all its records (registrations,
//!   requests) \[Tools\].
//!
//! # 12. Node and process maps
//!
//! - <a id="RGX-01"></a>**RGX-01**: generate\_regex takes a comma list and keeps order and repeats;
//!   parse(generate(x)) = x for every list, also unsorted and mixed names \[002\].
//! - <a id="RGX-02"></a>**RGX-02**: generate\_ppn takes ranks per node: nodes split by `;`, ranks by `,`,
//!   ranges with `-`; e.g. `1-4;2-5;8,10,11,12;6,7,9` \[002\]. An empty field is a node without processes as
//!   far as the text form goes; see RGX-05.
//! - <a id="RGX-03"></a>**RGX-03**: Output is bytes, not text: a tag with a colon comes first. Reserved tags:
//!   `raw:` plain list, `pmix:` text expression, `blob:` binary \[Server, 002\]; the tag's C string ends with
//!   NUL. Consumers pick the decoder by tag and must accept `raw:` and untagged plain lists.
//! - <a id="RGX-04"></a>**RGX-04**: Values are carried as REGEX (49) \[Server\] or STRING \[002\]; accept
//!   both (impl also REGEX2, 74).
//! - <a id="RGX-05"></a>**RGX-05**: PROC\_MAP belongs to the NODE\_MAP beside it: entry i is node i; a
//!   PROC\_MAP with another number of entries than nodes is an error; a node without entry cannot be
//!   expressed \[002\]. A session NODE\_MAP without PROC\_MAP may list unused nodes \[002\].
//! - <a id="RGX-06"></a>**RGX-06**: NODE\_MAP\_RAW and PROC\_MAP\_RAW are the same in plain text
//!   \[Reserved\].
//! - <a id="LOC-01"></a>**LOC-01**: Compute\_distances gives, for each device of the node that is wanted, the
//!   smallest and the largest distance from the location; what is nearer has a smaller one \[Struct\].
//!
//! # 13. register_nspace: job data
//!
//! - <a id="REG-01"></a>**REG-01**: Must be done on each node before the first local process of the job
//!   starts, and for each namespace that may ever be in a collective with local processes, even with no local
//!   process of its own \[002, Server\].
//! - <a id="REG-02"></a>**REG-02**: nlocalprocs is the number of local processes; collectives rely on it
//!   \[002\].
//! - <a id="REG-03"></a>**REG-03**: REGISTER\_NODATA: note the namespace only \[002\].
//! - <a id="REG-04"></a>**REG-04**: Levels: session values alone or in SESSION\_INFO\_ARRAY (which must hold
//!   SESSION\_ID; needed for values that exist at several levels) \[002\]; job values alone or in
//!   JOB\_INFO\_ARRAY; app values alone only if the job has one app, else one APP\_INFO\_ARRAY per app with
//!   APPNUM; node values in NODE\_INFO\_ARRAY with HOSTNAME or NODEID, alone only for the local node; each
//!   process in PROC\_INFO\_ARRAY (PROC\_DATA in the source, same string) with RANK first \[002, Server\].
//! - <a id="REG-05"></a>**REG-05**: Arrays nest to any depth: apps and nodes inside a job, jobs inside a
//!   session; a node array inside a job array holds job values for that node \[Server\].
//! - <a id="REG-06"></a>**REG-06**: Order of entries in the info list does not matter \[002\].
//! - <a id="REG-07"></a><a id="REG-07a"></a>**REG-07a**: Required of hosts: session UNIV\_SIZE; job JOBID,
//!   JOB\_SIZE, MAX\_PROCS, NODE\_MAP, PROC\_MAP \[002\]. Newest list is longer \[Server; apis.tsv\].
//! - <a id="REG-07b"></a>**REG-07b**: Required of hosts for the own node: LOCAL\_SIZE, LOCAL\_PEERS,
//!   LOCAL\_CPUSETS \[002\].
//! - <a id="REG-07c"></a>**REG-07c**: Required of hosts for each process: RANK, LOCAL\_RANK, NODE\_RANK,
//!   NODEID \[002\].
//! - <a id="REG-07d"></a>**REG-07d**: Required of hosts with several apps: each app APPNUM, APPLDR,
//!   APP\_SIZE, each process APP\_RANK, APPNUM \[002\].
//! - <a id="REG-07e"></a>**REG-07e**: The library must not fail if values it can derive are missing \[002\].
//! - <a id="REG-08"></a>**REG-08**: Values that are required, absent and not derivable: Get gives NOT\_FOUND;
//!   registration itself succeeds \[project choice; text: derive what can be derived\].
//! - <a id="REG-09"></a>**REG-09**: Registering a namespace again adds to and replaces its data \[impl
//!   practice\].
//! - <a id="REG-10"></a><a id="REG-10a"></a>**REG-10a**: register\_resources data counts as job-level data of
//!   every job \[Server\].
//! - <a id="REG-10b"></a>**REG-10b**: Namespace data of the same key wins over that of register\_resources,
//!   for that namespace only \[Server\].
//! - <a id="REG-10c"></a>**REG-10c**: deregister\_resources goes by key; values are only qualifiers
//!   \[Server\].
//! - <a id="REG-11"></a>**REG-11**: deregister\_nspace forgets the namespace, its clients and all their data,
//!   and cancels what is pending for them; it is meant for long-lived servers \[002\].
//! - <a id="REG-20"></a>**REG-20**: Derived values \[002 says the library may; formulas follow from
//!   Reserved\]: NUM\_NODES = entries of NODE\_MAP; JOB\_SIZE = ranks in PROC\_MAP; per node LOCAL\_PEERS =
//!   PROC\_MAP entry, LOCAL\_SIZE = its length, LOCALLDR = its minimum; per process HOSTNAME and NODEID =
//!   position in NODE\_MAP, LOCAL\_RANK = position among the node's sorted ranks; GLOBAL\_RANK =
//!   NPROC\_OFFSET + RANK; NODE\_LIST = expanded NODE\_MAP; APPLDR = lowest rank of the app, APP\_SIZE =
//!   number of ranks with that APPNUM, APP\_RANK = position among them; single app: APPNUM 0 and APP\_RANK =
//!   RANK. A given value is never overwritten by a derived one.
//! - <a id="REG-21"></a><a id="REG-21a"></a>**REG-21a**: LOCAL\_PEERS: ranks of that job on the node, comma
//!   list, ascending \[002\].
//! - <a id="REG-21b"></a>**REG-21b**: LOCAL\_CPUSETS: in the order of LOCAL\_PEERS, colon list \[002\].
//! - <a id="REG-21c"></a>**REG-21c**: LOCAL\_CPUSETS as an array of strings \[newest\] is accepted like the
//!   list \[002\].
//! - <a id="REG-22"></a><a id="REG-22a"></a>**REG-22a**: Number of local processes is fixed at launch
//!   \[002\].
//! - <a id="REG-22b"></a>**REG-22b**: A spawned job is a new namespace \[002\].
//! - <a id="REG-22c"></a>**REG-22c**: Migration changes the number of local processes and must not run beside
//!   a collective \[002\].
//!
//! # 14. Clients: registration and connection
//!
//! - <a id="CLI-01"></a>**CLI-01**: register\_client before the process starts: id, expected uid and gid, an
//!   opaque host object \[002\].
//! - <a id="CLI-02"></a>**CLI-02**: On connect the server takes the peer's uid/gid from the OS (SO\_PEERCRED
//!   or the like), not from the message, and drops the connection if they differ from the registered ones
//!   \[002, Security\].
//! - <a id="CLI-03"></a>**CLI-03**: An unregistered id, or a namespace that is not known, is refused
//!   \[Security\].
//! - <a id="CLI-04"></a>**CLI-04**: The host object comes back with client\_connected, client\_finalized and
//!   abort for that client \[002, Server\].
//! - <a id="CLI-05"></a>**CLI-05**: client\_connected is called before any other upcall for that rank; the
//!   client waits for the answer; an error drops it \[Server\]. Do not wait for the other ranks: some may
//!   never connect.
//! - <a id="CLI-06"></a>**CLI-06**: client\_finalized only if the client called finalize; a client that just
//!   ends does not cause it \[Server\].
//! - <a id="CLI-07"></a><a id="CLI-07a"></a>**CLI-07a**: setup\_fork before start: returns what the client
//!   needs in its environment \[002\].
//! - <a id="CLI-07b"></a>**CLI-07b**: setup\_fork returns variables asked for in Spawn too \[002\].
//! - <a id="CLI-07c"></a>**CLI-07c**: setup\_fork returns variables from the library (setup\_local\_support)
//!   too \[002\].
//! - <a id="CLI-07d"></a>**CLI-07d**: Existing variables of the caller's array stay \[002\].
//! - <a id="CLI-08"></a><a id="CLI-08a"></a>**CLI-08a**: deregister\_client drops all data of one client;
//!   exceptional use only \[002\].
//! - <a id="CLI-08b"></a>**CLI-08b**: deregister\_nspace drops all data of its clients by itself \[002\].
//! - <a id="CLI-08c"></a>**CLI-08c**: \*\*DIFF\*\* Disconnection of all local clients drops their data by
//!   itself \[002\]; but a get on another node may ask for what a process has put after that process has
//!   finalized (GET-23, DMX-01), and the newest standard leaves the end of the data to the host. Do: keep it
//!   until the namespace or the client is deregistered; a host that wants it gone sooner calls
//!   deregister\_client.
//! - <a id="CLI-09"></a>**CLI-09**: SERVER\_NSPACE and SERVER\_RANK of the serving daemon are job-level
//!   values \[002\].
//!
//! # 15. Direct modex
//!
//! - <a id="DMX-01"></a>**DMX-01**: Client asks for remote data; server asks host by direct\_modex(proc,
//!   info); host carries it to the target's node; there host calls dmodex\_request; the answer is a blob that
//!   the first server unpacks, caches and serves \[002, Server\].
//! - <a id="DMX-02"></a><a id="DMX-02a"></a>**DMX-02a**: dmodex\_request answers when the process has
//!   committed; if not yet, it waits \[002\].
//! - <a id="DMX-02b"></a>**DMX-02b**: dmodex\_request takes no timeout; the asking side keeps time \[002\].
//! - <a id="DMX-03"></a>**DMX-03**: REQUIRED\_KEY: answer only when that key is there (or timeout)
//!   \[Server\].
//! - <a id="DMX-04"></a>**DMX-04**: Blob holds GLOBAL and REMOTE data of that process (LOCAL and INTERNAL
//!   never leave the node) \[Sharing\]; for rank WILDCARD the job-level data of the namespace \[Reserved\].
//! - <a id="DMX-05"></a>**DMX-05**: dmodex\_request for a process not registered here: NOT\_FOUND \[project
//!   choice\], for a namespace not yet registered: wait \[impl practice\].
//!
//! # 16. Job set-up and inventory
//!
//! - <a id="SET-01"></a>**SET-01**: setup\_application before launch, once per job (or per app with that
//!   app's maps); info must hold NODE\_MAP and PROC\_MAP; answer comes by callback \[002, Server\].
//! - <a id="SET-02"></a>**SET-02**: SETUP\_APP\_ENVARS, SETUP\_APP\_NONENVARS, SETUP\_APP\_ALL choose what is
//!   collected; ALLOC\_NETWORK\_\* (source) = ALLOC\_FABRIC\_\* (newest), same strings \[002\].
//! - <a id="SET-03"></a>**SET-03**: Host carries the answer to each node and gives it to
//!   setup\_local\_support there, before the first local process and after register\_nspace \[002, Server\].
//! - <a id="SET-04"></a>**SET-04**: Collecting variables or network data is optional: an empty answer is fine
//!   \[002\].
//! - <a id="SET-05"></a><a id="SET-05a"></a>**SET-05a**: collect\_inventory answers by callback with what the
//!   node has \[002, Server\].
//! - <a id="SET-05b"></a>**SET-05b**: deliver\_inventory hands such data to another server \[002, Server\].
//! - <a id="SET-05c"></a>**SET-05c**: An update of an inventory is a small delta \[002, Server\].
//!
//! # 17. Host module contract (HostModule)
//!
//! - <a id="HST-01"></a><a id="HST-01a"></a>**HST-01a**: Per call: SUCCESS = answer follows by callback;
//!   OPERATION\_SUCCEEDED = done, no callback; error = failed, no callback \[Server\]. fence\_nb,
//!   direct\_modex and get\_credential have no OPERATION\_SUCCEEDED (they return data).
//! - <a id="HST-01b"></a>**HST-01b**: Rust: one async fn per entry with a default that returns NOT\_SUPPORTED
//!   \[project choice\].
//! - <a id="HST-02"></a>**HST-02**: One upcall per collective per node \[Server\].
//! - <a id="HST-03"></a>**HST-03**: REQD attributes not yet processed that the host cannot serve:
//!   NOT\_SUPPORTED \[Server\].
//! - <a id="HST-04"></a>**HST-04**: spawn: all or nothing; on error everything started is ended; host passes
//!   SPAWNED and PARENT\_ID to all servers that start children \[Server\].
//! - <a id="HST-05"></a>**HST-05**: abort: a set the host cannot abort gives PARAM\_VALUE\_NOT\_SUPPORTED and
//!   nothing is ended; no procs means the caller's namespace \[Server\].
//! - <a id="HST-06"></a>**HST-06**: register\_events: only for system events (-230 to -330) and codes outside
//!   the PMIx range, once per code; deregister\_events when nobody is left \[Server\]. Job-related events
//!   come without being asked for.
//! - <a id="HST-07"></a>**HST-07**: notify\_event: never hands the host an event the host itself gave by
//!   Notify\_event \[Server\].
//! - <a id="HST-08"></a>**HST-08**: log entry must not call the logging API on the same node again
//!   \[RFC0032\].
//! - <a id="HST-09"></a>**HST-09**: monitor is called only for what the library cannot do, or for other nodes
//!   \[Server\].
//! - <a id="HST-10"></a>**HST-10**: Deprecated entries (client\_connected, tool\_connected, log) are ignored
//!   if the newer one is present \[Server\].
//!
//! # 18. I/O forwarding
//!
//! - <a id="IOF-01"></a><a id="IOF-01a"></a>**IOF-01a**: Pull: processes, channels, directives; gives a
//!   handler id; output comes with source, channel, bytes and info \[Tools\].
//! - <a id="IOF-01b"></a>**IOF-01b**: Without output callback the bytes go to own stdout/stderr \[Tools\].
//! - <a id="IOF-02"></a>**IOF-02**: stdin cannot be pulled: NOT\_SUPPORTED \[Server\].
//! - <a id="IOF-03"></a><a id="IOF-03a"></a>**IOF-03a**: Default is REDIRECT: taken away from its old target,
//!   given back when the tool ends \[Tools\].
//! - <a id="IOF-03b"></a>**IOF-03b**: COPY leaves the old target in place \[Tools\].
//! - <a id="IOF-04"></a>**IOF-04**: Pull from a running job works only if it was spawned with the FWD\_\*
//!   attribute of that channel; else error \[Tools\].
//! - <a id="IOF-05"></a>**IOF-05**: IOF\_deliver: host gives bytes to the server; the server finds which of
//!   its clients registered for that source and channel and sends it to them; callback when the bytes are no
//!   longer needed \[002\]. Nobody registered yet: cache per channel, IOF\_CACHE\_SIZE, drop newest by
//!   default, IOF\_DROP\_OLDEST otherwise \[Tools\].
//! - <a id="IOF-06"></a>**IOF-06**: Buffering: call back when IOF\_BUFFERING\_SIZE bytes are there or
//!   IOF\_BUFFERING\_TIME seconds passed; remainder flushed at deregistration \[Tools\].
//! - <a id="IOF-07"></a>**IOF-07**: Deregister: flush what is buffered, discard what comes later \[Tools\].
//! - <a id="IOF-08"></a>**IOF-08**: IOF\_COMPLETE in the info says the source closed the channel \[Tools\].
//! - <a id="IOF-09"></a>**IOF-09**: Order is kept per source and channel, not across sources \[Tools\].
//!   Payloads are bytes: may split UTF-8 and lines.
//! - <a id="IOF-10"></a>**IOF-10**: Push: own bytes to targets; or IOF\_PUSH\_STDIN: the library reads the
//!   caller's stdin for the same targets until it closes; or IOF\_COMPLETE: stop \[Tools\]. Callback means
//!   the bytes are taken, not delivered.
//! - <a id="IOF-11"></a>**IOF-11**: Formatting (tag, time stamp, rank, XML, files, directories, patterns) is
//!   done by the tool's library \[Tools\].
//! - <a id="IOF-12"></a>**IOF-12**: Host without stdin support: NOT\_SUPPORTED \[Tools\].
//!
//! # 19. Events
//!
//! - <a id="EVT-01"></a>**EVT-01**: Handler categories: one code; several codes; none (default). Chain order:
//!   the FIRST handler; single; multi; default; the LAST handler \[Event\].
//! - <a id="EVT-02"></a><a id="EVT-02a"></a>**EVT-02a**: Within a category new handlers go in front unless
//!   APPEND \[RFC0018; Event has only the attributes\].
//! - <a id="EVT-02b"></a>**EVT-02b**: FIRST\_IN\_CATEGORY and LAST\_IN\_CATEGORY: one each per category
//!   \[Event\].
//! - <a id="EVT-03"></a>**EVT-03**: Only one FIRST and one LAST at a time, a second is an error;
//!   deregistering frees the place \[Event\].
//! - <a id="EVT-04"></a>**EVT-04**: BEFORE/AFTER name another handler: ignored if that one is not in the
//!   chain \[Event\]; RFC0018: same category and existing name needed, else error. Do: error at registration
//!   if the name is unknown or the category differs.
//! - <a id="EVT-05"></a>**EVT-05**: Handler names, if given, are unique: a repeat is an error \[RFC0018\].
//! - <a id="EVT-06"></a>**EVT-06**: Each handler must report completion with a status and optional results;
//!   then the next runs. ACTION\_COMPLETE ends the chain at once (the LAST handler is then not run)
//!   \[Event\].
//! - <a id="EVT-07"></a>**EVT-07**: The next handler sees one result entry per earlier handler: its name (may
//!   be empty), its status, its results \[RFC0002, Event\].
//! - <a id="EVT-08"></a>**EVT-08**: The same code may have many handlers \[RFC0018\].
//! - <a id="EVT-09"></a>**EVT-09**: Delivery needs: receiver in the generator's range; a handler for the code
//!   (or default); the handler's own filters (RANGE on the source, AFFECTED\_PROC(S)) fit \[Event\].
//! - <a id="EVT-10"></a>**EVT-10**: EVENT\_NON\_DEFAULT keeps it from default handlers \[Event\].
//! - <a id="EVT-11"></a>**EVT-11**: RANGE\_CUSTOM: EVENT\_CUSTOM\_RANGE lists the processes (WILDCARD
//!   allowed). PROC\_LOCAL: not sent anywhere. LOCAL: node. NAMESPACE, SESSION, GLOBAL: through the host. RM:
//!   host only \[Event, Publish\].
//! - <a id="EVT-12"></a>**EVT-12**: Source of a host event: empty namespace, rank UNDEF \[Event\].
//! - <a id="EVT-13"></a>**EVT-13**: The server caches every event it receives and gives matching ones, in
//!   order of arrival, to those who register later; EVENT\_DO\_NOT\_CACHE prevents it \[Event\]. RFC0002:
//!   ring of 512; job events are kept as long as the job, because a process may register again.
//! - <a id="EVT-14"></a>**EVT-14**: A registration gets an event once, live or kept, whatever other
//!   registrations of its process got \[Event; impl practice\]. A C library runs all its handlers for an
//!   event that comes.
//! - <a id="EVT-15"></a>**EVT-15**: No event before the registration has completed, none after the
//!   deregistration has \[Event\].
//! - <a id="EVT-16"></a>**EVT-16**: Deregister of an unknown id: BAD\_PARAM \[Event\].
//! - <a id="EVT-17"></a>**EVT-17**: Notify completes when the data is taken; it says nothing about delivery
//!   \[Event\].
//! - <a id="EVT-18"></a>**EVT-18**: Any integer may be a code \[Event\].
//! - <a id="EVT-19"></a>**EVT-19**: An event from a client goes to its server: to local processes in range,
//!   and up to the host by notify\_event if the range reaches further; the generating process's own handlers
//!   run too \[Event, Server\].
//! - <a id="EVT-20"></a>**EVT-20**: Host must deliver to servers where targets run or may yet run \[Event\].
//!   Environment events must carry AFFECTED\_PROC(S).
//! - <a id="EVT-21"></a>**EVT-21**: Loss of the server connection is an event inside the client:
//!   ERR\_LOST\_CONNECTION (older: LOST\_CONNECTION\_TO\_SERVER) \[RFC0002, Struct\].
//! - <a id="EVT-22"></a>**EVT-22**: EVENT\_RETURN\_OBJECT is returned only in the registering process
//!   \[Event\]; Rust closures replace it.
//!
//! # 20. Process sets and groups
//!
//! - <a id="PST-01"></a>**PST-01**: Sets are labels defined by host or user at launch; no rank inside a set;
//!   a set never changes; a process may be in many \[Groups\].
//! - <a id="PST-02"></a>**PST-02**: define/delete\_process\_set makes the events PROCESS\_SET\_DEFINE (name,
//!   members) / PROCESS\_SET\_DELETE (name) for all local clients \[Server, Groups\]. Deleting does nothing
//!   to the members.
//! - <a id="PST-03"></a>**PST-03**: PSET\_NAMES by Get; QUERY\_NUM\_PSETS, QUERY\_PSET\_NAMES,
//!   QUERY\_PSET\_MEMBERSHIP by query \[Groups\].
//! - <a id="GRP-01"></a>**GRP-01**: Construct, collective method: all members call with the same group id;
//!   the id identifies the operation, so members may name the set in different ways and orders \[Groups\].
//!   (Unlike fence and connect.)
//! - <a id="GRP-02"></a>**GRP-02**: Bootstrap method: leaders pass themselves, GROUP\_BOOTSTRAP = number of
//!   leaders, GROUP\_ADD\_MEMBERS = further members; those call with no procs; overlaps are merged; done when
//!   all have called \[Groups\].
//! - <a id="GRP-03"></a>**GRP-03**: Invite method: the inviter leads; GROUP\_INVITED event to each; join with
//!   ACCEPT or DECLINE; inviter hears INVITE\_ACCEPTED (library counts them), INVITE\_DECLINED,
//!   INVITE\_FAILED; done: GROUP\_CONSTRUCT\_COMPLETE releases the joiners \[Groups\].
//! - <a id="GRP-04"></a>**GRP-04**: Group ranks follow the position in the construct's procs array
//!   \[Groups\]; use the final membership order in the result.
//! - <a id="GRP-05"></a>**GRP-05**: On completion each member can read job-level data of every namespace in
//!   the group and each member's Put data (scopes hold), and gets GROUP\_MEMBERSHIP, and GROUP\_CONTEXT\_ID
//!   if asked by GROUP\_ASSIGN\_CONTEXT\_ID (host makes it, unique in RANGE, default session) \[Groups,
//!   Server\].
//! - <a id="GRP-06"></a>**GRP-06**: A member that ends before calling: error for all, unless GROUP\_OPTIONAL
//!   (then PARTIAL\_SUCCESS with the real membership and no failure events) or GROUP\_NOTIFY\_TERMINATION
//!   (then GROUP\_MEMBER\_FAILED to the leader(s), or to all if there is none, and handlers decide)
//!   \[Groups\].
//! - <a id="GRP-07"></a>**GRP-07**: A handler returning GROUP\_CONSTRUCT\_ABORT aborts for all. Leader dies:
//!   GROUP\_LEADER\_FAILED to all; a handler returning GROUP\_LEADER claims the role; GROUP\_LEADER\_SELECTED
//!   follows \[Groups\].
//! - <a id="GRP-08"></a>**GRP-08**: The group cannot be used before construction is complete, and nobody may
//!   leave before \[Groups\].
//! - <a id="GRP-09"></a>**GRP-09**: Destruct: collective; a member that died is an error, unless notification
//!   was asked for at construct \[Groups\].
//! - <a id="GRP-10"></a>**GRP-10**: Leave: alone; GROUP\_LEFT to the others; completes when the event is
//!   issued \[Groups\].
//! - <a id="GRP-11"></a>**GRP-11**: Group id must differ from namespaces and other groups \[Groups\]; of
//!   groups, only from those of the same user. Local-only groups need no host unless a context id is wanted.
//! - <a id="GRP-12"></a>**GRP-12**: Groups are known to the PMIx servers only; host sees real ids \[Groups\].
//!
//! # 21. Spawn, abort, debugger
//!
//! - <a id="SPN-01"></a>**SPN-01**: Spawn takes job info and apps (command, argv, env, cwd, maxprocs, info);
//!   app info wins over job info for that app. Returns the new namespace when all have started; failure of
//!   any ends all \[Proc\_Mgmt, Server\].
//! - <a id="SPN-02"></a>**SPN-02**: WDIR, SET\_SESSION\_CWD, PREFIX, HOST, HOSTFILE must be supported by
//!   hosts \[Proc\_Mgmt\].
//! - <a id="SPN-03"></a>**SPN-03**: Envar directives: SET overwrites, ADD does not, UNSET,
//!   PREPEND/APPEND/FIRST with separator \[Proc\_Mgmt\].
//! - <a id="SPN-04"></a>**SPN-04**: Child sees SPAWNED true and PARENT\_ID; parent gets the child's job-level
//!   data and the child the parent's \[Proc\_Mgmt\].
//! - <a id="SPN-05"></a>**SPN-05**: NOTIFY\_COMPLETION / NOTIFY\_JOB\_EVENTS ask for EVENT\_JOB\_END / also
//!   JOB\_START and LAUNCH\_COMPLETE, with namespace, time stamp, JOB\_TERM\_STATUS, and id and code of the
//!   first failed process \[Proc\_Mgmt, Tools\]. EVENT\_SILENT\_TERMINATION stops the normal end event.
//! - <a id="SPN-06"></a>**SPN-06**: ERR\_JOB\_\* statuses tell what failed; JOB\_TIMEOUT limits run time,
//!   SPAWN\_TIMEOUT (or TIMEOUT) the launch \[Proc\_Mgmt\].
//! - <a id="ABT-01"></a>**ABT-01**: Abort without procs means own namespace; returns only if the caller
//!   survives or it failed; status and message go to the host whatever the status is \[Proc\_Mgmt\].
//! - <a id="DBG-01"></a>**DBG-01**: Debugger daemons (DEBUGGER\_DAEMONS) are a job of their own, even when
//!   spawned with the app; DEBUG\_TARGET tells them what to debug; Spawn returns the app's namespace
//!   \[Tools\].
//! - <a id="BND-01"></a>**BND-01**: MAPBY, RANKBY and BINDTO say where processes are placed, how they are
//!   numbered and what they are bound to; what is not possible is refused if it is required \[Job\_Mgmt\].
//!
//! # 22. Log
//!
//! - <a id="LOG-01"></a>**LOG-01**: data entries choose channels in the order given, directives shape the
//!   output; several channels in one call are fine \[Job\_Mgmt\].
//! - <a id="LOG-02"></a><a id="LOG-02a"></a>**LOG-02a**: No channel given: all available ones \[RFC0032\].
//! - <a id="LOG-02b"></a>**LOG-02b**: LOG\_ONCE: only the first channel that works \[RFC0032\].
//! - <a id="LOG-03"></a>**LOG-03**: Must have: STDERR, STDOUT, SYSLOG, SYSLOG\_PRI, ONCE \[Job\_Mgmt\].
//!   Source 001 brings the call itself and its host upcall.
//! - <a id="LOG-04"></a>**LOG-04**: What the library cannot do goes to the host's log entry; unknown channels
//!   too \[RFC0032, 001\].
//! - <a id="LOG-05"></a>**LOG-05**: Some channels fail: PARTIAL\_SUCCESS; all fail, or a REQD channel fails:
//!   error; else SUCCESS, which means handed over \[RFC0032, Job\_Mgmt\]. (RFC0032's two status names were
//!   never numbered.)
//! - <a id="LOG-06"></a><a id="LOG-06a"></a>**LOG-06a**: LOCAL\_SYSLOG is written by the local server
//!   \[Job\_Mgmt\].
//! - <a id="LOG-06b"></a>**LOG-06b**: GLOBAL\_SYSLOG and email go to a gateway server \[Job\_Mgmt\].
//! - <a id="LOG-06c"></a>**LOG-06c**: The default priority of syslog is ERROR \[Job\_Mgmt\] (RFC0032 says
//!   INFO for the local one).
//!
//! # 23. Job control, monitoring, allocation, credentials
//!
//! - <a id="JCT-01"></a><a id="JCT-01a"></a>**JCT-01a**: Job control without targets: the caller's namespace
//!   \[Job\_Mgmt\].
//! - <a id="JCT-01b"></a>**JCT-01b**: Rank WILDCARD as a target of job control: all of that namespace
//!   \[Job\_Mgmt\].
//! - <a id="JCT-01c"></a>**JCT-01c**: Job control acts on all clones of a target \[Job\_Mgmt\].
//! - <a id="JCT-02"></a><a id="JCT-02a"></a>**JCT-02a**: Hosts must support ID, PAUSE, RESUME, KILL, SIGNAL,
//!   TERMINATE and the cleanup attributes \[Job\_Mgmt\].
//! - <a id="JCT-02b"></a>**JCT-02b**: CANCEL names an earlier ID \[Job\_Mgmt\].
//! - <a id="JCT-02c"></a>**JCT-02c**: CANCEL with an empty name: all requests of this requester
//!   \[Job\_Mgmt\].
//! - <a id="JCT-03"></a>**JCT-03**: Cleanup registration (REGISTER\_CLEANUP, \_DIR) is local to the server
//!   and run when the process (or, for WILDCARD or no target, the last local process of the namespace) ends;
//!   absolute paths only, else error; remove and ignore of one file: ERR\_CONFLICTING\_CLEANUP\_DIRECTIVES;
//!   only files of the same uid and gid; failures are silent; deepest directories first, LEAVE\_TOPDIR and
//!   RECURSIVE win over repeats without them \[RFC0027, Job\_Mgmt\].
//! - <a id="MON-01"></a><a id="MON-01a"></a>**MON-01a**: Alarm monitors (heartbeat, file) raise the given
//!   code, default range NAMESPACE \[Job\_Mgmt\].
//! - <a id="MON-01b"></a>**MON-01b**: Usage reports go by default only to the asker (CUSTOM) \[Job\_Mgmt\].
//! - <a id="MON-02"></a>**MON-02**: Heartbeat: interval MONITOR\_HEARTBEAT\_TIME, MONITOR\_HEARTBEAT\_DROPS
//!   misses allowed; the asker sends beats \[Job\_Mgmt\].
//! - <a id="MON-03"></a><a id="MON-03a"></a>**MON-03a**: MONITOR\_APP\_CONTROL: host takes no action of its
//!   own \[Job\_Mgmt\].
//! - <a id="MON-03b"></a>**MON-03b**: MONITOR\_CANCEL cancels by id \[Job\_Mgmt\].
//! - <a id="MON-03c"></a>**MON-03c**: MONITOR\_CANCEL with an empty id cancels all \[Job\_Mgmt\].
//! - <a id="MON-04"></a>**MON-04**: SUCCESS may come with no results \[Job\_Mgmt\].
//! - <a id="ALC-01"></a>**ALC-01**: NEW gives a disjoint allocation, EXTEND belongs to the old one, RELEASE
//!   gives back or lends, REAQUIRE takes lent ones back; result has ALLOC\_ID; ALLOC\_REQ\_ID is the asker's
//!   label for later queries \[Job\_Mgmt\].
//! - <a id="ALC-02"></a>**ALC-02**: TIME\_REMAINING by query gives seconds as u32 \[Query, RFC0013\].
//! - <a id="CRD-01"></a>**CRD-01**: Credentials are opaque bytes with optional info about the issuer;
//!   CRED\_TYPE gives the wanted types in order and, in the answer, the type given \[Security\].
//! - <a id="CRD-02"></a>**CRD-02**: Validation says valid or not and returns info, usually USERID and GRPID
//!   of the holder \[Server\].
//!
//! # 24. Security
//!
//! - <a id="SEC-01"></a>**SEC-01**: Clients: uid/gid from the OS must match registration; then the library
//!   may ask for more; then the host may refuse \[Security\].
//! - <a id="SEC-02"></a>**SEC-02**: Tools: uid/gid from the OS go to the host; both SERVER\_TOOL\_SUPPORT and
//!   the upcall are needed \[Security\].
//! - <a id="SEC-03"></a>**SEC-03**: A refused connection is dropped, and nothing of it stays \[Security,
//!   Server\].
//!
//! # 25. Values
//!
//! - <a id="VAL-01"></a>**VAL-01**: Data type numbers and holes (26, 29, 44, 61-64) as in types.tsv; numbers
//!   above 500 are free \[Struct\].
//! - <a id="VAL-02"></a>**VAL-02**: A data array states its element type also when empty; arrays of info nest
//!   \[001, Struct\]. The old info array type is not used \[001\].
//! - <a id="VAL-03"></a>**VAL-03**: Numeric conversion: out of range BAD\_PARAM or ERR\_CHANGE\_SIGN,
//!   rounding ERR\_LOST\_PRECISION \[Struct\].
//! - <a id="VAL-04"></a>**VAL-04**: Pointers (types POINTER, TOPO, ...) never cross a process border
//!   \[project choice; follows from Struct\].
//! - <a id="VAL-05"></a>**VAL-05**: Unpack asking for another type than packed: ERR\_TYPE\_MISMATCH; more
//!   room than data: READ\_PAST\_END; less: INADEQUATE\_SPACE and the buffer stays usable as far as read
//!   \[Data\_Mgmt, Struct\].
//! - <a id="VAL-06"></a>**VAL-06**: proc\_info: id, host name, executable, pid, exit code (0 by default),
//!   state \[001\].
//! - <a id="VAL-07"></a>**VAL-07**: Proc states below 15 are alive, 20 ended, above 50 ended abnormally; the
//!   same borders for jobs \[Struct\]. They are a best fit of the host's own states \[001\].
