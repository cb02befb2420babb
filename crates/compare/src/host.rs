//! On what an experiment ran.
use std::fs;

use serde::{Deserialize, Serialize};

/// A machine, as far as it matters for figures; it has no name, so that results may be shown to anybody.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The processor's model; empty where the kernel does not tell.
    pub processor: String,
    /// CPUs that are online.
    pub cpus: usize,
    /// Memory in bytes; 0 where the kernel does not tell.
    pub memory_bytes: u64,
    /// The kernel and its release, such as `Linux 6.12.1`.
    pub kernel: String,
}

impl Host {
    /// This machine.
    #[must_use]
    pub fn this() -> Self {
        // SAFETY: asks for a constant of the system.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Self {
            processor: processor(&read("/proc/cpuinfo")),
            cpus: usize::try_from(cpus).unwrap_or(0),
            memory_bytes: memory_bytes(&read("/proc/meminfo")),
            kernel: ["ostype", "osrelease"]
                .map(|name| read(&format!("/proc/sys/kernel/{name}")).trim().to_owned())
                .join(" "),
        }
    }

    /// Whether figures of both belong together: the same model of processor and as many of them. Another kernel is a
    /// change that a history should show, so it makes no other machine.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.processor, self.cpus) == (&other.processor, other.cpus)
    }

    /// In words.
    #[must_use]
    pub fn describe(&self) -> String {
        let processor = if self.processor.is_empty() { "unknown processor" } else { &self.processor };
        let cpus = if self.cpus == 1 { "1 CPU".to_owned() } else { format!("{} CPUs", self.cpus) };
        let memory = match self.memory_bytes {
            0 => String::new(),
            bytes => format!(", {:.1} GB of memory", bytes as f64 / 1e9),
        };
        let kernel = if self.kernel.trim().is_empty() { String::new() } else { format!(", {}", self.kernel) };
        format!("{processor}, {cpus}{memory}{kernel}")
    }
}

/// The first model that `/proc/cpuinfo` names; on some architectures it has only numbers, which name it as well.
fn processor(cpuinfo: &str) -> String {
    let field = |name: &str| {
        let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        let mut found = fields.filter(|(found, _)| found.trim() == name).map(|(_, value)| value.trim().to_owned());
        found.find(|value| !value.is_empty())
    };
    let numbered = || Some(format!("processor {} part {}", field("CPU implementer")?, field("CPU part")?));
    field("model name").or_else(|| field("Model")).or_else(numbered).unwrap_or_default()
}

fn memory_bytes(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    let kilobytes: Option<u64> = line.split_whitespace().next().and_then(|number| number.parse().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_told_by_its_processor() {
        assert_eq!(
            processor("processor\t: 0\nmodel name\t: A 7B13 64-Core\nprocessor\t: 1\nmodel name\t: B\n"),
            "A 7B13 64-Core"
        );
        assert_eq!(processor("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), "processor 0x41 part 0xd0c");
        assert_eq!(
            (processor(""), memory_bytes("MemTotal:  4096 kB\n"), memory_bytes("x")),
            (String::new(), 4_194_304, 0)
        );
        let this = Host::this();
        assert!(this.cpus > 0 && this.memory_bytes > 0 && this.kernel.starts_with("Linux "), "{this:?}");
        assert!(this.is_like(&Host { kernel: "another".to_owned(), ..this.clone() }));
        assert!(!this.is_like(&Host { cpus: this.cpus + 1, ..this.clone() }));
        let odd =
            Host { processor: "P".to_owned(), cpus: 1, memory_bytes: 4_100_000_000, kernel: "Linux 6".to_owned() };
        assert_eq!(odd.describe(), "P, 1 CPU, 4.1 GB of memory, Linux 6");
        assert_eq!(Host::default().describe(), "unknown processor, 0 CPUs");
    }
}
