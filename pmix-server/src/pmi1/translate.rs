//! Converts requests of PMI-1 to those of the engine, and replies back.

use std::collections::BTreeSet;
use std::path::Path;

use pmix_pmi1::{KEYLEN_MAX, SpawnApp, SpawnRequest, Token, VALLEN_MAX};
use pmix_types::job::{JobData, Target};
use pmix_types::message::{
    Abort, Commit, Failure, Fence, Get, GetReply, Lookup, LookupReply, Publish, PutEntry, Request, Spawn,
    Unpublish,
};
use pmix_types::{
    App, Directives, Info, KeyName, KeyNameError, Persistence, ProcId, Rank, Scope, Value, keys,
};

use crate::wire::Pmi1Wire;

/// What the keys begin with under which names of services are published.
const NAMES: &str = "pmi1.name.";
/// Keys of a spawn that a message names as ignored.
const IGNORED_NAMED: usize = 8;

/// Why a request is not carried out, for the process.
pub(super) fn reason(failure: &Failure) -> Token {
    Token::of_text(&failure.to_string())
}

/// The key of a key-value space, as the engine has it.
///
/// # Errors
/// What is wrong with it, for the process.
pub(super) fn key(key: &Token) -> Result<KeyName, Token> {
    if key.as_str().is_empty() || key.as_str().len() >= KEYLEN_MAX {
        return Err(Token::of_text(&format!("invalid key length: 1 to {} bytes", KEYLEN_MAX - 1)));
    }
    name(Pmi1Wire::KEYS, key.as_str()).map_err(|error| Token::of_text(&error.to_string()))
}

fn name(prefix: &str, key: &str) -> Result<KeyName, KeyNameError> {
    KeyName::new(format!("{prefix}{key}"))
}

/// Stores a value: at once, so that other processes of the node find it, and everywhere after the next barrier.
pub(super) fn put(key: KeyName, value: &Token) -> Result<Request, Token> {
    if value.as_str().len() >= VALLEN_MAX {
        return Err(Token::of_text(&format!("value too long: at most {} bytes", VALLEN_MAX - 1)));
    }
    Ok(Request::Commit(Commit::new(vec![PutEntry::new(Scope::GLOBAL, key, value.as_str())])))
}

/// Reads a value of whichever process has put it, without waiting for one (GET-21).
pub(super) fn get(own: &ProcId, key: KeyName) -> Request {
    let mut get = Get::new(own.with_rank(Rank::UNDEF), Some(key));
    get.directives = Directives::new().with(&keys::IMMEDIATE, true);
    Request::Get(get)
}

/// All that a process has put so far.
pub(super) fn get_all(own: &ProcId, rank: Rank) -> Request {
    let mut get = Get::new(own.with_rank(rank), None);
    get.directives = Directives::new().with(&keys::IMMEDIATE, true);
    Request::Get(get)
}

/// A value that has been got.
pub(super) fn value(found: &GetReply) -> Result<Token, Token> {
    found.value.as_ref().and_then(token).ok_or_else(|| {
        Token::of_text("the value cannot be sent by PMI-1, which carries only text without spaces")
    })
}

/// A value that a line can have. Those put by other wires may be anything.
fn token(value: &Value) -> Option<Token> {
    let token = value.as_str().and_then(|text| Token::new(text).ok());
    token.filter(|token| token.as_str().len() < VALLEN_MAX)
}

/// A key and a value of a key-value space, if they are that.
pub(super) fn pair(key: &KeyName, value: &Value) -> Option<(Token, Token)> {
    let key = key.as_str().strip_prefix(Pmi1Wire::KEYS)?;
    Some((Token::new(key).ok()?, token(value)?))
}

/// A value that the job has had from the start.
pub(super) fn preput(job: &JobData, key: &KeyName) -> Option<Token> {
    token(&job.lookup(key, &Target::Job)?)
}

/// The values that a job has had from the start.
pub(super) fn all_preput(job: &JobData) -> Vec<(Token, Token)> {
    job.given(&Target::Job).iter().filter_map(|given| pair(&given.key, &given.value)).collect()
}

/// Whether a job was spawned by a process of PMI-1.
pub(super) fn has_preput(job: &JobData) -> bool {
    job.given(&Target::Job).iter().any(|given| given.key.starts_with(Pmi1Wire::KEYS))
}

/// All processes of the job, with what they have put.
pub(super) fn barrier() -> Request {
    Request::Fence(Fence::new(None).with_directives(Directives::new().with(&keys::COLLECT_DATA, true)))
}

/// Publishes a port until it is unpublished, or the session ends.
pub(super) fn publish(service: &Token, port: &Token) -> Result<Request, Token> {
    let mut publish = Publish::new(vec![Info::dynamic(service_key(service)?, port.as_str())]);
    publish.directives = Directives::new().with(&keys::PERSISTENCE, Persistence::SESSION);
    Ok(Request::Publish(publish))
}

pub(super) fn lookup(service: &Token) -> Result<Request, Token> {
    Ok(Request::Lookup(Lookup::new(vec![service_key(service)?])))
}

pub(super) fn unpublish(service: &Token) -> Result<Request, Token> {
    Ok(Request::Unpublish(Unpublish::new(vec![service_key(service)?])))
}

fn service_key(service: &Token) -> Result<KeyName, Token> {
    name(NAMES, service.as_str()).map_err(|error| Token::of_text(&error.to_string()))
}

/// The port that was looked up.
pub(super) fn port(found: &LookupReply) -> Result<Token, Token> {
    let port = found.found.first().and_then(|data| token(&data.value));
    port.ok_or_else(|| Token::of_text("service_not_found"))
}

pub(super) fn abort(code: i32, message: Option<&Token>) -> Request {
    Request::Abort(Abort::new(code, message.map_or("", Token::as_str).to_owned()))
}

/// A job of these applications, which finds the values of its parent in its key-value space.
pub(super) fn spawn(asked: SpawnRequest) -> Result<Request, Token> {
    let mut spawn = Spawn::new(asked.apps.into_iter().map(app).collect());
    for (name, text) in asked.preput {
        let key = key(&Token::new(name).map_err(|error| Token::of_text(&error.to_string()))?)?;
        spawn.directives.push(Info::dynamic(key, text));
    }
    Ok(Request::Spawn(spawn))
}

/// An application, with the keys of `MPI_Info` that MPICH's own launcher knows.
fn app(asked: SpawnApp) -> App {
    let mut app = App::new(asked.execname, asked.nprocs).args(asked.args);
    for (key, value) in asked.info {
        app = match &*key {
            "wdir" => app.cwd(value),
            "path" => {
                app.command = Path::new(&value).join(&app.command).into();
                app
            }
            "host" | "hosts" => app.directive(&keys::HOST, value),
            "hostfile" => app.directive(&keys::HOSTFILE, value),
            _ => app,
        };
    }
    app
}

/// The first ones of the keys that [`app`] passes over.
pub(super) fn ignored(asked: &SpawnRequest) -> String {
    let keys = asked.apps.iter().flat_map(|app| &app.info).map(|(key, _)| key.as_str());
    let ignored: BTreeSet<_> =
        keys.filter(|key| !["wdir", "path", "host", "hosts", "hostfile"].contains(key)).collect();
    let mut names: Vec<_> =
        ignored.iter().take(IGNORED_NAMED).map(|key| pmix_types::escaped(key).to_string()).collect();
    if ignored.len() > IGNORED_NAMED {
        names.push(format!("{} more", ignored.len() - IGNORED_NAMED));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token_of(text: &str) -> Token {
        Token::new(text).unwrap()
    }

    #[test]
    fn keys_and_values_of_processes_have_the_limits_that_they_are_told() {
        assert_eq!(key(&token_of(&"k".repeat(63))).unwrap().as_str(), format!("pmi1.{}", "k".repeat(63)));
        assert!(key(&token_of(&"k".repeat(64))).is_err() && key(&token_of("")).is_err());
        let name = || key(&token_of("k")).unwrap();
        assert!(put(name(), &token_of(&"v".repeat(1023))).is_ok());
        assert!(put(name(), &token_of(&"v".repeat(1024))).is_err());
        assert!(put(name(), &token_of("")).is_ok());
    }

    #[test]
    fn what_other_wires_have_put_is_told_if_a_line_can_have_it() {
        let told = |value: Value| value_of(value).map(|token| token.as_str().to_owned());
        fn value_of(found: Value) -> Option<Token> {
            value(&GetReply::value(found)).ok()
        }
        assert_eq!(told("a".into()).as_deref(), Some("a"));
        for strange in [Value::from(1_u32), "a b".into(), "a\nb".into(), "v".repeat(1024).into()] {
            assert_eq!(told(strange), None);
        }
    }

    #[test]
    fn a_few_of_the_keys_that_a_spawn_ignores_are_named() {
        let mut asked = SpawnApp::new("worker", 1);
        asked.info = ["wdir", "soft", "soft", "a\nb"].map(|key| (key.to_owned(), String::new())).to_vec();
        assert_eq!(ignored(&SpawnRequest::new(vec![asked.clone()])), "a\\nb, soft");
        asked.info = (0..1000).map(|key| (format!("k{key}"), String::new())).collect();
        let named = ignored(&SpawnRequest::new(vec![asked.clone(), asked]));
        assert!(
            named.starts_with("k0, k1, ") && named.ends_with(", 992 more") && named.len() < 60,
            "{named}"
        );
    }

    #[test]
    fn a_spawn_keeps_programs_arguments_and_places() {
        let mut asked = SpawnApp::new("worker", 3);
        asked.args = vec!["two words".into()];
        let info = [("wdir", "/w"), ("path", "/p"), ("host", "n1"), ("soft", "1:3")];
        asked.info = info.map(|(key, value)| (key.into(), value.into())).into();
        let mut spawn = SpawnRequest::new(vec![asked]);
        spawn.preput.push(("PORT".into(), "a port".into()));
        let Ok(Request::Spawn(made)) = super::spawn(spawn) else { panic!() };
        let [app] = &made.apps[..] else { panic!("{made:?}") };
        assert_eq!(
            (app.command.to_str(), app.max_procs, &app.cwd),
            (Some("/p/worker"), 3, &Some("/w".into()))
        );
        assert_eq!(app.argv, ["worker", "two words"]);
        assert_eq!(app.info, [Info::new(&keys::HOST, "n1")]);
        assert_eq!(made.directives.get_value("pmi1.PORT"), Some(&Value::from("a port")));
        let mut long = SpawnRequest::new(vec![SpawnApp::new("a", 1)]);
        long.preput.push(("k".repeat(64), String::new()));
        assert!(super::spawn(long).is_err());
    }
}
