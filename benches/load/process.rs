//! What a process holds and has used, as the kernel counts it.

use std::time::Duration;

use nix::unistd::Pid;

/// The most memory that it ever held.
pub(crate) fn peak_kib(process: Pid) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let value = line.unwrap().trim().strip_suffix(" kB").unwrap();
    value.parse().unwrap()
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
