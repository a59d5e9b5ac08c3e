use proptest::collection::vec;
use proptest::prelude::*;

use super::super::{MapError, MapForm, NodeMap};
use super::{FORMS, assert_reads_well};

fn map(list: &str) -> NodeMap {
    NodeMap::from_raw(list).unwrap()
}

fn names(map: &NodeMap) -> Vec<String> {
    map.iter().collect()
}

fn assert_round_trips(list: &[String]) {
    let map = NodeMap::from_names(list).unwrap();
    assert_eq!(names(&map), list);
    for form in FORMS {
        let parsed = NodeMap::parse(&map.encode(form)).unwrap();
        assert_eq!(names(&parsed), list, "{form:?}");
        assert_eq!(parsed, map, "{form:?}");
    }
    assert_eq!(
        NodeMap::from_raw(&map.to_raw()).unwrap(),
        map,
        "series are found alike in a text and name by name"
    );
    for (index, name) in list.iter().enumerate() {
        assert_eq!(map.get(index).as_ref(), Some(name));
        assert_eq!(map.position(name), list.iter().position(|other| other == name), "{name}");
    }
    assert_eq!(map.get(list.len()), None);
}

#[test]
fn rgx_01_round_trip_keeps_order_and_repeats() {
    for list in [
        "n1,n2,n3",
        "n3,n2,n1",
        "n1,n1,n1,n2,n2",
        "n8,n9,n10,n11,n99,n100,n098,n099,n100",
        "login,n01,n02,gpu-7,gpu-8,login,n03",
        "r1n1,r1n2,r2n1,r2n2,r3n1",
        "node5.c1.example.org,node6.c1.example.org,node6.c2.example.org",
        "10.0.0.9,10.0.0.10,10.0.1.1,fe80::1,fe80::2",
        "x123456789012345678901234567890,x123456789012345678901234567891,x123456789012345678901234567893",
        "999999999999999999,1000000000000000000,18446744073709551615,18446744073709551616",
        "007,008,7,8, a , b",
        "knoten-ä1-ö,knoten-ä2-ö,ä,1ä,2ä",
        "[a],[b],pmix[n[2:1-3]],raw:x",
    ] {
        assert_round_trips(&list.split(',').map(str::to_owned).collect::<Vec<_>>());
    }
}

#[test]
fn a_list_that_does_not_go_on_after_a_series_is_refused_where_it_ends() {
    for (list, at) in [("n1,n2,n3,", 9), ("n1,n2,n3,,n4", 9), ("n1,n2,", 6), ("n8,n9,n10,", 10)] {
        assert_eq!(NodeMap::from_raw(list), Err(MapError::EmptyName { at }), "{list}");
    }
    let series = map("n1,n2,n3x,n4,n5");
    assert_eq!(names(&series), ["n1", "n2", "n3x", "n4", "n5"]);
    assert!(NodeMap::from_raw("n1,n2,n3\0").is_err());
}

#[test]
fn rgx_01_empty_list_round_trips() {
    assert_round_trips(&[]);
    assert!(NodeMap::default().is_empty());
    assert_eq!(NodeMap::parse(b"").unwrap(), NodeMap::default());
}

#[test]
fn neighbours_that_count_up_are_one_run() {
    assert_eq!(map("a1,a2,a3").run_count(), 1);
    assert_eq!(map("r7n1.site1.org,r8n1.site1.org,r9n1.site1.org").run_count(), 1);
    // one more digit starts another run, so that the digits of a run are as many as OpenPMIx writes
    assert_eq!(map("a8,a9,a10,a11").run_count(), 2);
}

#[test]
fn regular_maps_stay_small() {
    let nodes = NodeMap::from_names((0..100_000).map(|node| format!("node{node:06}"))).unwrap();
    assert_eq!(nodes.run_count(), 1);
    assert!(nodes.heap_bytes() < 200, "{}", nodes.heap_bytes());
    assert_eq!(nodes.encode(MapForm::Pmix), b"pmix:pmix[node[6:0-99999]]\0");
    assert!(nodes.encode(MapForm::Blob).len() < 30);
    assert_eq!(nodes.position("node054321"), Some(54_321));
    assert_eq!(nodes.position("node100000"), None);
    assert_eq!(nodes.position("node54321"), None);
}

#[test]
fn shuffled_maps_share_the_text_of_names() {
    let shuffled =
        (0_u64..20_000).map(|node| format!("cluster-node-{:05}.example.org", node * 7_919 % 20_011));
    let map = NodeMap::from_names(shuffled).unwrap();
    assert!(map.heap_bytes() < 20_000 * 40, "{}", map.heap_bytes());
}

#[test]
fn rgx_03_all_tags_and_plain_lists_are_read() {
    let expected = map("n1,n2,login");
    for text in [
        "raw:n1,n2,login",
        "raw:n1,n2,login\0",
        "n1,n2,login",
        "n1,n2,login\0",
        "pmix[n[1:1-2],login]",
        "pmix:pmix[n[1:1,2],login]\0",
    ] {
        assert_eq!(NodeMap::parse(text.as_bytes()).unwrap(), expected, "{text}");
    }
}

#[test]
fn rgx_03_output_is_tagged_and_ends_with_nul() {
    let nodes = map("n1,n2,login");
    assert_eq!(nodes.encode(MapForm::Raw), b"raw:n1,n2,login\0");
    assert_eq!(nodes.encode(MapForm::Pmix), b"pmix:pmix[n[1:1-2],login]\0");
    assert!(nodes.encode(MapForm::Blob).starts_with(b"blob:\0"));
    assert_eq!(map("a[1],a[2]").encode(MapForm::Pmix), b"raw:a[1],a[2]\0");
}

#[test]
fn rgx_06_raw_form_is_plain_text() {
    assert_eq!(map("n1,n2,n3,login").to_raw(), "n1,n2,n3,login");
    // in the raw key a tag is no tag
    assert_eq!(names(&map("raw:x,y")), ["raw:x", "y"]);
}

#[test]
fn expressions_of_openpmix_are_read() {
    let parse = |text: &str| names(&NodeMap::parse(text.as_bytes()).unwrap());
    assert_eq!(parse("pmix[node[5:0-1,103].x]"), ["node00000.x", "node00001.x", "node00103.x"]);
    assert_eq!(parse("pmix[[3:7-8],a]"), ["007", "008", "a"]);
    assert_eq!(parse("pmix[n[2:098-0101]]"), ["n98", "n99", "n100", "n101"]);
    // the digits of a range may stand next to others
    let odd = NodeMap::parse(b"pmix[n1[2:8-11]5,n1105,n108]").unwrap();
    assert_eq!(names(&odd), ["n1085", "n1095", "n1105", "n1115", "n1105", "n108"]);
    assert_eq!(odd.position("n1105"), Some(2));
    assert_eq!(odd, map("n1085,n1095,n1105,n1115,n1105,n108"));
}

#[test]
fn bad_maps_are_refused_with_the_place() {
    use MapError::*;

    for (text, error) in [
        ("a,,b", EmptyName { at: 2 }),
        ("raw:a,", EmptyName { at: 6 }),
        ("a\0b", NameCharacter { at: 1, found: '\0' }),
        ("pmix[a", Expected { at: 6, what: "`,` or the closing `]`" }),
        ("pmix[a]b", Expected { at: 7, what: "the end of the expression" }),
        ("pmix:a", Expected { at: 5, what: "`pmix[`" }),
        ("pmix[a[0:1]]", Expected { at: 7, what: "a number of digits above 0" }),
        ("pmix[a[19:1]]", NumberTooGreat { at: 7, limit: "numbers in node names have at most 18 digits" }),
        ("pmix[a[1:5-4]]", Backwards { at: 9, first: 5, last: 4 }),
        ("pmix[a[1:5,x]]", Expected { at: 11, what: "a number" }),
        ("pmix[a[9:0-16777216]]", TooManyNodes { at: 9 }),
        ("pmix[a[9:0-9999999,0-9999999]]", TooManyNodes { at: 19 }),
        ("pmix[]]", Expected { at: 6, what: "the end of the expression" }),
    ] {
        let found = NodeMap::parse(text.as_bytes()).unwrap_err();
        assert_eq!(found, error, "{text}");
        assert_reads_well(&found);
    }
    assert_eq!(NodeMap::parse(b"ab\xff").unwrap_err(), NotUtf8 { at: 2 });
    assert_eq!(NodeMap::from_names(["a", "b,c"]).unwrap_err(), NameCharacter { at: 3, found: ',' });
    assert_eq!(NodeMap::from_names(["a", ""]).unwrap_err(), EmptyName { at: 2 });
}

#[test]
fn as_many_nodes_as_there_may_be_are_taken() {
    for text in ["pmix[a[9:0-16777215]]", "pmix[a[9:0-9999999,10000000-16777214],b]"] {
        let map = NodeMap::parse(text.as_bytes()).unwrap();
        assert_eq!(map.len(), 1 << 24, "{text}");
    }
}

#[test]
fn blobs_of_another_length_or_kind_are_refused() {
    let blob = map("n1,n2,login").encode(MapForm::Blob);
    for length in 0..blob.len() {
        // what is left of the tag is a plain name
        assert_eq!(NodeMap::parse(&blob[..length]).is_ok(), length < 5, "{length}");
    }
    let longer = [&blob[..], b"\0"].concat();
    assert!(matches!(NodeMap::parse(&longer), Err(MapError::Blob { .. })));
    assert!(matches!(
        NodeMap::parse(b"blob:\0component=zlib:\0size=9:\0"),
        Err(MapError::Blob { at: 7, .. })
    ));
    assert!(matches!(super::super::ProcMap::parse(&blob), Err(MapError::Blob { .. })));
    // after the tag and the kind
    let mut later = blob;
    later[7] += 1;
    assert!(matches!(NodeMap::parse(&later), Err(MapError::Blob { .. })));
}

#[test]
fn first_of_repeated_names_is_found() {
    let list: Vec<_> = (0..50).flat_map(|turn| (turn % 3..20).map(|node| format!("n{node:03}"))).collect();
    assert_round_trips(&list);
    // a short run that starts later does not hide a long one
    assert_eq!(map("n1,n2,n3,n4,n5,n6,n3,x,n2,n3").position("n5"), Some(4));
    // nor does one that ends right before the name
    assert_eq!(map("n3,n4,x,n1,n2,n3,n4,n5").position("n5"), Some(7));
}

/// Names likely to meet the special cases: few letters, digits of all lengths, punctuation of the forms.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab]{0,2}[0-2]{1,2}[.a]{0,2}[0-1]{0,2}",
        2 => "n[0-9]{1,3}",
        1 => "[0-9]{15,25}",
        1 => "[^,\0]{1,6}",
        1 => "[a\\[\\]:;*+-]{1,4}",
    ]
}

/// Lists with stretches that count up.
fn list() -> impl Strategy<Value = Vec<String>> {
    let stretch = ("[a-c]{0,2}[0-9]{0,1}-?", 0_u64..120, 1..20_u64, 0..4_usize, "(\\.c[0-9])?").prop_map(
        |(prefix, first, count, width, suffix)| {
            (first..first + count)
                .map(|number| format!("{prefix}{number:0width$}{suffix}"))
                .collect::<Vec<_>>()
        },
    );
    vec(prop_oneof![stretch, vec(name(), 1..5)], 0..8).prop_map(|stretches| stretches.concat())
}

proptest! {
    #[test]
    fn rgx_01_any_list_round_trips(list in list()) {
        assert_round_trips(&list);
    }

    #[test]
    fn rgx_01_absent_names_are_not_found(list in list(), absent in name()) {
        let map = NodeMap::from_names(&list).unwrap();
        prop_assert_eq!(map.position(&absent), list.iter().position(|name| *name == absent));
    }

    #[test]
    fn any_bytes_parse_or_fail(bytes: Vec<u8>, text in "(pmix:)?pmix\\[[a0-9:,\\[\\]-]{0,20}\\]") {
        let _ = NodeMap::parse(&bytes);
        if let Ok(map) = NodeMap::parse(text.as_bytes()) {
            prop_assert!(map.run_count() <= text.len() * 18);
            prop_assert_eq!(NodeMap::parse(&map.encode(MapForm::Blob)).unwrap().len(), map.len());
        }
    }

    #[test]
    fn damaged_blobs_parse_or_fail(list in list(), at: prop::sample::Index, byte: u8) {
        let mut blob = NodeMap::from_names(list).unwrap().encode(MapForm::Blob);
        let at = at.index(blob.len());
        blob[at] = byte;
        if let Ok(map) = NodeMap::parse(&blob) {
            prop_assert!(map.run_count() <= blob.len());
            prop_assert!(map.iter().take(1000).all(|name| map.position(&name).is_some()));
        }
    }
}
