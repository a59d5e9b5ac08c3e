// Generated from the Standard's tables by examples/gen.rs. Do not edit.

use bytes::Bytes;

use crate::{DataArray, ProcId, Time};

super::keys! {
    /// Who asked for the log entry.
    #[doc(alias = "PMIX_LOG_SOURCE")]
    LOG_SOURCE: ProcId = "pmix.log.source", PROC, None, "3.0";
    /// Channel: text to stderr.
    #[doc(alias = "PMIX_LOG_STDERR")]
    LOG_STDERR: String = "pmix.log.stderr", STRING, None, "2.0";
    /// Channel: text to stdout.
    #[doc(alias = "PMIX_LOG_STDOUT")]
    LOG_STDOUT: String = "pmix.log.stdout", STRING, None, "2.0";
    /// Channel: text to syslog, global if there is one, else local; ERROR priority by default.
    #[doc(alias = "PMIX_LOG_SYSLOG")]
    LOG_SYSLOG: String = "pmix.log.syslog", STRING, None, "2.0";
    /// Channel: text to the local syslog.
    #[doc(alias = "PMIX_LOG_LOCAL_SYSLOG")]
    LOG_LOCAL_SYSLOG: String = "pmix.log.lsys", STRING, None, "3.0";
    /// Channel: text to the gateway's syslog.
    #[doc(alias = "PMIX_LOG_GLOBAL_SYSLOG")]
    LOG_GLOBAL_SYSLOG: String = "pmix.log.gsys", STRING, None, "3.0";
    /// Syslog priority.
    #[doc(alias = "PMIX_LOG_SYSLOG_PRI")]
    LOG_SYSLOG_PRI: i32 = "pmix.log.syspri", INT, None, "3.0";
    /// Time to stamp the entry with.
    #[doc(alias = "PMIX_LOG_TIMESTAMP")]
    LOG_TIMESTAMP: Time = "pmix.log.tstmp", TIME, None, "3.0";
    /// Generate a time stamp for the entry.
    #[doc(alias = "PMIX_LOG_GENERATE_TIMESTAMP")]
    LOG_GENERATE_TIMESTAMP: bool = "pmix.log.gtstmp", BOOL, None, "3.0";
    /// Prefix with the channel name.
    #[doc(alias = "PMIX_LOG_TAG_OUTPUT")]
    LOG_TAG_OUTPUT: bool = "pmix.log.tag", BOOL, None, "3.0";
    /// Include the time stamp in the text.
    #[doc(alias = "PMIX_LOG_TIMESTAMP_OUTPUT")]
    LOG_TIMESTAMP_OUTPUT: bool = "pmix.log.tsout", BOOL, None, "3.0";
    /// Write as XML.
    #[doc(alias = "PMIX_LOG_XML_OUTPUT")]
    LOG_XML_OUTPUT: bool = "pmix.log.xml", BOOL, None, "3.0";
    /// Use just the first channel, in the order given, that works.
    #[doc(alias = "PMIX_LOG_ONCE")]
    LOG_ONCE: bool = "pmix.log.once", BOOL, None, "3.0";
    /// Message to send (text in the newest standard, blob in headers).
    #[doc(alias = "PMIX_LOG_MSG")]
    LOG_MSG: Bytes = "pmix.log.msg", BYTE_OBJECT, None, "2.0";
    /// Channel: email described by a nested array.
    #[doc(alias = "PMIX_LOG_EMAIL")]
    LOG_EMAIL: DataArray = "pmix.log.email", DATA_ARRAY, None, "2.0";
    /// Recipients.
    #[doc(alias = "PMIX_LOG_EMAIL_ADDR")]
    LOG_EMAIL_ADDR: String = "pmix.log.emaddr", STRING, None, "2.0";
    /// Sender address.
    #[doc(alias = "PMIX_LOG_EMAIL_SENDER_ADDR")]
    LOG_EMAIL_SENDER_ADDR: String = "pmix.log.emfaddr", STRING, None, "3.0";
    /// Subject.
    #[doc(alias = "PMIX_LOG_EMAIL_SUBJECT")]
    LOG_EMAIL_SUBJECT: String = "pmix.log.emsub", STRING, None, "2.0";
    /// SMTP host.
    #[doc(alias = "PMIX_LOG_EMAIL_SERVER")]
    LOG_EMAIL_SERVER: String = "pmix.log.esrvr", STRING, None, "3.0";
    /// SMTP port.
    #[doc(alias = "PMIX_LOG_EMAIL_SRVR_PORT")]
    LOG_EMAIL_SRVR_PORT: i32 = "pmix.log.esrvrprt", INT32, None, "3.0";
    /// Channel: store in the host's global data store.
    #[doc(alias = "PMIX_LOG_GLOBAL_DATASTORE")]
    LOG_GLOBAL_DATASTORE: bool = "pmix.log.gstore", BOOL, None, "3.0";
    /// Channel: the manager's job record.
    #[doc(alias = "PMIX_LOG_JOB_RECORD")]
    LOG_JOB_RECORD: bool = "pmix.log.jrec", BOOL, None, "3.0";
    /// Binary message.
    #[doc(alias = "PMIX_LOG_BLOB")]
    LOG_BLOB: Bytes = "pmix.log.blob", BYTE_OBJECT, None, "6.0-dev";
    /// Key of a structured log message.
    #[doc(alias = "PMIX_LOG_KEY")]
    LOG_KEY: String = "pmix.log.key", STRING, None, "impl 4.2.0";
    /// Value of a structured log message.
    #[doc(alias = "PMIX_LOG_VAL")]
    LOG_VAL: String = "pmix.log.val", STRING, None, "impl 4.2.0";
    /// Merge repeated messages by key and value.
    #[doc(alias = "PMIX_LOG_AGG")]
    LOG_AGG: bool = "pmix.log.agg", BOOL, None, "impl 4.2.0";
    /// Body text.
    #[doc(alias = "PMIX_LOG_EMAIL_MSG")]
    LOG_EMAIL_MSG: String = "pmix.log.emmsg", STRING, None, "2.0";
}
