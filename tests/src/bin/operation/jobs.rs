//! Published data, spawned jobs and what connects them, abort.

use std::process::ExitCode;

use pmix_client::types::{App, Persistence};
use pmix_client::{Client, Nspace, ProcId, Rank, Status, keys};

use crate::{Done, Pair, limit, patience, refused, same, tell};

fn key_of(proc: &ProcId) -> String {
    format!("operation.{proc}")
}

pub(crate) async fn publish(pair: Pair) -> Done {
    Ok(pair.client.publish().data(key_of(&pair.me), "text").await?)
}

pub(crate) async fn lookup(pair: Pair) -> Done {
    pair.client.publish().data(key_of(&pair.me), "text").await?;
    pair.client.fence_all().await?;
    let (theirs, nobodys) = (key_of(&pair.peer), "operation.nobody".to_owned());
    let found = pair.client.lookup([&theirs, &nobodys]).await?;
    same(found.get::<String>(&theirs)?.as_deref(), Some("text"))?;
    same(found.publisher(&theirs), Some(&pair.peer))?;
    same(found.missing().len(), 1)?;
    refused(pair.client.lookup([&nobodys]).await, Status::ERR_NOT_FOUND)?;
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn lookup_waits(pair: Pair) -> Done {
    if pair.leads() {
        // what is published after this may be looked up before this
        pair.client.fence_all().await?;
        return publish(pair).await;
    }
    let theirs = key_of(&pair.peer);
    let lookup = pair.client.lookup([&theirs]).wait_all().timeout(patience());
    let (found, fenced) = tokio::join!(async { lookup.await }, async { pair.client.fence_all().await });
    fenced?;
    same(found?.get::<String>(&theirs)?.as_deref(), Some("text"))
}

pub(crate) async fn unpublish(pair: Pair) -> Done {
    let mine = key_of(&pair.me);
    pair.client.publish().data(&mine, "text").await?;
    pair.client.unpublish([&mine]).await?;
    pair.client.fence_all().await?;
    refused(pair.client.lookup([key_of(&pair.peer)]).await, Status::ERR_NOT_FOUND)?;
    Ok(pair.client.fence_all().await?)
}

/// What the leader starts, as a job of one.
async fn start(pair: &Pair, act: &str) -> Result<Nspace, Box<dyn std::error::Error>> {
    let program = std::env::current_exe()?.display().to_string();
    let child = App::new(program, 1)
        .args(["--patience", &limit().as_secs().to_string(), "child", act, &pair.me.to_string()])
        .env("OPERATION_TEXT", "of the parent");
    Ok(pair.client.spawn([child]).await?)
}

/// What a spawned process says.
async fn word_of(pair: &Pair, child: &Nspace) -> Result<String, Box<dyn std::error::Error>> {
    let theirs = key_of(&ProcId::new(child.clone(), Rank::new(0)?));
    let word = pair.client.lookup([&theirs]).wait_all().timeout(patience()).await?;
    Ok(word.get(&theirs)?.ok_or("it says nothing")?)
}

pub(crate) async fn spawn(pair: Pair) -> Done {
    if pair.leads() {
        let child = start(&pair, "leave").await?;
        same(pair.client.job(&child).get(keys::JOB_SIZE).await?, 1)?;
    }
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn parent(pair: Pair) -> Done {
    if pair.leads() {
        let child = start(&pair, "parent").await?;
        let told = word_of(&pair, &child).await?;
        if told == NOBODY {
            pair.client.fence_all().await?;
            return Err("not told".into());
        }
        same(told, pair.me.to_string())?;
    }
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn environment(pair: Pair) -> Done {
    if pair.leads() {
        let child = start(&pair, "environment").await?;
        same(word_of(&pair, &child).await?, "of the parent")?;
    }
    Ok(pair.client.fence_all().await?)
}

/// The leader and the process that it has started.
fn both(one: &ProcId, other: &ProcId) -> [ProcId; 2] {
    [one.clone(), other.clone()]
}

pub(crate) async fn connect(pair: Pair) -> Done {
    if pair.leads() {
        let child = ProcId::new(start(&pair, "connect").await?, Rank::new(0)?);
        pair.client.connect(both(&pair.me, &child)).await?;
        same(pair.client.job(&child.nspace).get(keys::JOB_SIZE).optional().await?, 1)?;
    }
    Ok(pair.client.fence_all().await?)
}

pub(crate) async fn disconnect(pair: Pair) -> Done {
    if pair.leads() {
        let child = ProcId::new(start(&pair, "disconnect").await?, Rank::new(0)?);
        pair.client.connect(both(&pair.me, &child)).await?;
        pair.client.disconnect(both(&pair.me, &child)).await?;
    }
    Ok(pair.client.fence_all().await?)
}

/// What a process publishes that is not told who has started it.
const NOBODY: &str = "nobody";

/// A spawned process; `parent` is who has started it, as its arguments say.
pub(crate) async fn child(act: &str, parent: &str) -> ExitCode {
    match tokio::time::timeout(limit(), obey(act, parent)).await {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            tell(None, &format!("CHILD {error}"));
            ExitCode::FAILURE
        }
        Err(_) => {
            tell(None, "CHILD no answer");
            ExitCode::FAILURE
        }
    }
}

async fn obey(act: &str, parent: &str) -> Done {
    let client = Client::from_env().init().await?;
    let me = client.proc_id().clone();
    let (nspace, rank) = parent.rsplit_once(':').ok_or("no parent")?;
    let parent = ProcId::new(nspace.parse()?, rank.parse()?);
    match act {
        "parent" => {
            let told = client.get(&me, keys::PARENT_ID).await;
            say(&client, told.map_or_else(|_| NOBODY.to_owned(), |told| told.to_string())).await?;
        }
        "environment" => {
            say(&client, std::env::var("OPERATION_TEXT").unwrap_or_default()).await?;
        }
        "connect" => {
            client.connect(both(&parent, &me)).await?;
        }
        "disconnect" => {
            let both = both(&parent, &me);
            client.connect(both.clone()).await?;
            client.disconnect(both).await?;
        }
        _ => {}
    }
    Ok(client.finalize().await?)
}

/// Publishes it for longer than this process lives.
async fn say(client: &Client, word: String) -> Done {
    let key = key_of(client.proc_id());
    Ok(client.publish().data(key, word).persistence(Persistence::SESSION).await?)
}

pub(crate) async fn abort(pair: Pair) -> Done {
    pair.client.fence_all().await?;
    pair.tell("END", "");
    if pair.leads() {
        pair.client.abort(7, "enough").await?;
    }
    std::future::pending().await
}
