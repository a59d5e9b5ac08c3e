//! The registers of a thread, as core files have them.

use std::io;

use nix::libc::user_regs_struct;
use nix::sys::ptrace;
use nix::unistd::Pid;

#[derive(Clone, Debug)]
pub(super) struct Registers(user_regs_struct);

impl Registers {
    /// Those of a thread that is stopped.
    pub(super) fn of(pid: Pid) -> io::Result<Self> {
        Ok(Self(ptrace::getregs(pid)?))
    }
}

#[cfg(target_arch = "x86_64")]
impl Registers {
    /// `EM_X86_64`
    pub(super) const MACHINE: u16 = 62;

    pub(super) const fn stack_pointer(&self) -> u64 {
        self.0.rsp
    }

    /// In the order of `struct user_regs_struct`.
    pub(super) fn words(&self) -> Vec<u64> {
        let r = &self.0;
        vec![
            r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx, r.rdx, r.rsi,
            r.rdi, r.orig_rax, r.rip, r.cs, r.eflags, r.rsp, r.ss, r.fs_base, r.gs_base, r.ds, r.es, r.fs,
            r.gs,
        ]
    }
}

#[cfg(target_arch = "aarch64")]
impl Registers {
    /// `EM_AARCH64`
    pub(super) const MACHINE: u16 = 183;

    pub(super) const fn stack_pointer(&self) -> u64 {
        self.0.sp
    }

    /// In the order of `struct user_pt_regs`.
    pub(super) fn words(&self) -> Vec<u64> {
        self.0.regs.into_iter().chain([self.0.sp, self.0.pc, self.0.pstate]).collect()
    }
}
