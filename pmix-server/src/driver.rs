//! The task that owns the engine: it feeds inputs to the engine, carries out its commands and runs its timers.
//!
//! It runs on the server's own thread. Front ends send [`DriverEvent`]s and receive messages through [`Peer`]; the driver
//! does not know which wire they speak.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use pmix_types::message::{Failure, Push};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::TaskTracker;

use crate::cleanup::clean_up_as_user;
use crate::door::Door;
use crate::inbox::{DriverEvent, Peer};
use crate::traces::{Traces, untraced};
use crate::upcalls::Upcalls;
use pmix_engine::{CallId, CallValue, Command, ConnId, Engine, Input, RequestId};

/// Most events taken from the inbox at a time.
const BATCH: usize = 256;
/// Pending calls of the host at which the driver first looks for abandoned ones.
const SWEEP: usize = 1024;

/// How long a stopping server waits for the cleanup of processes' files: a file system may hang.
const CLEANING: Duration = Duration::from_secs(5);

pub(crate) struct Driver {
    engine: Engine,
    door: Door,
    upcalls: Upcalls,
    peers: HashMap<ConnId, Box<dyn Peer>>,
    calls: HashMap<CallId, oneshot::Sender<Result<CallValue, Failure>>>,
    next_call: u64,
    /// At this number of pending calls, abandoned ones are removed.
    sweep_at: usize,
    commands: Vec<Command>,
    /// Answers that the host has given at once.
    answers: VecDeque<Input>,
    /// Cleanups in progress.
    cleaning: TaskTracker,
    /// If fences are traced.
    traces: Option<Box<Traces>>,
}

impl Driver {
    pub(crate) fn new(engine: Engine, upcalls: Upcalls, door: Door, traces: Option<Traces>) -> Self {
        Self {
            engine,
            door,
            upcalls,
            peers: HashMap::new(),
            calls: HashMap::new(),
            next_call: 0,
            sweep_at: SWEEP,
            commands: Vec::new(),
            answers: VecDeque::new(),
            cleaning: TaskTracker::new(),
            traces: traces.map(Box::new),
        }
    }

    /// Runs until told to stop, or until no sender of events is left.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<DriverEvent>) {
        let mut batch = Vec::with_capacity(BATCH);
        let stop = loop {
            let received = match self.engine.next_timeout() {
                Some(at) => {
                    match tokio::time::timeout_at(at.into(), inbox.recv_many(&mut batch, BATCH)).await {
                        Ok(received) => received,
                        Err(_) => {
                            self.engine.handle_timeout(now(), &mut self.commands);
                            self.carry_out();
                            continue;
                        }
                    }
                }
                None => inbox.recv_many(&mut batch, BATCH).await,
            };
            if received == 0 {
                break None;
            }
            self.door.worked();
            let mut stop = None;
            for event in batch.drain(..) {
                match event {
                    DriverEvent::Open { conn, peer } => {
                        self.peers.insert(conn, peer);
                    }
                    DriverEvent::Input(input) => self.feed(input),
                    DriverEvent::Own { conn, peer, request } => {
                        self.peers.insert(conn, peer);
                        self.feed(Input::Own { conn });
                        self.feed(Input::Request { conn, id: RequestId(1), request });
                    }
                    DriverEvent::Request { conn, id, mut request, turn } => {
                        match &mut self.traces {
                            Some(traces) => traces.begin(conn, id, &mut request),
                            None => untraced(&mut request),
                        }
                        self.engine.handle(now(), Input::Request { conn, id, request }, &mut self.commands);
                        put_first(conn, &mut self.commands);
                        self.carry_out();
                        drop(turn);
                    }
                    DriverEvent::Refuse { conn, id, failure, turn } => {
                        self.commands.push(Command::Reply { conn, id, result: Err(failure) });
                        self.carry_out();
                        drop(turn);
                    }
                    DriverEvent::Call { call, answer } => {
                        self.sweep_calls();
                        if let Some(traces) = &mut self.traces {
                            traces.called(&call);
                        }
                        self.next_call += 1;
                        let id = CallId(self.next_call);
                        self.calls.insert(id, answer);
                        self.feed(Input::Call { id, call });
                    }
                    DriverEvent::Stop(done) => stop = Some(done),
                }
            }
            // a steady stream of events must not starve the timers
            if self.engine.next_timeout().is_some_and(|at| at <= now()) {
                self.engine.handle_timeout(now(), &mut self.commands);
                self.carry_out();
            }
            if stop.is_some() {
                break stop;
            }
        };
        self.peers.values_mut().for_each(|peer| peer.push(Push::Stopping));
        drop(self.peers);
        // the host's calls fail from here on, so no upcall waits for one
        drop((inbox, batch, self.calls));
        self.upcalls.end().await;
        self.cleaning.close();
        if tokio::time::timeout(CLEANING, self.cleaning.wait()).await.is_err() {
            tracing::warn!("the server stopped before all files of processes were cleaned up");
        }
        if let Some(done) = stop {
            let _ = done.send(());
        }
    }

    /// Removes calls whose caller has dropped them. Runs so rarely that the cost per call is negligible.
    fn sweep_calls(&mut self) {
        if self.calls.len() < self.sweep_at {
            return;
        }
        let abandoned: Vec<_> =
            self.calls.iter().filter(|(_, answer)| answer.is_closed()).map(|(id, _)| *id).collect();
        for id in abandoned {
            self.calls.remove(&id);
            self.feed(Input::Abandoned(id));
        }
        self.sweep_at = SWEEP.max(2 * self.calls.len());
    }

    fn feed(&mut self, input: Input) {
        if let Input::Lost { conn, .. } = &input {
            self.peers.remove(conn);
            self.lose_trace(*conn);
        }
        self.engine.handle(now(), input, &mut self.commands);
        self.carry_out();
    }

    fn lose_trace(&mut self, conn: ConnId) {
        if let Some(traces) = &mut self.traces {
            traces.lose(conn);
        }
    }

    /// Carries out all commands, and those that follow from answers of the host.
    fn carry_out(&mut self) {
        self.carry_out_commands();
        while let Some(answer) = self.answers.pop_front() {
            self.engine.handle(now(), answer, &mut self.commands);
            self.carry_out_commands();
        }
    }

    fn carry_out_commands(&mut self) {
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            match command {
                Command::Accept { conn, welcome } => {
                    tracing::debug!(proc = %welcome.proc, "connected");
                    if let Some(traces) = &mut self.traces {
                        traces.accept(conn, &welcome);
                    }
                    if let Some(peer) = self.peers.get_mut(&conn) {
                        peer.accept(welcome);
                    }
                }
                Command::Refuse { conn, failure } => {
                    if let Some(mut peer) = self.peers.remove(&conn) {
                        peer.refuse(&failure);
                    }
                }
                Command::Reply { conn, id, result } => {
                    if let Some(traces) = &mut self.traces {
                        traces.end(conn, id, &result);
                    }
                    if let Some(peer) = self.peers.get_mut(&conn) {
                        peer.reply(id, result);
                    }
                }
                Command::Push { conn, push } => {
                    if let Some(peer) = self.peers.get_mut(&conn) {
                        peer.push(push);
                    }
                }
                Command::Close { conn, reason } => {
                    tracing::debug!(reason, "closed a connection");
                    self.peers.remove(&conn);
                    self.lose_trace(conn);
                }
                Command::Upcall { id, caller, request } => {
                    self.answers.extend(self.upcalls.start(id, caller, request));
                }
                Command::Cleanup(cleanup) => {
                    self.cleaning.spawn(clean_up_as_user(cleanup));
                }
                Command::Measure { id, procs, is_brief } => self.upcalls.measure(id, procs, is_brief),
                Command::Look { id, path } => self.upcalls.look(id, path),
                Command::CancelUpcall(id) => self.upcalls.cancel(id),
                Command::Return { id, result } => {
                    if let Some(answer) = self.calls.remove(&id) {
                        // the host may have stopped waiting
                        let _ = answer.send(result);
                    }
                }
            }
        }
        // keep the allocation
        self.commands = commands;
    }
}

/// Answers the process that has notified of an event before those that hear of it: once these run, they compete with it for
/// the processors. What goes to one process stays in order.
fn put_first(conn: ConnId, commands: &mut [Command]) {
    let is_event = matches!(commands, [Command::Push { .. }, _, ..]);
    if is_event {
        commands.sort_by_key(|command| match command {
            Command::Push { conn: to, .. } | Command::Reply { conn: to, .. } => *to != conn,
            _ => true,
        });
    }
}

/// The time, from tokio's clock so that tests can pause it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[cfg(test)]
mod tests {
    use pmix_types::message::Reply;
    use pmix_types::{Event, ProcId, Status};

    use super::*;

    #[test]
    fn evt_17_who_has_notified_is_answered_first_and_what_each_process_gets_stays_in_order() {
        let push = |conn, number| {
            let event = Event::new(Status::from_raw(-4242), ProcId::none());
            Command::Push {
                conn: ConnId(conn),
                push: Push::Event { registrations: vec![number], event, is_kept: false },
            }
        };
        let reply = || Command::Reply { conn: ConnId(2), id: RequestId(7), result: Ok(Reply::Done) };
        let order = |commands: &[Command]| {
            let place = |command: &Command| match command {
                Command::Push { conn, push: Push::Event { registrations, .. } } => (conn.0, registrations[0]),
                Command::Reply { conn, .. } => (conn.0, 0),
                other => panic!("{other:?}"),
            };
            commands.iter().map(place).collect::<Vec<_>>()
        };
        let mut commands = vec![push(1, 1), push(2, 2), push(3, 3), push(2, 4), reply()];
        put_first(ConnId(2), &mut commands);
        assert_eq!(order(&commands), [(2, 2), (2, 4), (2, 0), (1, 1), (3, 3)]);
        // replies to several processes, as of a fence, are left as they are
        let mut commands = vec![reply(), push(2, 1), push(1, 1)];
        put_first(ConnId(1), &mut commands);
        assert_eq!(order(&commands), [(2, 0), (2, 1), (1, 1)]);
    }
}
