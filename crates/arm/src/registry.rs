//! Definitions: applications, transactions, metrics, instances. Each has a number, and the same content the same number.
//!
//! The process keeps a copy of its own (`definitions.rs`), which forked children inherit: so their numbers are the
//! parent's, and a child's new memory can be filled from it.

use crate::definitions::{self, count, find, first_word, hash_of, hash_of_number};
use crate::page::own;
use crate::process::Process;
use crate::{command_line, lock, memory};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use weir_wire::arm::{DefinitionWriter, Field, HEAD_DEFINITIONS_DROPPED, MOST_DEFINITIONS, Sort};

/// The second half of each one's id while it is live, else 0: so that one comparison tells all that a start asks.
static LIVE: [AtomicU64; MOST_DEFINITIONS] = [const { AtomicU64::new(0) }; MOST_DEFINITIONS];
/// What has become of each: a [`State`].
static STATES: [AtomicU8; MOST_DEFINITIONS] = [const { AtomicU8::new(State::Live as u8) }; MOST_DEFINITIONS];
/// What has become of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// It is in use.
    Live = 0,
    /// It, or its application, was given up.
    Forgotten = 1,
    /// Its application wants none of it recorded.
    Muted = 2,
}

/// The number of a definition, which is made if there is none of the same content; 0 = it finds no room, which is counted.
///
/// `standard` is the version of ARM by which it is made, `belongs_to` the application's number (0 for an application).
pub fn define(sort: Sort, standard: u8, belongs_to: u16, tell: impl FnOnce(&mut DefinitionWriter)) -> u16 {
    let mut writer = DefinitionWriter::new(sort, standard, belongs_to);
    tell(&mut writer);
    if sort == Sort::Application {
        let _ = writer.piece(Field::CommandLine, 0, command_line::command_line());
    }
    let bytes = writer.finish();
    let eight = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
    let words: Vec<u64> = bytes.chunks(8).map(eight).collect();
    let hash = hash_of(&words);
    let Some(process) = own() else { return 0 };
    process.refused.store(0, Ordering::Relaxed);
    let head = memory::ensure(process);
    if !head.is_null() {
        memory::look_after(process);
    }
    let number = find(&words, hash).unwrap_or_else(|| add(process, &words, hash));
    if number == 0 && !head.is_null() {
        Process::word(head, HEAD_DEFINITIONS_DROPPED).fetch_add(1, Ordering::Relaxed);
    }
    set_state(number, State::Live);
    number
}

/// What has become of a definition; number 0 is always live.
#[inline]
#[must_use]
pub fn state_of(number: u16) -> State {
    match STATES.get(usize::from(number)).map_or(0, |state| state.load(Ordering::Relaxed)) {
        0 => State::Live,
        1 => State::Forgotten,
        _ => State::Muted,
    }
}

/// Lets none of a transaction's instances be recorded from now on, until it is defined again.
pub fn mute(number: u16) {
    set_state(number, State::Muted);
}

fn set_state(number: u16, state: State) {
    if number != 0 && usize::from(number) <= count() {
        STATES[usize::from(number)].store(state as u8, Ordering::Relaxed);
        let live = if state == State::Live { second_half(number) } else { 0 };
        LIVE[usize::from(number)].store(live, Ordering::Release);
    }
}

/// The second half of a definition's id: its number, and a hash of its content.
pub(crate) fn second_half(number: u16) -> u64 {
    u64::from(number) | u64::from(hash_of_number(number)) << 32
}

/// Whether this is the second half of a live definition's id; 0 is, too, and names none.
#[inline(always)]
pub(crate) fn is_live_half(second: u64) -> bool {
    LIVE[second as usize % MOST_DEFINITIONS].load(Ordering::Relaxed) == second
}

/// What a number defines; `None` = it was never given out.
#[must_use]
pub fn sort_of(number: u16) -> Option<Sort> {
    let code = first_word(number)?[4];
    [Sort::Application, Sort::Transaction, Sort::Metric, Sort::Instance].into_iter().find(|sort| *sort as u8 == code)
}

/// The application that a definition belongs to, 0 = none.
#[must_use]
pub fn belongs_to(number: u16) -> u16 {
    first_word(number).map_or(0, |bytes| u16::from_ne_bytes([bytes[6], bytes[7]]))
}

/// Whether it is defined, and neither it nor the application that it belongs to was forgotten.
#[must_use]
pub fn is_live(number: u16) -> bool {
    number != 0 && usize::from(number) <= count() && state_of(number) != State::Forgotten
}

/// A definition is gone, and so is all that belongs to it; defining the same again brings that back.
pub fn forget(number: u16) {
    set_state(number, State::Forgotten);
    for other in 1..=count().min(MOST_DEFINITIONS - 1) as u16 {
        if number != 0 && belongs_to(other) == number {
            set_state(other, State::Forgotten);
        }
    }
}

/// Appends a definition; 0 = no room, or the lock could not be had.
fn add(process: &Process, words: &[u64], hash: u32) -> u16 {
    let Some(_guard) = lock::lock(process) else { return 0 };
    // Another thread may have made the same one meanwhile.
    if let Some(number) = find(words, hash) {
        return number;
    }
    let Some((number, at)) = definitions::append(words, hash) else { return 0 };
    let head = process.head.load(Ordering::Acquire);
    if !head.is_null() {
        memory::append(head, at, words.iter().copied());
    }
    number
}
