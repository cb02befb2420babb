//! Memory of other processes.

use std::io;

/// The smallest page of any system: a copy that does not cross such a boundary is there as a whole or not at all.
const PAGE: u64 = 4096;

/// Why another process's memory may not be readable, in words.
pub(super) const WHY_NOT: &str = "the memory of the server's processes may not be read; CAP_SYS_PTRACE allows it";

/// Whether a process lives and does not let us look at what it has mapped. From Linux 6.16 on CAP_PERFMON allows that.
pub(super) fn is_closed(tgid: u32) -> bool {
    let opened = std::fs::File::open(format!("/proc/{tgid}/maps"));
    opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Whether a process lives and does not let us read what its memory holds.
pub(super) fn is_sealed(tgid: u32) -> bool {
    // Nothing is mapped at the first page, so no bytes are read: the error tells whether we may read the process.
    read(tgid, 8, &mut [0; 8]).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// How often a task has had a CPU (proc: Documentation/scheduler/sched-stats, the third number).
pub(super) fn runs(tgid: u32, pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{tgid}/task/{pid}/schedstat")).ok()?;
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// A piece of a task's stack, copied.
#[derive(Debug, Default)]
pub(super) struct StackCopy {
    /// The address of its first byte.
    pub(super) begin: u64,
    pub(super) bytes: Vec<u8>,
}

impl StackCopy {
    /// The word at an address, if it was copied.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        let offset = usize::try_from(address.checked_sub(self.begin)?).ok()?;
        let bytes = self.bytes.get(offset..offset.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Copies up to `most` bytes from a task's stack pointer on, as far as they are there.
    pub(super) fn of(pid: u32, sp: u64, most: usize) -> Self {
        let mut copy = Self { begin: sp, bytes: vec![0; most] };
        let mut pieces = Vec::new();
        let (mut at, end) = (sp, sp.saturating_add(most as u64));
        while at < end {
            let until = (at / PAGE * PAGE).saturating_add(PAGE).min(end);
            pieces.push((at, (until - at) as usize));
            at = until;
        }
        let copied = read_pieces(pid, &pieces, &mut copy.bytes).unwrap_or(0);
        copy.bytes.truncate(copied);
        copy
    }
}

/// Reads as much as `into` holds from an address.
///
/// # Errors
/// The system's error: no such process, no such memory, no permission.
pub(super) fn read(pid: u32, address: u64, into: &mut [u8]) -> io::Result<()> {
    let length = into.len();
    let copied = read_pieces(pid, &[(address, length)], into)?;
    if copied == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Reads a pointer or another 64-bit number.
pub(super) fn word(pid: u32, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read(pid, address, &mut bytes).ok().map(|()| u64::from_le_bytes(bytes))
}

/// Reads text up to its zero, at most `most` bytes of it.
pub(super) fn text(pid: u32, address: u64, most: usize) -> Option<String> {
    let mut bytes = vec![0; most];
    let within = (PAGE - address % PAGE).min(most as u64) as usize;
    let copied = read_pieces(pid, &[(address, within), (address + within as u64, most - within)], &mut bytes).ok()?;
    let end = bytes[..copied].iter().position(|byte| *byte == 0).unwrap_or(copied);
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// Reads pieces one after the other, up to the first that is not there as a whole.
fn read_pieces(pid: u32, pieces: &[(u64, usize)], into: &mut [u8]) -> io::Result<usize> {
    let wanted: usize = pieces.iter().map(|(_, length)| *length).sum();
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: wanted.min(into.len()) };
    let remote: Vec<libc::iovec> = pieces
        .iter()
        .filter(|(_, length)| *length > 0)
        .map(|(address, length)| libc::iovec { iov_base: *address as *mut libc::c_void, iov_len: *length })
        .collect();
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the local piece lies within `into`, which we borrow for writing; the remote addresses are another
    // process's and are checked by the kernel.
    let copied =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0) };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_memory_is_read_and_nothing_else() {
        let text_there = b"a name\0and more".to_vec();
        let (me, address) = (std::process::id(), text_there.as_ptr() as u64);
        assert_eq!(text(me, address, 8).as_deref(), Some("a name"));
        assert_eq!(word(me, address), Some(u64::from_le_bytes(*b"a name\0a")));
        assert_eq!(word(me, 8), None);
        let local = [7u64; 4];
        let copy = StackCopy::of(me, local.as_ptr() as u64, 32);
        assert_eq!(
            (copy.word(copy.begin), copy.word(copy.begin + 25), copy.word(copy.begin - 1)),
            (Some(7), None, None)
        );
    }
}
