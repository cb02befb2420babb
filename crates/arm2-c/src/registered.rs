//! Ids of applications and transactions.
//!
//! The tables only grow, and nothing in them is ever moved or waited for: a child of fork has them as they were. An
//! application's id is the number of its instance's definition; those of transactions count from 1 on their own, so
//! that two applications of one name with two users have two ids for the transactions that they share.

use crate::data::Data;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weir_arm::{Field, Sort};

/// Why something is refused: what the caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Problem {
    /// A name is NULL or empty.
    NoName = -1,
    /// The id or handle was never given out, or is no longer in use.
    NotKnown = -2,
    /// The application was ended by `arm_end`.
    Ended = -3,
    /// The process has named as many as it may.
    NoRoom = -4,
    /// A fault of this library.
    Broken = -5,
}

/// Transactions that a process may name, and the largest number of an instance.
const MOST: usize = 4096;
/// Places of the table by which names are found; a power of two, sparsely filled.
const PLACES: usize = 4 * MOST;
/// How far a name may lie from its place.
const MOST_STEPS: usize = 64;
/// Bits of a place that hold the transaction's id; the others tell names apart.
const ID_BITS: u32 = 13;
/// Handles whose metrics' types are remembered.
const HANDLES: usize = 1 << 16;

/// Four bits for the metric of each of seven slots.
const TYPES_BITS: u64 = (1 << 28) - 1;

static BEGUN: [AtomicU32; MOST + 1] = [const { AtomicU32::new(0) }; MOST + 1];
static ENDED: [AtomicU32; MOST + 1] = [const { AtomicU32::new(0) }; MOST + 1];
static TRANSACTIONS: [AtomicU64; MOST + 1] = [const { AtomicU64::new(0) }; MOST + 1];
static NAMED: AtomicU32 = AtomicU32::new(0);
static PLACED: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
static TYPES: [AtomicU64; HANDLES] = [const { AtomicU64::new(0) }; HANDLES];

/// A transaction by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Transaction {
    /// Its definition.
    pub number: u16,
    /// That of the application's instance.
    pub instance: u16,
    /// What the metrics of its slots are, four bits each.
    pub types: u32,
}

impl Transaction {
    const EXISTS: u64 = 1 << 63;

    fn pack(self) -> u64 {
        Self::EXISTS | u64::from(self.number) | u64::from(self.instance) << 16 | u64::from(self.types) << 32
    }

    fn unpack(word: u64) -> Option<Self> {
        let types = (word >> 32 & TYPES_BITS) as u32;
        (word & Self::EXISTS != 0).then_some(Self { number: word as u16, instance: (word >> 16) as u16, types })
    }
}

/// Names an application and its user, or does so again.
pub(crate) fn application(name: &[u8], user: Option<&[u8]>) -> Result<i32, Problem> {
    if name.is_empty() {
        return Err(Problem::NoName);
    }
    let application = weir_arm::define(Sort::Application, 2, 0, |definition| {
        definition.piece(Field::Name, 0, name);
    });
    if application == 0 {
        return Err(Problem::NoRoom);
    }
    let instance = weir_arm::define(Sort::Instance, 2, application, |definition| {
        if let Some(user) = user {
            definition.piece(Field::User, 0, user);
        }
    });
    let begun = BEGUN.get(usize::from(instance)).filter(|_| instance != 0).ok_or(Problem::NoRoom)?;
    begun.fetch_add(1, Ordering::Relaxed);
    Ok(i32::from(instance))
}

/// Ends what [`application`] began; each call of the one is for one of the other.
pub(crate) fn end(application: i32) -> Result<(), Problem> {
    runs(application)?;
    ENDED[application as usize].fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn runs(application: i32) -> Result<(), Problem> {
    let place = usize::try_from(application).map_err(|_| Problem::NotKnown)?;
    let begun = BEGUN.get(place).map_or(0, |begun| begun.load(Ordering::Relaxed));
    if begun == 0 {
        return Err(Problem::NotKnown);
    }
    // They only differ by how many run, however often they have gone round.
    let running = begun.wrapping_sub(ENDED[place].load(Ordering::Relaxed)) as i32;
    if running > 0 { Ok(()) } else { Err(Problem::Ended) }
}

/// Names a transaction, or finds the one of the same name and data.
pub(crate) fn transaction(application: i32, name: &[u8], detail: Option<&[u8]>, data: &[u8]) -> Result<i32, Problem> {
    runs(application)?;
    if name.is_empty() {
        return Err(Problem::NoName);
    }
    let key = key(application, name, data);
    if let Some(id) = find(key) {
        return Ok(id);
    }
    if NAMED.load(Ordering::Relaxed) as usize >= MOST {
        return Err(Problem::NoRoom);
    }
    let transaction = define(application as u16, name, detail, data)?;
    let id = NAMED.fetch_add(1, Ordering::Relaxed) as usize + 1;
    TRANSACTIONS.get(id).ok_or(Problem::NoRoom)?.store(transaction.pack(), Ordering::Release);
    place(key, id)
}

/// The definitions of a transaction and of its metrics.
fn define(instance: u16, name: &[u8], detail: Option<&[u8]>, data: &[u8]) -> Result<Transaction, Problem> {
    let application = weir_arm::belongs_to(instance);
    let mut types = 0;
    let mut bound = Vec::new();
    for metric in Data::of(data).metrics() {
        let number = weir_arm::define(Sort::Metric, 2, application, |definition| {
            definition.piece(Field::Name, 0, metric.name);
            definition.piece(Field::MetricFormat, 0, &[metric.format(), 0]);
        });
        types |= u32::from(metric.kind) << (4 * u32::from(metric.slot));
        bound.push((metric.slot, number));
    }
    let number = weir_arm::define(Sort::Transaction, 2, application, |definition| {
        definition.piece(Field::Name, 0, name);
        if let Some(detail) = detail {
            definition.piece(Field::Detail, 0, detail);
        }
        for (slot, number) in &bound {
            definition.piece(Field::MetricBinding, *slot, &number.to_ne_bytes());
        }
    });
    if number == 0 { Err(Problem::NoRoom) } else { Ok(Transaction { number, instance, types }) }
}

/// A transaction that may begin.
pub(crate) fn running(id: i32) -> Result<Transaction, Problem> {
    let word = usize::try_from(id).ok().and_then(|id| TRANSACTIONS.get(id)).ok_or(Problem::NotKnown)?;
    let transaction = Transaction::unpack(word.load(Ordering::Acquire)).ok_or(Problem::NotKnown)?;
    runs(i32::from(transaction.instance))?;
    Ok(transaction)
}

/// Keeps what the metrics of a running transaction are.
pub(crate) fn remember_types(short: i32, types: u32) {
    if short > 0 && types != 0 {
        TYPES[short as usize % HANDLES].store(u64::from(types) | (short as u64) << 32, Ordering::Relaxed);
    }
}

/// What [`remember_types`] was told; 0 = nothing.
pub(crate) fn types_of(short: i32) -> u32 {
    let word = if short > 0 { TYPES[short as usize % HANDLES].load(Ordering::Relaxed) } else { 0 };
    if word >> 32 == short as u64 { (word & TYPES_BITS) as u32 } else { 0 }
}

/// A number for an application, name and data; never 0, its lower bits free. Two of 4,096 are taken for one by a chance
/// of one in 100 million.
fn key(application: i32, name: &[u8], data: &[u8]) -> u64 {
    let lengths = [application as u64, name.len() as u64, data.len() as u64];
    let bytes = lengths.iter().flat_map(|length| length.to_le_bytes()).chain(name.iter().chain(data).copied());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mixed = (hash ^ hash >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed | 1 << 63) >> ID_BITS << ID_BITS
}

fn places(key: u64) -> impl Iterator<Item = &'static AtomicU64> {
    let first = (key >> ID_BITS) as usize;
    (0..MOST_STEPS).map(move |step| &PLACED[(first + step) % PLACES])
}

/// The id that a filled place holds, if it is this key's.
fn id_at(word: u64, key: u64) -> Option<i32> {
    (word >> ID_BITS << ID_BITS == key).then_some((word & ((1 << ID_BITS) - 1)) as i32)
}

fn find(key: u64) -> Option<i32> {
    let filled = places(key).map(|place| place.load(Ordering::Acquire)).take_while(|word| *word != 0);
    filled.filter_map(|word| id_at(word, key)).next()
}

/// Enters an id under its key and returns it; if another thread was first, returns the id of that one.
fn place(key: u64, id: usize) -> Result<i32, Problem> {
    for place in places(key) {
        match place.compare_exchange(0, key | id as u64, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(id as i32),
            Err(word) => {
                if let Some(first) = id_at(word, key) {
                    return Ok(first);
                }
            }
        }
    }
    Err(Problem::NoRoom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn transactions_come_back(number: u16, instance: u16, types in 0u32..1 << 28) {
            let transaction = Transaction { number, instance, types };
            prop_assert_eq!(Transaction::unpack(transaction.pack()), Some(transaction));
        }

        #[test]
        fn a_key_is_that_of_its_application_name_and_data(
            application in 1i32..9, other in 1i32..9, name in ".{1,9}", another in ".{1,9}", data: Vec<u8>, more: Vec<u8>
        ) {
            let keys = (key(application, name.as_bytes(), &data), key(other, another.as_bytes(), &more));
            let same = (application, &name, &data) == (other, &another, &more);
            prop_assert_eq!(keys.0 == keys.1, same);
            prop_assert!(keys.0 != 0 && keys.0.is_multiple_of(1 << ID_BITS));
        }
    }

    #[test]
    fn the_first_of_a_key_wins() {
        let key = key(1, b"first", b"");
        assert_eq!((find(key), place(key, 17), place(key, 18), find(key)), (None, Ok(17), Ok(17), Some(17)));
    }
}
