//! Where each operation goes: to the noun that answers it exactly once, or to the host as it comes.

use pmix_types::for_each_upcall;
use pmix_types::message::*;

use crate::collective::Entry;
use crate::control::cleanup;
use crate::group::not_complete;
use crate::upcall::{Form, UpcallRequest};
use crate::{Asked, Engine, bootstrap};

/// A request that is answered, sooner or later.
pub(crate) trait Route {
    fn route(self, asked: Asked, engine: &mut Engine);
}

macro_rules! routes {
    ($engine:ident, $asked:ident, $request:ident; $($name:ident => $route:expr;)+) => {$(
        impl Route for $name {
            fn route(self, $asked: Asked, $engine: &mut Engine) {
                let $request = self;
                $route;
            }
        }
    )+};
}

routes! { engine, asked, request;
    Commit => engine.data.on_commit(&asked, request.entries, &mut engine.cx);
    Get => engine.on_get(asked, request);
    Fence => engine.enter(&asked, Ok(Entry::fence(request, &asked.by.proc)));
    QueryInfo => engine.on_query(asked, request.queries);
    RegisterEvents => engine.events.on_register(asked, request, &mut engine.cx);
    DeregisterEvents => engine.events.on_deregister(asked.to, request.registration, &mut engine.cx);
    NotifyEvent => engine.on_notify(asked, request.event);
    Publish => engine.forwards.on_publish(asked, request, &mut engine.cx);
    Lookup => engine.forwards.on_lookup(asked, request, &mut engine.cx);
    Unpublish => engine.forwards.on_unpublish(asked, request, &mut engine.cx);
    Spawn => engine.forwards.on_spawn(asked, request, &mut engine.cx);
    Connect => engine.enter(&asked, Entry::connect(request));
    Disconnect => engine.on_disconnect(asked, request);
    GroupInvite => engine.with_invites(|invites, below, cx| invites.on_invite(asked, request, below, cx));
    GroupJoin => engine.with_invites(|invites, below, cx| invites.on_join(asked, request, below, cx));
    Log => engine.forwards.on_log(asked, request, &mut engine.cx);
    ResolvePeers => engine.on_resolve_peers(asked, request);
    ResolveNodes => engine.on_resolve_nodes(asked, request.nspace);
    IofPull => engine.iof.on_pull(asked, request, &mut engine.cx);
    IofDeregister => engine.iof.on_deregister(&asked, request.registration, &mut engine.cx);
    IofPush => engine.on_push(asked, request);
    Finalize => engine.on_finalize(asked, request.directives);
}

impl Route for GroupConstruct {
    fn route(self, asked: Asked, engine: &mut Engine) {
        if bootstrap::is_meant(&self) {
            engine.with_bootstraps(|bootstraps, below, cx| bootstraps.on_construct(asked, self, below, cx));
        } else {
            engine.enter(&asked, Entry::construct(self));
        }
    }
}

impl Route for GroupDestruct {
    fn route(self, asked: Asked, engine: &mut Engine) {
        if engine.is_bootstrapping(&self.group) {
            return engine.cx.reply(asked.to, Err(not_complete(&self.group)));
        }
        engine.with_collectives(|collectives, lower, cx| {
            collectives.on_group_destruct(&asked, self, lower, cx)
        });
    }
}

impl Route for GroupLeave {
    fn route(self, asked: Asked, engine: &mut Engine) {
        if engine.is_bootstrapping(&self.group) {
            return engine.cx.reply(asked.to, Err(not_complete(&self.group)));
        }
        engine.with_collectives(|collectives, lower, cx| collectives.on_group_leave(&asked, self, lower, cx));
    }
}

impl Route for JobControl {
    fn route(self, asked: Asked, engine: &mut Engine) {
        let is_cleanup = cleanup::is_cleanup(&self.directives);
        let left =
            if is_cleanup { engine.cleanups.on_request(&asked, self, &mut engine.cx) } else { Some(self) };
        if let Some(control) = left {
            engine.forwards.pass_up(
                asked,
                Ok(UpcallRequest::JobControl(control)),
                Form::of::<Self>(),
                &mut engine.cx,
            );
        }
    }
}

impl Route for Monitor {
    fn route(self, asked: Asked, engine: &mut Engine) {
        if let Some(request) = engine.monitors.on_request(&asked, self, &mut engine.cx) {
            engine.forwards.pass_up(asked, request, Form::of::<Self>(), &mut engine.cx);
        }
    }
}

/// Requests that go to the host as they come.
macro_rules! passed_up {
    ($name:ident no) => {};
    ($name:ident yes) => {
        impl Route for $name {
            fn route(self, asked: Asked, engine: &mut Engine) {
                engine.forwards.pass_up(
                    asked,
                    Ok(UpcallRequest::$name(self)),
                    Form::of::<Self>(),
                    &mut engine.cx,
                );
            }
        }
    };
}

macro_rules! upcalls {
    ($(
        $(#[$doc:meta])*
        $name:ident $method:ident($request:ty) -> $reply:ty {
            $what:literal, c: [$($c_name:literal $c_type:literal),*],
            attributes: $attributes:ident, directives: $directives:ident, passed_up: $passed_up:ident,
            $(absent: $absent:ident,)? serves: [$($function:literal),* $(,)?],
        }
    )+) => {
        $(passed_up! { $name $passed_up })+
    };
}

for_each_upcall!(upcalls);

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident $snake:ident -> $reply:ty { $($row:tt)* })+) => {
        impl Route for Request {
            fn route(self, asked: Asked, engine: &mut Engine) {
                match self {
                    $(Self::$name(request) => request.route(asked, engine),)+
                }
            }
        }
    };
}

pmix_types::for_each_operation!(requests);
