//! Where Go's crypto/tls has opened a record, and where it is given bytes to seal.
//!
//! A probe on a function's return would have the kernel change the stack of a goroutine, which Go's runtime copies: it is
//! never done. Two places within are cheap, and see each record, or each write, once:
//!
//! - in `(*Conn).Read` the jump behind the loop that reads a record, where a register holds the connection: what was
//!   opened lies in it as a `bytes.Reader`, of which nothing has been taken yet;
//! - in `(*Conn).writeRecordLocked` the push behind the check of the stack, where the arguments still stand in their
//!   registers (rax the connection, bl the type, rcx the bytes, rdi their number).

use super::binary::Binary;
use super::instruction::{HitCost, cost_of};
use super::register::Register;
use super::release::Release;
use super::tls_place::{TlsPlace, TlsSite};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register as Iced,
};
use thiserror::Error;

const READ: &str = "crypto/tls.(*Conn).Read";
const READ_RECORD: &str = "crypto/tls.(*Conn).readRecordOrCCS";
const WRITE_RECORD: &str = "crypto/tls.(*Conn).writeRecordLocked";
/// How far a function is looked at, bytes.
const FUNCTION: usize = 0x1000;
/// Instructions between the call that reads a record and the jumps behind it, and before the call.
const NEAR: usize = 16;
/// In a `bytes.Reader`, from its beginning: the length, how much was taken, and the last rune.
const LENGTH: i64 = 8;
const TAKEN: i64 = 24;
const LAST_RUNE: i64 = 32;

/// Why the places are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoGoEdge {
    /// It has no functions of crypto/tls.
    #[error("it has none of its functions: it is no program of Go, or does without TLS")]
    NoGo,
    /// The function that reads is of another shape.
    #[error(
        "the place where a record was opened is not found: Go 1.26 is known, other versions may be of another shape"
    )]
    NoRead,
    /// The function that writes is of another shape.
    #[error("the place where it seals is not found: Go 1.26 is known, other versions may be of another shape")]
    NoWrite,
    /// A probe there would be single-stepped.
    #[error("probes there would cost some 20 us a hit")]
    Slow,
}

/// The places in a program.
pub(super) fn edge(binary: &Binary, release: Release) -> Result<Vec<TlsSite>, NoGoEdge> {
    let [read, read_record, write] = binary.addresses_of_go([READ, READ_RECORD, WRITE_RECORD]);
    let read = read.ok_or(NoGoEdge::NoGo)?;
    let read_record = read_record.ok_or(NoGoEdge::NoRead)?;
    let (offset, code) = binary.code_at(read, FUNCTION).ok_or(NoGoEdge::NoRead)?;
    let (jump, connection, input_offset) = opened(&code, read, read_record).ok_or(NoGoEdge::NoRead)?;
    let write = write.ok_or(NoGoEdge::NoWrite)?;
    let (sealed, text) = binary.code_at(write, FUNCTION).ok_or(NoGoEdge::NoWrite)?;
    let push = pushed(&text).ok_or(NoGoEdge::NoWrite)?;
    if [&code[jump as usize..], &text[push as usize..]].iter().any(|at| cost_of(at, release) >= HitCost::Stepped) {
        return Err(NoGoEdge::Slow);
    }
    let opens = TlsPlace::GoOpens { connection, input_offset };
    Ok(vec![
        TlsSite { offset: offset + jump, place: opens },
        TlsSite { offset: sealed + push, place: TlsPlace::GoSeals },
    ])
}

fn writes(info: &mut InstructionInfoFactory, one: &Instruction, registers: &[Iced]) -> bool {
    info.info(one).used_registers().iter().any(|used| {
        registers.contains(&used.register().full_register())
            && !matches!(used.access(), OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess)
    })
}

/// What an instruction reads or writes a field of: the register that points to it, and how far the field is.
fn field(one: &Instruction) -> Option<(Iced, i64)> {
    let has_memory = (0..one.op_count()).any(|at| one.op_kind(at) == OpKind::Memory);
    let base = one.memory_base();
    let plain = has_memory
        && one.memory_index() == Iced::None
        && !matches!(base, Iced::None | Iced::RSP | Iced::RIP | Iced::R14);
    plain.then(|| (base, one.memory_displacement64().cast_signed()))
}

/// The jump behind the call that reads a record: how far it is in the function, the register that holds the connection
/// there, and where in the connection the reader is.
fn opened(code: &[u8], address: u64, read_record: u64) -> Option<(u64, Register, u64)> {
    let all: Vec<Instruction> = Decoder::with_ip(64, code, address, DecoderOptions::NONE).into_iter().collect();
    let calls = |one: &Instruction| one.is_call_near() && one.near_branch_target() == read_record;
    let call = all.iter().position(calls)?;
    let is_jump = |one: &&Instruction| one.flow_control() == FlowControl::ConditionalBranch;
    // The first jump leaves the loop with an error; the one behind it asks whether a handshake goes on.
    let behind = &all[call + 1..all.len().min(call + 1 + NEAR)];
    let error = behind.iter().position(|one| is_jump(&one))?;
    let next = error + 1 + behind[error + 1..].iter().position(|one| is_jump(&one))?;
    let between = &behind[error + 1..next];
    if between.iter().any(|one| one.flow_control() != FlowControl::Next) {
        return None;
    }
    let mut info = InstructionInfoFactory::new();
    let fields: Vec<(usize, Iced)> =
        between.iter().enumerate().filter_map(|(at, one)| field(one).map(|(base, _)| (at, base))).collect();
    let (first, connection) = *fields.first()?;
    // It is still there at the jump, and no other is looked at.
    let kept = !between[first..].iter().any(|one| writes(&mut info, one, &[connection]));
    if !kept || fields.iter().any(|(_, base)| *base != connection) {
        return None;
    }
    let offset = input_offset(&all, &all[call.saturating_sub(NEAR)..call])?;
    Some((behind[next].ip() - address, Register::of_decoded(connection)?, offset))
}

/// Where the reader is: before a record is read its length and what was taken of it are compared, and when it is taken
/// from, its last rune becomes none.
fn input_offset(function: &[Instruction], before: &[Instruction]) -> Option<u64> {
    let fields: Vec<(Iced, i64)> =
        before.iter().filter(|one| one.mnemonic() == Mnemonic::Mov).filter_map(field).collect();
    let mut begins = fields.iter().filter_map(|(base, at)| {
        let length = fields.iter().any(|other| *other == (*base, at - TAKEN + LENGTH));
        length.then_some(at - TAKEN)
    });
    let begin = begins.next().filter(|begin| *begin > 0)?;
    if begins.any(|other| other != begin) {
        return None;
    }
    let takes = |one: &Instruction| {
        let of_field = field(one).is_some_and(|(_, at)| at == begin + LAST_RUNE);
        let by_call = one.mnemonic() == Mnemonic::Lea && field(one).is_some_and(|(_, at)| at == begin);
        by_call || (of_field && one.mnemonic() == Mnemonic::Mov && one.op1_kind() == OpKind::Immediate32to64)
    };
    function.iter().any(takes).then(|| u64::try_from(begin).ok()).flatten()
}

/// The push behind the check of the stack: how far it is in the function.
pub(super) fn pushed(code: &[u8]) -> Option<u64> {
    let mut info = InstructionInfoFactory::new();
    let mut was_checked = false;
    for one in Decoder::with_ip(64, code, 0, DecoderOptions::NONE).into_iter().take(NEAR / 2) {
        was_checked |= one.flow_control() == FlowControl::ConditionalBranch;
        if was_checked && one.mnemonic() == Mnemonic::Push && one.op0_register() == Iced::RBP {
            return Some(one.ip());
        }
        if writes(&mut info, &one, &[Iced::RAX, Iced::RBX, Iced::RCX, Iced::RDI]) {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Go 1.26 compiles the loop of `(*Conn).Read`, cut to what matters.
    const LOOP: &[u8] = &[
        0x48, 0x8b, 0xbe, 0xe0, 0x02, 0, 0, // mov 0x2e0(%rsi),%rdi
        0x4c, 0x8b, 0x86, 0xd0, 0x02, 0, 0, // mov 0x2d0(%rsi),%r8
        0x49, 0x29, 0xf8, // sub %rdi,%r8
        0x75, 0x20, // jne
        0x48, 0x89, 0xf0, // mov %rsi,%rax
        0xe8, 0xe5, 0x0f, 0, 0, // call 0x2000
        0x48, 0x85, 0xc0, // test %rax,%rax
        0x75, 0x15, // jne
        0x48, 0x8b, 0x44, 0x24, 0x68, // mov 0x68(%rsp),%rax
        0x48, 0x8b, 0xb0, 0xf8, 0x02, 0, 0, // mov 0x2f8(%rax),%rsi
        0x48, 0x2b, 0xb0, 0x08, 0x03, 0, 0, // sub 0x308(%rax),%rsi
        0x48, 0x85, 0xf6, // test %rsi,%rsi
        0x7e, 0xc7, // jle
        0x48, 0xc7, 0x86, 0xe8, 0x02, 0, 0, 0xff, 0xff, 0xff, 0xff, // movq $-1,0x2e8(%rsi)
        0xc3,
    ];

    #[test]
    fn the_jump_behind_a_record_is_found_where_all_fits_together() {
        let rax = Register::named("rax").expect("a register");
        let call_ends = 27 + 0x0fe5;
        let found = opened(LOOP, 0, call_ends);
        assert_eq!(found, Some((54, rax, 0x2c8)));
        assert_eq!(opened(LOOP, 0, call_ends + 1), None, "another function is called");
        // The register is gone at the jump: xor %eax,%eax in place of test.
        let mut spoilt = LOOP.to_vec();
        spoilt[51..54].copy_from_slice(&[0x31, 0xc0, 0x90]);
        assert_eq!(opened(&spoilt, 0, call_ends), None);
        // Nothing says that the reader is one.
        let mut other = LOOP.to_vec();
        other[59] = 0xf0;
        assert_eq!(opened(&other, 0, call_ends), None);
    }

    #[test]
    fn a_write_is_met_behind_the_check_of_the_stack() {
        // lea -0xb0(%rsp),%r12; cmp 0x10(%r14),%r12; jbe; push %rbp
        let code = [0x4c, 0x8d, 0xa4, 0x24, 0x50, 0xff, 0xff, 0xff, 0x4d, 0x3b, 0x66, 0x10, 0x76, 0x20, 0x55];
        assert_eq!(pushed(&code), Some(14));
        // mov %rbx,%rax before it.
        let spoilt = [&[0x48, 0x89, 0xd8][..], &code].concat();
        assert_eq!(pushed(&spoilt), None);
        assert_eq!(pushed(&[0x55]), None, "the stack is not checked");
    }
}
