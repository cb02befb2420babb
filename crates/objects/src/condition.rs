//! Conditions of a rule: comparisons of fields with numbers, all of which must hold.

use crate::field::{Context, Field};
use weir_wire::{Kind, Record, Slot};

/// Comparisons that one condition may have.
const MOST_TERMS: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Equal,
    Unequal,
    Less,
    Greater,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Term {
    field: Field,
    mask: u64,
    relation: Relation,
    number: u64,
}

/// What must hold for a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    terms: Vec<Term>,
}

impl Condition {
    /// Reads "prev_state == 0 && flags & 7 == 0".
    ///
    /// # Errors
    /// What is wrong, and what would be right.
    pub(crate) fn parse(kind: Kind, text: &str) -> Result<Self, (String, String)> {
        let terms: Result<Vec<Term>, _> = text.split("&&").map(|term| parse_term(kind, term.trim())).collect();
        let terms = terms?;
        if terms.len() > MOST_TERMS {
            return Err((format!("{} comparisons", terms.len()), format!("a rule may have {MOST_TERMS}")));
        }
        Ok(Self { terms })
    }

    #[inline]
    pub(crate) fn holds(&self, record: &Record, payload: &[Slot], context: &Context) -> bool {
        self.terms.iter().all(|term| {
            let value = term.field.value(record, payload, context) & term.mask;
            match term.relation {
                Relation::Equal => value == term.number,
                Relation::Unequal => value != term.number,
                Relation::Less => value < term.number,
                Relation::Greater => value > term.number,
            }
        })
    }
}

fn parse_term(kind: Kind, term: &str) -> Result<Term, (String, String)> {
    let relations =
        [("==", Relation::Equal), ("!=", Relation::Unequal), ("<", Relation::Less), (">", Relation::Greater)];
    let shape = || {
        (format!("{term:?} is no comparison"), "write it as in \"prev_state == 0\" or \"flags & 7 == 0\"".to_owned())
    };
    let found = relations.iter().find_map(|(sign, relation)| Some((term.split_once(sign)?, *relation)));
    let ((left, right), relation) = found.ok_or_else(shape)?;
    let (name, mask) = left.split_once('&').map_or((left, None), |(name, mask)| (name, Some(mask)));
    let mask = mask.map_or(Some(u64::MAX), number).ok_or_else(shape)?;
    let number = number(right).ok_or_else(shape)?;
    Ok(Term { field: field(kind, name.trim())?, mask, relation, number })
}

/// A number as tables write it: decimal, or hexadecimal behind 0x.
fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok())
}

/// The field of that name.
///
/// # Errors
/// The kind has no such field; the remedy lists those that it has.
pub(crate) fn field(kind: Kind, name: &str) -> Result<Field, (String, String)> {
    Field::of_name(kind, name).ok_or_else(|| {
        let names: Vec<String> = crate::field::fields(kind).into_iter().map(|(name, _)| name).collect();
        (format!("{} has no field {name:?}", kind.spec().name), format!("its fields are {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_read_and_hold() {
        let condition = Condition::parse(Kind::Switch, "next_pid != 0 && flags & 0x6 == 2 && prev_state < 3");
        let condition = condition.expect("a condition");
        let holds = |flags, next: u64, state| {
            let record = Record { flags, a: next << 32, b: state, ..Record::default() };
            condition.holds(&record, &[], &Context::default())
        };
        assert!(holds(3, 9, 2));
        assert!(!holds(4, 9, 2) && !holds(3, 0, 2) && !holds(3, 9, 3));
    }

    #[test]
    fn what_is_none_is_refused_with_a_remedy() {
        for wrong in ["", "next_pid", "next_pid = 3", "next_pid == x", "aura == 1", "flags & y == 1"] {
            let (what, remedy) = Condition::parse(Kind::Switch, wrong).expect_err(wrong);
            assert!(!what.is_empty() && !remedy.is_empty());
        }
    }
}
