//! Comparisons as people ask for them, their endings and their reports.
// scripts/test: serves

mod endings;
mod failures;
mod gates;
mod history;
mod recorded;
mod reports;
mod subjects;
#[path = "../support/mod.rs"]
mod support;

#[test]
fn helper() {
    support::play_role(|words| assert!(endings::play(words) || subjects::play(words), "unknown role {words:?}"));
}
