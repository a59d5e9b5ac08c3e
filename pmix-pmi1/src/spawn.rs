use std::collections::BTreeMap;
use std::fmt::Write;

use bytes::Bytes;

use crate::error::Excerpt;
use crate::{Error, MAX_SPAWN, Token};

/// Applications to be started as one job (`mcmd=spawn`).
///
/// Keys and values are whole lines, so they may have spaces in them.
///
/// # Examples
/// ```
/// use bytes::BytesMut;
/// use pmix_pmi1::{Reader, Request, SpawnApp, SpawnRequest};
///
/// let mut app = SpawnApp::new("./worker", 4);
/// app.args.push("two words".into());
/// let mut spawn = SpawnRequest::new(vec![app]);
/// spawn.preput.push(("PARENT_ROOT_PORT_NAME".into(), "tag#0$".into()));
/// let request = Request::Spawn(spawn);
/// assert_eq!(Reader::default().request(&mut BytesMut::from(&request.encode()[..]))?, Some(request));
/// # Ok::<(), pmix_pmi1::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpawnRequest {
    /// Keys and values that the processes find in the key-value space of their job.
    pub preput: Vec<(String, String)>,
    /// The applications; never empty.
    pub apps: Vec<SpawnApp>,
}

/// An application of a [`SpawnRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpawnApp {
    /// The program.
    pub execname: String,
    /// How many processes of it.
    pub nprocs: u32,
    /// Its arguments, without the name of the program.
    pub args: Vec<String>,
    /// What else its caller says: `wdir`, `host` and the like.
    pub info: Vec<(String, String)>,
}

impl SpawnRequest {
    /// Applications without values for their key-value space.
    pub const fn new(apps: Vec<SpawnApp>) -> Self {
        Self { preput: Vec::new(), apps }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut text = String::new();
        let total = self.apps.len();
        for (number, app) in (1..).zip(&self.apps) {
            let mut pair = |key: &str, value: &str| {
                // writing to a string does not fail
                let _ = writeln!(text, "{key}={value}");
            };
            pair("mcmd", "spawn");
            pair("nprocs", &app.nprocs.to_string());
            pair("execname", &app.execname);
            pair("totspawns", &total.to_string());
            pair("spawnssofar", &i32::to_string(&number));
            for (number, arg) in (1..).zip(&app.args) {
                pair(&format!("arg{}", i32::to_string(&number)), arg);
            }
            pair("argcnt", &app.args.len().to_string());
            for (name, pairs) in [("preput", &self.preput), ("info", &app.info)] {
                pair(&format!("{name}_num"), &pairs.len().to_string());
                for (number, (key, value)) in pairs.iter().enumerate() {
                    pair(&format!("{name}_key_{number}"), key);
                    pair(&format!("{name}_val_{number}"), value);
                }
            }
            text += "endcmd\n";
        }
        text.into()
    }
}

impl SpawnApp {
    /// So many processes of a program, without arguments.
    pub fn new(execname: impl Into<String>, nprocs: u32) -> Self {
        Self { execname: execname.into(), nprocs, ..Self::default() }
    }
}

/// A spawn of which not all has arrived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Partial {
    /// The lines of all blocks, without their first and last ones.
    text: String,
    /// Where each block ends in there.
    ends: Vec<usize>,
    /// Whether the last block has begun and has not ended.
    is_open: bool,
    /// Whether a line was not UTF-8.
    pub(crate) is_garbled: bool,
}

impl Partial {
    /// Takes the next line; the spawn, if it was the last one.
    pub(crate) fn line(&mut self, line: &str) -> Result<Option<SpawnRequest>, Error> {
        if !self.is_open {
            if line != "mcmd=spawn" {
                return Err(Error::NotOfSpawn(Excerpt::of(line)));
            }
            self.is_open = true;
            return Ok(None);
        }
        if line != "endcmd" {
            if self.text.len() + line.len() >= MAX_SPAWN {
                return Err(Error::LongSpawn);
            }
            if !line.contains('=') || line.contains('\0') {
                return Err(Error::NotOfSpawn(Excerpt::of(line)));
            }
            self.text += line;
            self.text.push('\n');
            return Ok(None);
        }
        self.is_open = false;
        let begin = self.ends.last().copied().unwrap_or_default();
        self.ends.push(self.text.len());
        let block = Block::new(&self.text[begin..]);
        let so_far = block.number("spawnssofar", || self.ends.len())?;
        let total = block.number("totspawns", || self.ends.len())?;
        if so_far != self.ends.len() {
            return Err(Error::NotOfSpawn(Excerpt::of(&format!("spawnssofar={so_far}"))));
        }
        // each block takes memory, even an empty one
        if so_far > MAX_SPAWN / 64 {
            return Err(Error::LongSpawn);
        }
        if so_far < total { Ok(None) } else { self.finish().map(Some) }
    }

    fn finish(&self) -> Result<SpawnRequest, Error> {
        if self.is_garbled {
            return Err(Error::NotText { command: Token::of_line("spawn") });
        }
        let mut begin = 0;
        let mut spawn = SpawnRequest::default();
        for end in &self.ends {
            let block = Block::new(&self.text[begin..*end]);
            if begin == 0 {
                spawn.preput = block.pairs(["preput_num", "preput_key_", "preput_val_"])?;
            }
            begin = *end;
            let args = block.number("argcnt", || 0_u32)?;
            let arg = |number| block.text(&format!("arg{number}"), "arg").map(str::to_owned);
            spawn.apps.push(SpawnApp {
                execname: block.text("execname", "execname")?.to_owned(),
                nprocs: block.number("nprocs", || 1)?,
                args: (1..=args).map(arg).collect::<Result<_, _>>()?,
                info: block.pairs(["info_num", "info_key_", "info_val_"])?,
            });
        }
        Ok(spawn)
    }
}

/// The lines of a block.
struct Block<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Block<'a> {
    fn new(text: &'a str) -> Self {
        let mut pairs = BTreeMap::new();
        for (key, value) in text.split_terminator('\n').filter_map(|line| line.split_once('=')) {
            pairs.entry(key).or_insert(value);
        }
        Self(pairs)
    }

    fn text(&self, key: &str, name: &'static str) -> Result<&'a str, Error> {
        let missing = || Error::Missing { command: Token::of_line("spawn"), key: name };
        self.0.get(key).copied().ok_or_else(missing)
    }

    fn number<T: std::str::FromStr>(
        &self,
        key: &'static str,
        absent: impl FnOnce() -> T,
    ) -> Result<T, Error> {
        let invalid = |_| Error::Invalid { command: Token::of_line("spawn"), key, expected: "a number" };
        self.0.get(key).map_or_else(|| Ok(absent()), |text| text.parse().map_err(invalid))
    }

    /// Numbered keys with their values.
    fn pairs(&self, [count, key, value]: [&'static str; 3]) -> Result<Vec<(String, String)>, Error> {
        let pair = |number: usize| {
            let (name, text) =
                (self.text(&format!("{key}{number}"), key)?, self.text(&format!("{value}{number}"), value)?);
            Ok((name.to_owned(), text.to_owned()))
        };
        (0..self.number(count, || 0)?).map(pair).collect()
    }
}
