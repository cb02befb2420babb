//! Directory listings: one plain page, directories first, sorted as its links say. It needs no script, and its style is
//! a sheet of its own, so that a policy for content (CSP) which forbids inline styles does not spoil it.

use crate::clock::civil;
use crate::root::Root;
use crate::target;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::os::unix::fs::MetadataExt;

/// Names read from one directory; beyond it the rest is counted as "more" at a minimum.
const NAMES_MAX: usize = 1 << 17;

/// Which names a listing shows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shown {
    pub(crate) dot_files: bool,
    pub(crate) entries_max: usize,
}

/// The query that gets the style sheet, in any directory that is listed.
const STYLE_QUERY: &[u8] = b"?weir-listing.css";
/// How it looks: in the reader's colours, and on a narrow screen without the dates.
pub(crate) const STYLE: &str = "\
:root{color-scheme:light dark}\n\
body{font:16px/1.6 system-ui,sans-serif;max-width:56em;margin:2em auto;padding:0 1em}\n\
h1{font-size:1.3em;overflow-wrap:anywhere}\n\
table{width:100%;border-collapse:collapse}\n\
td,th{padding:.2em .5em;border-bottom:1px solid #8883;text-align:left;overflow-wrap:anywhere}\n\
td+td,th+th{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\n\
td+td{color:GrayText}\n\
tr:hover td{background:#8881}\n\
th a{color:inherit}\n\
a{text-decoration:none}\n\
a:hover,a:focus{text-decoration:underline}\n\
@media(max-width:34em){td:nth-child(3),th:nth-child(3){display:none}}\n";

/// By what a listing is sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Name,
    Size,
    Modified,
}

/// What a query asks of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    column: Column,
    is_descending: bool,
}

impl Order {
    /// Reads `?sort=size&order=desc`; what is not known is passed over.
    pub(crate) fn read(query: &[u8]) -> Self {
        let mut order = Self { column: Column::Name, is_descending: false };
        for pair in query.strip_prefix(b"?").unwrap_or_default().split(|&byte| byte == b'&') {
            match pair {
                b"sort=size" => order.column = Column::Size,
                b"sort=modified" => order.column = Column::Modified,
                b"order=desc" => order.is_descending = true,
                _ => {}
            }
        }
        order
    }

    fn sort(self, entries: &mut [Entry]) {
        entries.sort_by(|a, b| {
            let within = match self.column {
                Column::Name => a.name.cmp(&b.name),
                Column::Size => a.bytes.cmp(&b.bytes).then_with(|| a.name.cmp(&b.name)),
                Column::Modified => a.modified_s.cmp(&b.modified_s).then_with(|| a.name.cmp(&b.name)),
            };
            b.is_directory.cmp(&a.is_directory).then(if self.is_descending { within.reverse() } else { within })
        });
    }

    /// The head of a column, a link that sorts by it, or the other way round where that is so already.
    fn head(self, column: Column, text: &str, sort: &str) -> String {
        let is_this = self.column == column;
        let order = if is_this && !self.is_descending { "desc" } else { "asc" };
        let (mark, aria) = match (is_this, self.is_descending) {
            (false, _) => ("", ""),
            (true, false) => (" \u{2191}", " aria-sort=\"ascending\""),
            (true, true) => (" \u{2193}", " aria-sort=\"descending\""),
        };
        format!("<th{aria}><a href=\"?sort={sort}&amp;order={order}\">{text}</a>{mark}")
    }
}

/// Whether a query wants the style sheet rather than the listing.
pub(crate) fn wants_style(query: &[u8]) -> bool {
    query == STYLE_QUERY
}

struct Entry {
    name: Vec<u8>,
    is_directory: bool,
    bytes: u64,
    modified_s: u64,
}

/// Makes the page for `directory`, whose path begins and ends with a slash.
pub(crate) fn page(root: &Root, directory: File, path: &[u8], order: Order, shown: Shown) -> io::Result<String> {
    let mut names = names(directory, shown.dot_files)?;
    names.sort_unstable();
    let more = names.len().saturating_sub(shown.entries_max);
    names.truncate(shown.entries_max);
    // What cannot be opened below the root would be refused too, so it is not shown.
    let mut entries: Vec<Entry> = names.into_iter().filter_map(|name| describe(root, path, name)).collect();
    order.sort(&mut entries);
    Ok(render(path, &entries, order, more))
}

/// The names in a directory.
pub(crate) fn names(directory: File, dot_files: bool) -> io::Result<Vec<Vec<u8>>> {
    let fd = directory.into_raw_fd();
    // SAFETY: the descriptor is ours and handed over; where that fails it is closed again below.
    let stream = unsafe { libc::fdopendir(fd) };
    if stream.is_null() {
        let error = io::Error::last_os_error();
        // SAFETY: the descriptor was not taken over and nobody else has it.
        unsafe { libc::close(fd) };
        return Err(error);
    }
    let mut names = Vec::new();
    for _ in 0..NAMES_MAX {
        // SAFETY: the stream is open, and only this thread reads it.
        let entry = unsafe { libc::readdir64(stream) };
        if entry.is_null() {
            break;
        }
        // SAFETY: the entry is valid until the next read, and its name is terminated.
        let name = unsafe { CStr::from_ptr((&raw const (*entry).d_name).cast()) }.to_bytes();
        if name != b"." && name != b".." && (dot_files || name.first() != Some(&b'.')) {
            names.push(name.to_vec());
        }
    }
    // SAFETY: the stream is open; this closes it and its descriptor, once.
    unsafe { libc::closedir(stream) };
    Ok(names)
}

fn describe(root: &Root, path: &[u8], name: Vec<u8>) -> Option<Entry> {
    let metadata = root.open_for_stat(&[path, name.as_slice()].concat()).ok()?.metadata().ok()?;
    if !metadata.is_dir() && !metadata.is_file() {
        return None;
    }
    let modified_s = u64::try_from(metadata.mtime()).unwrap_or(0);
    Some(Entry { name, is_directory: metadata.is_dir(), bytes: metadata.size(), modified_s })
}

fn render(path: &[u8], entries: &[Entry], order: Order, more: usize) -> String {
    let title = escape(&String::from_utf8_lossy(path));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title>\n<link rel=\"stylesheet\" href=\"{}\">\n<h1>{title}</h1>\n<table>\n<tr>{}{}{}\n",
        String::from_utf8_lossy(STYLE_QUERY),
        order.head(Column::Name, "Name", "name"),
        order.head(Column::Size, "Size", "size"),
        order.head(Column::Modified, "Modified (UTC)", "modified"),
    );
    if path != b"/" {
        page.push_str("<tr><td><a href=\"../\">../</a><td><td>\n");
    }
    for entry in entries {
        let slash = if entry.is_directory { "/" } else { "" };
        // The dot keeps a name with a colon from being taken for an address with a scheme.
        let mut link = b"./".to_vec();
        target::encode(&entry.name, &mut link);
        let link = String::from_utf8_lossy(&link);
        let name = escape(&String::from_utf8_lossy(&entry.name));
        let size = if entry.is_directory { String::new() } else { size(entry.bytes) };
        let (year, month, day, hour, minute, _) = civil(entry.modified_s);
        page.push_str(&format!(
            "<tr><td><a href=\"{link}{slash}\">{name}{slash}</a><td>{size}\
             <td>{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}\n"
        ));
    }
    page.push_str("</table>\n");
    if more > 0 {
        page.push_str(&format!("<p>{more} more are not shown.</p>\n"));
    }
    page.push_str("</html>\n");
    page
}

fn size(bytes: u64) -> String {
    // Precise enough for a person; the exact size is one HEAD away.
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let digits = usize::from(unit != "B" && value < 100.0);
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(query: &str) -> String {
        let entry =
            |name: &str, is_directory, bytes, modified_s| Entry { name: name.into(), is_directory, bytes, modified_s };
        let mut entries =
            [entry("a", false, 2, 1), entry("b", false, 1, 3), entry("c", false, 2, 2), entry("z", true, 0, 9)];
        Order::read(query.as_bytes()).sort(&mut entries);
        entries.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
    }

    #[test]
    fn queries_sort_within_directories_and_files() {
        for (query, expected) in [
            ("", "zabc"),
            ("?sort=name&order=desc", "zcba"),
            ("?sort=size", "zbac"),
            ("?sort=size&order=desc", "zcab"),
            ("?order=desc&sort=modified", "zbca"),
            ("?sort=colour&order=up", "zabc"),
        ] {
            assert_eq!(names(query), expected, "{query}");
        }
    }

    #[test]
    fn the_present_order_is_marked_and_its_link_turns_it_round() {
        let page = |query: &str| render(b"/", &[], Order::read(query.as_bytes()), 0);
        let up = page("?sort=size");
        assert!(
            up.contains("<th aria-sort=\"ascending\"><a href=\"?sort=size&amp;order=desc\">Size</a> \u{2191}"),
            "{up}"
        );
        assert!(up.contains("<th><a href=\"?sort=name&amp;order=asc\">Name</a>"));
        let down = page("?sort=size&order=desc");
        assert!(down.contains("<th aria-sort=\"descending\"><a href=\"?sort=size&amp;order=asc\">Size</a> \u{2193}"));
        assert!(!up.contains("style=") && !up.contains("<style") && !up.contains("<script"));
    }
}
