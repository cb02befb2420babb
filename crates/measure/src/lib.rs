//! Formulas, each a bounded fold: parts of a response, histograms, comparisons.
pub mod comparison;

pub mod class;
pub mod part;
pub mod response;
