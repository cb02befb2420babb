//! What the kernel's own types (BTF) say of it: which tracepoints, functions and structures it has, and of what shape.

use libbpf_rs::btf::types::{Func, FuncProto, Ptr, Struct, Typedef};
use libbpf_rs::btf::{Btf, ReferencesType};

/// Whether this kernel has a tracepoint; an optional program is left out without.
pub(crate) fn has_tracepoint(name: &str) -> bool {
    tracepoint_arguments(name).is_some()
}

/// Whether it has a function of that name.
pub(crate) fn has_function(name: &str) -> bool {
    function_arguments(name).is_some()
}

/// Whether it has a structure of that name.
pub(crate) fn has_structure(name: &str) -> bool {
    Btf::from_vmlinux().is_ok_and(|types| types.type_by_name::<Struct<'_>>(name).is_some())
}

/// How many arguments a tracepoint has for programs; nothing where there is no such tracepoint.
pub(crate) fn tracepoint_arguments(name: &str) -> Option<usize> {
    let types = Btf::from_vmlinux().ok()?;
    let typedef = types.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}"))?;
    let pointer: Ptr<'_> = typedef.referenced_type().try_into().ok()?;
    let prototype: FuncProto<'_> = pointer.referenced_type().try_into().ok()?;
    // The first one is not for programs.
    prototype.len().checked_sub(1)
}

/// How many arguments a function has; nothing where there is no such function.
pub(crate) fn function_arguments(name: &str) -> Option<usize> {
    let types = Btf::from_vmlinux().ok()?;
    let function = types.type_by_name::<Func<'_>>(name)?;
    let prototype: FuncProto<'_> = function.referenced_type().try_into().ok()?;
    Some(prototype.len())
}

/// Whether the kernel's event of a switch tells in which state a task leaves its CPU (Linux 5.18).
pub(crate) fn switch_tells_state() -> bool {
    /// Whether it was preempted, the task before, the one after, the state.
    const WITH_STATE: usize = 4;
    tracepoint_arguments("sched_switch").is_none_or(|arguments| arguments >= WITH_STATE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_tell_what_there_is() {
        if Btf::from_vmlinux().is_err() {
            return; // a kernel without them has nothing to tell
        }
        assert_eq!(tracepoint_arguments("sched_process_fork"), Some(2));
        assert_eq!(function_arguments("tcp_sendmsg"), Some(3));
        assert!(has_structure("task_struct") && has_tracepoint("sched_waking") && has_function("tcp_sendmsg"));
        assert!(!has_structure("weir") && !has_tracepoint("weir") && !has_function("weir"));
    }
}
