//! The objects that an HTML page embeds, as `--wsesspage` fetches them.

/// The most objects of one page.
const OBJECTS_MAX: usize = 10_000;

/// The paths of images, frames and objects of a page that lie on its own server; relative ones begin with `directory`.
///
/// Comments are passed over. What lies on other servers is not fetched, as in the original.
pub(super) fn embedded(page: &[u8], server: &str, directory: &str) -> Vec<String> {
    let page = String::from_utf8_lossy(page);
    let mut rest: &str = &page;
    let mut found = Vec::new();
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let name_end =
            rest.find(|letter: char| letter.is_whitespace() || letter == '>' || letter == '/').unwrap_or(rest.len());
        let (name, tag) = rest.split_at(name_end);
        let wanted = match name.to_ascii_lowercase().as_str() {
            "img" | "frame" | "iframe" => "src",
            "object" => "data",
            _ => continue,
        };
        let (value, after) = attribute(tag, wanted);
        rest = after;
        if found.len() < OBJECTS_MAX
            && let Some(path) = value.and_then(|value| path(value, server, directory))
        {
            found.push(path);
        }
    }
    found
}

/// The path to ask for, if an address is one of this server's.
pub(super) fn path(address: &str, server: &str, directory: &str) -> Option<String> {
    let address = address.trim();
    if address.is_empty() || address.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
        return None;
    }
    let own = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    let own = own.and_then(|rest| rest.strip_prefix(server)).filter(|rest| rest.starts_with('/'));
    match own {
        Some(path) => Some(path.to_owned()),
        None if address.split(['/', '?', '#']).next().is_some_and(|begin| begin.contains(':')) => None,
        None if address.starts_with("//") || address.starts_with('#') => None,
        None if address.starts_with('/') => Some(address.to_owned()),
        None => Some(format!("{directory}{address}")),
    }
}

/// The value of a tag's attribute, if it has it, and what follows the tag.
fn attribute<'t>(tag: &'t str, wanted: &str) -> (Option<&'t str>, &'t str) {
    let mut rest = tag;
    let mut found = None;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == '/');
        if rest.is_empty() {
            return (found, rest);
        }
        if let Some(after) = rest.strip_prefix('>') {
            return (found, after);
        }
        // A tag that is not closed before the next begins is none.
        if rest.starts_with('<') {
            return (None, rest);
        }
        let ends = |letter: char| letter.is_whitespace() || matches!(letter, '=' | '>' | '<');
        let name_end = rest.find(ends).unwrap_or(rest.len());
        let (name, after) = rest.split_at(name_end);
        rest = after;
        let Some(value) = after.trim_start().strip_prefix('=').map(str::trim_start) else { continue };
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\''));
        let (value, after) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value
                .split_at(value.find(|letter: char| letter.is_whitespace() || letter == '>').unwrap_or(value.len())),
        };
        rest = after;
        if name.eq_ignore_ascii_case(wanted) && found.is_none() {
            found = Some(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn objects_of_the_page_are_found() {
        let page = br#"<HTML><body background="no.gif"><!-- <img src="comment.gif"> -->
            <IMG alt="a > b" SRC="/abs.gif"><img src=rel.gif><img src = 'one.gif'/>
            <frame name=x src="f.html"><iframe src="http://h:80/i.html"></iframe>
            <img src="http://other/x.gif"><img src="//other/y.gif"><img src="data:image/gif;base64,xx"><img alt=none>
            <object data="o.svg" type="image/svg+xml"></object><imgx src="no.gif"><a href="no.html">a</a><img src="last.gif""#;
        let found = embedded(page, "h:80", "/dir/");
        let wanted =
            ["/abs.gif", "/dir/rel.gif", "/dir/one.gif", "/dir/f.html", "/i.html", "/dir/o.svg", "/dir/last.gif"];
        assert_eq!(found, wanted);
        assert_eq!(embedded(b"<img src=\"/a b.gif\">", "h", "/"), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn any_page_is_read(page in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = embedded(&page, "h", "/");
        }

        #[test]
        fn nothing_found_can_break_a_request(page in "(<img |src=|\"|'|>|<!--|-->|[a-z/:. \r\n]){0,40}") {
            for path in embedded(page.as_bytes(), "h", "/") {
                prop_assert!(path.starts_with('/') && !path.contains(|letter: char| letter.is_whitespace()));
            }
        }
    }
}
