//! Texts by numbers, so that each is kept once.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Texts that are told apart; what comes after is number 0.
const MOST: usize = 1 << 16;

/// Texts by their numbers; 0 is none.
#[derive(Debug)]
pub(crate) struct Texts {
    numbers: FxHashMap<Arc<str>, u32>,
    texts: Vec<Arc<str>>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { numbers: FxHashMap::default(), texts: vec![Arc::from("")] }
    }
}

impl Texts {
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        if text.is_empty() || self.texts.len() > MOST {
            return 0;
        }
        let (number, text): (u32, Arc<str>) = (self.texts.len() as u32, Arc::from(text));
        self.texts.push(Arc::clone(&text));
        self.numbers.insert(text, number);
        number
    }

    pub(crate) fn text(&self, number: u64) -> &str {
        usize::try_from(number).ok().and_then(|number| self.texts.get(number)).map_or("", |text| text)
    }
}
