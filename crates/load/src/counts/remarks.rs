//! What servers did that is no failure, and is told: oddities that were taken, connections that they ended with a code.

use crate::carried::{Carried, CarriedError, Reader};
use weir_client::Oddity;

/// The most codes that are told apart: those of RFC 9113 7 and as many others.
const CODES_MAX: usize = 32;

/// Something that a server did, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// What it was.
    pub words: String,
    /// How often.
    pub count: u64,
}

/// In how many responses each oddity was.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OddityCounts([u64; Oddity::ALL.len()]);

impl OddityCounts {
    pub(crate) fn add(&mut self, counts: impl Iterator<Item = (Oddity, u64)>) {
        for (oddity, count) in counts {
            self.0[oddity as usize] += count;
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Oddity, u64)> {
        Oddity::ALL.into_iter().zip(self.0).filter(|(_, count)| *count > 0)
    }

    /// The most frequent first.
    pub(crate) fn remarks(&self) -> Vec<Remark> {
        sorted(self.iter().map(|(oddity, count)| Remark { words: oddity.words().to_owned(), count }).collect())
    }
}

/// How often each code came.
#[derive(Debug, Clone, Default)]
pub(crate) struct CodeCounts(Vec<(u32, u64)>);

impl CodeCounts {
    pub(crate) fn count(&mut self, code: u32, times: u64) {
        let place = self.0.iter().position(|(known, _)| *known == code);
        match place {
            Some(place) => self.0[place].1 += times,
            None if self.0.len() < CODES_MAX => self.0.push((code, times)),
            // Those that are too many to be told apart count as the last one.
            None => self.0[CODES_MAX - 1].1 += times,
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (code, count) in &other.0 {
            self.count(*code, *count);
        }
    }

    /// The most frequent first, by what codes are called.
    pub(crate) fn remarks(&self, words: impl Fn(u32) -> String) -> Vec<Remark> {
        sorted(self.0.iter().map(|(code, count)| Remark { words: words(*code), count: *count }).collect())
    }
}

fn sorted(mut remarks: Vec<Remark>) -> Vec<Remark> {
    remarks.sort_by(|one, other| other.count.cmp(&one.count).then_with(|| one.words.cmp(&other.words)));
    remarks
}

impl Carried for OddityCounts {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        Ok(Self(Carried::take(from)?))
    }
}

impl Carried for CodeCounts {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, CarriedError> {
        let mut counts = Self::default();
        for (code, count) in Vec::<(u32, u64)>::take(from)? {
            counts.count(code, count);
        }
        Ok(counts)
    }
}
