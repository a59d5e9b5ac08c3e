//! Mails that processes log: a program of the system sends them.

#[cfg(feature = "mail")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::OnceLock;

use bytes::Bytes;
#[cfg(feature = "mail")]
use mail_builder::MessageBuilder;
#[cfg(feature = "mail")]
use mail_builder::headers::{address::Address, text::Text};
use pmix_server::Account;
use pmix_server::host::{HostError, HostResult};
use pmix_types::{DataArray, Directives, Info, Status, Time, Value, escaped, keys};
use tokio::process::Command;

use crate::program::Programs;
use crate::user::{User, is_trusted};

/// Recipients of one mail.
const MAX_RECIPIENTS: usize = 64;
/// Longest address, and longest subject.
const MAX_HEADER: usize = 512;
/// Hands mails to the program of the host.
#[derive(Debug, Default)]
pub(crate) struct Mailer {
    program: OnceLock<PathBuf>,
    programs: Programs,
}

/// A mail, as it was requested and can be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mail {
    to: Vec<String>,
    from: Option<String>,
    subject: String,
    text: String,
}

impl Mailer {
    /// The program, unless one was given before.
    #[cfg(feature = "mail")]
    pub(crate) fn set_program(&self, program: &Path) {
        let _ = self.program.set(program.to_owned());
    }

    /// Sends a mail for a process, with the permissions of its user: that user is its sender for the system.
    pub(super) async fn send(&self, caller: &User, mail: &Mail, time: Option<Time>) -> HostResult<()> {
        let Some(program) = self.program.get() else {
            return Err(HostError::not_supported("logging by mail: no mail program is configured"));
        };
        let account = if is_trusted(caller.uid) { None } else { Some(account_of(caller).await?) };
        let mut command = Command::new(program);
        // a dot alone does not end the text, and no address is an option
        command.args(["-i", "--"]).args(&mail.to);
        let unsent = |reason: &dyn std::fmt::Display| {
            let program = program.display();
            HostError::new(Status::ERR_UNREACH, format!("{program} has not taken the mail: {reason}"))
        };
        let message = mail.message(caller, time)?;
        let output = self.programs.run(caller.uid, command, account.as_ref(), message).await;
        let output = output.map_err(|error| unsent(&error))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said: String = said.lines().next().unwrap_or_default().chars().take(200).collect();
        Err(if said.is_empty() { unsent(&output.status) } else { unsent(&escaped(&said)) })
    }
}

impl Mail {
    /// Reads a mail as the Standard's attributes describe it. `MSG` of either kind is its text.
    pub(super) fn read(infos: &[Info]) -> HostResult<Self> {
        let mut given: Directives = infos.to_vec().into();
        let mut to = Vec::new();
        for list in given.take_each(|info| info.is(&keys::LOG_EMAIL_ADDR)) {
            let list: String = text_in(&list)?;
            to.extend(list.split(',').map(|address| address.trim().to_owned()));
        }
        let from = given.take(&keys::LOG_EMAIL_SENDER_ADDR)?;
        let subject = given.take(&keys::LOG_EMAIL_SUBJECT)?.unwrap_or_default();
        let text = match given.take(&keys::LOG_EMAIL_MSG)? {
            Some(text) => text,
            None => message_of(&mut given)?,
        };
        // nobody sends mails of this node by a server that a process chooses
        given.deny_unprocessed()?;
        if given.contains(&keys::LOG_EMAIL_SERVER) || given.contains(&keys::LOG_EMAIL_SRVR_PORT) {
            tracing::info!("the mail program chooses the server of a mail, not the process that logs it");
        }
        let bad = |problem: String| Err(HostError::new(Status::ERR_BAD_PARAM, problem));
        if to.is_empty() || to.len() > MAX_RECIPIENTS {
            return bad(format!("a mail has 1 to {MAX_RECIPIENTS} recipients, this one has {}", to.len()));
        }
        if let Some(wrong) = to.iter().chain(&from).find(|address| !is_address(address)) {
            return bad(format!("{} is not a mail address", escaped(wrong)));
        }
        if subject.len() > MAX_HEADER || subject.chars().any(char::is_control) {
            return bad(format!("a subject is one line of {MAX_HEADER} bytes at most"));
        }
        Ok(Self { to, from, subject, text })
    }

    /// The same mail with another text.
    pub(super) fn with_text(self, text: impl FnOnce(&str) -> String) -> Self {
        Self { text: text(&self.text), ..self }
    }

    /// As another host reads it.
    pub(super) fn into_info(self) -> Info {
        let mut infos = vec![Info::new(&keys::LOG_EMAIL_ADDR, self.to.join(","))];
        infos.extend(self.from.map(|from| Info::new(&keys::LOG_EMAIL_SENDER_ADDR, from)));
        infos.push(Info::new(&keys::LOG_EMAIL_SUBJECT, self.subject));
        infos.push(Info::new(&keys::LOG_EMAIL_MSG, self.text));
        Info::new(&keys::LOG_EMAIL, DataArray::Info(infos))
    }

    /// What the program reads. Who has sent it is reported by the kernel, whatever the mail claims.
    #[cfg(feature = "mail")]
    fn message(&self, caller: &User, time: Option<Time>) -> HostResult<Vec<u8>> {
        let address = |address: &String| Address::new_address(None::<String>, address.clone());
        let mut message = MessageBuilder::new()
            .to(Address::new_list(self.to.iter().map(address).collect()))
            .subject(&*self.subject)
            .header("X-PMIx-Process", Text::new(format!("{} (uid {})", caller.proc, caller.uid)))
            .text_body(if self.text.ends_with('\n') {
                self.text.clone()
            } else {
                format!("{}\n", self.text)
            });
        if let Some(from) = &self.from {
            message = message.from(address(from));
        }
        if let Some(Time(seconds)) = time {
            message = message.date(seconds);
        }
        let message = message.write_to_string().map_err(|error| {
            HostError::new(Status::ERR_BAD_PARAM, format!("the mail cannot be encoded: {error}"))
        })?;
        // a program reads lines as the system has them
        Ok(message.replace("\r\n", "\n").into_bytes())
    }

    #[cfg(not(feature = "mail"))]
    fn message(&self, _: &User, _: Option<Time>) -> HostResult<Vec<u8>> {
        Err(HostError::not_supported("logging by mail"))
    }
}

/// The text of an info.
fn text_in(info: &Info) -> HostResult<String> {
    info.get().map_err(|error| HostError::new(error.status(), format!("{}: {error}", info.key)))
}

/// The text under `LOG_MSG`, which the Standard and its headers give different types.
fn message_of(given: &mut Directives) -> HostResult<String> {
    let messages = given.take_each(|info| info.is(&keys::LOG_MSG));
    let text = match messages.first().map(|info| &info.value) {
        None => return Ok(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::ByteObject(bytes)) => text_of(bytes),
        Some(_) => None,
    };
    text.ok_or_else(|| HostError::new(Status::ERR_BAD_PARAM, "the message of a mail is not a text"))
}

/// Binary messages are of no use to a reader.
pub(super) fn text_of(bytes: &Bytes) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?.trim_end_matches('\0');
    (!text.contains('\0')).then(|| text.to_owned())
}

/// One address, which cannot be mistaken for anything else on a command line or in a header.
fn is_address(address: &str) -> bool {
    let is_part = |c: char| c.is_ascii_graphic() && !"(),:;<>[\\]\"|&`$'".contains(c);
    !address.is_empty()
        && address.len() <= MAX_HEADER
        && !address.starts_with(['-', '/'])
        && address.chars().all(is_part)
}

/// The user in whose name the program runs.
async fn account_of(caller: &User) -> HostResult<Account> {
    let refused = |reason: &dyn std::fmt::Display| {
        let message = format!("no mail for uid {}: {reason}", caller.uid);
        HostError::new(Status::ERR_NO_PERMISSIONS, message)
    };
    if !Account::can_be_assumed() {
        return Err(refused(&"this server may not run programs of other users"));
    }
    let gid = caller.gid.ok_or_else(|| refused(&"its group is not known"))?;
    Account::look_up_async(caller.uid, gid).await.map_err(|error| refused(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(infos: &[Info]) -> HostResult<Mail> {
        Mail::read(infos)
    }

    fn to(address: &str) -> Info {
        Info::new(&keys::LOG_EMAIL_ADDR, address)
    }

    #[test]
    fn nobody_puts_an_option_a_header_or_a_program_into_an_address() {
        for bad in [
            "",
            "-t",
            "-Xroot@a",
            "a b@c",
            "a@b\nBcc: c@d",
            "a@b\0",
            "|sh",
            "a@b,",
            "\"a\"@b",
            "<a@b>",
            "/x;y",
            "/etc/passwd",
            "é@b",
        ] {
            let error = mail(&[to(bad)]).unwrap_err();
            assert_eq!(error.status(), Status::ERR_BAD_PARAM, "{bad:?}");
            let sender = Info::new(&keys::LOG_EMAIL_SENDER_ADDR, bad);
            assert!(mail(&[to("a@b"), sender]).is_err(), "{bad:?}");
        }
        let subject = Info::new(&keys::LOG_EMAIL_SUBJECT, "x\nBcc: c@d");
        assert!(mail(&[to("a@b"), subject]).is_err());
        assert!(mail(&[]).is_err());
        assert_eq!(
            mail(&[to("root, ops+x@b.example"), to("c@d")]).unwrap().to,
            ["root", "ops+x@b.example", "c@d"]
        );
    }

    #[test]
    fn what_a_mail_names_is_bounded() {
        let recipients = |count: usize| mail(&[to(&vec!["a@b"; count].join(","))]);
        assert_eq!(recipients(MAX_RECIPIENTS).unwrap().to.len(), MAX_RECIPIENTS);
        assert_eq!(recipients(MAX_RECIPIENTS + 1).unwrap_err().status(), Status::ERR_BAD_PARAM);
        let subject =
            |bytes: usize| mail(&[to("a@b"), Info::new(&keys::LOG_EMAIL_SUBJECT, "x".repeat(bytes))]);
        assert!(subject(MAX_HEADER).is_ok() && subject(MAX_HEADER + 1).is_err());
        let address = |bytes: usize| mail(&[to(&"a".repeat(bytes))]);
        assert!(address(MAX_HEADER).is_ok() && address(MAX_HEADER + 1).is_err());
    }

    #[cfg(feature = "mail")]
    #[test]
    fn what_is_not_ascii_or_has_long_lines_is_encoded() {
        let (subject, text) = (Info::new(&keys::LOG_EMAIL_SUBJECT, "ü".repeat(40)), "é\u{1b}".repeat(30));
        let mail = mail(&[to("a@b"), subject, Info::new(&keys::LOG_EMAIL_MSG, &*text)]).unwrap();
        let caller = User::new(
            pmix_types::ProcId::new("job".parse().unwrap(), "0".parse().unwrap()),
            pmix_types::Uid::new(7),
            None,
        );
        let message = String::from_utf8(mail.message(&caller, Some(Time(0))).unwrap()).unwrap();
        assert!(message.is_ascii() && message.lines().all(|line| line.len() <= 78), "{message}");
        assert!(!message.contains(['\u{1b}', '\r']), "{message}");
        assert!(message.contains("\nDate: Thu, 1 Jan 1970 00:00:00 +0000\n"), "{message}");
        let (head, _) = message.split_once("\n\n").unwrap();
        assert!(head.contains("Subject: =?utf-8?"), "{head}");
        let plain = Mail { text: ".\nend".into(), ..mail };
        let message = String::from_utf8(plain.message(&caller, None).unwrap()).unwrap();
        assert!(message.ends_with("\n\n.\nend\n"), "{message}");
        assert_eq!(Mail::read(plain.clone().into_info().value.as_infos().unwrap()).unwrap(), plain);
    }

    #[test]
    fn the_text_is_under_either_key_and_a_server_cannot_be_chosen() {
        let text = |value: Value| Info::dynamic(keys::LOG_MSG.key_name(), value);
        for value in [Value::from("text"), Value::ByteObject("text\0".into())] {
            assert_eq!(mail(&[to("a"), text(value)]).unwrap().text, "text");
        }
        assert!(mail(&[to("a"), text(Value::ByteObject(Bytes::from_static(b"\xff")))]).is_err());
        let server = Info::new(&keys::LOG_EMAIL_SERVER, "mail.example");
        assert!(mail(&[to("a"), server]).is_ok());
        for required in [
            Info::required(&keys::LOG_EMAIL_SERVER, "mail.example"),
            Info::required(&keys::LOG_EMAIL_SRVR_PORT, 25),
        ] {
            assert_eq!(mail(&[to("a"), required]).unwrap_err().status(), Status::ERR_NOT_SUPPORTED);
        }
    }
}
