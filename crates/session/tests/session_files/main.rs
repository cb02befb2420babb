//! Sessions that were recorded.

mod report;
mod web_tests;
