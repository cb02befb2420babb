//! Reads what a rule does.

use super::cursor::{Cursor, Parsed};
use super::syntax::{Act, ActKind, Target};
use super::token::Kind;
use crate::reading::Resource;

/// The first words of everything that can be done.
const WORDS: [&str; 12] =
    ["best", "switch", "next", "use", "replicate", "spread", "grow", "shrink", "workers", "shed", "stale", "alert"];

impl Cursor<'_, '_> {
    /// `act, act …`
    pub(crate) fn acts(&mut self) -> Parsed<Vec<Act>> {
        let mut acts = vec![self.act()?];
        while self.take(",") {
            acts.push(self.act()?);
        }
        Ok(acts)
    }

    /// Whether something that is done is said here.
    pub(crate) fn is_action(&self) -> bool {
        self.kind() == Kind::Word && WORDS.contains(&self.now())
    }

    fn act(&mut self) -> Parsed<Act> {
        let (at, word) = (self.place(), self.now());
        if !WORDS.contains(&word) || self.kind() != Kind::Word {
            return Err(self.expected(&WORDS, "name what is to be done"));
        }
        if word == "best" {
            return self.choice();
        }
        self.next();
        let kind = match word {
            "switch" => ActKind::Switch(self.target()?),
            "next" if self.take("down") => ActKind::NextDown,
            "next" if self.take("up") => ActKind::NextUp,
            "next" => return Err(self.expected(&["down", "up"], "")),
            "use" => ActKind::Use(self.name("a variant")?),
            "replicate" => {
                self.expect("to")?;
                let copies = self.integer(1, 1024)?;
                self.expect("on")?;
                ActKind::Replicate { copies, pool: self.name("a pool")? }
            }
            "spread" => {
                self.expect("over")?;
                ActKind::Spread(self.name("a pool")?)
            }
            "grow" | "shrink" => {
                let pool = self.name("a pool")?;
                self.expect("by")?;
                let by = self.integer(1, 1024)?;
                if word == "grow" { ActKind::Grow { pool, by } } else { ActKind::Shrink { pool, by } }
            }
            "workers" => {
                let workers = self.integer(1, 10_000)?;
                self.expect("of")?;
                ActKind::Workers { workers, pool: self.name("a pool")? }
            }
            "shed" => ActKind::Shed(self.percent()?),
            "stale" => ActKind::Stale(self.duration_ms()?),
            _ => ActKind::Alert(self.text("what to say")?.text),
        };
        Ok(Act { kind, at })
    }

    /// `best [by res] (target, …)`
    pub(crate) fn choice(&mut self) -> Parsed<Act> {
        let at = self.place();
        self.expect("best")?;
        let by = if self.take("by") { self.resource_to_compare()? } else { Resource::Cpu };
        self.expect_one(&["(", "by"])?;
        let mut targets = vec![self.target()?];
        while self.take(",") {
            targets.push(self.target()?);
        }
        self.expect_one(&[")", ","])?;
        Ok(Act { kind: ActKind::Best { by, targets }, at })
    }

    fn target(&mut self) -> Parsed<Target> {
        if self.take("any") {
            self.expect("of")?;
            return Ok(Target::AnyOf(self.name("a pool")?));
        }
        let node = self.name("a node, or `any of` a pool")?;
        let variant = if self.take(".") { Some(self.name("a variant")?) } else { None };
        Ok(Target::Node { node, variant })
    }

    fn percent(&mut self) -> Parsed<f64> {
        let at = self.place();
        let share = self.now().strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
        match share.filter(|share| *share > 0.0 && *share <= 100.0) {
            Some(share) => {
                self.next();
                Ok(share)
            }
            None => {
                let what = format!("`{}` is no share of requests", self.now());
                Err(self.wrong(at, what, "write more than 0% and at most 100%, such as 20%"))
            }
        }
    }
}
