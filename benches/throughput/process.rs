//! What the kernel says about a process.

use std::time::Duration;

/// Of a second: in what /proc counts processor time, on every Linux.
const TICK: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Process(pub(crate) u32);

impl Process {
    /// User and system time of all its threads so far.
    pub(crate) fn cpu(self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0)).unwrap();
        // The name of the program may hold anything, a bracket included.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let fields: Vec<_> = fields.split_whitespace().collect();
        let ticks = |field: usize| fields[field].parse::<u32>().unwrap();
        TICK * (ticks(11) + ticks(12))
    }

    /// The most memory that it ever had resident, in bytes.
    pub(crate) fn peak_memory(self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = line.unwrap().trim().trim_end_matches(" kB");
        kibibytes.parse::<u64>().unwrap() * 1024
    }
}

/// Cores, processor, memory.
pub(crate) fn machine() -> String {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = text("/proc/cpuinfo");
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("unknown processor", |(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = text("/proc/meminfo");
    let kibibytes: u64 = memory
        .split_whitespace()
        .nth(1)
        .and_then(|number| number.parse().ok())
        .unwrap_or(0);
    format!("{cores} cores, {model}, {} GiB", kibibytes >> 20)
}

/// Of the last minute: more than the number of cores means that others were at work.
pub(crate) fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split_whitespace().next().unwrap_or("?").to_owned()
}
