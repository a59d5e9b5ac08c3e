//! Log, allocations, credentials, and system events.

use pmix_types::message::{
    Allocate, DeregisterEvents, GetCredential, Log, RegisterEvents, Reply, Request, ValidateCredential,
};
use pmix_types::{
    AllocDirective, DataType, Directives, Info, InfoFlags, Key, Query, Status, Uid, ValueType, keys,
};

use super::super::rank::{Answer, Checked, Rank, broken, ensure, must, must_fail, skip};
use super::{Check, family, unknown_key};

family! {
    a_message_is_logged ["LOG-01", "LOG-03"], "a message can be logged to the standard streams", needs [Log];
    a_channel_that_fails_is_told ["LOG-05"], "a log request with one channel that nobody has is not a success", needs [Log];
    an_unknown_required_channel_fails ["LOG-04", "LOG-05"], "a log request with an unknown required channel fails", needs [Log];
    a_credential_names_its_holder ["CRD-01", "CRD-02"], "a credential is validated, and names the user who holds it", needs [GetCredential, ValidateCredential];
    garbage_is_no_credential ["CRD-02"], "garbage is not validated", needs [ValidateCredential];
    an_unknown_type_of_credential_is_refused ["CRD-01"], "a credential of an unknown type is refused", needs [GetCredential];
    an_allocation_has_an_id ["ALC-01"], "a new allocation has an id, by which it is given back, once", needs [Allocate];
    the_time_of_an_allocation_is_told ["ALC-02"], "TIME_REMAINING is what is left to an allocation", needs [Allocate, Query];
    a_system_event_can_be_registered_for ["HST-06"], "a registration for an event of the system is accepted and ended", needs [RegisterEvents, DeregisterEvents];
}

async fn log(rank: &Rank, data: Vec<Info>) -> Checked<Answer<()>> {
    Ok(rank.request(Request::Log(Log::new(data))).await?.map(drop))
}

fn message() -> Info {
    Info::new(&keys::LOG_STDERR, "a message of a check\n")
}

async fn a_message_is_logged(rank: &Rank) -> Checked {
    if rank.is_first() {
        must("log", log(rank, vec![message()]).await?)?;
    }
    Ok(())
}

async fn a_channel_that_fails_is_told(rank: &Rank) -> Checked {
    let nowhere = Info::dynamic(unknown_key()?, "a message of a check");
    let answer = log(rank, vec![message(), nowhere]).await?;
    must_fail("a log request with an unknown channel", answer, &[Status::ERR_PARTIAL_SUCCESS])
}

async fn an_unknown_required_channel_fails(rank: &Rank) -> Checked {
    let nowhere = Info::dynamic(unknown_key()?, "a message of a check").with_flags(InfoFlags::REQUIRED);
    must("log request without that channel", log(rank, vec![message()]).await?)?;
    let answer = rank.ask(Request::Log(Log::new(vec![message(), nowhere]))).await?;
    ensure(answer.is_err(), || "a log request with an unknown required channel succeeded".into())
}

async fn a_credential_names_its_holder(rank: &Rank) -> Checked {
    let credential =
        match must("get credential", rank.request(Request::GetCredential(GetCredential::new())).await?)? {
            Reply::Credential(credential) => credential,
            other => return Err(broken(format!("the reply to a request for a credential is {other:?}"))),
        };
    let request = Request::ValidateCredential(ValidateCredential::new(credential.credential));
    let holder = infos("validation", must("validate credential", rank.request(request).await?)?)?;
    let own = Uid::new(rustix::process::geteuid().as_raw());
    let named = find(&holder, &keys::USERID);
    ensure(named == Some(own), || format!("a credential of uid {own} names {named:?}"))
}

async fn garbage_is_no_credential(rank: &Rank) -> Checked {
    let request = Request::ValidateCredential(ValidateCredential::new("\u{1}garbage".into()));
    let answer = rank.request(request).await?;
    ensure(answer.is_err(), || "garbage was validated as a credential".into())
}

async fn an_unknown_type_of_credential_is_refused(rank: &Rank) -> Checked {
    let wanted = Directives::new().require(&keys::CRED_TYPE, "check.no.such.type");
    must("get credential", rank.request(Request::GetCredential(GetCredential::new())).await?)?;
    let answer = rank.ask(Request::GetCredential(GetCredential::new().with_directives(wanted))).await?;
    ensure(answer.is_err(), || "a credential of a type that does not exist was issued".into())
}

/// A processor for a minute.
async fn new_allocation(rank: &Rank) -> Checked<String> {
    let seconds: Key<u32> = Key::new(keys::ALLOC_TIME.name(), DataType::UINT32);
    let mut request = Allocate::new(AllocDirective::NEW);
    request.directives = Directives::new().with(&keys::ALLOC_NUM_CPUS, 1_u64).with(&seconds, 60_u32);
    let answer = rank.request(Request::Allocate(request)).await?;
    if let Err(failure) = &answer
        && failure.status == Status::ERR_OUT_OF_RESOURCE
    {
        return Err(skip("needs a free processor"));
    }
    let granted = infos("allocation", must("an allocation of one processor", answer)?)?;
    find(&granted, &keys::ALLOC_ID)
        .ok_or_else(|| broken(format!("a new allocation has no ALLOC_ID: {granted:?}")))
}

async fn release(rank: &Rank, id: &str) -> Checked<Answer<()>> {
    let mut request = Allocate::new(AllocDirective::RELEASE);
    request.directives = Directives::new().with(&keys::ALLOC_ID, id);
    Ok(rank.request(Request::Allocate(request)).await?.map(drop))
}

async fn an_allocation_has_an_id(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    let id = new_allocation(rank).await?;
    must("giving an allocation back", release(rank, &id).await?)?;
    let again = release(rank, &id).await?;
    ensure(again.is_err(), || "an allocation was given back twice".into())
}

async fn the_time_of_an_allocation_is_told(rank: &Rank) -> Checked {
    if !rank.is_first() {
        return Ok(());
    }
    let id = new_allocation(rank).await?;
    let query = Query::new(&keys::TIME_REMAINING).qualifier(&keys::ALLOC_ID, id.as_str());
    let reply = must("query of TIME_REMAINING", rank.query(vec![query]).await?)?;
    let left = reply
        .results
        .iter()
        .flat_map(|info| info.value.as_infos().unwrap_or_else(|| std::slice::from_ref(info)));
    let left = left.filter(|info| info.is(&keys::TIME_REMAINING)).find_map(|info| info.get::<u32>().ok());
    must("giving an allocation back", release(rank, &id).await?)?;
    ensure(left.is_some_and(|seconds| (1..=60).contains(&seconds)), || {
        format!("of an allocation of 60 s, {left:?} s are left")
    })
}

/// One of the codes that are the system's (-230 to -330).
const OF_SYSTEM: Status = Status::from_raw(-233);

async fn a_system_event_can_be_registered_for(rank: &Rank) -> Checked {
    let registration = RegisterEvents::new(vec![OF_SYSTEM]);
    match must("register events", rank.request(Request::RegisterEvents(registration)).await?)? {
        Reply::Registered(number) => must(
            "deregister events",
            rank.request(Request::DeregisterEvents(DeregisterEvents::new(number))).await?,
        )
        .map(drop),
        // the library of the process keeps the number
        _ => Ok(()),
    }
}

fn infos(what: &str, reply: Reply) -> Checked<Vec<Info>> {
    match reply {
        Reply::Info(infos) => Ok(infos),
        other => Err(broken(format!("the reply to a request for {what} is {other:?}"))),
    }
}

fn find<T: ValueType>(infos: &[Info], key: &Key<T>) -> Option<T> {
    infos.iter().find(|info| info.is(key))?.get().ok()
}
