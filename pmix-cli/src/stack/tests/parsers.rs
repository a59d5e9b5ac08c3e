//! What eu-stack 0.188, gdb 13.1 and py-spy 0.4.3 have printed.

use proptest::prelude::*;

use crate::stack::frame::{self, Frame, RawThread};
use crate::stack::parse::{eu_stack, gdb, py_spy};

/// Names with lines, innermost first.
fn text(thread: &RawThread) -> Vec<String> {
    let frames = thread.frames.iter().map(|frame| {
        let source = frame.source.as_ref().map(|source| format!(" {source}")).unwrap_or_default();
        format!("{}{source}", frame.function.as_deref().unwrap_or("??"))
    });
    frames.collect()
}

fn only(threads: Vec<RawThread>, tid: i32) -> RawThread {
    let [thread] = <[_; 1]>::try_from(threads).unwrap();
    assert_eq!(thread.tid, Some(tid));
    thread
}

#[test]
fn eu_stack_prints_frames_with_lines_and_inlined_functions() {
    let thread = only(eu_stack(include_str!("captured/eu-stack-cpp.txt")), 9477);
    let expected = [
        "__GI___clock_nanosleep clock_nanosleep.c:48",
        "__GI___nanosleep nanosleep.c:25",
        "usleep usleep.c:31",
        "field::Grid<int>::step(int) inl.cc:5",
        "field::Grid<int>::advance(int) inl.cc:6",
        "main inl.cc:8",
        "__libc_start_call_main libc_start_call_main.h:58",
        "__libc_start_main_impl libc-start.c:360",
        "_start",
    ];
    assert_eq!(text(&thread), expected);
    assert_eq!(thread.frames[0].address, Some(0x7f49_70ce_d545));
}

#[test]
fn gdb_prints_frames_with_lines_and_inlined_functions() {
    let thread = only(gdb(include_str!("captured/gdb-cpp.txt")), 9477);
    let expected = [
        "__GI___clock_nanosleep clock_nanosleep.c:48",
        "__GI___nanosleep nanosleep.c:25",
        "usleep usleep.c:31",
        "field::Grid<int>::step inl.cc:5",
        "field::Grid<int>::advance inl.cc:6",
        "main inl.cc:8",
    ];
    assert_eq!(text(&thread), expected);
    assert_eq!(thread.frames[5].address, Some(0x55f5_4483_50f8));
}

#[test]
fn functions_without_symbols_are_known_by_their_file() {
    let file = |address: u64| match address >> 40 {
        0x56 => Some("/home/user/solver"),
        0x7f => Some("/lib/x86_64-linux-gnu/libc.so.6"),
        _ => None,
    };
    for thread in [
        only(eu_stack(include_str!("captured/eu-stack-stripped.txt")), 9478),
        only(gdb(include_str!("captured/gdb-stripped.txt")), 9478),
    ] {
        assert_eq!(text(&thread)[3..5], ["??", "??"]);
        assert!(frame::is_whole(&thread));
        let stack = frame::stack(thread.frames, file);
        let names: Vec<_> = stack.iter().map(|frame| (frame.function.as_str(), frame.is_program)).collect();
        let shown =
            [("?? (solver)", true), ("usleep", false), ("__nanosleep", false), ("__clock_nanosleep", false)];
        // without a `main` that is known, all but what is known to come before it is shown
        let start = names.iter().rposition(|name| *name == shown[0]).unwrap();
        assert_eq!(names[start..], shown);
    }
}

#[test]
fn frames_of_libraries_without_lines() {
    for thread in [
        only(eu_stack(include_str!("captured/eu-stack-mpi.txt")), 2275),
        only(gdb(include_str!("captured/gdb-mpi.txt")), 2275),
    ] {
        let names = text(&thread);
        assert_eq!(
            names[1..6],
            [
                "opal_progress",
                "ompi_request_default_wait",
                "ompi_coll_base_barrier_intra_recursivedoubling",
                "PMPI_Barrier",
                "main late.c:20",
            ]
        );
        let stack = frame::stack(thread.frames, |_| Some("/home/user/late"));
        assert_eq!((stack[0].function.as_str(), stack.len()), ("main", 6));
        assert_eq!(stack[1].library_call(), Some("MPI_Barrier"));
        assert!(stack[5].function.ends_with("sched_yield"), "{stack:?}");
    }
}

#[test]
fn threads_are_told_apart() {
    for (threads, inner) in [
        (eu_stack(include_str!("captured/eu-stack-threads.txt")), 9477),
        (gdb(include_str!("captured/gdb-threads.txt")), 9481),
    ] {
        assert_eq!(threads.len(), 2);
        assert_eq!(threads[0].tid, Some(inner));
        assert_eq!(threads[1].tid, Some(if inner == 9477 { 9481 } else { 9477 }));
        let worker = threads.into_iter().find(|thread| thread.tid == Some(9481)).unwrap();
        assert!(frame::is_whole(&worker));
        let stack = frame::stack(worker.frames, |_| Some("/home/user/inl"));
        assert_eq!(stack[0].function, "work", "{stack:?}");
    }
}

/// gdb before release 9 prints no address there.
#[test]
fn an_inlined_function_is_where_the_one_is_that_it_has_called() {
    let threads = gdb(include_str!("captured/gdb-threads.txt"));
    let main = threads.into_iter().find(|thread| thread.tid == Some(9477)).unwrap();
    assert_eq!(main.frames[4].function.as_deref(), Some("field::Grid<int>::advance"));
    assert_eq!(main.frames[4].address, main.frames[3].address);
}

#[test]
fn names_lose_versions_and_prefixes() {
    let names = |text: &str| {
        let frames = eu_stack(text).remove(0).frames;
        frame::stack(frames, |_| None).into_iter().map(|frame| frame.function).collect::<Vec<_>>()
    };
    let text = "TID 1:\n#0  0x01 clock_nanosleep@GLIBC_2.2.5\n#1  0x02 main\n#2  0x03 __libc_start_main@@GLIBC_2.34\n";
    assert_eq!(names(text), ["main", "clock_nanosleep"]);
    // what has no more than that is shown
    assert_eq!(names("TID 1:\n#0  0x03 __clone3\n"), ["__clone3"]);
    assert_eq!(names("TID 1:\n#0  0x03\n"), ["??"]);
}

#[test]
fn a_stack_that_ends_early_is_not_whole() {
    let thread = only(eu_stack("TID 5:\n#0  0x01 __sched_yield\n#1  0x02\n"), 5);
    assert!(!frame::is_whole(&thread));
}

#[test]
fn py_spy_reports_frames_and_the_interpreter_below_them_is_left_out() {
    let threads = py_spy(include_str!("captured/py-spy.json")).unwrap();
    let [(Some(9632), python)] = &threads[..] else { panic!("{threads:?}") };
    let text = |frames: &[Frame]| {
        let texts = frames.iter().map(|frame| match &frame.source {
            Some(source) => format!("{} {source}", frame.function),
            None => frame.function.clone(),
        });
        texts.collect::<Vec<_>>()
    };
    assert_eq!(text(python), ["<module> w.py:6", "work w.py:5", "inner w.py:3"]);
    let native = super::frames(&[("main", 0), ("PyEval", 0), ("PMPI_Barrier", 0), ("opal_progress", 0)]);
    let both = frame::with_python(python.clone(), &native);
    assert_eq!(text(&both[2..]), ["inner w.py:3", "PMPI_Barrier", "opal_progress"]);
    assert_eq!(frame::with_python(python.clone(), &native[..2]), *python);
    assert!(py_spy("Error: no Python").is_err());
}

proptest! {
    #[test]
    fn whatever_a_debugger_prints_is_read(text in ".*", near in "(TID [0-9]*:\n|Thread [0-9] .LWP 7.:\n|#[0-9]+ +(0x[0-9a-f]* )?[a-z (:)]*\n|    [a-z/.:0-9]*\n)*") {
        for text in [&text, &near] {
            for thread in eu_stack(text).into_iter().chain(gdb(text)) {
                let count = thread.frames.len();
                let stack = frame::stack(thread.frames, |_| None);
                prop_assert!(stack.len() <= count && stack.is_empty() == (count == 0));
            }
            let _ = py_spy(text);
        }
    }
}

#[test]
fn names_of_rust_are_decoded_and_have_no_hashes() {
    let text = "\
TID 7:
#0  0x0000000000000001 _RNvNtCsjrHSEGnQ3l9_3std2rt19lang_start_internal
#1  0x0000000000000002 mio::poll::Poll::poll::h5428e03e54c3806b
#2  0x0000000000000003 _ZN4core3ops8function6FnOnce9call_once17h98356b8ca0123456E
#3  0x0000000000000004 app::main::help
#4  0x0000000000000005 main
";
    let thread = eu_stack(text).remove(0);
    let names: Vec<_> =
        frame::stack(thread.frames, |_| None).into_iter().map(|frame| frame.function).collect();
    let expected = [
        "main",
        "app::main::help",
        "core::ops::function::FnOnce::call_once",
        "mio::poll::Poll::poll",
        "std::rt::lang_start_internal",
    ];
    assert_eq!(names, expected);
}
