//! Ends every process whose environment has a variable, by system calls alone: after a fork of a program with threads
//! nothing else may be called, and no memory allocated.
use std::ffi::c_int;
use std::mem::offset_of;

/// How often all processes are looked through: what is forked meanwhile is found the next time.
const ROUNDS: usize = 200;
/// Between two looks.
const PAUSE: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// An environment that is longer is not read to its end; the kernel allows no more than this by default.
const ENVIRONMENT_MAX: usize = 6 << 20;
/// The digits of a process number, and `/environ` with a zero.
const PATH_MAX: usize = 32;

/// Kills every process one of whose variables begins with `variable` (`NAME=begin`), until none is found.
///
/// # Safety
/// None beyond that of a system call; it is for the child after a fork.
pub(super) unsafe fn end_marked(variable: &[u8]) {
    for _ in 0..ROUNDS {
        // SAFETY: as ours.
        if unsafe { kill_marked(variable) } == 0 {
            return;
        }
        // SAFETY: a constant to read, and no place for what is left.
        unsafe { libc::nanosleep(&PAUSE, std::ptr::null_mut()) };
    }
}

/// Kills those that are there now; how many.
unsafe fn kill_marked(variable: &[u8]) -> usize {
    // SAFETY: a path that ends with a zero; the descriptor is closed below.
    let processes = unsafe { libc::open(c"/proc".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    if processes < 0 {
        return 0;
    }
    let mut killed = 0;
    let mut entries = [0_u8; 16 << 10];
    loop {
        // SAFETY: the memory and its length are ours.
        let count = unsafe { libc::syscall(libc::SYS_getdents64, processes, entries.as_mut_ptr(), entries.len()) };
        let Some(mut rest) = usize::try_from(count).ok().and_then(|count| entries.get(..count)) else { break };
        if rest.is_empty() {
            break;
        }
        while let Some((name, after)) = first_entry(rest) {
            rest = after;
            let Some(pid) = number(name) else { continue };
            // SAFETY: an open descriptor.
            if unsafe { has_variable(processes, name, variable) } {
                // SAFETY: a signal to a process that carries the experiment's mark.
                killed += usize::from(unsafe { libc::kill(pid, libc::SIGKILL) } == 0);
            }
        }
    }
    // SAFETY: opened above.
    unsafe { libc::close(processes) };
    killed
}

/// The name of the first entry of a directory as the kernel gives them, and what follows it.
fn first_entry(entries: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = offset_of!(libc::dirent64, d_reclen);
    let length = usize::from(u16::from_ne_bytes([*entries.get(length)?, *entries.get(length + 1)?]));
    let name = entries.get(offset_of!(libc::dirent64, d_name)..length)?;
    let end = name.iter().position(|byte| *byte == 0)?;
    Some((name.get(..end)?, entries.get(length..)?))
}

/// A process number above 1: process 1 is none that we started.
fn number(name: &[u8]) -> Option<libc::pid_t> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| libc::pid_t::from(byte - b'0'));
    let number =
        name.iter().try_fold(0, |number: libc::pid_t, byte| number.checked_mul(10)?.checked_add(digit(byte)?))?;
    (number > 1).then_some(number)
}

/// Whether a process has the variable.
unsafe fn has_variable(processes: c_int, name: &[u8], variable: &[u8]) -> bool {
    let mut path = [0_u8; PATH_MAX];
    let bytes = name.iter().chain(b"/environ\0");
    if name.len() + 9 > path.len() {
        return false;
    }
    path.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    // SAFETY: a path of ours that ends with a zero; the descriptor is closed below.
    let file = unsafe { libc::openat(processes, path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return false;
    }
    let mut search = Search { variable, matched: Some(0) };
    let mut bytes = [0_u8; 4096];
    let mut found = false;
    for _ in 0..ENVIRONMENT_MAX / bytes.len() {
        // SAFETY: the memory and its length are ours.
        let count = unsafe { libc::read(file, bytes.as_mut_ptr().cast(), bytes.len()) };
        let Some(read) = usize::try_from(count).ok().and_then(|count| bytes.get(..count)) else { break };
        found = search.finds(read);
        if found || read.is_empty() {
            break;
        }
    }
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    found
}

/// Looks for a variable in an environment that comes piece by piece.
struct Search<'a> {
    variable: &'a [u8],
    /// How many of its bytes the variable at hand has; `None` when it is another one.
    matched: Option<usize>,
}

impl Search<'_> {
    /// Whether one of the variables begins with ours, with this piece.
    fn finds(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            self.matched = match (byte, self.matched) {
                (0, _) => Some(0),
                (byte, Some(matched)) if self.variable.get(matched) == Some(byte) => Some(matched + 1),
                _ => None,
            };
            if self.matched == Some(self.variable.len()) {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_numbers_above_one_are_processes() {
        let found = [&b"7"[..], b"4194304", b"1", b"0", b"self", b"", b"99999999999", b"7x"].map(number);
        assert_eq!(found, [Some(7), Some(4_194_304), None, None, None, None, None, None]);
    }

    #[test]
    fn entries_that_are_cut_off_end_the_list() {
        let mut entry = vec![0_u8; 24];
        entry[16] = 24;
        entry[19..22].copy_from_slice(b"123");
        let two = [entry.clone(), entry.clone()].concat();
        let (name, rest) = first_entry(&two).expect("an entry");
        assert_eq!((name, rest.len()), (&b"123"[..], 24));
        for length in 0..24 {
            assert!(first_entry(&entry[..length]).is_none(), "{length}");
        }
    }

    proptest! {
        #[test]
        fn a_variable_is_found_however_the_environment_is_cut(
            others in prop::collection::vec("[A-C=]{0,5}", 0..6), at in 0..7_usize, has: bool, cut in 1..9_usize,
        ) {
            let mut all = others.clone();
            if has {
                all.insert(at.min(all.len()), "AB=C-17".to_owned());
            }
            let environment: Vec<u8> = all.iter().flat_map(|one| [one.as_bytes(), b"\0"].concat()).collect();
            let mut search = Search { variable: b"AB=C", matched: Some(0) };
            let found = environment.chunks(cut).any(|piece| search.finds(piece));
            prop_assert_eq!(found, all.iter().any(|one| one.starts_with("AB=C")));
        }
    }
}
