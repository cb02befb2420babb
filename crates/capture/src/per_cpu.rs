//! Where the kernel keeps a CPU's own variables, for programs that cannot ask for them by name.
//!
//! A kernel that keeps no symbols of data refuses a program that names a variable of each CPU. Its types tell where such
//! variables lie to each other, though, and a CPU's run queue can be had from the task that runs (`bpf/context.h`).

use libbpf_rs::btf::types::{Composite, DataSec, MemberAttr, Var};
use libbpf_rs::btf::{Btf, ReferencesType, TypeId};

/// Where the variables of each CPU are.
const SECTION: &str = ".data..percpu";
/// Structures within structures that are looked through.
const MOST_DEPTH: u32 = 4;

/// Bytes from a CPU's run queue to the count of the interrupts that it is in; nothing where the kernel does not say, or
/// has it elsewhere.
pub(crate) fn to_preempt_count() -> Option<i64> {
    if cfg!(not(target_arch = "x86_64")) {
        return None; // The task has it.
    }
    // Linux 6.2 to 6.14 have it in a structure.
    distance("__preempt_count", None).or_else(|| distance("pcpu_hot", Some("preempt_count")))
}

/// Bytes from a CPU's run queue to what KVM tells its guest of stolen time; nothing where the kernel does not say.
pub(crate) fn to_steal_time() -> Option<i64> {
    distance("steal_time", None)
}

/// Bytes from a CPU's run queue to another of its variables, or to a member of that.
fn distance(variable: &str, within: Option<&str>) -> Option<i64> {
    let types = Btf::from_vmlinux().ok()?;
    let section = types.type_by_name::<DataSec<'_>>(SECTION)?;
    let (mut queue, mut found) = (None, None);
    for entry in section.iter() {
        let Some(named) = types.type_by_id::<Var<'_>>(entry.ty) else { continue };
        let at = i64::from(entry.offset);
        match named.name().and_then(|name| name.to_str()) {
            Some("runqueues") => queue = Some(at),
            Some(name) if name == variable => {
                let inside = within.map_or(Some(0), |wanted| member(&types, named.referenced_type_id(), wanted, 0));
                found = inside.map(|inside| at + inside);
            }
            _ => {}
        }
    }
    Some(found? - queue?)
}

/// Where a structure has a member, bytes.
fn member(types: &Btf<'_>, structure: TypeId, wanted: &str, depth: u32) -> Option<i64> {
    let structure = types.type_by_id::<Composite<'_>>(structure).filter(|_| depth < MOST_DEPTH)?;
    structure.iter().find_map(|member| {
        let MemberAttr::Normal { offset } = member.attr else { return None };
        let at = i64::from(offset / 8);
        match member.name.and_then(|name| name.to_str()) {
            Some(name) if name == wanted => Some(at),
            None | Some("") => self::member(types, member.ty, wanted, depth + 1).map(|within| at + within),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_types_tell_it_or_nothing() {
        // Variables of each CPU lie within a few megabytes, and none is where the queue is.
        for distance in [to_preempt_count(), to_steal_time()].into_iter().flatten() {
            assert!(distance != 0 && distance.abs() < 16 << 20, "{distance}");
        }
    }
}
