//! Directory listings: one plain page, directories first, sorted as its links say. It needs no script, and its style
//! sheet is a separate resource, so that it also works under a content security policy that forbids inline styles.

use crate::files::root::Root;
use crate::http::target;
use crate::io::clock::civil;
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{IntoRawFd, RawFd};
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Column {
    Name,
    Size,
    Modified,
}

/// What a query asks of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

#[derive(Debug)]
struct Entry {
    name: Vec<u8>,
    is_directory: bool,
    bytes: u64,
    modified_s: u64,
    /// Whether it was looked at, or only its name and kind are known.
    is_described: bool,
}

/// A page, and what is known of how long it holds.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) html: String,
    /// Whether a watch on the directory reports every change of what the page shows. It does not report changes behind
    /// links or by other names of a file, nor that something was made in a directory below.
    pub(crate) is_told: bool,
}

/// Makes the page for `directory`, whose path begins and ends with a slash.
pub(crate) fn page(root: &Root, directory: File, path: &[u8], order: Order, shown: Shown) -> io::Result<Page> {
    let stream = Stream::open(directory)?;
    let mut look = Look { stream: &stream, root, path, is_told: true };
    let mut entries = Vec::new();
    stream.each(shown.dot_files, |name, kind| {
        // What is shown first by its name is known without a look at any of them, but for links.
        entries.extend(match (order.column, kind) {
            (_, Kind::Other) => None,
            (Column::Name, Kind::File | Kind::Directory) => Some(Entry {
                name: name.to_bytes().to_vec(),
                is_directory: kind == Kind::Directory,
                bytes: 0,
                modified_s: 0,
                is_described: false,
            }),
            _ => look.describe(name),
        });
    });
    order.sort(&mut entries);
    let more = entries.len().saturating_sub(shown.entries_max);
    entries.truncate(shown.entries_max);
    let described = entries.into_iter().filter_map(|entry| {
        if entry.is_described { Some(entry) } else { look.describe(&CString::new(entry.name).ok()?) }
    });
    let entries: Vec<Entry> = described.collect();
    Ok(Page { html: render(path, &entries, order, more), is_told: look.is_told })
}

/// The names in a directory.
pub(crate) fn names(directory: File, dot_files: bool) -> io::Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    Stream::open(directory)?.each(dot_files, |name, _| names.push(name.to_bytes().to_vec()));
    Ok(names)
}

/// What a directory says that a name in it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Directory,
    /// A link, or not said.
    Unknown,
    /// Nothing that is served.
    Other,
}

/// A directory that is read.
#[derive(Debug)]
struct Stream(NonNull<libc::DIR>);

impl Stream {
    fn open(directory: File) -> io::Result<Self> {
        let fd = directory.into_raw_fd();
        // SAFETY: the descriptor is ours and handed over; where that fails it is closed again below.
        let stream = unsafe { libc::fdopendir(fd) };
        NonNull::new(stream).map(Self).ok_or_else(|| {
            let error = io::Error::last_os_error();
            // SAFETY: `fdopendir` did not take the descriptor over, and it has no other owner.
            unsafe { libc::close(fd) };
            error
        })
    }

    fn fd(&self) -> RawFd {
        // SAFETY: the stream is open as long as this is there.
        unsafe { libc::dirfd(self.0.as_ptr()) }
    }

    /// Hands over the names with what the directory says of them.
    fn each(&self, dot_files: bool, mut what: impl FnMut(&CStr, Kind)) {
        for _ in 0..NAMES_MAX {
            // SAFETY: the stream is open, and only this thread reads it.
            let entry = unsafe { libc::readdir64(self.0.as_ptr()) };
            if entry.is_null() {
                break;
            }
            // SAFETY: the entry is valid until the next read, which comes after `what`, and its name is terminated.
            let (name, kind) = unsafe { (CStr::from_ptr((&raw const (*entry).d_name).cast()), (*entry).d_type) };
            let bytes = name.to_bytes();
            if bytes != b"." && bytes != b".." && (dot_files || bytes.first() != Some(&b'.')) {
                what(
                    name,
                    match kind {
                        libc::DT_REG => Kind::File,
                        libc::DT_DIR => Kind::Directory,
                        libc::DT_LNK | libc::DT_UNKNOWN => Kind::Unknown,
                        _ => Kind::Other,
                    },
                );
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is open; this closes it and its descriptor, once.
        unsafe { libc::closedir(self.0.as_ptr()) };
    }
}

/// Looks at what lies in a directory.
struct Look<'l> {
    stream: &'l Stream,
    root: &'l Root,
    path: &'l [u8],
    is_told: bool,
}

impl Look<'_> {
    /// What is shown of a name: one system call, by the directory's descriptor. A link is followed as any request
    /// would, so that what would be refused is not shown.
    fn describe(&mut self, name: &CStr) -> Option<Entry> {
        // SAFETY: all zeros is a valid value of this plain structure.
        let mut stat: libc::statx = unsafe { std::mem::zeroed() };
        let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_NO_AUTOMOUNT;
        let wanted = libc::STATX_TYPE | libc::STATX_NLINK | libc::STATX_SIZE | libc::STATX_MTIME;
        // SAFETY: the name is terminated, and the call fills the structure; both live over it.
        let result = unsafe { libc::statx(self.stream.fd(), name.as_ptr(), flags, wanted, &raw mut stat) };
        if result != 0 {
            return None;
        }
        let name = name.to_bytes().to_vec();
        let (kind, bytes, modified_s) = match u32::from(stat.stx_mode) & libc::S_IFMT {
            libc::S_IFLNK => {
                self.is_told = false;
                let metadata = self.root.open_for_stat(&[self.path, name.as_slice()].concat()).ok()?.metadata().ok()?;
                (metadata.mode() & libc::S_IFMT, metadata.size(), metadata.mtime())
            }
            kind => (kind, stat.stx_size, stat.stx_mtime.tv_sec),
        };
        if kind != libc::S_IFREG && kind != libc::S_IFDIR {
            return None;
        }
        self.is_told &= kind == libc::S_IFREG && stat.stx_nlink == 1;
        let modified_s = u64::try_from(modified_s).unwrap_or(0);
        Some(Entry { name, is_directory: kind == libc::S_IFDIR, bytes, modified_s, is_described: true })
    }
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
        let entry = |name: &str, is_directory, bytes, modified_s| Entry {
            name: name.into(),
            is_directory,
            bytes,
            modified_s,
            is_described: true,
        };
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

    /// The names on a page, in its order.
    fn listed(page: &Page) -> Vec<String> {
        let links = page.html.split("<a href=\"./").skip(1);
        links.map(|rest| rest.split('"').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn what_is_cut_is_the_end_of_each_order() {
        let folder = tempfile::tempdir().expect("a directory");
        for (name, bytes) in [("a", 1), ("b", 2), ("y", 3), ("z", 9)] {
            std::fs::write(folder.path().join(name), vec![0; bytes]).expect("writes");
        }
        let root = Root::open_directory(folder.path()).expect("opens");
        let shown = Shown { dot_files: false, entries_max: 2 };
        let page =
            |query: &str| page(&root, root.open(b"/").expect("opens"), b"/", Order::read(query.as_bytes()), shown);
        for (query, expected) in [
            ("", ["a", "b"]),
            ("?order=desc", ["z", "y"]),
            ("?sort=size&order=desc", ["z", "y"]),
            ("?sort=size", ["a", "b"]),
        ] {
            let page = page(query).expect("reads");
            assert_eq!(listed(&page), expected, "{query}");
            assert!(page.html.contains("<p>2 more are not shown.") && page.is_told, "{query}");
        }
        std::fs::create_dir(folder.path().join("zz")).expect("creates");
        let with_directory = page("").expect("reads");
        assert_eq!(listed(&with_directory), ["zz/", "a"]);
        assert!(!with_directory.is_told);
    }

    #[test]
    fn links_are_shown_as_they_are_followed_and_nothing_that_is_not_served() {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("www/sub")).expect("creates");
        std::fs::write(at("www/sub/file"), "12345").expect("writes");
        std::fs::write(at("secret"), "s").expect("writes");
        for (target, link) in [("sub/file", "in"), ("../secret", "out"), ("none", "dangling"), ("sub", "directory")] {
            std::os::unix::fs::symlink(target, at("www").join(link)).expect("links");
        }
        let _socket = std::os::unix::net::UnixListener::bind(at("www/socket")).expect("binds");
        let root = Root::open_directory(&at("www")).expect("opens");
        let shown = Shown { dot_files: false, entries_max: 9 };
        for query in ["", "?sort=size"] {
            let order = Order::read(query.as_bytes());
            let page = page(&root, root.open(b"/").expect("opens"), b"/", order, shown).expect("reads");
            assert_eq!(listed(&page), ["directory/", "sub/", "in"], "{query}");
            assert!(page.html.contains(">in</a><td>5 B<td>") && !page.is_told, "{}", page.html);
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
