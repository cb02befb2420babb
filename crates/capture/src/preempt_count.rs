//! Where the kernel counts the interrupts that a CPU is in, for programs that cannot ask for it by name.
//!
//! A kernel that keeps no symbols of data refuses a program that names a variable of each CPU. Its types tell where such
//! variables lie to each other, though, and a CPU's run queue can be had from the task that runs (`bpf/context.h`).

use libbpf_rs::btf::types::{Composite, DataSec, MemberAttr, Var};
use libbpf_rs::btf::{Btf, ReferencesType, TypeId};

/// Where the variables of each CPU are.
const SECTION: &str = ".data..percpu";
/// Structures within structures that are looked through.
const MOST_DEPTH: u32 = 4;

/// Bytes from a CPU's run queue to its count; nothing where the kernel does not say, or has it elsewhere.
pub(crate) fn distance() -> Option<i64> {
    if cfg!(not(target_arch = "x86_64")) {
        return None; // The task has it.
    }
    let types = Btf::from_vmlinux().ok()?;
    let section = types.type_by_name::<DataSec<'_>>(SECTION)?;
    let (mut queue, mut count) = (None, None);
    for variable in section.iter() {
        let Some(named) = types.type_by_id::<Var<'_>>(variable.ty) else { continue };
        let at = i64::from(variable.offset);
        match named.name().and_then(|name| name.to_str()) {
            Some("runqueues") => queue = Some(at),
            Some("__preempt_count") => count = Some(at),
            // Linux 6.2 to 6.14.
            Some("pcpu_hot") => {
                count = member(&types, named.referenced_type_id(), 0).map(|within| at + within).or(count);
            }
            _ => {}
        }
    }
    Some(count? - queue?)
}

/// Where a structure has its member `preempt_count`, bytes.
fn member(types: &Btf<'_>, structure: TypeId, depth: u32) -> Option<i64> {
    let structure = types.type_by_id::<Composite<'_>>(structure).filter(|_| depth < MOST_DEPTH)?;
    structure.iter().find_map(|member| {
        let MemberAttr::Normal { offset } = member.attr else { return None };
        let at = i64::from(offset / 8);
        match member.name.and_then(|name| name.to_str()) {
            Some("preempt_count") => Some(at),
            None | Some("") => self::member(types, member.ty, depth + 1).map(|within| at + within),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_types_tell_it_or_nothing() {
        // Variables of each CPU lie within a few megabytes, and the count is not where the queue is.
        if let Some(distance) = distance() {
            assert!(distance != 0 && distance.abs() < 16 << 20, "{distance}");
        }
    }
}
