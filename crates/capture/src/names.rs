//! Names of what the optional sources tell by number: devices, interrupts, functions of the kernel.

use crate::symbols::Symbols;
use std::collections::{HashSet, VecDeque};
use std::fs;
use weir_wire::watched::{
    DiskRequest, HARD_INTERRUPT, LockWait, NAMED_DEVICE, NAMED_FILE, NAMED_FUNCTION, NAMED_INTERRUPT, NAMED_TASK,
};
use weir_wire::{Kind, Record, Slot, text_slots};

/// A device's number is `major << 20 | minor`.
const MINOR_BITS: u32 = 20;
/// What was told may be in a segment that is gone: after this it is told again.
const TELL_AGAIN_NS: u64 = 10_000_000_000;
/// Numbers that are remembered as told.
const MOST_TOLD: usize = 4096;
/// Names that wait for the next look.
const MOST_PENDING: usize = 256;

/// Numbers that were met, told by name once.
#[derive(Debug)]
pub(crate) struct Names {
    symbols: Symbols,
    told: HashSet<(u8, u64)>,
    pending: VecDeque<(u8, u64)>,
    forget_ns: u64,
}

impl Names {
    pub(crate) fn new(symbols: Symbols) -> Self {
        Self { symbols, told: HashSet::new(), pending: VecDeque::new(), forget_ns: 0 }
    }

    /// Takes note of the numbers in an event.
    pub(crate) fn see(&mut self, record: &Record) {
        if record.kind == Kind::Named as u16 && record.flags == NAMED_FILE && record.b >> MINOR_BITS == 0 {
            // Not on a device of blocks: its file system is known by where it is mounted.
            self.meet((NAMED_DEVICE, record.b));
        } else if let Some(request) = DiskRequest::read(record) {
            self.meet((NAMED_DEVICE, u64::from(request.device)));
        } else if let Some(wait) = LockWait::read(record) {
            // No event of the scheduler names a task that holds a lock and sleeps.
            self.meet((NAMED_TASK, u64::from(wait.holder)));
            if wait.sort.is_kernels() {
                self.meet((NAMED_FUNCTION, wait.key));
            }
        } else if record.kind == Kind::Interrupt as u16 && record.flags == HARD_INTERRUPT {
            self.meet((NAMED_INTERRUPT, record.a >> 48));
        }
    }

    fn meet(&mut self, met: (u8, u64)) {
        // Without room it is met again, and told then.
        if met.1 != 0 && self.pending.len() < MOST_PENDING && self.told.len() < MOST_TOLD && self.told.insert(met) {
            self.pending.push_back(met);
        }
    }

    /// Tells the names of what was met since.
    pub(crate) fn look(&mut self, now_ns: u64, tell: &mut dyn FnMut(Record, &[Slot])) {
        for (sort, key) in std::mem::take(&mut self.pending) {
            let name = match sort {
                NAMED_DEVICE if key >> MINOR_BITS == 0 => {
                    file_system(key, &fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
                }
                NAMED_DEVICE => device(key),
                NAMED_TASK => {
                    fs::read_to_string(format!("/proc/{key}/comm")).ok().map(|name| name.trim_end().to_owned())
                }
                NAMED_FUNCTION => self.symbols.function(key).map(str::to_owned),
                _ => interrupt(key, &fs::read_to_string("/proc/interrupts").unwrap_or_default()),
            };
            if let Some(name) = name {
                let record = Record { kind: Kind::Named as u16, flags: sort, a: key, ..Record::default() };
                tell(record, &text_slots(&name));
            }
        }
        if now_ns >= self.forget_ns {
            self.forget_ns = now_ns + TELL_AGAIN_NS;
            self.told.clear();
        }
    }
}

/// The name of a block device, such as `sda1`.
fn device(number: u64) -> Option<String> {
    let (major, minor) = (number >> 20, number & 0xf_ffff);
    let uevent = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/uevent")).ok()?;
    uevent.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(str::to_owned)
}

/// A mounted file system by its number, from the text of /proc/self/mountinfo (proc(5)): what was mounted, and its sort.
fn file_system(number: u64, text: &str) -> Option<String> {
    let wanted = format!("0:{}", number & 0xf_ffff);
    text.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let (sort, source) = (system.next()?, system.next()?);
        (mount.split(' ').nth(2) == Some(&wanted)).then(|| format!("{source} ({sort})"))
    })
}

/// The name of an interrupt in the text of /proc/interrupts: what follows the counts and the controller's columns.
fn interrupt(number: u64, text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{number}:")))?;
    let name = line.split_ascii_whitespace().next_back()?;
    Some(format!("interrupt {number} {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interrupts_are_named_by_their_device() {
        let text = "           CPU0       CPU1\n  4:          0         12   IO-APIC   4-edge      ttyS0\n 24:          7          0  PCI-MSI 1-edge virtio0-requests\n";
        assert_eq!(interrupt(24, text).as_deref(), Some("interrupt 24 virtio0-requests"));
        assert_eq!(interrupt(5, text), None);
    }

    #[test]
    fn file_systems_without_a_device_are_named_by_what_is_mounted() {
        let text = "25 1 254:0 / / rw - ext4 /dev/vda rw\n61 25 0:52 / /srv/slow rw,nosuid shared:9 - fuse weir-slow-fs rw,user_id=0\n";
        assert_eq!(file_system(52, text).as_deref(), Some("weir-slow-fs (fuse)"));
        assert_eq!(file_system(5, text), None);
    }

    #[test]
    fn a_number_is_told_once_until_it_is_time_again() {
        let mut names = Names::new(Symbols::default());
        let request = |device: u64| Record { kind: Kind::DiskRequest as u16, a: device << 32, ..Record::default() };
        for _ in 0..3 {
            names.see(&request(7));
        }
        assert_eq!(names.pending.len(), 1);
        for device in 0..10_000 {
            names.see(&request(device));
            if device % 100 == 0 {
                names.look(1, &mut |_, _| {});
            }
        }
        assert!(names.told.len() <= MOST_TOLD && names.pending.len() <= MOST_PENDING);
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "[ -~\n]{0,300}", number in 0u64..50) {
            let _ = interrupt(number, &text);
            let _ = file_system(number, &text);
        }
    }
}
