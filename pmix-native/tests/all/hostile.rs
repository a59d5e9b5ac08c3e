//! Messages that want to be misread: none may panic, take long, or take much memory.

use crate::common::{Direction, Vector, vectors};
use pmix_native::codec::{Limits, Problem, Reader, Writer, kind};
use pmix_native::msg::{Context, Log, Publish, Reply, Request};
use pmix_native::{Dialect, Encoding, Version};
use pmix_types::message::Spawn;
use pmix_types::{App, DataType, Info, KeyName, KeyVal, ProcId, Scope, Uid, Value, keys};
use proptest::prelude::*;
use proptest::sample::Index;

/// A change to a message.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Delete(Index, usize),
    Repeat(Index, usize),
    Cut(Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        (at(), 0u8..8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (at(), prop_oneof![any::<u8>(), Just(0), Just(0x7f), Just(0x80), Just(0xff)])
            .prop_map(|(at, byte)| Change::Set(at, byte)),
        (at(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (at(), 1usize..9).prop_map(|(at, count)| Change::Delete(at, count)),
        (at(), 1usize..40).prop_map(|(at, count)| Change::Repeat(at, count)),
        at().prop_map(Change::Cut),
    ]
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let length = bytes.len();
        let end = |start: usize, count: usize| length.min(start + count);
        match self {
            Self::Flip(at, bit) => bytes[at.index(length)] ^= 1 << bit,
            Self::Set(at, byte) => bytes[at.index(length)] = *byte,
            Self::Insert(at, more) => {
                drop(bytes.splice(at.index(length)..at.index(length), more.iter().copied()))
            }
            Self::Delete(at, count) => drop(bytes.drain(at.index(length)..end(at.index(length), *count))),
            Self::Repeat(at, count) => {
                bytes.extend_from_within(at.index(length)..end(at.index(length), *count))
            }
            Self::Cut(at) => bytes.truncate(at.index(length)),
        }
    }
}

/// Decodes; what decodes must also encode and then mean the same, unless numbers were rounded or the message is of
/// a form that is not sent.
fn check(vector: &Vector, bytes: &[u8]) {
    let Ok(message) = vector.decode(bytes) else { return };
    let Ok(encoded) = message.encode(&vector.context) else { return };
    let again = vector.decode(&encoded).unwrap_or_else(|error| panic!("{error}: {message:?}"));
    let same = again.encode(&vector.context).unwrap();
    assert_eq!(same, encoded, "{message:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn changed_messages_are_read_or_refused(
        which: Index,
        changes in prop::collection::vec(change(), 1..5),
    ) {
        thread_local!(static VECTORS: Vec<Vector> = vectors());
        VECTORS.with(|vectors| {
            let vector = &vectors[which.index(vectors.len())];
            let mut bytes = vector.bytes.clone();
            changes.iter().for_each(|change| change.apply(&mut bytes));
            check(vector, &bytes);
        });
    }
}

#[test]
fn messages_cut_anywhere_are_read_or_refused() {
    for vector in vectors().iter().filter(|vector| vector.direction != Direction::Connect) {
        for cut in 0..vector.bytes.len() {
            let _ = vector.decode(&vector.bytes[..cut]);
        }
    }
}

fn context(encoding: Encoding) -> Context {
    Context::new(encoding, Version::new(4, 2, 2))
}

/// A commit of one pair with this value.
fn commit(encoding: Encoding, value: Value) -> Vec<u8> {
    let pair = KeyVal { key: KeyName::new("bomb").unwrap(), value };
    let request = Request::Commit(vec![pmix_native::msg::CommitPart::new(Scope::LOCAL, vec![pair])]);
    request.encode(&context(encoding)).unwrap().to_vec()
}

#[test]
fn compressed_contents_are_bounded_for_the_whole_message() {
    let encoding = Encoding::plain(Dialect::V41);
    let zeros = Value::CompressedString("0".repeat(8 << 20));
    let infos: Vec<_> = (0..8).map(|_| Info::dynamic(KeyName::new("z").unwrap(), zeros.clone())).collect();
    let bytes = commit(encoding, infos.into());
    assert!(bytes.len() < 100_000);
    let mut limited = context(encoding);
    // half of it: a commit may take twice as much
    limited.limits = limited.limits.with_expanded((32 << 20) - 1);
    let unread = |limited: &Context| {
        let request = Request::decode(limited, &bytes).unwrap();
        let Request::Commit(parts) = request else { panic!("{request:?}") };
        parts[0].unread.first().map(|unread| unread.error.problem.clone())
    };
    assert!(matches!(unread(&limited), Some(Problem::Expansion(_))));
    limited.limits = limited.limits.with_expanded(32 << 20);
    assert_eq!(unread(&limited), None);
}

#[test]
fn put_06_a_commit_expands_what_is_put_for_all_processes_in_both_of_its_parts() {
    let pairs = (0..5).map(|number| KeyVal {
        key: KeyName::new(format!("s{number}")).unwrap(),
        value: Value::CompressedString(number.to_string().repeat(200_000)),
    });
    let pairs: Vec<_> = pairs.collect();
    let part = |scope| pmix_native::msg::CommitPart::new(scope, pairs.clone());
    let request = Request::Commit(vec![part(Scope::LOCAL), part(Scope::REMOTE)]);
    let mut context = context(Encoding::plain(Dialect::V41));
    context.limits = context.limits.with_expanded(1 << 20);
    assert_eq!(Request::decode(&context, &request.encode(&context).unwrap()).unwrap(), request);
    let Request::Commit(mut parts) = request else { panic!("no commit") };
    parts.push(parts[0].clone());
    let bytes = Request::Commit(parts).encode(&context).unwrap();
    let Request::Commit(parts) = Request::decode(&context, &bytes).unwrap() else { panic!("no commit") };
    assert_eq!((&parts[0].pairs, &parts[1].pairs), (&pairs, &pairs));
    let unread: Vec<_> = parts[2].unread.iter().map(|one| (one.key.as_str(), one.error.status())).collect();
    assert_eq!(unread[4], ("s4", pmix_types::Status::ERR_OUT_OF_RESOURCE));
}

#[test]
fn put_06_a_commit_with_an_unknown_type_is_refused_whole() {
    let encoding = Encoding::plain(Dialect::V41);
    let pair = |key: &str, value| KeyVal { key: KeyName::new(key).unwrap(), value };
    let pairs =
        vec![pair("one", Value::Uint8(1)), pair("two", Value::Uint8(2)), pair("three", Value::Uint8(3))];
    let part = pmix_native::msg::CommitPart::new(Scope::REMOTE, pairs.clone());
    let mut bytes = Request::Commit(vec![part.clone(), part]).encode(&context(encoding)).unwrap().to_vec();
    let two = bytes.windows(4).position(|window| window == b"two\0").unwrap();
    assert_eq!(bytes[two + 4], 12);
    bytes[two + 4] = 44;
    let error = Request::decode(&context(encoding), &bytes).unwrap_err();
    assert_eq!(error.problem, Problem::UnknownType(DataType::from_raw(44)));
}

#[test]
fn put_06_a_string_that_is_not_utf_8_comes_back_and_spoils_nothing_in_a_commit() {
    let pair = |key: &str, value| KeyVal { key: KeyName::new(key).unwrap(), value };
    let home: &[u8] = b"/home/ren\xe9";
    let latin = |bytes: &'static [u8]| {
        let array = vec![Value::DataType(DataType::STRING), Value::ByteObject(bytes.into())];
        Value::from(pmix_types::DataArray::Value(array))
    };
    for dialect in Dialect::ALL {
        for encoding in [Encoding::plain(dialect), Encoding::described(dialect)] {
            let pairs = vec![pair("dir", "/home/rene".into()), pair("next", 7u32.into())];
            let part = pmix_native::msg::CommitPart::new(Scope::LOCAL, pairs);
            let mut bytes = Request::Commit(vec![part]).encode(&context(encoding)).unwrap().to_vec();
            let at = bytes.windows(home.len()).position(|window| window == b"/home/rene").unwrap();
            bytes[at..at + home.len()].copy_from_slice(home);
            let request = Request::decode(&context(encoding), &bytes).unwrap();
            let Request::Commit(parts) = &request else { panic!("no commit") };
            assert_eq!(parts[0].pairs, [pair("dir", latin(home)), pair("next", 7u32.into())]);
            assert_eq!(request.encode(&context(encoding)).unwrap(), bytes, "C programs read the same bytes");
        }
    }
}

#[test]
fn put_06_what_is_not_valid_in_a_commit_is_passed_over_and_the_rest_is_kept() {
    let pair = |key: &str, value| KeyVal { key: KeyName::new(key).unwrap(), value };
    let texts = |one: &str| Value::from(pmix_types::DataArray::String(vec![one.to_owned(), "b".to_owned()]));
    let attribute = pmix_types::RegAttr::new(
        "name".into(),
        KeyName::new("bomb").unwrap(),
        DataType::INT,
        Vec::new(),
        vec![],
    );
    let named = ProcId::new("bomb".parse().unwrap(), pmix_types::Rank::from_raw(1));
    let mut tried = std::collections::BTreeSet::new();
    for dialect in Dialect::ALL {
        for encoding in [Encoding::plain(dialect), Encoding::described(dialect)] {
            let context = context(encoding);
            let values = [
                ("bomb", Value::Uint8(1), &b"bomb"[..], &b"\xe9"[..]),
                ("bomb", Value::Uint8(1), b"bomb", b"\x07"),
                ("texts", texts("bomb"), b"bomb", b"\xe9"),
                ("proc", Value::from(named.clone()), b"bomb", b"\n"),
                ("attribute", Value::from(attribute.clone()), b"bomb", b"\t"),
                ("number", Value::Double(1.5), b"1.5", b"x"),
                ("packed", Value::CompressedByteObject(b"aaaaaaaa"[..].into()), b"\x78", b"\x01"),
            ];
            for (key, value, good, bad) in values {
                let pairs = vec![pair("one", 1u8.into()), pair(key, value), pair("two", 2u8.into())];
                let part = pmix_native::msg::CommitPart::new(Scope::LOCAL, pairs);
                // not each dialect has each type
                let Ok(bytes) = Request::Commit(vec![part]).encode(&context) else { continue };
                tried.insert(key);
                let mut bytes = bytes.to_vec();
                let at = bytes.windows(good.len()).position(|window| window == good).unwrap();
                bytes[at..at + bad.len()].copy_from_slice(bad);
                let request = Request::decode(&context, &bytes);
                let Ok(Request::Commit(parts)) = request else { panic!("{dialect} {key}: {request:?}") };
                assert_eq!(
                    parts[0].pairs,
                    [pair("one", 1u8.into()), pair("two", 2u8.into())],
                    "{dialect} {key}"
                );
                assert_eq!(parts[0].unread.len(), 1, "{dialect} {key}");
            }
        }
    }
    assert_eq!(tried.len(), 6, "{tried:?}");
}

#[test]
fn replies_of_nothing_are_refused() {
    for vector in vectors().iter().filter(|vector| vector.direction == Direction::Reply) {
        assert!(Reply::decode(&vector.context, vector.command(), &[]).is_err(), "{}", vector.name);
    }
}

#[test]
fn a_request_without_data_takes_less_memory_than_one_with_data() {
    let context = Context::new(Encoding::plain(Dialect::V41), Version::new(4, 2, 2));
    let spawn = |variables: usize| {
        let mut app = App::new("true", 1);
        app.env = vec!["E=1".into(); variables];
        Request::from(Spawn::new(vec![app])).encode(&context).unwrap()
    };
    let error = Request::decode(&context, &spawn(1 << 20)).unwrap_err();
    assert_eq!(error.problem, Problem::Memory);
    assert!(Request::decode(&context, &spawn(100_000)).is_ok());
    let mut publish = Publish::new(Uid::new(1000));
    publish.info = vec![Info::new(&keys::LOG_STDERR, "x"); 200_000].into();
    assert!(Request::decode(&context, &Request::Publish(publish.clone()).encode(&context).unwrap()).is_ok());
    let log = Request::Log(Log::new(publish.info.clone()));
    let error = Request::decode(&context, &log.encode(&context).unwrap());
    assert_eq!(error.unwrap_err().problem, Problem::Memory);
}

#[test]
fn many_small_values_take_bounded_memory() {
    let encoding = Encoding::plain(Dialect::V41);
    let bomb = |element: &[u8], count: usize| {
        let mut size = Writer::new(encoding);
        size.items::<kind::Size>(&[count as u64]).unwrap();
        let size = size.finish();
        [&[2, 39][..], &element[..1], &size[1..], &element[1..].repeat(count)].concat()
    };
    // type and shortest value of: VALUE, STRING, DATA_ARRAY, PROC, QUERY, POINTER (held as an array of two values)
    for element in [&[21u8, 0][..], &[3, 0], &[39, 0, 0], &[22, 0, 0], &[41, 0, 0], &[31, 1]] {
        let bytes = bomb(element, 1 << 20);
        let limits = Limits::default().with_memory(4 << 20);
        let error = Reader::new(encoding, limits, &bytes).item::<kind::Value>().unwrap_err();
        assert_eq!(error.problem, Problem::Memory, "{element:?}");
        assert!(Reader::new(encoding, limits, &bomb(element, 1 << 10)).item::<kind::Value>().is_ok());
        assert!(Reader::new(encoding, Limits::default(), &bytes).item::<kind::Value>().is_ok());
    }
}
