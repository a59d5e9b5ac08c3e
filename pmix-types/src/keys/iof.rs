// Generated from the Standard's tables by examples/gen.rs. Do not edit.

super::keys! {
    /// Caller will push stdin to the job (rank in newest standard, bool in headers).
    #[doc(alias = "PMIX_FWD_STDIN")]
    FWD_STDIN: bool = "pmix.fwd.stdin", BOOL, None, "2.0";
    /// Keep the job's stdout forwardable to the requester.
    #[doc(alias = "PMIX_FWD_STDOUT")]
    FWD_STDOUT: bool = "pmix.fwd.stdout", BOOL, None, "2.0";
    /// Keep the job's stderr forwardable to the requester.
    #[doc(alias = "PMIX_FWD_STDERR")]
    FWD_STDERR: bool = "pmix.fwd.stderr", BOOL, None, "2.0";
    /// Keep the job's diagnostic channel forwardable to the requester.
    #[doc(alias = "PMIX_FWD_STDDIAG")]
    FWD_STDDIAG: bool = "pmix.fwd.stddiag", BOOL, None, "3.1";
    /// Server cache size per channel, bytes.
    #[doc(alias = "PMIX_IOF_CACHE_SIZE")]
    IOF_CACHE_SIZE: u32 = "pmix.iof.csize", UINT32, None, "3.0";
    /// On overflow drop the oldest bytes.
    #[doc(alias = "PMIX_IOF_DROP_OLDEST")]
    IOF_DROP_OLDEST: bool = "pmix.iof.old", BOOL, None, "3.0";
    /// On overflow drop new bytes (default).
    #[doc(alias = "PMIX_IOF_DROP_NEWEST")]
    IOF_DROP_NEWEST: bool = "pmix.iof.new", BOOL, None, "3.0";
    /// Collect this many bytes before calling back.
    #[doc(alias = "PMIX_IOF_BUFFERING_SIZE")]
    IOF_BUFFERING_SIZE: u32 = "pmix.iof.bsize", UINT32, None, "3.0";
    /// Hold bytes at most this many seconds.
    #[doc(alias = "PMIX_IOF_BUFFERING_TIME")]
    IOF_BUFFERING_TIME: u32 = "pmix.iof.btime", UINT32, None, "3.0";
    /// Channel was closed by its source; in push, stop forwarding.
    #[doc(alias = "PMIX_IOF_COMPLETE")]
    IOF_COMPLETE: bool = "pmix.iof.cmp", BOOL, None, "3.0";
    /// Library reads the caller's stdin and forwards it.
    #[doc(alias = "PMIX_IOF_PUSH_STDIN")]
    IOF_PUSH_STDIN: bool = "pmix.iof.stdin", BOOL, None, "4.0";
    /// Tag output with source and channel.
    #[doc(alias = "PMIX_IOF_TAG_OUTPUT")]
    IOF_TAG_OUTPUT: bool = "pmix.iof.tag", BOOL, None, "3.0";
    /// Tag output with the rank.
    #[doc(alias = "PMIX_IOF_RANK_OUTPUT")]
    IOF_RANK_OUTPUT: bool = "pmix.iof.rank", BOOL, None, "5.0";
    /// Stamp output with its arrival time.
    #[doc(alias = "PMIX_IOF_TIMESTAMP_OUTPUT")]
    IOF_TIMESTAMP_OUTPUT: bool = "pmix.iof.ts", BOOL, None, "3.0";
    /// Merge the two output streams.
    #[doc(alias = "PMIX_IOF_MERGE_STDERR_STDOUT")]
    IOF_MERGE_STDERR_STDOUT: bool = "pmix.iof.mrg", BOOL, None, "5.0";
    /// Output as XML.
    #[doc(alias = "PMIX_IOF_XML_OUTPUT")]
    IOF_XML_OUTPUT: bool = "pmix.iof.xml", BOOL, None, "3.0";
    /// Write output to per-rank files with this base name.
    #[doc(alias = "PMIX_IOF_OUTPUT_TO_FILE")]
    IOF_OUTPUT_TO_FILE: String = "pmix.iof.file", STRING, None, "5.0";
    /// File name is a pattern (%n namespace, %r rank).
    #[doc(alias = "PMIX_IOF_FILE_PATTERN")]
    IOF_FILE_PATTERN: bool = "pmix.iof.fpt", BOOL, None, "5.0";
    /// Write output below this directory, per rank.
    #[doc(alias = "PMIX_IOF_OUTPUT_TO_DIRECTORY")]
    IOF_OUTPUT_TO_DIRECTORY: String = "pmix.iof.dir", STRING, None, "5.0";
    /// Write to files only.
    #[doc(alias = "PMIX_IOF_FILE_ONLY")]
    IOF_FILE_ONLY: bool = "pmix.iof.fonly", BOOL, None, "5.0";
    /// Deliver a copy, leave the original destination.
    #[doc(alias = "PMIX_IOF_COPY")]
    IOF_COPY: bool = "pmix.iof.cpy", BOOL, None, "4.0";
    /// Deliver instead of the original destination (default).
    #[doc(alias = "PMIX_IOF_REDIRECT")]
    IOF_REDIRECT: bool = "pmix.iof.redir", BOOL, None, "4.0";
    /// Write streams to the local stdout/stderr.
    #[doc(alias = "PMIX_IOF_LOCAL_OUTPUT")]
    IOF_LOCAL_OUTPUT: bool = "pmix.iof.local", BOOL, None, "5.0";
    /// Do not collect full lines.
    #[doc(alias = "PMIX_IOF_OUTPUT_RAW")]
    IOF_OUTPUT_RAW: bool = "pmix.iof.raw", BOOL, None, "5.0";
    /// Tag output with source, host, pid and channel.
    #[doc(alias = "PMIX_IOF_TAG_DETAILED_OUTPUT")]
    IOF_TAG_DETAILED_OUTPUT: bool = "pmix.iof.tagdet", BOOL, None, "impl 4.2.0";
    /// Tag output with full namespace, rank and channel.
    #[doc(alias = "PMIX_IOF_TAG_FULLNAME_OUTPUT")]
    IOF_TAG_FULLNAME_OUTPUT: bool = "pmix.iof.tagfull", BOOL, None, "impl 4.2.0";
    /// Spawned job inherits the parent's output forwarding.
    #[doc(alias = "PMIX_IOF_INHERIT")]
    IOF_INHERIT: bool = "pmix.iof.inhrt", BOOL, None, "impl head";
    /// Stop forwarding.
    #[doc(alias = "PMIX_IOF_STOP")]
    IOF_STOP: bool = "pmix.iof.stop", BOOL, None, "impl 3.2.0", deprecated "deprecated (headers)";
}
