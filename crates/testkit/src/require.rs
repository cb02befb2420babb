//! What a test needs from the machine; without it the test is skipped, visibly.
//!
//! Each function returns `None` after it has printed `SKIPPED <test>: <reason>` and appended the
//! same to the file that `WEIR_SKIP_LOG` names, from which `make test` counts.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{apache, mariadb, nginx, php_fpm, postgres};

/// The variable that names the file of skipped tests.
pub const SKIP_LOG_VARIABLE: &str = "WEIR_SKIP_LOG";

/// Debian's Apache with the modules that the launcher loads.
pub fn apache() -> Option<()> {
    let module = |name: &str| apache::modules().join(name).exists();
    let there = apache::program().exists() && ["mod_mpm_prefork.so", "mod_mpm_event.so"].into_iter().all(module);
    or_skip(there, "apache2 is not installed (make deps)")
}

/// nginx.
pub fn nginx() -> Option<()> {
    or_skip(Path::new(nginx::PROGRAM).exists(), "nginx is not installed (make deps)")
}

/// A module of Debian's Apache, such as `proxy_fcgi`, and Apache itself.
pub fn apache_module(name: &str) -> Option<()> {
    apache()?;
    let there = apache::modules().join(format!("mod_{name}.so")).exists();
    or_skip(there, &format!("Apache's module {name} is not installed (make deps)"))
}

/// Debian's php-fpm.
pub fn php_fpm() -> Option<()> {
    or_skip(php_fpm::program().is_some(), "php-fpm is not installed (make deps)")
}

/// php-fpm with an extension, such as `pgsql` or `mysqli`.
pub fn php_extension(name: &str) -> Option<()> {
    php_fpm()?;
    or_skip(php_fpm::extension(name).is_some(), &format!("PHP's extension {name} is not installed (make deps)"))
}

/// PostgreSQL, server and client.
pub fn postgres() -> Option<()> {
    or_skip(postgres::programs().is_some(), "PostgreSQL is not installed (make deps)")
}

/// MariaDB, server and client.
pub fn mariadb() -> Option<()> {
    let there = [mariadb::PROGRAM, mariadb::INSTALL, mariadb::CLIENT].into_iter().all(|file| Path::new(file).exists());
    or_skip(there, "MariaDB is not installed (make deps)")
}

/// Debian's Chromium, for the pages that we make.
pub fn browser() -> Option<()> {
    or_skip(Path::new(crate::browser::PROGRAM).exists(), "chromium is not installed (make deps)")
}

/// The right to mount a file system of our own.
pub fn fuse() -> Option<()> {
    const CAP_SYS_ADMIN: u32 = 21;
    or_skip(effective_capabilities() >> CAP_SYS_ADMIN & 1 == 1, "needs root, to mount a file system")?;
    or_skip(Path::new("/dev/fuse").exists(), "the kernel has no FUSE (modprobe fuse)")
}

/// A program on the search path, such as `wrk`.
pub fn program(name: &str) -> Option<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    or_skip(there, &format!("{name} is not installed (make deps)"))
}

/// At least so many CPUs, for tests that keep the server apart from its clients.
pub fn cpus(count: usize) -> Option<()> {
    let there = std::thread::available_parallelism().map_or(1, usize::from);
    or_skip(there >= count, &format!("needs {count} CPUs, there are {there}"))
}

/// The right to load and attach BPF programs, and the kernel's own types.
pub fn root_and_bpf() -> Option<()> {
    match bpf_obstacle() {
        None => Some(()),
        Some(reason) => or_skip(false, &reason),
    }
}

/// Besides, the socket tracepoints that mark the boundaries of requests (Linux 6.3 or later).
pub fn socket_tracepoints() -> Option<()> {
    root_and_bpf()?;
    let types = fs::read(KERNEL_TYPES).unwrap_or_default();
    let has = |name: &[u8]| types.windows(name.len()).any(|window| window == name);
    let there = has(b"btf_trace_sk_data_ready") && has(b"btf_trace_sock_send_length");
    or_skip(there, "the kernel has no socket tracepoints (Linux 6.3 or later has)")
}

/// A Python that has aioquic: what `scripts/http3-client` made beside the tests, or the system's own.
pub fn aioquic() -> Option<PathBuf> {
    // Tests lie in `deps` below the profile.
    let tests = std::env::current_exe().ok()?;
    let target = tests.ancestors().nth(3)?;
    let candidates = [target.join("http3-client/bin/python3"), PathBuf::from("/usr/bin/python3")];
    let has_it = |python: &PathBuf| {
        let asked = Command::new(python).args(["-c", "import aioquic"]).output();
        asked.is_ok_and(|output| output.status.success())
    };
    let found = candidates.into_iter().find(has_it);
    or_skip(found.is_some(), "no Python has aioquic (scripts/http3-client fetches it)")?;
    found
}

/// Skips the test that runs, for a reason of its own.
pub fn or_skip(there: bool, reason: &str) -> Option<()> {
    if there {
        return Some(());
    }
    let line = format!("SKIPPED {}: {reason}\n", test_name());
    // Not by a macro: those are captured, and a skipped test counts as passed for the harness.
    // When standard error is closed, there is no place to print to.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(path) = std::env::var_os(SKIP_LOG_VARIABLE) {
        let log = OpenOptions::new().create(true).append(true).open(&path);
        // One write: several test programs append at the same time.
        if let Err(error) = log.and_then(|mut log| log.write_all(line.as_bytes())) {
            eprintln!("{}: {error}", Path::new(&path).display());
        }
    }
    None
}

const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

fn bpf_obstacle() -> Option<String> {
    let capabilities = effective_capabilities();
    for (bit, name) in [(CAP_BPF, "CAP_BPF"), (CAP_PERFMON, "CAP_PERFMON")] {
        if capabilities >> bit & 1 == 0 {
            return Some(format!("needs root, or {name}"));
        }
    }
    if !Path::new(KERNEL_TYPES).exists() {
        return Some(format!("the kernel has no BTF ({KERNEL_TYPES})"));
    }
    create_map().err().map(|error| format!("the kernel refuses BPF: {error}"))
}

fn effective_capabilities() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0)
}

/// Creates the smallest map: in a container the capabilities may be there and the call forbidden.
fn create_map() -> std::io::Result<()> {
    const BPF_MAP_CREATE: libc::c_long = 0;
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    // type, key size, value size, entries, flags
    let attributes = [BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0];
    // SAFETY: the kernel reads the array within the size given and returns a descriptor of ours.
    unsafe {
        let size = size_of_val(&attributes);
        let fd = libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, attributes.as_ptr(), size);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        libc::close(fd as libc::c_int);
    }
    Ok(())
}

/// The harness names each test's thread; with one thread it runs them on the main one.
fn test_name() -> String {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => {
            let program = std::env::current_exe().ok();
            let name = program.as_deref().and_then(Path::file_name);
            name.map_or_else(|| "a test".to_owned(), |name| name.to_string_lossy().into_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skipped_test_says_its_name_and_reason() {
        assert_eq!(or_skip(true, "not needed"), Some(()));
        assert!(test_name().ends_with("a_skipped_test_says_its_name_and_reason"));
    }
}
