//! What stands on a page, as `page.toml` or `scripts.toml` says it: which of our figures stand beside which of the
//! paper's.
use serde::Deserialize;

use crate::held::{Claim, Goal};
use crate::measured::{Measured, Place, Quantity};
use crate::paper::Paper;

/// The page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Layout {
    /// The plans, in the order in which they are carried out.
    pub(crate) plans: Vec<String>,
    pub(crate) head: Head,
    #[serde(rename = "section")]
    pub(crate) sections: Vec<Section>,
}

/// What stands around the sections.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// A comment for those who would edit the page.
    pub(crate) comment: String,
    pub(crate) title: String,
    /// What stands behind the name of the paper, in Markdown.
    pub(crate) text: String,
    /// How it is measured again, in Markdown.
    pub(crate) again: String,
}

/// A part of the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    pub(crate) title: String,
    /// The plan without whose results this part is left out.
    pub(crate) only_with: Option<String>,
    /// What was done, in Markdown.
    pub(crate) text: String,
    #[serde(default, rename = "table")]
    pub(crate) tables: Vec<Table>,
    #[serde(default, rename = "claim")]
    pub(crate) claims: Vec<Comparison>,
    /// What is not there, and why.
    #[serde(default)]
    pub(crate) absent: Vec<String>,
}

/// A table of the paper with ours beside it; or ours alone, where the paper has no figures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// The id of the paper's.
    pub(crate) paper: Option<String>,
    pub(crate) plan: String,
    /// What is told; for each of them ours have a table.
    pub(crate) quantities: Vec<Quantity>,
    /// What stands above our columns.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
    /// A word on how the two can be held against each other.
    #[serde(default)]
    pub(crate) note: String,
}

/// A row of ours.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    /// What stands before it; without it the name of the paper's row.
    pub(crate) label: Option<String>,
    /// Its case, or several with `+` between them.
    pub(crate) case: String,
    /// A subject for each column; an empty name where there is none.
    pub(crate) subjects: Vec<String>,
}

/// A comparison that the paper makes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Comparison {
    /// In the paper's words, or nearly.
    pub(crate) says: String,
    /// The paper's figures: what is divided, and by what.
    pub(crate) paper: Option<[String; 2]>,
    /// The ratio that it names, where it has no figures.
    pub(crate) factor: Option<f64>,
    /// What we want of ours, where the paper says nothing of it.
    pub(crate) goal: Option<Goal>,
    #[serde(default)]
    pub(crate) claim: Claim,
    pub(crate) ours: Vec<Pair>,
}

/// One of ours beside it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pair {
    pub(crate) title: String,
    pub(crate) quantity: Quantity,
    pub(crate) over: String,
    pub(crate) under: String,
}

impl Layout {
    /// Reads it.
    pub(crate) fn read(text: &str) -> anyhow::Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// Leaves out the parts that stand only beside results that are not there.
    pub(crate) fn keep_measured(&mut self, measured: &Measured) {
        let is_there = |plan: &String| measured.experiments.contains_key(plan);
        self.sections.retain(|section| section.only_with.as_ref().is_none_or(is_there));
    }
}

impl Table {
    /// The place of a cell; `None` where it has no subject.
    pub(crate) fn place(&self, row: &Row, column: usize) -> anyhow::Result<Option<Place>> {
        match row.subjects.get(column).map(String::as_str) {
            None | Some("") => Ok(None),
            Some(subject) => Place::read(&format!("{} | {} | {subject}", self.plan, row.case)).map(Some),
        }
    }
}

impl Comparison {
    /// The paper's ratio; `None` where it only has words.
    pub(crate) fn paper_ratio(&self, paper: &Paper) -> anyhow::Result<Option<f64>> {
        match &self.paper {
            Some([over, under]) => Ok(Some(paper.figure(over)? / paper.figure(under)?)),
            None => Ok(self.factor),
        }
    }
}
