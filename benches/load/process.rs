//! What a process has used, as the kernel counts it.

use std::time::Duration;

use nix::unistd::Pid;

use crate::support::memory::Memory;

/// The most memory that it ever held.
pub(crate) fn peak_kib(process: Pid) -> u64 {
    Memory::of(process).peak_kib
}

/// Of all its threads, in user and kernel. The kernel shows hundredths of a second, whatever its own clock is.
pub(crate) fn cpu(process: Pid) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // The name of the program, in brackets, may hold anything.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let fields: Vec<_> = fields.split(' ').collect();
    let hundredths = |at: usize| fields[at].parse::<u64>().unwrap();
    Duration::from_millis(10 * (hundredths(11) + hundredths(12)))
}
