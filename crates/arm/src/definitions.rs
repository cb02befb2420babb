//! The process's own copy of all definitions: only ever appended to, and inherited by forked children.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering};
use weir_wire::arm::{DEFINITION_BYTES, MOST_DEFINITIONS};

/// Places of the index; more than twice as many as definitions, so that a search is short.
const PLACES: usize = 4 * MOST_DEFINITIONS;

/// The words of all definitions, which are multiples of 8 bytes; null before the first.
static TEXT: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());
/// Definitions that are whole << 32, and their words.
static END: AtomicU64 = AtomicU64::new(0);
/// The word at which each begins.
static OFFSETS: [AtomicU32; MOST_DEFINITIONS] = [const { AtomicU32::new(0) }; MOST_DEFINITIONS];
/// The hash of each one's bytes.
static HASHES: [AtomicU32; MOST_DEFINITIONS] = [const { AtomicU32::new(0) }; MOST_DEFINITIONS];
/// Numbers by the hash of their content, 0 = a free place.
static INDEX: [AtomicU16; PLACES] = [const { AtomicU16::new(0) }; PLACES];

/// The hash of a definition's content, 0 for a number that was never given out.
pub(crate) fn hash_of_number(number: u16) -> u32 {
    HASHES.get(usize::from(number)).map_or(0, |hash| hash.load(Ordering::Relaxed))
}

/// How many definitions there are.
pub(crate) fn count() -> usize {
    (END.load(Ordering::Acquire) >> 32) as usize
}

/// All words that are whole.
pub(crate) fn whole() -> &'static [AtomicU64] {
    let words = END.load(Ordering::Acquire) as u32 as usize;
    let text = TEXT.load(Ordering::Acquire);
    if text.is_null() || words > DEFINITION_BYTES / 8 {
        return &[];
    }
    // SAFETY: the mapping has DEFINITION_BYTES and is never unmapped.
    unsafe { std::slice::from_raw_parts(text, words) }
}

/// The words of a definition and of all behind it.
fn words_of(number: u16) -> Option<&'static [AtomicU64]> {
    if number == 0 || usize::from(number) > count() {
        return None;
    }
    whole().get(OFFSETS[usize::from(number)].load(Ordering::Relaxed) as usize..)
}

/// The head of a definition: length, sort, standard, what it belongs to.
pub(crate) fn first_word(number: u16) -> Option<[u8; 8]> {
    words_of(number)?.first().map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
}

/// The number of the definition of these words.
pub(crate) fn find(words: &[u64], hash: u32) -> Option<u16> {
    for step in 0..PLACES {
        let number = INDEX[(hash as usize + step) % PLACES].load(Ordering::Acquire);
        if number == 0 {
            return None;
        }
        let is_same = |found: &[AtomicU64]| {
            found.len() >= words.len()
                && found.iter().zip(words).all(|(found, word)| found.load(Ordering::Relaxed) == *word)
        };
        if hash_of_number(number) == hash && words_of(number).is_some_and(is_same) {
            return Some(number);
        }
    }
    None
}

/// Appends a definition; its number, and the word at which it begins. `None` = no room. The lock is held.
pub(crate) fn append(words: &[u64], hash: u32) -> Option<(u16, usize)> {
    let end = END.load(Ordering::Acquire);
    let (number, at) = ((end >> 32) as usize + 1, end as u32 as usize);
    if number >= MOST_DEFINITIONS || at + words.len() > DEFINITION_BYTES / 8 {
        return None;
    }
    let text = text()?;
    for (offset, word) in words.iter().enumerate() {
        // SAFETY: within the mapping, as was just compared.
        unsafe { &*text.add(at + offset) }.store(*word, Ordering::Relaxed);
    }
    OFFSETS[number].store(at as u32, Ordering::Relaxed);
    HASHES[number].store(hash, Ordering::Relaxed);
    END.store((number as u64) << 32 | (at + words.len()) as u64, Ordering::Release);
    let free = (0..PLACES).map(|step| &INDEX[(hash as usize + step) % PLACES]);
    if let Some(place) = free.into_iter().find(|place| place.load(Ordering::Relaxed) == 0) {
        place.store(number as u16, Ordering::Release);
    }
    Some((number as u16, at))
}

/// Where the words of all definitions stand; the lock is held.
fn text() -> Option<*mut AtomicU64> {
    let found = TEXT.load(Ordering::Acquire);
    if !found.is_null() {
        return Some(found);
    }
    // SAFETY: a new anonymous mapping; hardly any of its pages are ever touched.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            DEFINITION_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    TEXT.store(mapped.cast(), Ordering::Release);
    Some(mapped.cast())
}

/// FNV-1a over words, each mixed into all bits.
pub(crate) fn hash_of(words: &[u64]) -> u32 {
    let mixed = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    let hash = words.iter().fold(0xcbf2_9ce4_8422_2325_u64, mixed);
    (hash ^ hash >> 32) as u32
}
