//! Names of users, each kept once while it is in use.

use crate::keyed::Keyed;
use std::collections::HashSet;
use std::sync::Arc;

/// Names that are remembered; with one more, all are forgotten, and those in use are made anew once.
const MOST_USERS: usize = 4096;
/// Bytes of a name that is remembered.
const MOST_NAME_BYTES: usize = 256;

/// Names that were told lately.
#[derive(Debug, Default)]
pub struct Users {
    known: HashSet<Arc<str>, Keyed>,
}

impl Users {
    /// The one of this name.
    pub fn of(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.known.get(name) {
            return Arc::clone(known);
        }
        let new: Arc<str> = name.into();
        if name.len() <= MOST_NAME_BYTES {
            if self.known.len() >= MOST_USERS {
                self.known.clear();
            }
            self.known.insert(Arc::clone(&new));
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_kept_once_and_few_are_remembered() {
        let mut users = Users::default();
        let first = users.of("one");
        assert!(Arc::ptr_eq(&first, &users.of("one")) && !Arc::ptr_eq(&first, &users.of("two")));
        for at in 0..10 * MOST_USERS {
            assert_eq!(&*users.of(&at.to_string()), at.to_string());
        }
        assert!(users.known.len() <= MOST_USERS);
    }
}
