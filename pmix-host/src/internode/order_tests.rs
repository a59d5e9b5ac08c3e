use std::os::unix::ffi::OsStringExt;

use pmix_types::{DataRange, Status, keys};

use super::super::held::HeldProc;
use super::*;

fn nspace() -> Nspace {
    Nspace::new("job").unwrap()
}

fn proc(rank: u32) -> ProcId {
    ProcId::new(nspace(), Rank::from_raw(rank))
}

fn bound() -> Bound {
    let processors = "0-2,8".parse().unwrap();
    Bound { processors, place: "cores 0-3".into(), locality: "SK0:CR0-3".into(), is_exclusive: true }
}

fn of_user(order: Order) -> Order {
    let group = Gid::new(4002);
    order.of(Some(&Account::with_groups(Uid::new(4001), group, vec![group])))
}

#[test]
fn orders_arrive_as_they_were_given() {
    let info = || Info::required(&keys::JOB_SIZE, 4_u32);
    let mut app = App::new("./a", 2).args(["x"]);
    app.cwd = Some("/d".into());
    app.env.push("A=b".into());
    app.info.push(info());
    let launch = |rank, cwd: Option<&str>| ProcToLaunch {
        rank: Rank::from_raw(rank),
        app: 0,
        cwd: cwd.map(Into::into),
        takes_stdin: cwd.is_some(),
        bound: cwd.is_some().then(bound),
    };
    let mut event = Event::new(Status::ERR_PROC_ABORTED, proc(1));
    event.range = DataRange::CUSTOM;
    event.info.push(info());
    let ranks = vec![Rank::from_raw(3), Rank::from_raw(1)];
    let required = BindingPolicy { is_required: true, overload: true, ..BindingPolicy::default() };
    let required = required.map_by("l3cache:pe=2:nooversubscribe").unwrap().rank_by("fill").unwrap();
    let required = required.bind_to("hwthread").unwrap();
    for order in [
        Order::RegisterJob { number: 7, nspace: nspace(), infos: vec![info()], ranks, in_session: vec![1] },
        Order::Knows(nspace()),
        Order::SetUp { nspace: nspace(), infos: vec![info()] },
        Order::WorkDir(7),
        Order::ProcEnded { proc: proc(2), reason: "exit code 3".into() },
        Order::EndJob(nspace()),
        Order::KeepRecord { nspace: nspace(), why: "it failed".into() },
        Order::Notify(event),
        Order::Deliver {
            source: proc(0),
            channels: IofChannels::STDERR,
            data: "line".into(),
            info: vec![info()].into(),
        },
        Order::Launch {
            nspace: nspace(),
            apps: vec![app],
            procs: vec![launch(0, None), launch(5, Some("/w"))],
            base_env: Some(vec![
                ("A".into(), "b=c".into()),
                ("E".into(), OsString::from_vec(vec![0xff])),
                ("=C:".into(), "".into()),
            ]),
        },
        Order::Launch { nspace: nspace(), apps: Vec::new(), procs: Vec::new(), base_env: Some(Vec::new()) },
        Order::Launch { nspace: nspace(), apps: Vec::new(), procs: Vec::new(), base_env: None },
        Order::Signal { procs: vec![proc(0), proc(2)], signal: 15 },
        Order::Terminate(vec![proc(1)]),
        Order::PushStdin { procs: vec![proc(0)], data: "input".into(), is_end: true },
        Order::WhichEnded(vec![proc(4)]),
        Order::Bind { nspace: nspace(), policy: BindingPolicy::default(), here: 2, all: 9 },
        Order::Bind { nspace: nspace(), policy: required, here: 1, all: 1 },
        Order::Holdings,
        of_user(Order::WorkDir(7)),
    ] {
        assert_eq!(Order::read(order.form()), Some(order));
    }
    // what is the same for all users has none, an order within an order within an order neither
    for wrong in [Order::EndJob(nspace()), of_user(Order::WorkDir(7))] {
        assert_eq!(Order::read(of_user(wrong).form()), None);
    }
    assert_eq!(Order::read(v1::Order::default()), None);
    for wrong in [&b"no value"[..], b"=x", b"A=\0"] {
        assert_eq!(variable_in(&wrong.to_vec().into()), None);
    }
}

#[test]
fn news_arrive_as_they_were_told() {
    let user = User::new(proc(1), Uid::new(7), Some(Gid::new(8)));
    let output =
        |channel, data: &'static str| LaunchReport::Output { proc: proc(1), channel, data: data.into() };
    let ended = |exit| LaunchReport::Ended { proc: proc(2), exit };
    let reports = vec![
        LaunchReport::Started { proc: proc(0), pid: 4711, executable: "/bin/a".into() },
        output(OutputChannel::Stdout, "out"),
        output(OutputChannel::Stderr, ""),
        ended(ProcExit::Code(3)),
        ended(ProcExit::Signal(9)),
    ];
    for news in [
        News::Connected(proc(1)),
        News::Finalized(proc(2)),
        News::Lost { proc: proc(3), order: 9 },
        News::ToolLost(proc(4)),
        News::EndOfHost(user.clone()),
        News::Reports { nspace: nspace(), reports },
        News::PullEnded { caller: user.clone(), pull: IofPull::new(vec![proc(0)], IofChannels::STDOUT) },
    ] {
        assert_eq!(News::read(news.form(), || Some(user.clone())), Some(news));
    }
    let told = Told {
        yes: true,
        text: Some("/f".into()),
        procs: vec![proc(1)],
        bound: vec![Some(bound()), None],
        held: vec![HeldJob {
            number: 7,
            nspace: nspace(),
            abort_status: Some(-1),
            procs: vec![
                HeldProc::new(Rank::from_raw(0)),
                HeldProc {
                    started: Some((4711, "/bin/a".into())),
                    is_connected: true,
                    is_finalized: true,
                    lost: Some(0),
                    exit: Some(ProcExit::Signal(9)),
                    ..HeldProc::new(Rank::from_raw(1))
                },
                HeldProc { exit: Some(ProcExit::Code(0)), ..HeldProc::new(Rank::from_raw(2)) },
            ],
        }],
        pulls: vec![HeldPull { caller: user, pull: IofPull::new(vec![proc(0)], IofChannels::STDERR) }],
    };
    assert_eq!(Told::read(told.form()), Some(told));
}
