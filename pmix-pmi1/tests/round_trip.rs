//! What is written is read, and whatever is read can be written.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail them")]

use bytes::BytesMut;
use pmix_pmi1::{
    Entry, Error, MAX_LINE, MAX_SPAWN, Reader, Request, Response, SpawnApp, SpawnRequest, Token,
};
use proptest::prelude::*;

fn token() -> impl Strategy<Value = Token> {
    // escapes of MPICH stay as they are
    "([!-\\[\\]-~é]|\\\\ |\\\\\\\\){0,40}".prop_map(|text| Token::new(text).unwrap())
}

fn name() -> impl Strategy<Value = Token> {
    "[a-z_]{1,20}".prop_map(|text| Token::new(text).unwrap())
}

fn line() -> impl Strategy<Value = String> {
    "[^\n\0]{0,40}"
}

/// Text that begins with a letter, so that it is none of the numbers.
fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((line(), line()), 0..4)
}

fn spawn() -> impl Strategy<Value = SpawnRequest> {
    let app = (line(), any::<u32>(), prop::collection::vec(line(), 0..4), pairs());
    let app = app.prop_map(|(execname, nprocs, args, info)| {
        let mut app = SpawnApp::new(execname, nprocs);
        (app.args, app.info) = (args, info);
        app
    });
    (prop::collection::vec(app, 1..4), pairs()).prop_map(|(apps, preput)| {
        let mut spawn = SpawnRequest::new(apps);
        spawn.preput = preput;
        spawn
    })
}

fn request() -> impl Strategy<Value = Request> {
    let kvsname = || prop::option::of(token());
    prop_oneof![
        any::<i32>().prop_map(|pmiid| Request::InitAck { pmiid }),
        any::<(u32, u32)>().prop_map(|(version, subversion)| Request::Init { version, subversion }),
        Just(Request::GetMaxes),
        Just(Request::GetUniverseSize),
        Just(Request::GetAppnum),
        Just(Request::GetMyKvsname),
        (kvsname(), token(), token()).prop_map(|(kvsname, key, value)| Request::Put { kvsname, key, value }),
        (kvsname(), token()).prop_map(|(kvsname, key)| Request::Get { kvsname, key }),
        (kvsname(), any::<u64>()).prop_map(|(kvsname, index)| Request::GetByIndex { kvsname, index }),
        Just(Request::BarrierIn),
        (token(), token()).prop_map(|(service, port)| Request::PublishName { service, port }),
        token().prop_map(|service| Request::UnpublishName { service }),
        token().prop_map(|service| Request::LookupName { service }),
        spawn().prop_map(Request::Spawn),
        (any::<i32>(), prop::option::of(token()))
            .prop_map(|(exit_code, message)| Request::Abort { exit_code, message }),
        Just(Request::Finalize),
        (any::<(u32, u32)>(), token(), token()).prop_map(|((version, subversion), stdio, authtype)| {
            Request::SingInit { version, subversion, stdio, authtype }
        }),
        name().prop_map(|name| Request::Other(Token::new(format!("x{name}")).unwrap())),
    ]
}

fn outcome() -> impl Strategy<Value = Result<(), Token>> {
    prop::result::maybe_err(Just(()), token())
}

fn found() -> impl Strategy<Value = Result<Token, Token>> {
    prop::result::maybe_err(token(), token())
}

fn response() -> impl Strategy<Value = Response> {
    let entry = (any::<u64>(), token(), token()).prop_map(|(next, key, value)| Entry::new(next, key, value));
    prop_oneof![
        any::<(u32, u32, bool)>().prop_map(|(size, rank, debug)| Response::InitAck { size, rank, debug }),
        any::<(u32, u32, i32)>().prop_map(|(version, subversion, rc)| Response::Init {
            version,
            subversion,
            rc
        }),
        Just(Response::MAXES),
        any::<i32>().prop_map(Response::UniverseSize),
        any::<i32>().prop_map(Response::Appnum),
        token().prop_map(Response::MyKvsname),
        outcome().prop_map(Response::Put),
        found().prop_map(Response::Value),
        prop::option::of(entry).prop_map(Response::Entry),
        Just(Response::BarrierOut),
        outcome().prop_map(Response::Published),
        outcome().prop_map(Response::Unpublished),
        found().prop_map(Response::Port),
        outcome().prop_map(Response::Spawned),
        Just(Response::FinalizeAck),
        (name(), token()).prop_map(|(command, reason)| {
            Response::Failed { command: Token::new(format!("x{command}")).unwrap(), reason }
        }),
    ]
}

proptest! {
    #[test]
    fn requests_are_read_as_they_were_written_in_whatever_pieces_they_arrive(
        requests in prop::collection::vec(request(), 1..5),
        piece in 1_usize..200,
    ) {
        let sent: Vec<u8> = requests.iter().flat_map(|request| request.encode().to_vec()).collect();
        let (mut reader, mut arrived, mut read) = (Reader::default(), BytesMut::new(), Vec::new());
        for piece in sent.chunks(piece) {
            arrived.extend_from_slice(piece);
            while let Some(request) = reader.request(&mut arrived).unwrap() {
                read.push(request);
            }
        }
        prop_assert_eq!(read, requests);
        prop_assert!(arrived.is_empty());
    }

    #[test]
    fn responses_are_read_as_they_were_written_in_whatever_pieces_they_arrive(
        responses in prop::collection::vec(response(), 1..5),
        piece in 1_usize..200,
    ) {
        let sent: Vec<u8> = responses.iter().flat_map(|response| response.encode().to_vec()).collect();
        let (mut reader, mut arrived, mut read) = (Reader::default(), BytesMut::new(), Vec::new());
        for piece in sent.chunks(piece) {
            arrived.extend_from_slice(piece);
            while let Some(response) = reader.response(&mut arrived).unwrap() {
                read.push(response);
            }
        }
        prop_assert_eq!(read, responses);
    }

    #[test]
    fn any_text_is_a_reason_that_a_line_can_have(text in ".*") {
        let token = Token::of_text(&text);
        prop_assert_eq!(Token::new(token.as_str()), Ok(token.clone()));
    }
}

fn read(sent: &[u8]) -> Result<Option<Request>, Error> {
    Reader::default().request(&mut BytesMut::from(sent))
}

fn get(key: &str) -> Request {
    Request::Get { kvsname: None, key: Token::new(key).unwrap() }
}

#[test]
fn lines_of_mpich_are_read() {
    let put = b"cmd=put kvsname=kvs_1 key=-bcast-1 value=a\\ b\n";
    let Ok(Some(Request::Put { value, .. })) = read(put) else { panic!() };
    assert_eq!(value.as_str(), "a\\ b", "what was escaped stays escaped");
    assert_eq!(read(b"cmd=get  key=a b c=d\n"), Ok(Some(get("a"))), "what is no pair is skipped");
    assert_eq!(read(b"cmd=abort\n"), Ok(Some(Request::Abort { exit_code: 1, message: None })));
    let Ok(Some(Request::Put { value, .. })) = read(b"cmd=put key=a\n") else { panic!() };
    assert_eq!(value.as_str(), "");
    let Ok(Some(Request::Put { value, .. })) = read(b"cmd=put key=a value=b\\\\\n") else { panic!() };
    assert_eq!(value.as_str(), "b\\\\");
}

#[test]
fn a_spawn_has_a_block_for_each_application() {
    let sent = b"mcmd=spawn\nnprocs=2\nexecname=./a\ntotspawns=2\nspawnssofar=1\narg1=x y=z\nargcnt=1\n\
        preput_num=1\npreput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag#0$\ninfo_num=1\ninfo_key_0=wdir\n\
        info_val_0=/tmp/with space\nendcmd\nmcmd=spawn\nnprocs=1\nexecname=b\ntotspawns=2\nspawnssofar=2\n\
        argcnt=0\npreput_num=0\ninfo_num=0\nendcmd\ncmd=get key=a\n";
    let (mut reader, mut arrived) = (Reader::default(), BytesMut::from(&sent[..]));
    let Ok(Some(Request::Spawn(spawn))) = reader.request(&mut arrived) else { panic!() };
    assert_eq!(spawn.preput, [("PARENT_ROOT_PORT_NAME".to_owned(), "tag#0$".to_owned())]);
    let [first, second] = &spawn.apps[..] else { panic!("{spawn:?}") };
    assert_eq!((first.nprocs, &*first.execname, &first.args[..]), (2, "./a", &["x y=z".to_owned()][..]));
    assert_eq!(first.info, [("wdir".to_owned(), "/tmp/with space".to_owned())]);
    assert_eq!((second.nprocs, &*second.execname, second.args.len()), (1, "b", 0));
    assert_eq!(reader.request(&mut arrived), Ok(Some(get("a"))));
}

#[test]
fn what_is_no_message_is_told_from_a_message_that_lacks_something() {
    for broken in [
        &b"hello\n"[..],
        b"\n",
        b"cmd=\n",
        b"cmd=get key=\0\n",
        b"\xff\xfe\n",
        b"mcmd=put\n",
        b"mcmd=spawn\nno pair\n",
        b"mcmd=spawn\ntotspawns=2\nspawnssofar=1\nendcmd\ncmd=get key=a\n",
        b"mcmd=spawn\ntotspawns=3\nspawnssofar=2\nendcmd\n",
    ] {
        let error = read(broken).unwrap_err();
        assert_eq!(error.command(), None, "{error}");
    }
    for (lacking, command) in [
        (&b"cmd=get kvsname=a\n"[..], "get"),
        (b"cmd=init pmi_version=one pmi_subversion=1\n", "init"),
        (b"cmd=publish_name service=a\n", "publish_name"),
        // in another line it would escape what follows
        (b"cmd=put key=a value=b\\\n", "put"),
        (b"mcmd=spawn\nnprocs=1\nendcmd\n", "spawn"),
        (b"mcmd=spawn\nnprocs=-1\nexecname=a\nendcmd\n", "spawn"),
        (b"mcmd=spawn\nexecname=a\nargcnt=4000000000\nendcmd\n", "spawn"),
    ] {
        let error = read(lacking).unwrap_err();
        assert_eq!(error.command().map(Token::as_str), Some(command), "{error}");
    }
}

#[test]
fn a_message_that_is_not_utf_8_is_refused_and_the_next_one_is_read() {
    let garbled = [
        (&b"cmd=put key=a value=caf\xe9\n"[..], "put"),
        (b"cmd=publish_name service=\xe9 port=p\n", "publish_name"),
        (b"mcmd=spawn\nnprocs=1\nexecname=a\narg1=\xe9\nargcnt=1\nendcmd\n", "spawn"),
        // two blocks: the second one belongs to it
        (
            b"mcmd=spawn\nexecname=\xe9\ntotspawns=2\nspawnssofar=1\nendcmd\n\
              mcmd=spawn\nexecname=b\ntotspawns=2\nspawnssofar=2\nendcmd\n",
            "spawn",
        ),
    ];
    for (garbled, command) in garbled {
        let (mut reader, mut arrived) = (Reader::default(), BytesMut::from(garbled));
        arrived.extend_from_slice(b"cmd=get key=a\n");
        let error = reader.request(&mut arrived).unwrap_err();
        assert_eq!(error.command().map(Token::as_str), Some(command), "{error}");
        assert_eq!(reader.request(&mut arrived), Ok(Some(get("a"))));
    }
    let Ok(Some(Request::Abort { exit_code: 3, .. })) = read(b"cmd=abort exitcode=3 message=\xe9\n") else {
        panic!("it aborts anyway")
    };
    let (mut reader, mut arrived) =
        (Reader::default(), BytesMut::from(&b"cmd=my_kvsname kvsname=\xe9\n"[..]));
    arrived.extend_from_slice(b"cmd=barrier_out\n");
    let error = reader.response(&mut arrived).unwrap_err();
    assert_eq!(error.command().map(Token::as_str), Some("my_kvsname"));
    assert_eq!(reader.response(&mut arrived), Ok(Some(Response::BarrierOut)));
}

#[test]
fn lines_and_spawns_have_a_limit() {
    let endless = [b'a'; MAX_LINE];
    assert_eq!(read(&endless), Err(Error::LongLine));
    assert_eq!(read(&endless[1..]), Ok(None));
    let whole = [&b"cmd=put key=a value="[..], &[b'v'; MAX_LINE], b"\n"].concat();
    assert_eq!(read(&whole), Err(Error::LongLine), "also if its end has arrived");
    assert!(Token::new("v".repeat(MAX_LINE)).is_err());

    let (mut reader, mut lines) = (Reader::default(), 0);
    let mut arrived = BytesMut::from(&b"mcmd=spawn\n"[..]);
    let error = loop {
        match reader.request(&mut arrived) {
            Ok(None) => arrived.extend_from_slice(b"a=b\n"),
            other => break other,
        }
        lines += 1;
    };
    assert_eq!(error, Err(Error::LongSpawn));
    assert!(lines * 4 <= MAX_SPAWN + 8, "{lines}");

    let mut arrived = BytesMut::new();
    let mut reader = Reader::default();
    let error = (1..).find_map(|block: usize| {
        arrived.extend_from_slice(b"mcmd=spawn\nendcmd\n");
        let total = format!("mcmd=spawn\ntotspawns=99999999\nspawnssofar={block}\nendcmd\n");
        arrived.clear();
        arrived.extend_from_slice(total.as_bytes());
        reader.request(&mut arrived).err().map(|error| (block, error))
    });
    assert!(error.is_some_and(|(blocks, error)| blocks <= MAX_SPAWN / 16 && error == Error::LongSpawn));
}
