//! Reads conditions: metrics, comparisons and what joins them.

use super::cursor::{Cursor, Parsed, Wrong};
use super::interval::Interval;
use super::syntax::{Aggregate, Condition, Metric, Name, Predicted, Test};
use super::token::Kind;
use super::units::{self, Dimension, WrongValue};
use crate::reading::Resource;

/// Brackets within brackets; the parser calls itself for each.
const DEPTH_MAX: usize = 32;

/// Words of a scope that are no names.
pub(crate) const SCOPES: [&str; 4] = ["here", "client", "atom", "all"];

/// A metric whose value has not been seen yet: `mem` and `errors` are two resources each.
struct Unresolved {
    aggregate: Option<Aggregate>,
    word: String,
    scope: Option<Name>,
    over_ms: Option<u64>,
    predicted: Option<Predicted>,
    text: String,
}

impl Cursor<'_, '_> {
    /// `conj or conj …`
    pub(crate) fn condition(&mut self) -> Parsed<Condition> {
        let mut parts = vec![self.conjunction()?];
        while self.take("or") {
            parts.push(self.conjunction()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::Any(parts) })
    }

    fn conjunction(&mut self) -> Parsed<Condition> {
        let mut parts = vec![self.negation()?];
        while self.take("and") {
            parts.push(self.negation()?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Condition::All(parts) })
    }

    fn negation(&mut self) -> Parsed<Condition> {
        if self.take("not") { Ok(Condition::Not(Box::new(self.bracket_or_test()?))) } else { self.bracket_or_test() }
    }

    fn bracket_or_test(&mut self) -> Parsed<Condition> {
        let at = self.place();
        if !self.take("(") {
            return Ok(Condition::Test(self.test()?));
        }
        if self.depth == DEPTH_MAX {
            return Err(self.wrong(
                at,
                format!("more than {DEPTH_MAX} brackets within each other"),
                "write it flatter",
            ));
        }
        self.depth += 1;
        let inner = self.condition();
        self.depth -= 1;
        let inner = inner?;
        self.expect_one(&[")", "and", "or"])?;
        Ok(inner)
    }

    fn test(&mut self) -> Parsed<Test> {
        let (mark, at) = (self.mark(), self.place());
        let metric = self.metric()?;
        if self.take("in") {
            self.expect("[")?;
            let (low, dimension) = self.value(&metric, None)?;
            self.expect(",")?;
            let (high, _) = self.value(&metric, Some(dimension))?;
            if self.is("]") {
                let (at, what) = (self.place(), "the upper end is not part of an interval");
                return Err(self.wrong(at, what, "write `)` in place of `]`"));
            }
            self.expect(")")?;
            let interval = Interval::new(low, true, high, false);
            return self.resolved(metric, dimension, interval, mark, at);
        }
        let relation = self.now();
        let turned = match relation {
            "=" if self.is_next(">") => Some(">="),
            "=" if self.is_next("<") => Some("<="),
            _ => None,
        };
        if let Some(meant) = turned {
            let (at, what) = (self.place(), format!("`={}` compares nothing", &meant[..1]));
            return Err(self.wrong(at, what, format!("did you mean `{meant}`?")));
        }
        if matches!(relation, "=" | "==" | "!=") {
            let (at, what) = (self.place(), format!("`{relation}` does not compare measured values"));
            return Err(self.wrong(at, what, "write an interval such as `in [30kbps,40kbps)`"));
        }
        if Interval::of(relation, 0.0).is_none() {
            return Err(self.expected(&["<", "<=", ">", ">=", "in", "over", "predicted"], ""));
        }
        self.next();
        let (value, dimension) = self.value(&metric, None)?;
        // The relation was one of the four, so there is an interval.
        let interval = Interval::of(relation, value).ok_or(Wrong)?;
        self.resolved(metric, dimension, interval, mark, at)
    }

    fn resolved(
        &mut self,
        metric: Unresolved,
        dimension: Dimension,
        interval: Interval,
        mark: usize,
        at: usize,
    ) -> Parsed<Test> {
        let Unresolved { aggregate, word, scope, over_ms, predicted, text, .. } = metric;
        // The value was read as one of the metric's own.
        let resource = Resource::of(&word, dimension).ok_or(Wrong)?;
        let metric = Metric { aggregate, resource, scope, over_ms, predicted, text };
        Ok(Test { metric, interval, at, text: self.said_since(mark) })
    }

    fn metric(&mut self) -> Parsed<Unresolved> {
        let mark = self.mark();
        let aggregate = Aggregate::WORDS.iter().find(|(word, _)| self.is(word)).map(|(_, aggregate)| *aggregate);
        if aggregate.is_some() {
            self.next();
        }
        let word = self.now().to_owned();
        if !Resource::WORDS.contains(&&*word) {
            let mut known = Resource::WORDS.to_vec();
            if aggregate.is_none() {
                known.extend(["avg", "max", "min", "p95", "p99", "not"]);
            }
            return Err(self.expected(&known, "name what is measured"));
        }
        self.next();
        let scope = if self.take("@") { Some(self.scope()?) } else { None };
        let over_ms = if self.take("over") { Some(self.duration_ms()?) } else { None };
        let predicted = if self.take("predicted") { Some(self.predicted()?) } else { None };
        Ok(Unresolved { aggregate, word, scope, over_ms, predicted, text: self.said_since(mark) })
    }

    fn scope(&mut self) -> Parsed<Name> {
        if self.kind() != Kind::Word {
            return Err(self.expected_a("where it is measured", "write here, client, atom, all, a pool or a node"));
        }
        let name = Name { text: self.now().to_owned(), at: self.place() };
        self.next();
        Ok(name)
    }

    fn predicted(&mut self) -> Parsed<Predicted> {
        self.expect("in")?;
        let in_ms = self.duration_ms()?;
        if !self.take("fit") {
            return Ok(Predicted { in_ms, fit: None });
        }
        self.expect(">=")?;
        let at = self.place();
        let fit = if self.kind() == Kind::Number { self.now().parse::<f64>().ok() } else { None };
        match fit.filter(|fit| (0.0..=1.0).contains(fit)) {
            Some(fit) => {
                self.next();
                Ok(Predicted { in_ms, fit: Some(fit) })
            }
            None => {
                let what = format!("`{}` is no goodness of fit", self.now());
                Err(self.wrong(at, what, "write R2 as a number from 0 to 1, such as 0.8"))
            }
        }
    }

    /// A value of a metric, in the unit that it is kept in.
    fn value(&mut self, metric: &Unresolved, like: Option<Dimension>) -> Parsed<(f64, Dimension)> {
        if !matches!(self.kind(), Kind::Number | Kind::Quantity) {
            return Err(self.expected_a("a value with its unit", "write one such as 90%, 30kbps or 500rps"));
        }
        let written = self.now().to_owned();
        let of_the_metric = Resource::ALL.iter().filter(|resource| resource.name() == metric.word);
        let dimensions: Vec<_> =
            of_the_metric.map(|r| r.dimension()).filter(|one| like.is_none_or(|like| like == *one)).collect();
        let units: Vec<&str> = dimensions.iter().flat_map(|dimension| dimension.units()).collect();
        match units::value(&written) {
            Ok((value, dimension)) if dimensions.contains(&dimension) => {
                self.next();
                Ok((value, dimension))
            }
            Ok(_) => {
                let what = format!("`{written}` is no value of {}", metric.word);
                let at = self.place();
                Err(self.wrong(at, what, format!("write one in {}", units.join(", "))))
            }
            Err(WrongValue::Unit) => {
                let known: Vec<&str> = units::names().collect();
                let (_, unit) = units::split(&written);
                // A unit of another kind is not proposed where one of the metric's own is meant.
                let own = unit.is_empty()
                    || units::meant(unit, &units).is_some()
                    || !known.iter().any(|known| known.eq_ignore_ascii_case(unit));
                Err(self.wrong_unit(&written, if own { &units } else { &known }))
            }
            Err(WrongValue::Number) => {
                let at = self.place();
                Err(self.wrong(at, format!("`{written}` is too large"), "write a smaller one"))
            }
        }
    }

    /// The word of a resource, for `best by`.
    pub(crate) fn resource_to_compare(&mut self) -> Parsed<Resource> {
        match Resource::to_compare(self.now()).filter(|_| self.kind() == Kind::Word) {
            Some(resource) => {
                self.next();
                Ok(resource)
            }
            None => Err(self.expected(&Resource::WORDS, "name what is compared")),
        }
    }
}
