//! Jobs that processes start, control and abort.

use pmix_types::message::{Abort, IofPull, IofPush, JobControl, Request};
use pmix_types::{App, Directives, Envar, Event, Info, IofChannels, Nspace, ProcId, Status, Value, keys};

use super::super::rank::{Answer, Checked, Rank, broken, ensure, must, must_fail, supported};
use super::{Check, family};

family! {
    a_spawned_job_is_a_new_namespace ["SPN-01", "SPN-04"], "a spawn starts a job of its own, whose data its parent gets", needs [Spawn];
    the_end_of_a_spawned_job_is_told ["SPN-05"], "NOTIFY_COMPLETION tells of the end of a job, with its status", needs [Spawn];
    a_job_that_fails_is_told_so ["SPN-05", "SPN-06"], "the status of a job shows that a process has failed", needs [Spawn];
    a_program_that_is_not_there_is_not_spawned ["SPN-01", "SPN-06"], "a spawn fails if one of its programs cannot be started", needs [Spawn];
    variables_of_a_spawned_job_are_set ["SPN-03"], "SET_ENVAR sets a variable of a job", needs [Spawn];
    a_spawned_job_chooses_its_directory ["SPN-02"], "WDIR is the working directory of a job", needs [Spawn];
    an_application_overrides_its_job ["SPN-01"], "directives of an application win over those of its job", needs [Spawn];
    a_job_can_be_killed ["JCT-01", "JCT-02"], "JOB_CTRL_KILL ends all processes of a namespace", needs [Spawn, JobControl];
    a_job_can_be_signalled ["JCT-01", "JCT-02"], "JOB_CTRL_SIGNAL reaches the processes of a namespace", needs [Spawn, JobControl];
    an_aborted_job_ends ["ABT-01"], "an abort ends the processes that it names, and fails their job", needs [Spawn, Abort];
    input_is_pushed ["IOF-10"], "pushed input arrives, and IOF_COMPLETE ends it", needs [Spawn, PushStdin];
    output_that_is_not_forwarded_cannot_be_pulled ["IOF-04"], "the output of a running job can be pulled only if its spawn said so", needs [Spawn, IofPull, JobControl];
    input_cannot_be_pulled ["IOF-02"], "a pull of STDIN is refused", needs [IofPull];
}

const END: Status = Status::EVENT_JOB_END;

/// A directory that exists everywhere, is no symbolic link, and in which no launcher is started, as it may be in `/`.
const ELSEWHERE: &str = "/dev";

/// A shell that runs these words.
fn shell(words: &str) -> App {
    App::new("sh", 1).args(["-c", words])
}

/// Something that runs until it is ended.
fn endless() -> App {
    App::new("sleep", 1).arg("1000")
}

/// A job whose end is told, and does not matter to the job of the check, however it ends.
fn notified() -> Directives {
    independent().with(&keys::NOTIFY_COMPLETION, true)
}

fn independent() -> Directives {
    Directives::new().with(&keys::SPAWN_CHILD_SEP, true)
}

/// Starts a job and returns how it has ended.
async fn end_of(rank: &Rank, app: App, directives: Directives) -> Checked<Status> {
    rank.listen(END).await?;
    let nspace = must("spawn", rank.spawn(app, directives).await?)?;
    end(rank, &nspace).await
}

/// Waits for the end of a job that has been started with [`notified`].
async fn end(rank: &Rank, nspace: &Nspace) -> Checked<Status> {
    loop {
        let event = rank.next_event().await?;
        if event.code == END && namespace(&event).as_deref() == Some(nspace.as_str()) {
            let status = event.info.get(&keys::JOB_TERM_STATUS).ok().flatten();
            return status.ok_or_else(|| broken(format!("EVENT_JOB_END has no JOB_TERM_STATUS: {event:?}")));
        }
    }
}

/// The namespace that an event is about: C programs may have it as a process.
fn namespace(event: &Event) -> Option<String> {
    let named = event.info.get(&keys::NSPACE.text()).ok().flatten();
    named.or_else(|| event.affected_procs().first().map(|proc| proc.nspace.to_string()))
}

fn ended_well(status: Status, what: &str) -> Checked {
    ensure(status.is_success(), || format!("{what}: the job ended with {status}"))
}

async fn a_spawned_job_is_a_new_namespace(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    let app = App::new("sleep", 2).arg("1000");
    let nspace = must("spawn", rank.spawn(app, independent()).await?)?;
    ensure(nspace != rank.me().nspace, || "the new job has the namespace of its parent".into())?;
    let size = rank.get(&ProcId::wildcard(nspace.clone()), keys::JOB_SIZE.name(), Directives::new()).await?;
    let size = must("get of the size of the new job", size)?;
    kill(rank, &nspace).await?;
    ensure(size == Value::from(2_u32), || format!("a job of 2 processes has size {size:?}"))
}

/// Ends a job that a check has started, if the host can do that.
async fn kill(rank: &Rank, nspace: &Nspace) -> Checked {
    let _ = control(rank, nspace, Directives::new().with(&keys::JOB_CTRL_KILL, true)).await?;
    Ok(())
}

async fn control(rank: &Rank, nspace: &Nspace, directives: Directives) -> Checked<Answer<()>> {
    let mut control = JobControl::new(vec![ProcId::wildcard(nspace.clone())]);
    control.directives = directives;
    Ok(rank.ask(Request::JobControl(control)).await?.map(drop))
}

async fn the_end_of_a_spawned_job_is_told(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    ended_well(end_of(rank, App::new("true", 1), notified()).await?, "a program that succeeds")
}

async fn a_job_that_fails_is_told_so(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    let status = end_of(rank, shell("exit 3"), notified()).await?;
    ensure(status.is_error(), || format!("a job whose process has failed ended with {status}"))
}

async fn a_program_that_is_not_there_is_not_spawned(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    match rank.spawn(App::new("/no/such/program", 1), Directives::new()).await? {
        Err(_) => Ok(()),
        Ok(nspace) => Err(broken(format!("a program that is not there was spawned as {nspace}"))),
    }
}

async fn variables_of_a_spawned_job_are_set(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    let envar = Envar { name: "CHECK_VARIABLE".into(), value: "set".into(), separator: b':' };
    let app = shell("test \"$CHECK_VARIABLE\" = set");
    ended_well(end_of(rank, app, notified().with(&keys::SET_ENVAR, envar)).await?, "SET_ENVAR")
}

async fn a_spawned_job_chooses_its_directory(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    let app = shell(&format!("test \"$(pwd)\" = {ELSEWHERE}"));
    ended_well(end_of(rank, app, notified().with(&keys::WDIR, ELSEWHERE)).await?, "WDIR")
}

async fn an_application_overrides_its_job(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    let mut app = shell(&format!("test \"$(pwd)\" = {ELSEWHERE}"));
    app.info.push(Info::new(&keys::WDIR, ELSEWHERE));
    ended_well(
        end_of(rank, app, notified().with(&keys::WDIR, "/no/such/directory")).await?,
        "WDIR of an application",
    )
}

async fn a_job_can_be_killed(rank: &Rank) -> Checked {
    ended_by(rank, Directives::new().with(&keys::JOB_CTRL_KILL, true)).await
}

async fn a_job_can_be_signalled(rank: &Rank) -> Checked {
    // the numbers of SIGTERM are the same everywhere
    ended_by(rank, Directives::new().with(&keys::JOB_CTRL_SIGNAL, 15)).await
}

async fn ended_by(rank: &Rank, directives: Directives) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    rank.listen(END).await?;
    let nspace = must("spawn", rank.spawn(endless(), notified()).await?)?;
    must("job control", control(rank, &nspace, directives).await?)?;
    end(rank, &nspace).await.map(drop)
}

async fn an_aborted_job_ends(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    rank.listen(END).await?;
    let nspace = must("spawn", rank.spawn(endless(), notified()).await?)?;
    let mut abort = Abort::new(3, "a check".into());
    abort.procs = vec![ProcId::wildcard(nspace.clone())];
    must("abort", rank.request(Request::Abort(abort)).await?)?;
    let status = end(rank, &nspace).await?;
    ensure(status.is_error(), || format!("an aborted job ended with {status}"))
}

async fn input_is_pushed(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    rank.listen(END).await?;
    let app = shell("read line && test \"$line\" = pushed && test -z \"$(cat)\"");
    let nspace = must("spawn", rank.spawn(app, notified().with(&keys::FWD_STDIN, true)).await?)?;
    let all = vec![ProcId::wildcard(nspace.clone())];
    let mut push = IofPush::new(all, "pushed\n".into());
    must("push", rank.request(Request::IofPush(push.clone())).await?)?;
    push.data = Default::default();
    push.directives = Directives::new().with(&keys::IOF_COMPLETE, true);
    must("push of the end", rank.request(Request::IofPush(push)).await?)?;
    ended_well(end(rank, &nspace).await?, "pushed input")
}

async fn output_that_is_not_forwarded_cannot_be_pulled(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    let forwarded = pull_of(rank, independent().with(&keys::FWD_STDOUT, true)).await?;
    must("a pull of output that is forwarded", supported(forwarded)?)?;
    let answer = pull_of(rank, independent()).await?;
    ensure(answer.is_err(), || "the output of a job was pulled though its spawn has not said so".into())
}

/// Pulls the output of a job that has been spawned with these directives.
async fn pull_of(rank: &Rank, directives: Directives) -> Checked<Answer<()>> {
    let nspace = must("spawn", rank.spawn(endless(), directives).await?)?;
    let pull = IofPull::new(vec![ProcId::wildcard(nspace.clone())], IofChannels::STDOUT);
    let answer = rank.ask(Request::IofPull(pull)).await?;
    kill(rank, &nspace).await?;
    Ok(answer.map(drop))
}

async fn input_cannot_be_pulled(rank: &Rank) -> Checked {
    let pull = |channels| Request::IofPull(IofPull::new(vec![rank.me().clone()], channels));
    // it may fail for other reasons
    let _ = rank.request(pull(IofChannels::STDERR)).await?;
    must_fail("a pull of STDIN", rank.ask(pull(IofChannels::STDIN)).await?, &[Status::ERR_NOT_SUPPORTED])
}
