//! Reports in words, as JSON and as pages.
// scripts/test: serves

mod bounds;
mod compare_page;
mod golden;
mod in_a_browser;
mod json;
mod load_page;
#[path = "../made_up/mod.rs"]
mod made_up;
mod outline;
