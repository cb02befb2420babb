//! Where OpenSSL hands over a record that it has opened, and where it is given one to seal.
//!
//! The exported `SSL_read` and `SSL_write` begin with instructions that a probe has single-stepped, and at the entry of a
//! read nothing has been read. Two places within are cheap, and see each record once, also where a write is tried again:
//!
//! - in `ssl3_read_bytes` the call of `memcpy` that hands an opened record over: its bytes, their number, and a register
//!   that points to the record, which lies within the connection;
//! - the entry of `do_ssl3_write`: connection, type, bytes, their number.
//!
//! Neither has a name in a stripped library. They are found from `TLS_method`, which is exported: it gives the table of
//! functions of a method (`struct ssl_method_st`), where those for reading, writing and alerts stand; `do_ssl3_write` is
//! what the latter two have in common.

use super::binary::Binary;
use super::instruction::{HitCost, cost_of, place};
use super::register::Register;
use super::release::Release;
use super::tls_place::{TlsPlace, TlsSite};
use iced_x86::{Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind};
use thiserror::Error;

/// Places in `struct ssl_method_st` in words, in OpenSSL 1.1.1 to 3.1.
const READ_BYTES: usize = 13;
const WRITE_BYTES: usize = 14;
const DISPATCH_ALERT: usize = 15;
/// How far the functions are looked at, bytes.
pub(super) const FUNCTION: usize = 0x1800;
const ALERT: usize = 0x80;
/// In a record: from its beginning to whether it was read.
const WAS_READ: i64 = 0x38;
/// Instructions before a call that prepare its arguments.
pub(super) const BEFORE: usize = 16;
/// Instructions from a function's beginning within which it keeps its first argument.
const KEPT_WITHIN: usize = 24;
/// Instructions between the address of a record and a look at its mark.
const MARK_WITHIN: usize = 6;

/// Why the places are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoOpensslEdge {
    /// It does not define `TLS_method`.
    #[error("it is no OpenSSL")]
    NoOpenSsl,
    /// Its table of functions is not where it is looked for.
    #[error("its table of functions was not found: OpenSSL 3.0 and 3.2 to 3.5 are known, other versions are not yet")]
    NoTable,
    /// The function that reads is of another shape.
    #[error(
        "the place where it hands over what it has opened was not found: OpenSSL 3.0 and 3.2 to 3.5 are known, other versions are not yet"
    )]
    NoRead,
    /// The function that writes is of another shape.
    #[error("the place where it seals was not found: OpenSSL 3.0 and 3.2 to 3.5 are known, other versions are not yet")]
    NoWrite,
    /// A probe there would be single-stepped.
    #[error("probes there would cost some 20 us a hit")]
    Slow,
}

/// The places in a library of OpenSSL 1.1.1 to 3.1, or in a program that holds it.
///
/// # Errors
/// [`NoOpensslEdge`] where one is not found for certain.
pub(super) fn edge(binary: &Binary, release: Release) -> Result<Vec<TlsSite>, NoOpensslEdge> {
    let method = binary.address_of("TLS_method").ok_or(NoOpensslEdge::NoOpenSsl)?;
    let table = table(binary, method).ok_or(NoOpensslEdge::NoTable)?;
    let functions = binary.pointers(table, DISPATCH_ALERT + 1).ok_or(NoOpensslEdge::NoTable)?;
    let (opened, record, record_offset) = opened(binary, functions[READ_BYTES]).ok_or(NoOpensslEdge::NoRead)?;
    let sealed = sealed(binary, functions[WRITE_BYTES], functions[DISPATCH_ALERT]).ok_or(NoOpensslEdge::NoWrite)?;
    let (sealed, code) = binary.code_at(sealed, FUNCTION).ok_or(NoOpensslEdge::NoWrite)?;
    let arguments: Vec<_> = (1..=5).filter_map(Register::argument).map(Register::decoded).collect();
    let placed = place(&code, &arguments, false, release);
    if placed.cost >= HitCost::Stepped || cost_of(&[0xe8], release) >= HitCost::Stepped {
        return Err(NoOpensslEdge::Slow);
    }
    Ok(vec![
        TlsSite { offset: opened, place: TlsPlace::OpensslOpens { record, record_offset } },
        TlsSite { offset: sealed + placed.shift, place: TlsPlace::OpensslSeals },
    ])
}

pub(super) fn instructions(code: &[u8], address: u64) -> impl Iterator<Item = Instruction> {
    Decoder::with_ip(64, code, address, DecoderOptions::NONE).into_iter().filter(|one| !one.is_invalid())
}

/// The table that `TLS_method` gives: `lea TABLE(%rip), %rax`, or in a program at a fixed place `mov $TABLE, %eax`.
pub(super) fn table(binary: &Binary, method: u64) -> Option<u64> {
    let (_, code) = binary.code_at(method, 32)?;
    let leading = instructions(&code, method).take_while(|one| one.mnemonic() != Mnemonic::Ret);
    leading.filter(|one| one.op_count() == 2 && one.op0_register().full_register() == iced_x86::Register::RAX).find_map(
        |one| match (one.mnemonic(), one.op1_kind()) {
            (Mnemonic::Lea, _) if one.is_ip_rel_memory_operand() => Some(one.ip_rel_memory_address()),
            (Mnemonic::Mov, OpKind::Immediate32) => Some(u64::from(one.immediate32())),
            _ => None,
        },
    )
}

/// The call that hands an opened record over: its place in the file, the record's register, and the record's place.
fn opened(binary: &Binary, function: u64) -> Option<(u64, Register, u64)> {
    let (offset, code) = binary.code_at(function, FUNCTION)?;
    let all: Vec<Instruction> = instructions(&code, function).collect();
    let stubs = binary.stubs_of("memcpy");
    let mut found = all.iter().enumerate().filter_map(|(index, one)| {
        let at = offset + (one.ip() - function);
        let is_copy = one.is_call_near() && one.len() == 5 && stubs.contains(&one.near_branch_target());
        let copied = copied(&all[index.saturating_sub(BEFORE)..index]).filter(|_| is_copy)?;
        ((copied.fields[0] - copied.fields[1]).abs() == 8).then_some((at, copied.record))
    });
    let (at, record) = found.next()?;
    // With two that look alike it is not known which is the one.
    if found.next().is_some() {
        return None;
    }
    Some((at, record, record_offset(&all)?))
}

/// What a call copies: the bytes of a record, to where the reader wants them.
pub(super) struct Copied {
    /// Points to the record.
    pub(super) record: Register,
    /// Two of its fields, which are added: how far they are behind its beginning, bytes.
    pub(super) fields: [i64; 2],
}

/// What a call copies whose second argument is the sum of two fields, where bytes lie and how far they are taken; the
/// first argument comes in a register.
pub(super) fn copied(before: &[Instruction]) -> Option<Copied> {
    let mut info = InstructionInfoFactory::new();
    let mut writes = |one: &Instruction, register: iced_x86::Register| {
        let used = info.info(one);
        used.used_registers().iter().any(|used| {
            used.register().full_register() == register
                && matches!(used.access(), OpAccess::Write | OpAccess::ReadWrite | OpAccess::CondWrite)
        })
    };
    let target = before.iter().rev().find(|one| writes(one, iced_x86::Register::RDI))?;
    if target.mnemonic() != Mnemonic::Mov || target.op1_kind() != OpKind::Register {
        return None;
    }
    let mut sources = before.iter().rev().filter(|one| writes(one, iced_x86::Register::RSI));
    let (sum, first) = (sources.next()?, sources.next()?);
    let fields = [sum, first].map(|one| one.memory_displacement64().cast_signed());
    let shapes = sum.mnemonic() == Mnemonic::Add
        && first.mnemonic() == Mnemonic::Mov
        && [sum, first].iter().all(|one| one.op1_kind() == OpKind::Memory)
        && sum.memory_base() == first.memory_base();
    let record = Register::of_decoded(sum.memory_base()).filter(|_| shapes)?;
    Some(Copied { record, fields })
}

/// The register that keeps a function's first argument, the connection.
pub(super) fn kept(function: &[Instruction]) -> Option<iced_x86::Register> {
    let first = function.iter().take(KEPT_WITHIN).find(|one| {
        one.mnemonic() == Mnemonic::Mov
            && one.op0_kind() == OpKind::Register
            && one.op1_kind() == OpKind::Register
            && one.op1_register() == iced_x86::Register::RDI
    });
    first.map(Instruction::op0_register)
}

/// How far the records are behind the connection's beginning: the function takes the address of the first, and that of
/// its mark whether it was read, or looks at this mark by the former.
fn record_offset(function: &[Instruction]) -> Option<u64> {
    let connection = kept(function)?;
    let fields: Vec<(usize, i64)> = function
        .iter()
        .enumerate()
        .filter(|(_, one)| {
            one.mnemonic() == Mnemonic::Lea
                && one.memory_base() == connection
                && one.memory_index() == iced_x86::Register::None
        })
        .map(|(index, one)| (index, one.memory_displacement64().cast_signed()))
        .collect();
    let looks_at_mark = |index: usize| {
        let record = function[index].op0_register();
        let near = function.iter().skip(index + 1).take(MARK_WITHIN);
        let mut until_written = near.take_while(|one| one.op0_register() != record);
        until_written.any(|one| one.memory_base() == record && one.memory_displacement64().cast_signed() == WAS_READ)
    };
    let begins: Vec<i64> = fields
        .iter()
        .filter(|(index, field)| fields.iter().any(|(_, other)| *other == field + WAS_READ) || looks_at_mark(*index))
        .map(|(_, field)| *field)
        .collect();
    match begins.as_slice() {
        [one, rest @ ..] if rest.iter().all(|other| other == one) => u64::try_from(*one).ok(),
        _ => None,
    }
}

/// The function that seals a record: what writes and alerts both call of the library's own.
fn sealed(binary: &Binary, write: u64, alert: u64) -> Option<u64> {
    let text = binary.text()?;
    let called = |function: u64, size: usize| -> Option<Vec<u64>> {
        let (_, code) = binary.code_at(function, size)?;
        let calls = instructions(&code, function).filter(|one| one.is_call_near() && one.len() == 5);
        Some(calls.map(|one| one.near_branch_target()).filter(|target| text.contains(target)).collect())
    };
    let (by_write, by_alert) = (called(write, FUNCTION)?, called(alert, ALERT)?);
    by_alert.into_iter().find(|target| by_write.contains(target))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn debians_library_has_its_edge_and_other_files_have_none() {
        let Ok(binary) = Binary::open(Path::new("/usr/lib/x86_64-linux-gnu/libssl.so.3")) else { return };
        let edge = edge(&binary, Release(6, 18)).expect("OpenSSL 3.0 is known");
        let [opens, seals] = edge.as_slice() else { panic!("{edge:?}") };
        let TlsPlace::OpensslOpens { record_offset, .. } = opens.place else { panic!("{edge:?}") };
        assert!(opens.offset != seals.offset && (1..1 << 14).contains(&record_offset), "{edge:?}");
        assert_eq!(seals.place, TlsPlace::OpensslSeals);
        let other = Binary::open(Path::new("/bin/true")).expect("a program");
        assert_eq!(super::edge(&other, Release(6, 18)), Err(NoOpensslEdge::NoOpenSsl));
    }

    /// Node holds the library within its program, which stands at a fixed place.
    #[test]
    fn a_program_that_holds_the_library_has_its_edge() {
        let program = Path::new("/usr/bin/node");
        let version = std::process::Command::new(program).args(["-p", "process.versions.openssl"]).output();
        if !version.is_ok_and(|told| told.stdout.starts_with(b"3.0.")) {
            return;
        }
        let binary = Binary::open(program).expect("a program");
        let edge = edge(&binary, Release(6, 18)).expect("OpenSSL 3.0 is known");
        assert_eq!(edge[1].place, TlsPlace::OpensslSeals);
        // Node's program names the functions, so that what was found can be compared.
        if let Some(seals) = binary.address_of("do_ssl3_write") {
            assert_eq!(Some(edge[1].offset), binary.code_at(seals, 16).map(|(offset, _)| offset));
        }
    }
}
