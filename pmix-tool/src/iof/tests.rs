use bytes::Bytes;
use pmix_client::OutputChunk;
use pmix_types::message::Output;
use pmix_types::{Info, IofChannels, Key, ProcId, Rank, keys};
use proptest::prelude::*;

use super::format::OutputFormat;
use super::writer::{MAX_LINE, OutputWriter};

const OUT: IofChannels = IofChannels::STDOUT;
const ERR: IofChannels = IofChannels::STDERR;

fn chunk(rank: u32, channels: IofChannels, data: &str) -> OutputChunk {
    let source = ProcId::new("a&b".parse().unwrap(), Rank::from_raw(rank));
    Output::new(source, channels, data.to_owned().into()).into()
}

fn complete(rank: u32, channels: IofChannels) -> OutputChunk {
    let source = ProcId::new("a&b".parse().unwrap(), Rank::from_raw(rank));
    let mut output = Output::new(source, channels, Bytes::new());
    output.info.push(Info::new(&keys::IOF_COMPLETE, true));
    output.into()
}

/// What is shown of pieces.
fn shown(format: OutputFormat, chunks: &[OutputChunk]) -> (String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut writer = OutputWriter::new(format, &mut out, &mut err);
    for chunk in chunks {
        writer.write(chunk).unwrap();
    }
    writer.finish().unwrap();
    (String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
}

#[test]
fn iof_09_lines_of_several_sources_are_not_mixed() {
    let chunks = [chunk(0, OUT, "on"), chunk(1, OUT, "two\nthr"), chunk(0, OUT, "e\n"), chunk(0, ERR, "oh")];
    assert_eq!(shown(OutputFormat::default(), &chunks), ("two\none\nthr".into(), "oh".into()));
    let raw = OutputFormat::default().raw(true);
    assert_eq!(shown(raw, &chunks).0, "ontwo\nthre\n");
    let merged = OutputFormat::default().merge(true);
    assert_eq!(shown(merged, &chunks), ("two\none\nohthr".into(), String::new()));
}

#[test]
fn iof_11_lines_begin_with_what_was_asked_for() {
    let chunks = [chunk(0, OUT, "one\n\nla"), chunk(7, ERR, "oh\n")];
    let by_rank = shown(OutputFormat::default().rank(true), &chunks);
    assert_eq!(by_rank.0, "[0]<stdout>: one\n[0]<stdout>: \n[0]<stdout>: la\n");
    assert_eq!(by_rank.1, "[7]<stderr>: oh\n");
    let tagged = shown(OutputFormat::default().tag(true).rank(true), &chunks);
    assert_eq!(tagged.1, "[a&b,7]<stderr>: oh\n");
    let stamped = shown(OutputFormat::default().timestamp(true).rank(true), &chunks).1;
    let (time, line) = stamped.split_once(' ').unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z') && time.contains('T'), "{stamped}");
    assert_eq!(line, "[7]<stderr>: oh\n");
}

#[test]
fn iof_11_each_directive_says_what_its_setting_says() {
    let format = OutputFormat::default;
    let named = |key: &Key<String>| Info::new(key, "name");
    let on = |key: &Key<bool>| Info::new(key, true);
    for (said, expected) in [
        (on(&keys::IOF_TAG_OUTPUT), format().tag(true)),
        (on(&keys::IOF_RANK_OUTPUT), format().rank(true)),
        (on(&keys::IOF_TIMESTAMP_OUTPUT), format().timestamp(true)),
        (on(&keys::IOF_XML_OUTPUT), format().xml(true)),
        (on(&keys::IOF_OUTPUT_RAW), format().raw(true)),
        (on(&keys::IOF_MERGE_STDERR_STDOUT), format().merge(true)),
        (on(&keys::IOF_FILE_PATTERN), format().pattern(true)),
        (on(&keys::IOF_FILE_ONLY), format().file_only(true)),
        (named(&keys::IOF_OUTPUT_TO_FILE), format().file("name")),
        (named(&keys::IOF_OUTPUT_TO_DIRECTORY), format().directory("name")),
    ] {
        let read = OutputFormat::from_directives(&vec![said.clone()].into()).unwrap();
        assert_eq!(read, expected, "{said}");
    }
}

#[test]
fn iof_11_xml_holds_any_text() {
    let xml = shown(OutputFormat::default().xml(true), &[chunk(2, OUT, "a <b> & \"c\"\u{7}\nrest")]).0;
    assert_eq!(
        xml,
        "<stdout nspace=\"a&amp;b\" rank=\"2\">a &lt;b&gt; &amp; &quot;c&quot;\u{fffd}</stdout>\n\
         <stdout nspace=\"a&amp;b\" rank=\"2\">rest</stdout>\n"
    );
    let (_, xml) = shown(OutputFormat::default().xml(true), &[chunk(2, ERR, "oh\n")]);
    assert_eq!(xml, "<stderr nspace=\"a&amp;b\" rank=\"2\">oh</stderr>\n");
    let (_, stamped) = shown(OutputFormat::default().xml(true).timestamp(true), &[chunk(2, ERR, "oh\n")]);
    assert!(stamped.starts_with("<stderr nspace=\"a&amp;b\" rank=\"2\" timestamp=\"20"), "{stamped}");
}

#[test]
fn iof_11_output_goes_to_files_of_each_process() {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let chunks = [chunk(0, OUT, "one\n"), chunk(1, ERR, "oh\n"), chunk(0, OUT, "two\n")];
    let base = dir.path().join("base");
    let both = shown(OutputFormat::default().file(&base).rank(true), &chunks);
    assert_eq!(both.0, "[0]<stdout>: one\n[0]<stdout>: two\n");
    assert_eq!(read("base.a&b.0.out"), both.0);
    assert_eq!(read("base.a&b.1.err"), "[1]<stderr>: oh\n");

    let pattern = OutputFormat::default().file(dir.path().join("%r-%n-%%")).pattern(true).file_only(true);
    assert_eq!(shown(pattern, &chunks), (String::new(), String::new()));
    assert_eq!(read("0-a&b-%.out"), "one\ntwo\n");

    let below = OutputFormat::default().directory(dir.path().join("deep/er"));
    assert_eq!(shown(below, &chunks).0, "one\ntwo\n");
    assert_eq!(read("deep/er/a&b/rank.0/stdout"), "one\ntwo\n");
    assert_eq!(read("deep/er/a&b/rank.1/stderr"), "oh\n");
    let merged = OutputFormat::default().directory(dir.path().join("merged")).merge(true);
    assert_eq!(shown(merged, &chunks).0, "one\noh\ntwo\n");
    assert_eq!(read("merged/a&b/rank.1/stdout"), "oh\n");
    // no name leads elsewhere
    let mut elsewhere = chunk(0, OUT, "far\n");
    elsewhere.source.nspace = "../x".parse().unwrap();
    let both = OutputFormat::default().directory(dir.path().join("deep")).file(dir.path().join("near"));
    shown(both, &[elsewhere]);
    assert_eq!([read("deep/.._x/rank.0/stdout"), read("near..._x.0.out")], ["far\n", "far\n"]);
    for dots in [".", ".."] {
        let mut above = chunk(0, OUT, "up\n");
        above.source.nspace = dots.parse().unwrap();
        shown(
            OutputFormat::default().directory(dir.path().join("deep").join(dots.len().to_string())),
            &[above],
        );
        assert_eq!(read(&format!("deep/{}/_/rank.0/stdout", dots.len())), "up\n");
    }
    // what was there before is over, and without a file there is nothing else to show it on
    let again = OutputFormat::default().file(&base);
    shown(again, &[chunk(0, OUT, "new\n")]);
    assert_eq!(read("base.a&b.0.out"), "new\n");
    assert_eq!(shown(OutputFormat::default().file_only(true), &chunks).0, "one\ntwo\n");
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", dir.path().join("base.a&b.0.out")).unwrap();
    let format = OutputFormat::default().file(dir.path().join("base"));
    let error = OutputWriter::new(format, Vec::new(), Vec::new()).write(&chunk(0, OUT, "one\n")).unwrap_err();
    let name = dir.path().join("base.a&b.0.out: ").display().to_string();
    assert!(error.to_string().starts_with(&name), "{error}");
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn iof_08_the_rest_of_a_line_is_shown_when_its_channel_is_closed() {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut writer = OutputWriter::new(OutputFormat::default().rank(true), &mut out, &mut err);
    for chunk in [chunk(0, OUT, "rest"), chunk(0, ERR, "open"), complete(0, OUT)] {
        writer.write(&chunk).unwrap();
    }
    assert_eq!(writer.lines.len(), 1, "nothing is held of a closed channel");
    assert_eq!((out, err), (b"[0]<stdout>: rest\n".to_vec(), Vec::new()));

    // the end of a job is that of each of its processes
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut writer = OutputWriter::new(OutputFormat::default().rank(true), &mut out, &mut err);
    let mut end = complete(0, OUT | ERR);
    end.source.rank = Rank::WILDCARD;
    for chunk in [chunk(0, OUT, "a"), chunk(1, ERR, "b"), end] {
        writer.write(&chunk).unwrap();
    }
    assert!(writer.lines.is_empty());
    assert_eq!((out, err), (b"[0]<stdout>: a\n".to_vec(), b"[1]<stderr>: b\n".to_vec()));
}

#[test]
fn a_line_too_long_to_hold_is_shown_in_pieces_with_one_tag() {
    let long = "x".repeat(MAX_LINE + 1);
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut writer = OutputWriter::new(OutputFormat::default(), &mut out, &mut err);
    writer.write(&chunk(0, OUT, &long)).unwrap();
    assert_eq!(out.len(), long.len(), "nothing of it is held");
    let (out, _) =
        shown(OutputFormat::default().rank(true), &[chunk(0, OUT, &long), chunk(0, OUT, "end\nnext\n")]);
    assert_eq!(out, format!("[0]<stdout>: {long}end\n[0]<stdout>: next\n"));
}

proptest! {
    #[test]
    fn iof_11_tags_do_not_depend_on_the_pieces(pieces in prop::collection::vec("[a\n]{0,9}", 0..9)) {
        let chunks: Vec<_> = pieces.iter().map(|piece| chunk(0, OUT, piece)).collect();
        let expected: String = pieces.concat().lines().map(|line| format!("[0]<stdout>: {line}\n")).collect();
        prop_assert_eq!(shown(OutputFormat::default().rank(true), &chunks).0, expected);
        prop_assert_eq!(shown(OutputFormat::default(), &chunks).0, pieces.concat());
    }
}
