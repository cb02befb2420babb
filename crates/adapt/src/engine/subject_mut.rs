//! For whom a rule is looked at.

use crate::reading::AtomId;
use crate::state::{InForce, Placement};

/// For whom a rule is looked at, with what it may change.
#[derive(Debug)]
pub(super) enum SubjectMut<'w> {
    Block { in_force: &'w mut InForce },
    Atom { at: usize, in_force: &'w mut InForce },
    Session { number: u64, atom: AtomId, at: &'w mut Placement },
    Client { name: &'w str, in_force: &'w mut InForce },
}
