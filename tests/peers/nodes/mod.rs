//! `pmixrun` and DVMs on several hosts that are reached by ssh, with Slurm, with etcd, on a terminal.

mod direct;
mod dvm;
mod etcd;
mod faults;
mod hosts;
mod join;
mod kubernetes;
mod pbs;
mod slurm;
mod spread;
mod starting;
mod strangers;
mod successor;
