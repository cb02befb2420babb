//! Descriptions and recordings of other tools, and the scenarios that are made of them.

use std::path::Path;
use weir_descriptions::{DescriptionError, Kind, NoFiles, Selection, Wanted, draft};
use weir_scenario::form::parse;

/// A file is read as each form, or each of its mistakes has a place and a remedy. A scenario that is made of it is one,
/// but for files of data and variables of the environment that are not there; what is told has a line.
pub fn descriptions(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let wanted = Wanted { selection: Selection::All, ..Wanted::default() };
    let _any = Kind::recognise(&text);
    for kind in Kind::ALL {
        match draft(kind, "f", &text, &wanted, &NoFiles) {
            Ok(draft) => {
                assert!(draft.requests > 0);
                assert!(
                    draft.losses.iter().chain(&draft.left_out).all(|told| told.line > 0 && !told.remedy.is_empty())
                );
                is_scenario(kind, &draft.text);
            }
            Err(DescriptionError::Mistaken { mistakes, .. }) => {
                assert!(!mistakes.is_empty());
                assert!(mistakes.iter().all(|mistake| mistake.line > 0 && !mistake.remedy.is_empty()), "{mistakes:?}");
            }
            Err(DescriptionError::Nothing { .. } | DescriptionError::TooLarge { .. }) => {}
        }
    }
}

/// Whether a text is a scenario, but for what lies outside of it.
fn is_scenario(kind: Kind, text: &str) {
    let Err(mistakes) = parse(text, Path::new("/nonexistent"), None) else { return };
    // Without their files, columns of data have no names, either.
    let is_outside = |what: &str| {
        what.starts_with("the environment variable")
            || what.contains("No such file")
            || what.contains("${") && text.contains("\n[data.")
    };
    let inside: Vec<_> = mistakes.iter().filter(|mistake| !is_outside(&mistake.what)).collect();
    assert!(inside.is_empty(), "{kind}: {inside:?}\n{text}");
}
