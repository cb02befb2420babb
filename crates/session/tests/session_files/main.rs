//! Sessions that were recorded.
// scripts/test: serves

mod report;
mod web_tests;
