//! Sets of CPUs, and keeping a process to one.
use std::fmt;
use std::io;
use std::mem;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One above the highest CPU number that the kernel interface's fixed set can name.
const CPUS_MAX: usize = libc::CPU_SETSIZE as usize;

/// CPU numbers, at least one, ascending; written `0`, `0,2` or `1-3`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet {
    numbers: Vec<usize>,
}

/// A text that names no CPUs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no CPUs; write for instance 0, 0,2 or 1-3 (numbers below {CPUS_MAX})")]
pub struct CpuSetError(String);

impl CpuSet {
    /// A set of one.
    ///
    /// # Errors
    /// A number of 1024 or more.
    pub fn one(number: usize) -> Result<Self, CpuSetError> {
        number.to_string().parse()
    }

    /// The numbers, ascending.
    #[must_use]
    pub fn numbers(&self) -> &[usize] {
        &self.numbers
    }

    /// The CPUs that this process may run on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn available() -> io::Result<Self> {
        // SAFETY: an all-zero `cpu_set_t` is a valid, empty set.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        // SAFETY: the pointer is to a set of exactly the size given; 0 means this thread.
        if unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: every number is below CPU_SETSIZE.
        let numbers = (0..CPUS_MAX).filter(|number| unsafe { libc::CPU_ISSET(*number, &set) }).collect();
        Ok(Self { numbers })
    }

    /// The kernel's form of the set, to be applied in a child before it becomes the command.
    pub(crate) fn as_affinity(&self) -> libc::cpu_set_t {
        // SAFETY: an all-zero `cpu_set_t` is a valid, empty set.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        for number in &self.numbers {
            // SAFETY: the parser refuses numbers of CPU_SETSIZE and above.
            unsafe { libc::CPU_SET(*number, &mut set) };
        }
        set
    }
}

impl FromStr for CpuSet {
    type Err = CpuSetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || CpuSetError(text.to_owned());
        let number = |text: &str| match text.trim().parse::<usize>() {
            Ok(number) if number < CPUS_MAX => Ok(number),
            _ => Err(wrong()),
        };
        let mut numbers = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(wrong());
            }
            numbers.extend(first..=last);
        }
        numbers.sort_unstable();
        numbers.dedup();
        Ok(Self { numbers })
    }
}

impl TryFrom<String> for CpuSet {
    type Error = CpuSetError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> Self {
        set.to_string()
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.numbers.iter().map(usize::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_and_written() {
        let read = |text: &str| text.parse::<CpuSet>().map(|set| set.to_string());
        assert_eq!(read("3,0-1,1").as_deref(), Ok("0,1,3"));
        for text in ["", "a", "2-1", "1,", "1024", "-1"] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn this_process_runs_somewhere() {
        assert!(!CpuSet::available().expect("the kernel knows").numbers().is_empty());
    }
}
