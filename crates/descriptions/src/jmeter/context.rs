//! What is at hand while a plan is gone through.

use crate::files::Files;
use crate::jmeter::element::Element;
use crate::jmeter::names::Names;
use crate::report::Report;

/// Goes through a plan.
pub(super) struct Walk<'w> {
    pub(super) names: &'w Names<'w>,
    pub(super) files: &'w dyn Files,
    pub(super) report: &'w Report,
}

impl Walk<'_> {
    pub(super) fn not_known(&self, element: Element<'_>) {
        let what = format!("{} is not carried over", element.shown());
        self.report.lost(element.line(), what, "write what it does into the scenario");
    }
}
