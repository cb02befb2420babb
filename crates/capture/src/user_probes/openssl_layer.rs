//! The two places of `openssl.rs` in OpenSSL from 3.2 on, whose record layer is a library within the library.
//!
//! What was opened is handed over as before (`ssl3_read_bytes`), in several copies of one loop; the record lies in an array
//! within the connection. What is to be sealed goes to `tls_write_records`, once for each try at new bytes: it has the layer
//! for an argument, and its caller `ssl3_write_bytes` keeps the connection in a register, which still holds it at the
//! entry. Only content is told, and no other caller has any.

use super::binary::Binary;
use super::instruction::{HitCost, cost_of, place};
use super::openssl::{BEFORE, Copied, FUNCTION, NoOpensslEdge, copied, instructions, kept, table};
use super::register::Register;
use super::release::Release;
use super::tls_place::{TlsPlace, TlsSite};
use iced_x86::{Instruction, Mnemonic, OpKind};

/// Places in `struct ssl_method_st` in words, from OpenSSL 3.2 on.
const READ_BYTES: usize = 16;
const WRITE_BYTES: usize = 17;
/// In `TLS_RECORD`: where its bytes lie, and how far they are taken.
const RECORD_FIELDS: [i64; 2] = [0x10, 0x28];
/// In the same: its type, bytes from its beginning.
const RECORD_TYPE: u64 = 0xc;
/// In `struct ossl_record_method_st`: the function that writes records, bytes; behind it the one that tries again.
const WRITE_RECORDS: u64 = 0x30;
const WORD: u64 = 8;
/// How far `tls_write_records` is looked at, bytes.
const LAYER_FUNCTION: usize = 0xc0;
/// More copies of the loop than any compiler was seen to make.
const MOST_COPIES: usize = 8;

/// The places in a library of OpenSSL from 3.2 on, or in a program that holds it.
///
/// # Errors
/// [`NoOpensslEdge`] where one is not found for certain.
pub(super) fn edge(binary: &Binary, release: Release) -> Result<Vec<TlsSite>, NoOpensslEdge> {
    let method = binary.address_of("TLS_method").ok_or(NoOpensslEdge::NoOpenSsl)?;
    let table = table(binary, method).ok_or(NoOpensslEdge::NoTable)?;
    let functions = binary.pointers(table, WRITE_BYTES + 1).ok_or(NoOpensslEdge::NoTable)?;
    let mut sites = opened(binary, functions[READ_BYTES]);
    if sites.is_empty() || sites.len() > MOST_COPIES {
        return Err(NoOpensslEdge::NoRead);
    }
    let connection = caller(binary, functions[WRITE_BYTES]).ok_or(NoOpensslEdge::NoWrite)?;
    let writes = binary.address_of("tls_write_records").or_else(|| written(binary)).ok_or(NoOpensslEdge::NoWrite)?;
    let (offset, code) = binary.code_at(writes, LAYER_FUNCTION).ok_or(NoOpensslEdge::NoWrite)?;
    let read = [Register::argument(2), Register::argument(3), Some(connection)];
    let read: Vec<_> = read.into_iter().flatten().map(Register::decoded).collect();
    let placed = place(&code, &read, false, release);
    if placed.cost >= HitCost::Stepped || cost_of(&[0xe8], release) >= HitCost::Stepped {
        return Err(NoOpensslEdge::Slow);
    }
    sites.push(TlsSite { offset: offset + placed.shift, place: TlsPlace::LayerSeals { connection } });
    Ok(sites)
}

/// The calls that hand an opened record over.
fn opened(binary: &Binary, function: u64) -> Vec<TlsSite> {
    let Some((offset, code)) = binary.code_at(function, FUNCTION) else { return Vec::new() };
    let all: Vec<Instruction> = instructions(&code, function).collect();
    let stubs = binary.stubs_of("memcpy");
    let Some(record_offset) = kept(&all).and_then(|connection| record_offset(&all, connection)) else {
        return Vec::new();
    };
    let copies = all
        .iter()
        .enumerate()
        .filter(|(_, one)| one.is_call_near() && one.len() == 5 && stubs.contains(&one.near_branch_target()));
    let sites = copies.filter_map(|(index, one)| {
        let place = ways_to(&all, index).find_map(|before| {
            let Copied { record, fields } = copied(before)?;
            (fields == RECORD_FIELDS).then_some(TlsPlace::LayerOpens { record, record_offset })
        })?;
        Some(TlsSite { offset: offset + (one.ip() - function), place })
    });
    sites.collect()
}

/// How far the array of records is behind the connection's beginning: the function takes the address of one of them, which
/// an index leads to, and that of its type.
fn record_offset(function: &[Instruction], connection: iced_x86::Register) -> Option<u64> {
    let addresses: Vec<(iced_x86::Register, u64)> = function
        .iter()
        .filter(|one| {
            one.mnemonic() == Mnemonic::Lea
                && one.memory_base() == connection
                && one.memory_index() != iced_x86::Register::None
        })
        .map(|one| (one.memory_index(), one.memory_displacement64()))
        .collect();
    let mut begins = addresses.iter().filter(|(index, begin)| addresses.contains(&(*index, begin + RECORD_TYPE)));
    let (_, begin) = begins.next()?;
    begins.all(|(_, other)| other == begin).then_some(*begin)
}

/// What stands before an instruction on each way that leads to it: in a row, and before jumps to it.
fn ways_to(all: &[Instruction], index: usize) -> impl Iterator<Item = &[Instruction]> {
    let at = all[index].ip();
    let jumps = all.iter().enumerate().filter(move |(_, one)| {
        (one.is_jcc_short_or_near() || one.is_jmp_short_or_near()) && one.near_branch_target() == at
    });
    let in_a_row = (index > 0 && !all[index - 1].is_jmp_short_or_near()).then_some(index);
    let ends = in_a_row.into_iter().chain(jumps.map(|(jump, _)| jump));
    ends.map(|end| &all[end.saturating_sub(BEFORE)..end])
}

/// The register in which `ssl3_write_bytes` has the connection where it calls the layer to write records.
fn caller(binary: &Binary, function: u64) -> Option<Register> {
    let (_, code) = binary.code_at(function, FUNCTION)?;
    let all: Vec<Instruction> = instructions(&code, function).collect();
    let connection = kept(&all)?;
    let writes = all.iter().position(|one| {
        one.is_call_near_indirect() && one.op0_kind() == OpKind::Memory && one.memory_displacement64() == WRITE_RECORDS
    })?;
    // The layer is the call's first argument, and a field of the connection.
    let layer = all[writes.saturating_sub(BEFORE)..writes].iter().rev().find(|one| {
        one.op_count() == 2 && one.op0_kind() == OpKind::Register && one.op0_register() == iced_x86::Register::RDI
    })?;
    let is_field =
        layer.mnemonic() == Mnemonic::Mov && layer.op1_kind() == OpKind::Memory && layer.memory_base() == connection;
    Register::of_decoded(connection).filter(|_| is_field)
}

/// Finds `tls_write_records` without its name: in a table of functions it stands before the one that it ends with, which
/// tries again; and it calls the function of its own that seals.
fn written(binary: &Binary) -> Option<u64> {
    let text = binary.text()?;
    let pointers = binary.all_pointers();
    let mut found: Vec<u64> = Vec::new();
    for (at, function) in &pointers {
        let again = pointers.get(&(at + WORD)).filter(|again| text.contains(again) && text.contains(function));
        let before = (1..=WRITE_RECORDS / WORD)
            .all(|word| pointers.get(&(at - word * WORD)).is_some_and(|one| text.contains(one)));
        let Some(again) = again.filter(|_| before && !found.contains(function)) else { continue };
        let Some((_, code)) = binary.code_at(*function, LAYER_FUNCTION) else { continue };
        let all = || instructions(&code, *function);
        let ends = all().any(|one| (one.is_jmp_near() || one.is_call_near()) && one.near_branch_target() == *again);
        if ends && all().take(BEFORE * 2).any(|one| one.is_call_near_indirect() && one.op0_kind() == OpKind::Memory) {
            found.push(*function);
        }
    }
    match found.as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of OpenSSL from 3.2 on that `WEIR_OPENSSL` names, with colons between, have its record layer's edge.
    #[test]
    fn a_record_layer_has_its_edge() {
        let Some(files) = std::env::var_os("WEIR_OPENSSL") else { return };
        for file in std::env::split_paths(&files) {
            let binary = Binary::open(&file).expect("a file");
            let edge = edge(&binary, Release(6, 18)).expect("OpenSSL from 3.2 on is known");
            let seals = edge.iter().filter(|site| matches!(site.place, TlsPlace::LayerSeals { .. })).count();
            let opens = edge.iter().filter(|site| matches!(site.place, TlsPlace::LayerOpens { .. })).count();
            assert!(seals == 1 && (1..=4).contains(&opens), "{}: {edge:?}", file.display());
        }
    }
}
