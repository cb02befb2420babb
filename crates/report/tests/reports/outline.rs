//! A page in outline: of each section its heading, its elements, a digest of its markup, and its first lines of text.
//!
//! The digest tells that anything has changed at all; the rest is for those who read the difference.

use std::collections::BTreeMap;

/// Lines of text that are kept of a section, and letters of a line.
const LINES_MAX: usize = 10;
const LETTERS_MAX: usize = 160;

/// The outline of a page, without what its style sheet and scripts say.
pub(crate) fn outline(page: &str) -> String {
    let page = without(&without(page, "style"), "script");
    let mut outline = String::new();
    for section in sections(&page) {
        let lines = lines(section);
        let (title, rest) = lines.split_first().map_or(("", &[][..]), |(title, rest)| (title.as_str(), rest));
        outline.push_str(&format!("== {title}\n"));
        outline.push_str(&format!("markup: {} bytes, digest {:016x}\n", section.len(), digest(section)));
        outline.push_str(&format!("elements: {}\n", elements(section)));
        for line in rest.iter().take(LINES_MAX) {
            let cut = if line.chars().count() > LETTERS_MAX { "..." } else { "" };
            outline.extend(line.chars().take(LETTERS_MAX).chain(cut.chars()).chain(['\n']));
        }
        if rest.len() > LINES_MAX {
            outline.push_str(&format!("... {} more lines\n", rest.len() - LINES_MAX));
        }
        outline.push('\n');
    }
    outline
}

/// The page without elements of one kind; their tags stay.
fn without(page: &str, kind: &str) -> String {
    let (begin, end) = (format!("<{kind}"), format!("</{kind}>"));
    let mut kept = String::new();
    let mut rest = page;
    while let Some(at) = rest.find(&begin) {
        let inner = at + rest[at..].find('>').expect("a tag ends") + 1;
        let until = inner + rest[inner..].find(&end).expect("an element ends");
        kept.push_str(&rest[..inner]);
        rest = &rest[until..];
    }
    kept + rest
}

/// The parts of a page: its head, what stands from its first heading on, and from each further one.
fn sections(page: &str) -> Vec<&str> {
    let mut begins: Vec<usize> = page.match_indices("<h").map(|(at, _)| at).collect();
    begins.retain(|at| page[*at..].starts_with("<h1") || page[*at..].starts_with("<h2"));
    let ends = begins.iter().copied().skip(1).chain([page.len()]);
    let first = &page[..begins.first().copied().unwrap_or(page.len())];
    [first].into_iter().chain(begins.iter().zip(ends).map(|(begin, end)| &page[*begin..end])).collect()
}

/// How many elements of each kind a piece of markup has.
fn elements(markup: &str) -> String {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    for (at, _) in markup.match_indices('<') {
        let name = &markup[at + 1..];
        let name = &name[..name.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(name.len())];
        if !name.is_empty() {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts.iter().map(|(name, count)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
}

/// The text of a piece of markup but for its drawings: a line for each row, entry and paragraph.
fn lines(markup: &str) -> Vec<String> {
    let mut text = String::new();
    for (number, piece) in without(markup, "svg").split('<').enumerate() {
        // What comes before the first tag has none.
        let (tag, words) = if number == 0 { ("", piece) } else { piece.split_once('>').unwrap_or((piece, "")) };
        let name = tag.split([' ', '\n']).next().unwrap_or_default();
        match name {
            "/tr" | "/li" | "/p" | "/h1" | "/h2" | "/h3" | "/dd" | "/div" | "/summary" | "/title" => text.push('\n'),
            "/td" | "/th" => text.push_str(" | "),
            _ => text.push(' '),
        }
        text.push_str(&words.replace('\n', " "));
    }
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    text.lines()
        .map(words)
        .map(|line| line.trim_end_matches([' ', '|']).to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

/// FNV-1a of 64 bits: a change of any byte changes it.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn an_outline_has_headings_rows_and_a_digest() {
    let page = "<title>A</title><style>h2 {}</style><h1>One <b>word</b></h1><p>a</p><svg><text>x</text></svg>\
                <h2>Two</h2><table><tr><th>k</th><td>v</td></tr></table>";
    let text = outline(page);
    assert!(text.starts_with("== A\n") && text.contains("\n== One word\n") && text.contains("\n== Two\n"), "{text}");
    assert!(text.contains("elements: b 1, h1 1, p 1, svg 1, text 1\na\n"), "{text}");
    assert!(text.contains("elements: h2 1, table 1, td 1, th 1, tr 1\nk | v\n"), "{text}");
    assert_eq!(outline(&page.replace("h2 {}", "h3 {}")), text);
    assert_ne!(outline(&page.replace("<text>x", "<text>y")), text, "drawings count, too");
    assert_ne!(outline(&page.replace("<b>", "<i>").replace("</b>", "</i>")), text);
}
