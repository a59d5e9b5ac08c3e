//! Lying counts take no memory.

use std::fs;

use pmix_native::client::{Caller, Conversation};
use pmix_native::codec::{Limits, Problem, Reader, Writer, kind};
use pmix_native::conn::User;
use pmix_native::msg::{Context, Request};
use pmix_native::{Dialect, Encoding, Version};
use pmix_test_wait::is_alone;
use pmix_types::{Gid, ProcId, Rank, Uid, message};

/// Most memory this process has ever held, in kilobytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// What this process holds of memory, in kilobytes.
fn held() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A server that never answers, asked again and again by a process that does not wait for ever.
fn requests_that_are_given_up_take_no_memory() {
    let context = Context::new(Encoding::plain(Dialect::V41), Version::new(4, 2, 2));
    let proc = ProcId::new("job".parse().unwrap(), Rank::from_raw(0));
    let caller = Caller::new(proc.clone(), User { uid: Uid::new(1), gid: Gid::new(1) }, "n0", context);
    let mut client = Conversation::new(caller);
    let mut ask = |id: u64| {
        let keys = (0..64).map(|key| format!("a-key-that-takes-memory-{key}").parse().unwrap()).collect();
        client.request(id, message::Request::Lookup(message::Lookup::new(keys)));
        assert!(!client.take_sent().is_empty());
        client.give_up(&[id].into_iter().collect());
        assert!(client.is_idle() && client.next_delivery().is_none());
    };
    (1..1000).for_each(&mut ask);
    let before = held();
    // each takes some kilobytes while it waits
    (1000..50_000).for_each(&mut ask);
    let grown = held().saturating_sub(before);
    assert!(grown < 8 << 10, "{grown} kB");
}

#[test]
fn counts_make_no_room_before_there_are_bytes_and_what_is_given_up_takes_none() {
    // the kernel measures the process
    if !is_alone(counts_make_no_room_before_there_are_bytes_and_what_is_given_up_takes_none) {
        return;
    }
    requests_that_are_given_up_take_no_memory();
    let before = peak();
    for dialect in Dialect::ALL {
        let encoding = Encoding::plain(dialect);
        for element_type in 1..=75u16 {
            for count in [1 << 20, u64::from(u32::MAX), 1 << 40, u64::MAX] {
                let mut writer = Writer::new(encoding);
                // an array in the form of a list, whose head is two numbers
                writer.items::<kind::Uint16>(&[39, element_type]).unwrap();
                let mut bytes = writer.finish().to_vec();
                let mut size = Writer::new(encoding);
                size.items::<kind::Size>(&[count]).unwrap();
                // without the count of the item
                let skip = if dialect.is_flexible() { 1 } else { 4 };
                bytes.extend_from_slice(&size.finish()[skip..]);
                bytes[..skip].copy_from_slice(if skip == 1 { &[2] } else { &[0, 0, 0, 1] });
                bytes.extend([0; 64]);
                let mut reader = Reader::new(encoding, Limits::default(), &bytes);
                let error = reader.item::<kind::Value>().unwrap_err();
                assert!(
                    matches!(error.problem, Problem::End { .. } | Problem::UnknownType(_)),
                    "{dialect} {element_type} {count}: {error}"
                );
            }
        }
    }
    let context = Context::new(Encoding::plain(Dialect::V41), Version::new(4, 2, 2));
    // lists of requests, and keys of a lookup
    for bytes in
        [&[2, 3, 2, 0xff, 0xff, 0xff, 0xff, 0x0f][..], &[2, 7, 2, 0, 2, 0xff, 0xff, 0xff, 0xff, 0x0f]]
    {
        assert!(Request::decode(&context, bytes).is_err());
    }
    assert!(peak() - before < 64 << 10, "{} kB", peak() - before);
}
