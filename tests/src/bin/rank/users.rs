//! What a process does on a server where several users have theirs.

use std::fmt::Display;

use pmix_client::types::message::{
    Abort, Connect, Fence, Get, GroupConstruct, GroupDestruct, GroupInvite, IofPull, IofPush, JobControl,
    NotifyEvent, QueryInfo, Request, ResolvePeers,
};
use pmix_client::types::why::{LOOKS, WAITS, Wait};
use pmix_client::types::{App, DataArray, DataRange, Directives, Event, Info, IofChannels, Query, Status};
use pmix_client::{Client, Error, Nspace, ProcId, Rank, keys};
use pmix_tool::Tool;
use pmix_types::Uid;

/// Tries on a process of another user all that one process can have done to another; says what came of each.
pub(crate) async fn attack(client: &Client, victim: Nspace) -> Result<(), Error> {
    let (me, all) = (client.proc_id().clone(), ProcId::wildcard(victim.clone()));
    let Ok(group) = Nspace::new(format!("group of {me}")) else { return Ok(()) };
    let both = || vec![me.clone(), all.clone()];
    let one = ProcId::new(victim.clone(), Rank::from_raw(0));
    let table = |key| {
        Request::QueryInfo(QueryInfo::new(vec![
            Query::new(key).qualifier(&keys::NSPACE.text(), victim.as_str()),
        ]))
    };
    let mut kill = JobControl::new(vec![all.clone()]);
    kill.directives = Directives::new().with(&keys::JOB_CTRL_KILL, true);
    let mut abort = Abort::new(9, "an attack".into());
    abort.procs = vec![all.clone()];
    let mut abort_one = Abort::new(9, "an attack".into());
    abort_one.procs = vec![one.clone()];
    let key = |key: &str| key.try_into().ok();
    for (name, request) in [
        ("abort", Request::Abort(abort)),
        ("abort-one", Request::Abort(abort_one)),
        ("kill", Request::JobControl(kill)),
        ("pull", Request::IofPull(IofPull::new(vec![all.clone()], IofChannels::STDOUT))),
        ("push", Request::IofPush(IofPush::new(vec![one.clone()], "an attack\n".into()))),
        ("get", Request::Get(Get::new(one, key("secret")))),
        ("job", Request::Get(Get::new(all.clone(), key(keys::JOB_SIZE.name())))),
        ("table", table(&keys::QUERY_PROC_TABLE)),
        ("waits", table(&WAITS)),
        ("looks", table(&LOOKS)),
        ("peers", Request::ResolvePeers(ResolvePeers::new(None, Some(victim.clone())))),
        ("fence", Request::Fence(Fence::new(Some(both())))),
        ("connect", Request::Connect(Connect::new(both()))),
        ("construct", Request::GroupConstruct(GroupConstruct::new(group.clone(), both()))),
        ("invite", Request::GroupInvite(GroupInvite::new(group, both()))),
    ] {
        tell(name, client.request(request).await);
    }
    let names = client.query([Query::new(&keys::QUERY_NAMESPACES)]).await?;
    println!("names: {}", names.get::<String>(&keys::QUERY_NAMESPACES)?.unwrap_or_default());
    let waits = client.query([Query::new(&WAITS)]).await?;
    let waits = waits.get_value(WAITS.key_name()).map(Wait::read_all).unwrap_or_default();
    println!(
        "waits of: {}",
        waits.iter().flat_map(Wait::nspaces).map(Nspace::as_str).collect::<Vec<_>>().join(",")
    );
    slander(client, victim).await;
    Ok(())
}

/// Tries on processes of another user, by the name of their group, what is forbidden, and the same by a name that nobody has.
pub(crate) async fn attack_group(client: &Client, victim: &Nspace, uid: &str) -> Result<(), Error> {
    let me = client.proc_id().clone();
    let own: Nspace = format!("group of {me}").try_into()?;
    let theirs = group_of(victim);
    for (label, name) in [
        ("theirs", theirs.clone()),
        ("as root sees it", format!("{theirs}@{uid}")),
        ("nobodys", "none".into()),
    ] {
        let name: Nspace = name.try_into()?;
        let beside = || vec![me.clone(), ProcId::wildcard(name.clone())];
        let mut get = Get::new(ProcId::new(name.clone(), Rank::from_raw(0)), "secret".try_into().ok());
        get.directives = Directives::new().with(&keys::IMMEDIATE, true);
        // whoever names what is not known waits for it
        let limit = || Directives::new().with(&keys::TIMEOUT, 1);
        let mut fence = Fence::new(Some(beside()));
        fence.directives = limit();
        let mut connect = Connect::new(beside());
        connect.directives = limit();
        let mut construct = GroupConstruct::new(own.clone(), beside());
        construct.directives = limit();
        for (what, request) in [
            ("get", Request::Get(get)),
            ("fence", Request::Fence(fence)),
            ("connect", Request::Connect(connect)),
            ("construct", Request::GroupConstruct(construct)),
            ("destruct", Request::GroupDestruct(GroupDestruct::new(name.clone()))),
        ] {
            tell(&format!("{what} of {label}"), client.request(request).await);
        }
    }
    tell("one of the same id", client.group_construct(theirs, [me]).await);
    Ok(())
}

/// The id of the group that a process of a job makes to keep a secret.
pub(crate) fn group_of(nspace: &Nspace) -> String {
    nspace.as_str().chars().rev().collect()
}

/// Says that a process of another user's job is lost, which that would believe of its server.
pub(crate) async fn slander(client: &Client, victim: Nspace) {
    let all = ProcId::wildcard(victim.clone());
    let lost = Info::new(&keys::EVENT_AFFECTED_PROC, ProcId::new(victim, Rank::from_raw(99)));
    let named = Info::new(&keys::EVENT_CUSTOM_RANGE, DataArray::Proc(vec![all]));
    for range in [DataRange::LOCAL, DataRange::GLOBAL, DataRange::CUSTOM] {
        let event = Event::new(Status::ERR_PROC_TERM_WO_SYNC, client.proc_id().clone()).with_range(range);
        let event = event.with_info(lost.clone()).with_info(named.clone());
        tell("notify", client.request(Request::NotifyEvent(NotifyEvent::new(event))).await);
    }
}

fn tell<T, E: Into<Error>>(what: &str, outcome: Result<T, E>) {
    match outcome.map_err(Into::into) {
        Ok(_) => println!("{what}: SUCCESS"),
        Err(error) => println!("{what}: {:?} {error}", error.status()),
    }
}

/// Has its own job signalled many times at once, by a signal that does nothing, again and again until it is ended.
pub(crate) async fn control_many(client: &Client, count: usize) {
    let one = || async {
        let mut control = JobControl::new(vec![ProcId::wildcard(client.proc_id().nspace.clone())]);
        let urgent = rustix::process::Signal::URG.as_raw();
        control.directives = Directives::new().with(&keys::JOB_CTRL_SIGNAL, urgent);
        client.request(Request::JobControl(control)).await
    };
    let mut is_first = true;
    loop {
        let mut all = std::pin::pin!(futures::future::join_all((0..count).map(|_| one())));
        // all are on their way
        let _ = futures::FutureExt::now_or_never(all.as_mut());
        if std::mem::take(&mut is_first) {
            println!("controlling");
        }
        all.await;
    }
}

/// Starts daemons of a debugger for itself, and as many again while they run; ends them.
pub(crate) async fn debug_own_many(client: &Client, count: u32) {
    let mut started = Vec::new();
    for _ in 0..2 {
        let directives = Directives::new().require(&keys::DEBUG_TARGET, client.proc_id().clone());
        match client.spawn([App::new("sleep", count).arg("1000")]).directives(directives).await {
            Ok(job) => {
                println!("started {job}");
                started.push(ProcId::wildcard(job));
            }
            Err(error) => println!("refused: {error}"),
        }
    }
    if !started.is_empty() {
        let mut end = JobControl::new(started);
        end.directives = Directives::new().with(&keys::JOB_CTRL_KILL, true);
        let _ = client.request(Request::JobControl(end)).await;
    }
}

/// Starts a process with a directive that names a file, and waits for its end.
pub(crate) async fn spawn(
    client: &Client,
    file: Option<(&str, &str)>,
    command: &[String],
) -> Result<(), Error> {
    let Some((program, args)) = command.split_first() else { return Ok(()) };
    let mut app = App::new(program, 1).args(args);
    let uid = |uid: &str| Info::new(&keys::USERID, uid.parse().unwrap_or(Uid::NOBODY));
    if let Some(("user-of-app", user)) = file {
        app.info.push(uid(user));
    }
    let spawn = client.spawn([app]).notify_completion();
    let spawn = match file {
        None | Some(("user-of-app", _)) => spawn,
        Some(("user-of-job", user)) => spawn.directives(vec![uid(user)].into()),
        Some(("debug-target", job)) => {
            let target = ProcId::wildcard(job.parse()?);
            spawn.directives(Directives::new().require(&keys::DEBUG_TARGET, target))
        }
        Some(("hosts", file)) => spawn.hostfile(file),
        Some(("add-hosts", file)) => spawn.add_hostfile(file),
        Some(("wdir", dir)) => spawn.wdir(dir),
        Some(("session-wdir", _)) => spawn.session_cwd(),
        Some((other, _)) => {
            eprintln!("what is {other}?");
            return Ok(());
        }
    };
    let mut ends = client.events([Status::EVENT_JOB_END]).await?;
    match spawn.await {
        Ok(job) => {
            println!("started {job}");
            let end = ends.recv().await.and_then(Result::ok);
            let status = end.and_then(|end| end.info.get(&keys::JOB_TERM_STATUS).ok().flatten());
            println!("ended {:?}", status.unwrap_or(Status::ERROR));
        }
        Err(error) => println!("refused {:?} {error}", error.status()),
    }
    Ok(())
}

/// Starts a job, reads what it says, and ends it.
pub(crate) async fn rule(client: &Client) -> Result<(), Error> {
    let mut ends = client.events([Status::EVENT_JOB_END]).await?;
    let app = App::new("sh", 1).args(["-c", "read line; echo got $line; exec sleep 1000"]);
    let forwarded = Directives::new().with(&keys::FWD_STDOUT, true).with(&keys::FWD_STDIN, true);
    let job = client.spawn([app]).notify_completion().directives(forwarded).await?;
    let all = ProcId::wildcard(job);
    let mut output = client.pull_output([all.clone()]).channels(IofChannels::STDOUT).await?;
    client.push_stdin([all.clone()]).write("own\n").await?;
    if let Some(Ok(chunk)) = output.recv().await {
        println!("heard {}", String::from_utf8_lossy(&chunk.data).trim_end());
    }
    let rows = client
        .query([Query::new(&keys::QUERY_PROC_TABLE).qualifier(&keys::NSPACE.text(), all.nspace.as_str())]);
    println!(
        "knows {} table",
        rows.await?
            .get_value(keys::QUERY_PROC_TABLE.name())
            .map_or(0, |rows| rows.as_array().map_or(0, DataArray::len))
    );
    client.job_control([all]).kill().await?;
    ends.recv().await;
    println!("ended it");
    Ok(())
}

/// Puts a file into the directory of its job.
pub(crate) async fn furnish(client: &Client) -> Result<(), Error> {
    let job = client.job(&client.proc_id().nspace);
    let (dir, top) = (job.get(keys::NSDIR).await?, job.get(keys::TMPDIR).await?);
    let written = std::fs::write(format!("{dir}/file"), "mine")
        .and_then(|()| std::fs::create_dir(format!("{top}/dir")));
    println!("furnished {dir} {top} {}", outcome(written));
    Ok(())
}

/// Connects as a tool.
pub(crate) async fn tool(uri: &str, nspace: Option<Nspace>) {
    let tool = Tool::builder().uri(uri);
    let tool = match nspace {
        None => tool,
        Some(nspace) => tool.identity(ProcId::new(nspace, Rank::from_raw(99))),
    };
    match tool.connect().await {
        Ok(tool) => println!("let in as {}", tool.proc_id()),
        Err(error) => println!("refused {error}"),
    }
}

fn outcome<T>(result: Result<T, impl Display>) -> String {
    result.map_or_else(|error| error.to_string(), |_| "done".to_owned())
}

/// Asks the server for a key, and says what it answers.
pub(crate) async fn ask(client: &Client, key: &str) {
    let Ok(key) = key.parse() else { return println!("{key} is no key") };
    match client.query([Query::dynamic([key])]).await {
        Ok(results) => println!("answered {}", results.status()),
        Err(error) => println!("refused {error}"),
    }
}

/// Says whom a credential names, or that it is refused.
pub(crate) async fn validate(client: &Client, credential: &str) {
    match client.validate_credential(credential.as_bytes().to_vec()).await {
        Ok(holder) => println!("valid {holder:?}"),
        Err(error) => println!("refused {error}"),
    }
}

/// Says what credential it gets, and whom this names.
pub(crate) async fn credential(client: &Client, types: &str) -> Result<(), Error> {
    let given = client.credential().types(types).await?;
    println!("credential {}", String::from_utf8_lossy(&given.credential));
    let holder = client.validate_credential(given.credential).await?;
    let uid = holder.iter().find(|info| info.is(&keys::USERID)).and_then(|info| info.get::<Uid>().ok());
    println!("holder {uid:?}");
    Ok(())
}
