//! The symbols of MPIR, which a debugger finds in this program, and what they hold. The interface is described in "The MPIR Process
//! Acquisition Interface" of the MPI Forum.
//!
//! A debugger changes them, and reads them while the program is stopped, as another thread would, so they are atomic; in memory these
//! are the C types `int`, `char *` and `MPIR_PROCDESC *`.

#![allow(non_upper_case_globals, non_snake_case, reason = "these names are the interface")]
// `no_mangle` and `export_name` are unsafe because two symbols of one name make a program undefined. Nothing else has these.
#![allow(unsafe_code, reason = "a symbol has no name for debuggers without an unsafe attribute")]

use std::ffi::{CString, c_char, c_int};
use std::hint::black_box;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// A row of the table: `MPIR_PROCDESC`.
#[derive(Debug)]
#[repr(C)]
struct Row {
    host_name: *mut c_char,
    executable_name: *mut c_char,
    pid: c_int,
}

/// `MPIR_DEBUG_SPAWNED`: there is a table.
const SPAWNED: c_int = 1;
/// `MPIR_DEBUG_ABORTING`: there will be none.
const ABORTING: c_int = 2;

#[unsafe(no_mangle)]
static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);
#[unsafe(no_mangle)]
static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);
#[unsafe(no_mangle)]
static MPIR_debug_abort_string: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
#[unsafe(no_mangle)]
static MPIR_proctable: AtomicPtr<Row> = AtomicPtr::new(ptr::null_mut());
#[unsafe(no_mangle)]
static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);
/// That it is there says that this program is no rank.
#[unsafe(no_mangle)]
static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);
/// That it is there says that ranks go on by themselves to which no debugger has attached.
#[unsafe(no_mangle)]
static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// Where a debugger sets a breakpoint.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn MPIR_Breakpoint() {
    // a function without effect would not be called; what is only to be there must not be left out
    black_box([&MPIR_debug_state, &MPIR_i_am_starter, &MPIR_partial_attach_ok]);
}

/// A rank as a debugger wants to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) host: String,
    pub(crate) executable: String,
    pub(crate) pid: i32,
}

/// Whether a debugger has said that it is there.
pub(crate) fn is_debugged() -> bool {
    MPIR_being_debugged.load(Ordering::SeqCst) != 0
}

/// Shows the debugger the ranks; returns when it goes on.
pub(crate) fn present(ranks: Vec<Rank>) {
    let row = |rank: Rank| Row {
        host_name: c_string(rank.host),
        executable_name: c_string(rank.executable),
        pid: rank.pid,
    };
    // for ever: a debugger may read it at any time
    let rows = Box::leak(ranks.into_iter().map(row).collect::<Box<[_]>>());
    MPIR_proctable_size.store(c_int::try_from(rows.len()).unwrap_or(c_int::MAX), Ordering::SeqCst);
    MPIR_proctable.store(rows.as_mut_ptr(), Ordering::SeqCst);
    change_to(SPAWNED);
}

/// Tells the debugger why there will be no ranks; returns when it goes on.
pub(crate) fn abort(why: &str) {
    MPIR_debug_abort_string.store(c_string(why.to_owned()), Ordering::SeqCst);
    change_to(ABORTING);
}

fn change_to(state: c_int) {
    MPIR_debug_state.store(state, Ordering::SeqCst);
    MPIR_Breakpoint();
}

/// The text as C has it, for ever.
fn c_string(mut text: String) -> *mut c_char {
    text.retain(|c| c != '\0');
    CString::new(text).unwrap_or_default().into_raw()
}
