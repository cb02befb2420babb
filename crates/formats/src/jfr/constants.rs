//! Pools of constants: what events refer to by number.

use super::values::{Bytes, Classes, Value};
use crate::ReadError;
use rustc_hash::FxHashMap;

/// Pools of a chunk that follow each other, and constants of all.
const POOLS_MAX: usize = 1 << 16;
const CONSTANTS_MAX: usize = 1 << 22;

/// Where each constant lies in the chunk.
pub(crate) type Places = FxHashMap<(u64, u64), usize>;

/// Reads the pools, of which each tells how far before it the one before lies.
pub(crate) fn places(bytes: &Bytes<'_>, first: usize, classes: &Classes) -> Result<Places, ReadError> {
    let (mut places, mut at) = (Places::default(), first);
    for _ in 0..POOLS_MAX {
        let mut pool = bytes.from(at);
        pool.int()?;
        pool.long()?;
        pool.long()?;
        pool.long()?;
        let before = pool.long()?.cast_signed();
        pool.byte()?;
        for _ in 0..pool.int()? {
            let class = pool.long()?;
            for _ in 0..pool.int()? {
                let number = pool.long()?;
                if places.len() >= CONSTANTS_MAX {
                    return Err(pool.wrong(format!("a chunk has more than {CONSTANTS_MAX} constants")));
                }
                // The last pool knows best.
                let here = pool.at;
                places.entry((class, number)).or_insert(here);
                pool.pass_value(class, classes, 0)?;
            }
        }
        // It lies before this one, so that no file leads in a circle.
        let next = i64::try_from(at).ok().and_then(|at| at.checked_add(before)).filter(|_| before < 0);
        match next.and_then(|next| usize::try_from(next).ok()) {
            Some(next) => at = next,
            None if before == 0 => return Ok(places),
            None => return Err(pool.wrong("a pool of constants leads to none before it")),
        }
    }
    Err(ReadError::wrong(bytes.place(), format!("a chunk has more than {POOLS_MAX} pools of constants")))
}

/// The constants of a chunk.
pub(crate) struct Constants<'a> {
    pub(crate) bytes: Bytes<'a>,
    pub(crate) places: Places,
    pub(crate) classes: Classes,
}

impl Constants<'_> {
    /// What a value refers to, or the value itself.
    pub(crate) fn find(&self, value: &Value) -> Value {
        let Value::Constant(class, number) = value else { return value.clone() };
        let Some(at) = self.places.get(&(*class, *number)) else { return Value::Null };
        let mut bytes = self.bytes.from(*at);
        bytes.value(*class, &self.classes, 0).unwrap_or(Value::Null)
    }

    /// A member of what a value refers to.
    pub(crate) fn member(&self, value: &Value, name: &str) -> Value {
        self.find(value).get(name).map_or(Value::Null, |value| self.find(value))
    }

    /// A text: itself, or that of a symbol.
    pub(crate) fn text(&self, value: &Value) -> Option<String> {
        match self.find(value) {
            Value::Text(text) => Some(text),
            object @ Value::Object(_) => match self.find(object.get("string")?) {
                Value::Text(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }
}
