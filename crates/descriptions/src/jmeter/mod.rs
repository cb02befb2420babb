//! Test plans of JMeter: thread groups are users, samplers and controllers their steps.

mod answer;
mod context;
mod element;
mod group;
mod names;
mod sampler;
mod scope;
mod walk;

use crate::files::Files;
use crate::jmeter::context::Walk;
use crate::jmeter::element::{Element, Source};
use crate::jmeter::names::Names;
use crate::jmeter::scope::Scope;
use crate::model::Plan;
use crate::report::Report;
use crate::wanted::Wanted;
use roxmltree::{Document, ParsingOptions};

/// The most elements and texts of a plan.
const NODES_MAX: u32 = 2_000_000;

/// The plan of a file; what is wrong is told.
pub(crate) fn plan(text: &str, wanted: &Wanted, files: &dyn Files, report: &Report) -> Option<Plan> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // JMeter writes XML 1.1 where a value holds a control character; the rest is the same.
    let versioned = text.replacen("<?xml version=\"1.1\"", "<?xml version=\"1.0\"", 1);
    if let Some(line) = element::too_deep(&versioned) {
        report.wrong((line, 1), "elements lie more than 256 deep", "put them side by side");
        return None;
    }
    let options = ParsingOptions { nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = match Document::parse_with_options(&versioned, options) {
        Ok(document) => document,
        Err(error) => {
            let at = error.pos();
            report.wrong((at.row as usize, at.col as usize), error.to_string(), "mend the XML here");
            return None;
        }
    };
    let source = Source::new(&versioned);
    let root = Element { node: document.root_element(), source: &source };
    let Some(tree) = Some(root).filter(|root| root.kind() == "jmeterTestPlan").and_then(Element::tree_within) else {
        report.wrong(
            (1, 1),
            "this is no test plan of JMeter",
            "give a .jmx file, whose first element is jmeterTestPlan",
        );
        return None;
    };
    let names = Names::read(tree, wanted);
    let mut plan = Plan::default();
    let walk = Walk { names: &names, files, report };
    for (test_plan, below) in tree.pairs() {
        let Some(below) = below.filter(|_| test_plan.kind() == "TestPlan") else {
            walk.not_known(test_plan);
            continue;
        };
        let scope = walk.extended(&Scope::default(), below);
        for (element, within) in below.pairs() {
            group::take(&walk, (element, within), &scope, &mut plan);
        }
    }
    names.into_plan(&mut plan, report);
    Some(plan)
}
