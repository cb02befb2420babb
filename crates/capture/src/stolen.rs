//! Time that the hypervisor gave to others, by the kernel's own count.

/// Stolen time of each CPU since boot, from /proc/stat (proc(5): the eighth number, in clock ticks).
pub(crate) fn steal_by_cpu() -> Vec<(usize, u64)> {
    // SAFETY: sysconf reads a constant.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            // The first line, without a number, is the sum over all CPUs.
            let numbered = line.strip_prefix("cpu").filter(|rest| !rest.starts_with(' '))?;
            let mut fields = numbered.split_ascii_whitespace();
            let cpu = fields.next()?.parse().ok()?;
            let steal: u64 = fields.nth(7)?.parse().ok()?;
            Some((cpu, steal * (1_000_000_000 / ticks)))
        })
        .collect()
}
