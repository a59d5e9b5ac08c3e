//! Forwarded output and input: who has subscribed to which output, which output is kept until somebody subscribes, and
//! which input waits for the host.

mod cache;
mod input;
mod subscription;

use std::collections::BTreeMap;
use std::time::Instant;

use pmix_types::message::{Failure, IofDeregister, IofPull, IofPush, Output, Reply};
use pmix_types::{IofChannels, Memory, Nspace, ProcId, Status, keys};

use super::context::{Context, Owner};
use super::ids::{Counter, ReplyTo};
use super::upcall::Upcall;
use super::users::push_identity;
use super::{Asked, CallValue, Caller, ConnId, UpcallRequest, not_supported};
use cache::{CacheRule, OutputCache};
use input::Inputs;
use subscription::{Buffer, Subscription, SubscriptionStage};

#[cfg(test)]
pub(super) use cache::{CACHE_SIZE, MAX_CACHE};

/// Output subscriptions that one connection may have.
const MAX_SUBSCRIPTIONS: usize = 1024;
/// Limit for all of them, in bytes.
const MAX_SUBSCRIBED: usize = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct Iof {
    subscriptions: BTreeMap<u64, Subscription>,
    next: Counter,
    cache: OutputCache,
    inputs: Inputs,
}

impl Iof {
    /// Whether nobody has subscribed to output and no input is on its way to the host; some output may be kept.
    pub(super) fn is_empty(&self) -> bool {
        self.subscriptions.is_empty() && self.inputs.is_empty()
    }

    /// Number of pushes that wait until the host has taken earlier ones.
    pub(super) fn waiting(&self) -> usize {
        self.inputs.waiting()
    }

    pub(super) fn iof_pull(&mut self, asked: Asked, request: IofPull, cx: &mut Context) {
        let Asked { by: caller, to, .. } = asked;
        let subscription = match self.subscribe(to.conn, &caller, request, cx) {
            Ok(subscription) => subscription,
            Err(failure) => return cx.reply(to, Err(failure)),
        };
        let (number, request) = (subscription.number, subscription.for_host(true));
        self.subscriptions.insert(number, subscription);
        cx.upcall(Owner::Pull { number, to }, caller, UpcallRequest::IofPull(request));
    }

    fn subscribe(
        &mut self,
        conn: ConnId,
        caller: &Caller,
        mut request: IofPull,
        cx: &Context,
    ) -> Result<Subscription, Failure> {
        let bad = |message: &str| Failure::new(Status::ERR_BAD_PARAM, message);
        if request.procs.is_empty() || !request.procs.iter().all(ProcId::is_valid) {
            return Err(bad("the request names no process whose output to receive: name at least one"));
        }
        if request.channels.is_empty() {
            return Err(bad("no channel is named"));
        }
        if request.channels.contains(IofChannels::STDIN) {
            let message = "standard input is pushed, it cannot be pulled: name output channels only";
            return Err(Failure::new(Status::ERR_NOT_SUPPORTED, message));
        }
        if !cx.config.capabilities.has(Upcall::IofPull) {
            return Err(not_supported("forwarding of output"));
        }
        let of_conn = || self.subscriptions.values().filter(|held| held.conn == conn);
        if of_conn().count() >= MAX_SUBSCRIPTIONS {
            let message =
                format!("{} has {MAX_SUBSCRIPTIONS} output subscriptions, which is the limit", caller.proc);
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let bytes = of_conn().map(|held| held.request.memory()).sum::<usize>() + request.memory();
        if bytes > MAX_SUBSCRIBED {
            let message = format!(
                "all output subscriptions of the connection would take {bytes} bytes, the limit is {MAX_SUBSCRIBED}"
            );
            return Err(Failure::new(Status::ERR_OUT_OF_RESOURCE, message));
        }
        let (rule, buffer) = (CacheRule::read(&request.directives)?, Buffer::read(&request.directives)?);
        push_identity(&mut request.directives, caller.uid, caller.gid);
        let (number, caller) = (self.next.next(), caller.clone());
        let procs = request.procs.clone();
        Ok(Subscription {
            number,
            conn,
            caller,
            request,
            procs,
            stage: SubscriptionStage::Asked(Vec::new()),
            rule,
            buffer,
        })
    }

    /// The host's answer to a subscription.
    pub(super) fn on_pulled(
        &mut self,
        number: u64,
        to: ReplyTo,
        result: Result<(), Failure>,
        cx: &mut Context,
    ) {
        let Some(held) = self.subscriptions.get_mut(&number) else { return };
        let stage = std::mem::replace(&mut held.stage, SubscriptionStage::Active);
        let ended = if let SubscriptionStage::Asked(ended) = &stage { ended.clone() } else { Vec::new() };
        if let Err(failure) = result {
            self.subscriptions.remove(&number);
            cx.reply(to, Err(failure));
        } else if stage == SubscriptionStage::Abandoned {
            self.end(number, Owner::Notice, cx);
        } else {
            let kept = self.cache.take(|source, channels| held.wants(source, channels));
            cx.reply(to, Ok(Reply::Registered(number)));
            cx.out.extend(kept.into_iter().map(|kept| held.push_kept(kept)));
            cx.out.extend(ended.iter().map(|nspace| held.end_of(nspace)));
        }
        ended.iter().for_each(|nspace| self.forget_unless_asked(nspace));
    }

    /// Forgets what is kept of a namespace that is gone, unless the host is still asked on behalf of somebody who wants it.
    fn forget_unless_asked(&mut self, nspace: &Nspace) {
        let is_for =
            |held: &Subscription| matches!(&held.stage, SubscriptionStage::Asked(_)) && held.names(nspace);
        if !self.subscriptions.values().any(is_for) {
            self.cache.forget(nspace);
        }
    }

    /// Ends a subscription: sends what was collected for it, and nothing after that (IOF-07).
    pub(super) fn iof_deregister(&mut self, asked: Asked, request: IofDeregister, cx: &mut Context) {
        let (to, number) = (asked.to, request.registration);
        let is_own = |held: &Subscription| held.conn == to.conn && held.stage == SubscriptionStage::Active;
        match self.subscriptions.get_mut(&number) {
            Some(held) if is_own(held) => {
                held.flush(|_| true, &mut cx.timers, &mut cx.out);
                self.end(number, Owner::Answer(to), cx);
            }
            _ => {
                let message = format!("no output subscription {number}");
                cx.reply(to, Err(Failure::new(Status::ERR_BAD_PARAM, message)));
            }
        }
    }

    /// A connection finalizes or is gone: its subscriptions end.
    pub(super) fn drop_subscriptions(&mut self, conn: ConnId, cx: &mut Context) {
        let of_conn = self.subscriptions.iter_mut().filter(|(_, held)| held.conn == conn);
        let (mut active, mut unwanted) = (Vec::new(), Vec::new());
        for (number, held) in of_conn {
            match &mut held.stage {
                SubscriptionStage::Active => active.push(*number),
                // the host must not be told of the end before it has answered the start
                SubscriptionStage::Asked(ended) => {
                    unwanted.append(ended);
                    held.stage = SubscriptionStage::Abandoned;
                }
                SubscriptionStage::Abandoned => {}
            }
        }
        unwanted.iter().for_each(|nspace| self.forget_unless_asked(nspace));
        for number in active {
            self.end(number, Owner::Notice, cx);
        }
    }

    /// Removes a subscription and tells the host, which sends redirected output where it went before (IOF-03).
    fn end(&mut self, number: u64, owner: Owner, cx: &mut Context) {
        let Some(mut ended) = self.subscriptions.remove(&number) else { return };
        ended.discard(&mut cx.timers);
        let request = UpcallRequest::IofPull(ended.for_host(false));
        cx.upcall(owner, ended.caller, request);
    }

    /// Output from the host: sent to its subscribers, or kept until there is one (IOF-05).
    pub(super) fn on_deliver(
        &mut self,
        now: Instant,
        mut output: Output,
        cx: &mut Context,
    ) -> Result<CallValue, Failure> {
        let mut rule = CacheRule::read(&output.info)?;
        output.info.remove(&keys::IOF_CACHE_SIZE);
        output.info.remove(&keys::IOF_DROP_OLDEST);
        output.info.remove(&keys::IOF_DROP_NEWEST);
        let mut is_taken = false;
        for held in self.subscriptions.values_mut() {
            if !held.wants(&output.source, output.channels) {
                continue;
            }
            match held.stage {
                SubscriptionStage::Active => {
                    held.offer(now, output.clone(), &mut cx.timers, &mut cx.out);
                    is_taken = true;
                }
                SubscriptionStage::Asked(_) => rule = rule.or(held.rule),
                SubscriptionStage::Abandoned => {}
            }
        }
        // output of an unknown namespace would never be dropped, as nobody deregisters that
        if !is_taken && cx.jobs.contains_key(&output.source.nspace) {
            let user = |source: &ProcId| cx.user_of(source);
            cx.stats.output_dropped += self.cache.push(output, user, rule.unwrap_or_default());
        }
        Ok(CallValue::Done)
    }

    /// It is time to send what was collected for a subscription.
    pub(super) fn on_timeout(&mut self, number: u64, cx: &mut Context) {
        if let Some(held) = self.subscriptions.get_mut(&number) {
            held.flush(|_| true, &mut cx.timers, &mut cx.out);
        }
    }

    /// A namespace is gone: its subscribers are told that no more output comes from it.
    pub(super) fn nspace_gone(&mut self, nspace: &Nspace, cx: &mut Context) {
        self.forget_unless_asked(nspace);
        for held in self.subscriptions.values_mut().filter(|held| held.names(nspace)) {
            match &mut held.stage {
                SubscriptionStage::Active => {
                    held.flush(|(source, _)| source.nspace == *nspace, &mut cx.timers, &mut cx.out);
                    cx.out.push(held.end_of(nspace));
                }
                SubscriptionStage::Asked(ended) => ended.push(nspace.clone()),
                SubscriptionStage::Abandoned => {}
            }
        }
    }

    /// A namespace is registered: what is kept of an earlier one of its name is for nobody, and what it will write not for
    /// those who have named that one.
    pub(super) fn nspace_comes(&mut self, nspace: &Nspace) {
        for held in self.subscriptions.values_mut() {
            if matches!(&held.stage, SubscriptionStage::Asked(ended) if ended.contains(nspace)) {
                let before = held.procs.len();
                held.procs.retain(|proc| proc.nspace != *nspace);
                if held.procs.len() < before {
                    self.cache.forget(nspace);
                }
            }
        }
    }

    pub(super) fn on_push(&mut self, asked: Asked, input: IofPush, cx: &mut Context) {
        self.inputs.on_push(asked, input, cx);
    }

    /// The host has taken input, or refused it.
    pub(super) fn on_input_taken(&mut self, to: ReplyTo, result: Result<(), Failure>, cx: &mut Context) {
        self.inputs.on_taken(to, result, cx);
    }

    /// A connection is gone: its subscriptions end, and input from it that still waits is dropped.
    pub(super) fn conn_gone(&mut self, conn: ConnId, cx: &mut Context) {
        self.drop_subscriptions(conn, cx);
        self.inputs.forget(conn);
    }
}
