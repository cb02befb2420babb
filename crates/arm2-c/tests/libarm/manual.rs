//! The manual says what the headers say: every function is in it, with the parameters that it has.

use crate::installed::Installed;
use crate::support::{repository, run};
use std::fs;
use std::process::Command;
use weir_testkit::require;

#[test]
fn the_manual_is_found_by_every_function_and_has_no_errors() {
    let installed = Installed::new();
    let pages = installed.path("share/man/man3");
    for header in ["arm.h", "arm4.h"] {
        let functions = prototypes(&fs::read_to_string(installed.path(&format!("include/{header}"))).expect(header));
        assert!(functions.len() >= 6, "{header}: {functions:?}");
        for (function, _) in functions {
            let page =
                fs::read_to_string(pages.join(format!("{function}.3"))).unwrap_or_else(|_| panic!("{function}.3"));
            let named = page
                .strip_prefix(".so man3/")
                .map_or(Ok(page.clone()), |other| fs::read_to_string(pages.join(other.trim())));
            let named = named.expect("the page that it leads to");
            let names = named.split(".SH NAME\n").nth(1).and_then(|rest| rest.lines().next()).expect("names");
            assert!(names.split([',', ' ']).any(|name| name == function), "{function}: {names}");
        }
    }
    if require::program("groff").is_some() {
        for page in fs::read_dir(repository().join("native/man")).expect("the manual").flatten() {
            let said = run(Command::new("groff").args(["-man", "-ww", "-Tutf8", "-z"]).arg(page.path()));
            assert!(said.stderr.is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
        }
    }
}

#[test]
fn the_manual_has_every_function_with_its_parameters() {
    let read =
        |path: &str| fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut documented = Vec::new();
    for entry in fs::read_dir(repository().join("native/man")).expect("the manual").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let page = read(&format!("native/man/{name}"));
        let header =
            page.lines().find_map(|line| line.strip_prefix(".B #include <")?.strip_suffix('>')).expect("a header");
        let declared = prototypes(&read(&format!("native/include/{header}")));
        let synopsis = page.split(".SH ").find(|section| section.starts_with("SYNOPSIS")).expect("a synopsis");
        for (function, parameters) in prototypes(&plain(synopsis)) {
            let same = declared.iter().find(|(name, _)| *name == function);
            assert_eq!(same.map(|(_, parameters)| parameters), Some(&parameters), "{name}: {function}");
            documented.push(function);
        }
    }
    for header in ["native/include/arm.h", "native/include/arm4.h"] {
        for (function, _) in prototypes(&read(header)) {
            assert!(documented.contains(&function), "{function} of {header} is in no page of the manual");
        }
    }
    assert!(documented.len() >= 26, "{documented:?}");
}

/// The text of lines of roff as far as a synopsis has them.
fn plain(lines: &str) -> String {
    let text = lines.lines().map(|line| match line.split_once(' ') {
        Some((macro_name, text)) if macro_name.starts_with('.') => text,
        _ => line,
    });
    text.map(|line| line.replace('"', "")).collect::<Vec<_>>().join("\n")
}

/// The functions that a text declares, each with the types of its parameters.
fn prototypes(text: &str) -> Vec<(String, Vec<String>)> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let last_word = |text: &str| text.rfind(|letter| !is_word(letter)).map_or(0, |end| end + 1);
    let mut found = Vec::new();
    for (at, _) in text.match_indices('(') {
        let name = &text[last_word(&text[..at])..at];
        let declared = text[at..].find(");").map(|end| &text[at + 1..at + end]);
        let Some(parameters) = declared.filter(|text| name.starts_with("arm_") && !text.contains('(')) else {
            continue;
        };
        let types = parameters.split(',').map(|parameter| {
            let words = parameter.split_whitespace().collect::<Vec<_>>().join(" ").replace(" *", "*");
            words[..last_word(&words)].trim().to_owned()
        });
        found.push((name.to_owned(), types.collect()));
    }
    found
}
