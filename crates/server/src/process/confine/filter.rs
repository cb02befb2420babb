//! The filter of system calls (seccomp). Calls that a server makes pass. A call that would start a program or take hold
//! of another process ends the process. Any other call fails with EPERM, and the first of each kind is reported on
//! standard error.
//!
//! The kernel has a bitmap of the calls that pass with any arguments (since Linux 5.11), so that the length of the list
//! costs them nothing.

use crate::process::confine::paths::Connects;
use std::io;

/// What an operating system's number of a processor is to the filter; others than these have no filter.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// What becomes of a call (linux/seccomp.h).
const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const TRAP: u32 = 0x0003_0000;
const ERRNO: u32 = 0x0005_0000;

/// Places in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS_AT: u32 = 16;

/// Calls that pass with any arguments.
const PASSES: &[libc::c_long] = &[
    // Sockets and events.
    libc::SYS_accept4,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendfile,
    // Of sockets that were bound before: loops of the reserve.
    libc::SYS_listen,
    libc::SYS_shutdown,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_ppoll,
    // Files, as far as Landlock and the user's rights let it.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_lseek,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_fcntl,
    libc::SYS_fadvise64,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Memory and threads.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_setpriority,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_restart_syscall,
    // Signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // The system: time, chance, who and where it is.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getcwd,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
];

/// The same in forms that older processors have as well.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_epoll_wait,
    libc::SYS_poll,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_readlink,
    libc::SYS_access,
    libc::SYS_rename,
    libc::SYS_unlink,
    libc::SYS_getrlimit,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// What telling business transactions takes: memory that the agent reads, and the way to it.
const OF_ARM: &[libc::c_long] =
    &[libc::SYS_memfd_create, libc::SYS_ftruncate, libc::SYS_connect, libc::SYS_mkdirat, libc::SYS_fchmodat];
#[cfg(target_arch = "x86_64")]
const OF_ARM_OLDER: &[libc::c_long] = &[libc::SYS_open, libc::SYS_mkdir, libc::SYS_chmod];
#[cfg(not(target_arch = "x86_64"))]
const OF_ARM_OLDER: &[libc::c_long] = &[];

/// What io_uring takes. The ring was made before, and does only what it was restricted to then: its operations are no
/// system calls, and pass this filter unseen.
const OF_RING: &[libc::c_long] = &[libc::SYS_io_uring_enter];
/// The last that is registered: the loop's thread takes its ring (linux/io_uring.h).
const REGISTER_ENABLE_RINGS: u32 = 12;
/// By its argument, as in [`BY_ARGUMENT`].
const OF_RING_BY_ARGUMENT: (libc::c_long, u32, u32, u32) =
    (libc::SYS_io_uring_register, 1, u32::MAX, REGISTER_ENABLE_RINGS);

/// Calls that no mistake of ours would make: foreign code runs in the process.
const DEADLY: &[libc::c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_add_key,
];

/// Calls whose argument decides: its place, the bits that are looked at, and what they must be.
const BY_ARGUMENT: &[(libc::c_long, u32, u32, u32)] = &[
    // A thread, and no process.
    (libc::SYS_clone, 0, libc::CLONE_THREAD as u32, libc::CLONE_THREAD as u32),
    // No memory whose content is run.
    (libc::SYS_mmap, 2, libc::PROT_EXEC as u32, 0),
    (libc::SYS_mprotect, 2, libc::PROT_EXEC as u32, 0),
    // A thread's name.
    (libc::SYS_prctl, 0, u32::MAX, libc::PR_SET_NAME as u32),
    // The way to the agent, and to a name's address when a configuration is read again; TCP is Landlock's.
    (libc::SYS_socket, 0, u32::MAX, libc::AF_UNIX as u32),
    // What goes on being made of responses whose connection has moved: two ends of this process, one of which is given
    // to the node process.
    (libc::SYS_socketpair, 0, u32::MAX, libc::AF_UNIX as u32),
    // How much of what a socket was given the client has not acknowledged.
    (libc::SYS_ioctl, 1, u32::MAX, libc::TIOCOUTQ as u32),
];

/// Installs the filter for this thread and those that it starts; how many calls pass.
///
/// # Errors
///
/// The kernel has no such filters, refuses, or the processor is one that is not known here.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) fn install(has_arm: bool, has_ring: bool, connects: &Connects) -> io::Result<usize> {
    let mut by_argument = BY_ARGUMENT.to_vec();
    let mut passes: Vec<libc::c_long> = [PASSES, OLDER].concat();
    if has_arm {
        passes.extend([OF_ARM, OF_ARM_OLDER].concat());
    }
    match connects {
        Connects::Nowhere => {}
        Connects::Unix => passes.push(libc::SYS_connect),
        // Of which kind is not asked: with TCP ports it may connect as far as Landlock lets it, and finding the addresses
        // of names takes UDP.
        Connects::Ports(_) => passes.extend([libc::SYS_connect, libc::SYS_socket]),
    }
    if has_ring {
        passes.extend(OF_RING);
        by_argument.push(OF_RING_BY_ARGUMENT);
    }
    refusal::tell();
    let program = program(&passes, &by_argument);
    // The length is far below the kernel's bound of 4096.
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program lives over the call, which only reads it.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter) };
    if result == 0 { Ok(passes.len() + by_argument.len()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn install(_: bool, _: bool, _: &Connects) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The filter's program. Every call is compared with one number after the other, so that no jump is too long for its 8
/// bits.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
fn program(passes: &[libc::c_long], by_argument: &[(libc::c_long, u32, u32, u32)]) -> Vec<libc::sock_filter> {
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
    let mut program = vec![
        step(LOAD, ARCHITECTURE_AT, 0, 0),
        step(EQUAL, ARCHITECTURE, 1, 0),
        step(RETURN, KILL_PROCESS, 0, 0),
        step(LOAD, NUMBER_AT, 0, 0),
    ];
    // Numbers are below 2^32 on both processors.
    let mut on = |number: libc::c_long, outcome: u32| {
        program.extend([step(EQUAL, number as u32, 0, 1), step(RETURN, outcome, 0, 0)]);
    };
    passes.iter().for_each(|&number| on(number, ALLOW));
    DEADLY.iter().for_each(|&number| on(number, KILL_PROCESS));
    // Its flags are in memory, where a filter cannot look; the library takes the older call then.
    on(libc::SYS_clone3, ERRNO | libc::ENOSYS as u32);
    for &(number, place, bits, value) in by_argument {
        program.extend([
            step(EQUAL, number as u32, 0, 5),
            step(LOAD, ARGUMENTS_AT + 8 * place, 0, 0),
            step(AND, bits, 0, 0),
            step(EQUAL, value, 0, 1),
            step(RETURN, ALLOW, 0, 0),
            step(RETURN, TRAP, 0, 0),
        ]);
    }
    program.push(step(RETURN, TRAP, 0, 0));
    program
}

/// Answers a refused call with EPERM, and reports the first of each kind.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod refusal {
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Calls that were told already, by their numbers.
    static TOLD: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

    /// Has refused calls fail with EPERM, and told.
    pub(super) fn tell() {
        // SAFETY: all zeros is a valid value of this plain structure, and the handler does only what handlers may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = refused as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
            libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut());
        }
    }

    extern "C" fn refused(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: with SA_SIGINFO the kernel passes such a context, which is this thread's own; the register that holds
        // a call's number becomes the one that holds its result.
        let number = unsafe {
            let machine = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
            #[cfg(target_arch = "x86_64")]
            {
                let result = &mut machine.gregs[libc::REG_RAX as usize];
                std::mem::replace(result, -i64::from(libc::EPERM))
            }
            #[cfg(target_arch = "aarch64")]
            {
                machine.regs[0] = (-i64::from(libc::EPERM)).cast_unsigned();
                machine.regs[8].cast_signed()
            }
        };
        let number = number.unsigned_abs();
        let bit = 1 << (number % 64);
        let Some(word) = TOLD.get((number / 64) as usize) else { return };
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            say(number);
        }
    }

    /// Writes a line without memory and locks, as a handler must.
    fn say(number: u64) {
        let mut line = *b"weir: a system call that a server does not make was refused: number      \n";
        let mut at = line.len() - 2;
        let mut left = number;
        loop {
            line[at] = b'0' + (left % 10) as u8;
            left /= 10;
            at -= 1;
            if left == 0 || line[at] != b' ' {
                break;
            }
        }
        // SAFETY: the line lives over the call.
        unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
}

#[cfg(test)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod tests {
    use super::*;

    /// Runs a filter on a call, as the kernel would.
    fn outcome(program: &[libc::sock_filter], architecture: u32, number: libc::c_long, arguments: [u64; 6]) -> u32 {
        let mut data = Vec::from((number as u32).to_ne_bytes());
        data.extend(architecture.to_ne_bytes());
        data.extend(0_u64.to_ne_bytes());
        arguments.iter().for_each(|argument| data.extend(argument.to_ne_bytes()));
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let step = &program[at];
            at += 1;
            match u32::from(step.code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    let from = step.k as usize;
                    accumulator = u32::from_ne_bytes(data[from..from + 4].try_into().expect("four bytes"));
                }
                code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => accumulator &= step.k,
                code if code == libc::BPF_RET | libc::BPF_K => return step.k,
                _ => at += usize::from(if accumulator == step.k { step.jt } else { step.jf }),
            }
        }
    }

    #[test]
    fn each_call_has_its_outcome() {
        let by_argument = [BY_ARGUMENT, &[OF_RING_BY_ARGUMENT]].concat();
        let program = program(&[PASSES, OLDER, OF_RING].concat(), &by_argument);
        assert!(program.len() < 4096);
        let of = |number, arguments| outcome(&program, ARCHITECTURE, number, arguments);
        for &number in PASSES.iter().chain(OLDER).chain(OF_RING) {
            assert_eq!(of(number, [u64::MAX; 6]), ALLOW, "{number}");
        }
        for &number in DEADLY {
            assert_eq!(of(number, [0; 6]), KILL_PROCESS, "{number}");
        }
        for &(number, place, bits, value) in &by_argument {
            let mut arguments = [0; 6];
            arguments[place as usize] = u64::from(value);
            assert_eq!(of(number, arguments), ALLOW, "{number}");
            arguments[place as usize] = u64::from(!value & bits);
            assert_eq!(of(number, arguments), TRAP, "{number}");
        }
        for number in [libc::SYS_setuid, libc::SYS_kill, libc::SYS_bind, libc::SYS_connect, libc::SYS_ioctl] {
            assert_eq!(of(number, [0; 6]), TRAP, "{number}");
        }
        assert_eq!(of(libc::SYS_clone3, [0; 6]), ERRNO | libc::ENOSYS as u32);
        assert_eq!(outcome(&program, 0x4000_0003, libc::SYS_read, [0; 6]), KILL_PROCESS, "another processor's calls");
    }

    #[test]
    fn refused_calls_fail_and_the_thread_goes_on() {
        let confined = || {
            crate::process::confine::privileges::no_new_privileges()?;
            install(false, false, &Connects::Nowhere)?;
            // SAFETY: the calls take no pointers.
            let refused = unsafe { [libc::kill(0, 0), libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0)] };
            assert_eq!((refused, io::Error::last_os_error().raw_os_error()), ([-1, -1], Some(libc::EPERM)));
            std::thread::spawn(|| assert!(std::fs::metadata("/").is_ok())).join().expect("threads can be started");
            io::Result::Ok(())
        };
        std::thread::spawn(confined).join().expect("no panic").expect("the kernel has it");
    }
}
