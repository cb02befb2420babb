//! The 16-byte ids of ARM 4: ours, which hold the definition's number, and those that an application chose itself.

use crate::page::own;
use crate::{lock, registry};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_wire::arm::Sort;

/// First half of every id of ours, but for the sort, which is its last byte.
const MARK: [u8; 8] = *b"weirarm\0";
/// Ids that applications chose; bounded, and kept for the life of the process.
const MOST_CHOSEN: usize = 4096;
const PLACES: usize = 2 * MOST_CHOSEN;

struct Chosen {
    id: [AtomicU64; 2],
    /// Sort << 16 | number; 0 = a free place. Written last.
    meaning: AtomicU32,
}

static CHOSEN: [Chosen; PLACES] =
    [const { Chosen { id: [AtomicU64::new(0), AtomicU64::new(0)], meaning: AtomicU32::new(0) } }; PLACES];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// The id that is given out for a definition: our mark, its sort, its number and a hash of its content.
///
/// The hash keeps an id of another process, where the number means something else, from being taken for one of ours.
#[must_use]
pub fn id_of(number: u16) -> [u8; 16] {
    let first = registry::sort_of(number).map_or(u64::from_ne_bytes(MARK), mark);
    let mut id = [0; 16];
    id[..8].copy_from_slice(&first.to_ne_bytes());
    id[8..].copy_from_slice(&registry::second_half(number).to_ne_bytes());
    id
}

/// The number of a live definition by the id that we gave out; 0 = it is none of these. What a start asks first.
#[inline(always)]
#[must_use]
pub fn live_number_of(sort: Sort, id: &[u8; 16]) -> u16 {
    let words = words(id);
    if words[0] == mark(sort) && registry::is_live_half(words[1]) { words[1] as u16 } else { 0 }
}

#[inline(always)]
const fn mark(sort: Sort) -> u64 {
    let [a, b, c, d, e, f, g, _] = MARK;
    u64::from_ne_bytes([a, b, c, d, e, f, g, sort as u8])
}

/// Lets an id that the application chose stand for a definition of a sort. The first to take an id keeps it.
///
/// `false` = it stands for another definition already, there is no room, or it is all zeros or all ones.
pub fn adopt(sort: Sort, id: &[u8; 16], number: u16) -> bool {
    let words = words(id);
    if number == 0 || words == [0; 2] || words == [u64::MAX; 2] {
        return false;
    }
    let known = chosen(sort, words);
    if known != 0 {
        return known == number;
    }
    let Some(process) = own() else { return false };
    let Some(_guard) = lock::lock(process) else { return false };
    let known = chosen(sort, words);
    if known != 0 || COUNT.load(Ordering::Relaxed) as usize >= MOST_CHOSEN {
        return known == number;
    }
    let free = places(words).find(|place| place.meaning.load(Ordering::Acquire) == 0);
    let Some(place) = free else { return false };
    place.id[0].store(words[0], Ordering::Relaxed);
    place.id[1].store(words[1], Ordering::Relaxed);
    place.meaning.store((sort as u32) << 16 | u32::from(number), Ordering::Release);
    COUNT.fetch_add(1, Ordering::Relaxed);
    true
}

/// The number of the definition that an id stands for, ours or the application's; 0 = it is not known.
#[inline]
#[must_use]
pub fn number_of(sort: Sort, id: &[u8; 16]) -> u16 {
    let words = words(id);
    if words[0] != mark(sort) {
        return chosen(sort, words);
    }
    let number = words[1] as u16;
    if number != 0 && words[1] == registry::second_half(number) { number } else { 0 }
}

#[inline(always)]
fn words(id: &[u8; 16]) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *id;
    [u64::from_ne_bytes([a, b, c, d, e, f, g, h]), u64::from_ne_bytes(rest)]
}

fn places(words: [u64; 2]) -> impl Iterator<Item = &'static Chosen> {
    let mixed = (words[0] ^ words[1].rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    (0..PLACES).map(move |step| &CHOSEN[(mixed as usize + step) % PLACES])
}

/// The number that a chosen id stands for, 0 = none.
fn chosen(sort: Sort, words: [u64; 2]) -> u16 {
    for place in places(words) {
        let meaning = place.meaning.load(Ordering::Acquire);
        if meaning == 0 {
            break;
        }
        let is_it = place.id[0].load(Ordering::Relaxed) == words[0] && place.id[1].load(Ordering::Relaxed) == words[1];
        if is_it && meaning >> 16 == sort as u32 {
            return meaning as u16;
        }
    }
    0
}
