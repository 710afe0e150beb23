//! What a process holds, as the kernel counts it.

use nix::unistd::Pid;

#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// The most it ever held.
    pub peak_kib: u64,
    pub now_kib: u64,
}

impl Memory {
    /// Of the peak or of what is held, whichever grew more; the kernel's counts may also fall.
    pub fn growth_since(self, early: Self) -> u64 {
        let peak = self.peak_kib.saturating_sub(early.peak_kib);
        peak.max(self.now_kib.saturating_sub(early.now_kib))
    }

    pub fn of(process: Pid) -> Self {
        let status = format!("/proc/{process}/status");
        let status = std::fs::read_to_string(status).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value = line.unwrap().trim().strip_suffix(" kB").unwrap();
            value.parse().unwrap()
        };
        Self {
            peak_kib: field("VmHWM:"),
            now_kib: field("VmRSS:"),
        }
    }
}
