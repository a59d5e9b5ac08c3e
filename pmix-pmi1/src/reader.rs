use std::borrow::Cow;

use bytes::BytesMut;

use crate::pairs::Pairs;
use crate::spawn::Partial;
use crate::{Error, MAX_LINE, Request, Response};

/// Takes messages from the bytes of a connection. It remembers how far it has looked, and what belongs to a message of which
/// not all has arrived: at most [`MAX_SPAWN`](crate::MAX_SPAWN) bytes.
///
/// After an [`Error`] without [a command](Error::command) it cannot go on.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// Bytes in which there is no end of a line.
    looked_at: usize,
    spawn: Option<Box<Partial>>,
    /// Lines of an answer that has several.
    lines: Vec<String>,
}

impl Reader {
    /// The next request, which is taken from `arrived`; `None` if not all of it is there.
    ///
    /// # Errors
    /// [`Error`] if it is none.
    pub fn request(&mut self, arrived: &mut BytesMut) -> Result<Option<Request>, Error> {
        while let Some(line) = self.line(arrived)? {
            // what is not UTF-8 is replaced, so that the end of the message is found
            let line = String::from_utf8_lossy(&line);
            if self.spawn.is_some() || line.starts_with("mcmd=") {
                let spawn = self.spawn.get_or_insert_default();
                spawn.is_garbled |= matches!(line, Cow::Owned(_));
                match spawn.line(&line) {
                    Ok(None) => continue,
                    Ok(Some(spawn)) => {
                        self.spawn = None;
                        return Ok(Some(Request::Spawn(spawn)));
                    }
                    Err(error) => {
                        self.spawn = None;
                        return Err(error);
                    }
                }
            }
            return match line {
                Cow::Borrowed(line) => Request::read(line).map(Some),
                Cow::Owned(line) => match Request::read(&line)? {
                    // people read its message
                    abort @ Request::Abort { .. } => Ok(Some(abort)),
                    _ => Err(not_text(&line)),
                },
            };
        }
        Ok(None)
    }

    /// The next answer, which is taken from `arrived`; `None` if not all of it is there.
    ///
    /// # Errors
    /// [`Error`] if it is none.
    pub fn response(&mut self, arrived: &mut BytesMut) -> Result<Option<Response>, Error> {
        while let Some(line) = self.line(arrived)? {
            match String::from_utf8_lossy(&line) {
                Cow::Borrowed(line) => self.lines.push(line.to_owned()),
                Cow::Owned(line) => {
                    self.lines.clear();
                    return Err(not_text(&line));
                }
            }
            let lines: Vec<&str> = self.lines.iter().map(String::as_str).collect();
            let read = Response::read(&lines);
            if !matches!(read, Ok(None)) {
                self.lines.clear();
                return read;
            }
        }
        Ok(None)
    }

    /// The next line, without its end.
    fn line(&mut self, arrived: &mut BytesMut) -> Result<Option<BytesMut>, Error> {
        let found = arrived.iter().skip(self.looked_at).position(|byte| *byte == b'\n');
        match found.map(|at| self.looked_at + at) {
            Some(end) if end < MAX_LINE => {
                self.looked_at = 0;
                let mut line = arrived.split_to(end + 1);
                line.truncate(end);
                Ok(Some(line))
            }
            None if arrived.len() < MAX_LINE => {
                self.looked_at = arrived.len();
                Ok(None)
            }
            _ => Err(Error::LongLine),
        }
    }
}

/// The error of a line that was not UTF-8, which has been replaced in it.
fn not_text(line: &str) -> Error {
    Pairs::new(line).map_or_else(|error| error, |pairs| Error::NotText { command: pairs.name() })
}
