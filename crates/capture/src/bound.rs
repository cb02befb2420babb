//! What this kernel and this process's privileges allow.

use crate::error::CaptureError;
use std::path::Path;

/// Capability numbers, from linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The capabilities that are missing to load probes, or `None`.
#[must_use]
pub fn missing_privilege() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    let has = |capability: u32| effective >> capability & 1 == 1;
    if has(CAP_SYS_ADMIN) {
        return None;
    }
    let missing: Vec<&str> = [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")]
        .into_iter()
        .filter(|(capability, _)| !has(*capability))
        .map(|(_, name)| name)
        .collect();
    (!missing.is_empty()).then(|| format!("missing {}", missing.join(" and ")))
}

/// Refuses early, in words, what would otherwise be a number from the kernel.
pub(crate) fn check() -> Result<(), CaptureError> {
    if let Some(missing) = missing_privilege() {
        return Err(CaptureError::NoPrivilege { missing });
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Err(CaptureError::NoBtf);
    }
    Ok(())
}

/// The kernel's release, for messages.
pub(crate) fn release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_namespace_is_refused_with_its_name_and_what_helps() {
        let words = CaptureError::PidNamespace { namespace: "pid:[4026532280]".to_owned() }.to_string();
        assert!(words.contains("pid:[4026532280]") && words.contains("--pid=host"), "{words}");
    }
}
