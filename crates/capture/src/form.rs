//! Which of two forms of the programs this kernel takes, found by trying it with programs of a few instructions.
//!
//! Both come from the same sources (`build.rs`). The whole form is for kernels whose programs can add to a word and
//! learn what it was, can have the kernel number a socket (Linux 5.12), and are told where a task's registers are (Linux
//! 5.15). The other one does without all three.

use libbpf_rs::libbpf_sys::{self, bpf_insn};
use std::ffi::CStr;
use std::io;
use std::sync::OnceLock;

/// A form of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Of every kernel since Linux 5.15.
    Whole,
    /// For those before.
    WithoutFetch,
}

impl Form {
    /// The form for this kernel; tried once a process.
    pub(crate) fn here() -> Self {
        static FORM: OnceLock<Form> = OnceLock::new();
        *FORM.get_or_init(|| {
            let trials = [Trial::FETCH, Trial::COOKIE, Trial::REGISTERS];
            let form = if trials.iter().all(takes) { Self::Whole } else { Self::WithoutFetch };
            tracing::debug!(?form, "programs chosen");
            form
        })
    }

    /// Of an object's two forms the one for this kernel.
    pub(crate) fn choose(whole: &'static [u8], without_fetch: &'static [u8]) -> &'static [u8] {
        match Self::here() {
            Self::Whole => whole,
            Self::WithoutFetch => without_fetch,
        }
    }
}

/// A program that is loaded only to see whether the kernel takes it.
struct Trial {
    sort: libbpf_sys::bpf_prog_type,
    /// The tracepoint that it would be attached to.
    tracepoint: Option<&'static CStr>,
    instructions: &'static [bpf_insn],
}

/// An instruction: registers are 0 to 10.
const fn instruction(code: u32, to: u8, from: u8, offset: i16, number: i32) -> bpf_insn {
    let [low, high] = offset.to_ne_bytes();
    let [first, second, third, fourth] = number.to_ne_bytes();
    let bytes = [code as u8, to | from << 4, low, high, first, second, third, fourth];
    // SAFETY: the structure is these eight bytes, of which each may have any value.
    unsafe { std::mem::transmute::<[u8; 8], bpf_insn>(bytes) }
}

impl Trial {
    const SET: u32 = libbpf_sys::BPF_ALU64 | libbpf_sys::BPF_MOV;
    const STORE: u32 = libbpf_sys::BPF_STX | libbpf_sys::BPF_DW | libbpf_sys::BPF_MEM;
    const ATOMIC: u32 = libbpf_sys::BPF_STX | libbpf_sys::BPF_DW | libbpf_sys::BPF_ATOMIC;
    const LOAD: u32 = libbpf_sys::BPF_LDX | libbpf_sys::BPF_DW | libbpf_sys::BPF_MEM;
    const CALL: u32 = libbpf_sys::BPF_JMP | libbpf_sys::BPF_CALL;
    const EXIT: u32 = libbpf_sys::BPF_JMP | libbpf_sys::BPF_EXIT;

    /// Adds to a word of the stack and takes what it was.
    const FETCH: Self = Self {
        sort: libbpf_sys::BPF_PROG_TYPE_SOCKET_FILTER,
        tracepoint: None,
        instructions: &[
            instruction(Self::SET, 1, 0, 0, 1),
            instruction(Self::STORE, 10, 1, -8, 0),
            instruction(Self::ATOMIC, 10, 1, -8, (libbpf_sys::BPF_ADD | libbpf_sys::BPF_FETCH) as i32),
            instruction(Self::SET, 0, 0, 0, 0),
            instruction(Self::EXIT, 0, 0, 0, 0),
        ],
    };

    /// Asks for the number of the socket that a tracepoint tells of.
    const COOKIE: Self = Self {
        sort: libbpf_sys::BPF_PROG_TYPE_TRACING,
        tracepoint: Some(c"inet_sock_set_state"),
        instructions: &[
            instruction(Self::LOAD, 1, 1, 0, 0),
            instruction(Self::CALL, 0, 0, 0, libbpf_sys::BPF_FUNC_get_socket_cookie as i32),
            instruction(Self::SET, 0, 0, 0, 0),
            instruction(Self::EXIT, 0, 0, 0, 0),
        ],
    };

    /// Asks for the registers of the task that a tracepoint tells of.
    const REGISTERS: Self = Self {
        tracepoint: Some(c"sched_process_exit"),
        instructions: &[
            instruction(Self::LOAD, 1, 1, 0, 0),
            instruction(Self::CALL, 0, 0, 0, libbpf_sys::BPF_FUNC_task_pt_regs as i32),
            instruction(Self::SET, 0, 0, 0, 0),
            instruction(Self::EXIT, 0, 0, 0, 0),
        ],
        ..Self::COOKIE
    };
}

/// Whether the kernel takes a program. Where it refuses for another reason than what the program does, it is taken to
/// do so: then the programs themselves say what is wrong.
fn takes(trial: &Trial) -> bool {
    let mut options = libbpf_sys::bpf_prog_load_opts {
        sz: size_of::<libbpf_sys::bpf_prog_load_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    if let Some(tracepoint) = trial.tracepoint {
        // SAFETY: the name is a string that ends with a zero.
        let id = unsafe { libbpf_sys::libbpf_find_vmlinux_btf_id(tracepoint.as_ptr(), libbpf_sys::BPF_TRACE_RAW_TP) };
        options.expected_attach_type = libbpf_sys::BPF_TRACE_RAW_TP;
        options.attach_btf_id = u32::try_from(id).unwrap_or_default();
    }
    // SAFETY: names are strings that end with a zero, the instructions as many as is said, and the options outlive the
    // call and begin with their size.
    let loaded = unsafe {
        libbpf_sys::bpf_prog_load(
            trial.sort,
            c"weir_trial".as_ptr(),
            c"GPL".as_ptr(),
            trial.instructions.as_ptr(),
            trial.instructions.len() as libbpf_sys::size_t,
            &raw mut options,
        )
    };
    if loaded < 0 {
        return io::Error::from_raw_os_error(-loaded).raw_os_error() != Some(libc::EINVAL);
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    unsafe { libc::close(loaded) };
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program without an end is refused by every kernel, and one that does nothing is not.
    #[test]
    fn a_program_that_no_kernel_takes_is_told_from_those_that_it_does() {
        const ENDLESS: &[bpf_insn] = &[instruction(Trial::SET, 0, 0, 0, 0)];
        const SHORT: &[bpf_insn] = &[instruction(Trial::SET, 0, 0, 0, 0), instruction(Trial::EXIT, 0, 0, 0, 0)];
        if crate::bound::missing_privilege().is_none() {
            assert!(!takes(&Trial { instructions: ENDLESS, ..Trial::FETCH }), "a program without an end");
        }
        assert!(takes(&Trial { instructions: SHORT, ..Trial::FETCH }));
    }
}
