//! The way of a request, as the library's documentation tells it, is the way that the sources go.

use std::path::Path;

#[test]
fn a_request_passes_seven_files_that_exist() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let library = std::fs::read_to_string(sources.join("lib.rs")).expect("reads");
    let numbered = library.lines().filter_map(|line| line.strip_prefix("//! ")?.split_once(". `"));
    let way: Vec<&str> = numbered.filter_map(|(_, rest)| rest.split('`').next()).collect();
    assert_eq!(way.len(), 7, "{way:?}");
    for file in &way {
        assert!(sources.join(file).is_file(), "{file} is not there");
    }
}
