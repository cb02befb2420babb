//! The way of a request, as the library's documentation tells it, is the way that the sources go.

use std::path::Path;

#[test]
fn a_request_passes_seven_files_that_exist_and_are_short() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let library = std::fs::read_to_string(sources.join("lib.rs")).expect("reads");
    let numbered = library.lines().filter_map(|line| line.strip_prefix("//! ")?.split_once(". `"));
    let way: Vec<&str> = numbered.filter_map(|(_, rest)| rest.split('`').next()).collect();
    assert_eq!(way.len(), 7, "{way:?}");
    for file in &way {
        assert!(sources.join(file).is_file(), "{file} is not there");
    }
    let mut lines = Vec::new();
    count_lines(&sources, &mut lines);
    lines.sort_unstable();
    assert!(lines[lines.len() / 2] < 200 && lines[lines.len() - 1] <= 600, "{lines:?}");
}

fn count_lines(folder: &Path, lines: &mut Vec<usize>) {
    for entry in std::fs::read_dir(folder).expect("reads") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            count_lines(&path, lines);
        } else {
            lines.push(std::fs::read_to_string(path).expect("reads").lines().count());
        }
    }
}
