//! Directory listings: one plain page, directories first.

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

struct Entry {
    name: Vec<u8>,
    is_directory: bool,
    bytes: u64,
    modified_s: u64,
}

/// Makes the page for `directory`, whose path begins and ends with a slash.
pub(crate) fn page(root: &Root, directory: File, path: &[u8], shown: Shown) -> io::Result<String> {
    let mut names = names(directory, shown.dot_files)?;
    names.sort_unstable();
    let more = names.len().saturating_sub(shown.entries_max);
    names.truncate(shown.entries_max);
    // What cannot be opened below the root would be refused too, so it is not shown.
    let mut entries: Vec<Entry> = names.into_iter().filter_map(|name| describe(root, path, name)).collect();
    entries.sort_by(|a, b| b.is_directory.cmp(&a.is_directory).then_with(|| a.name.cmp(&b.name)));
    Ok(render(path, &entries, more))
}

fn names(directory: File, dot_files: bool) -> io::Result<Vec<Vec<u8>>> {
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

fn render(path: &[u8], entries: &[Entry], more: usize) -> String {
    let title = escape(&String::from_utf8_lossy(path));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>{title}</title>\n<style>\nbody{{font:16px/1.6 system-ui,sans-serif;max-width:52em;margin:2em auto;padding:0 1em;\
         color-scheme:light dark}}\nh1{{font-size:1.3em;overflow-wrap:anywhere}}\ntable{{width:100%;border-collapse:collapse}}\n\
         td,th{{padding:.15em .5em;border-bottom:1px solid #8883;text-align:left}}\ntd+td,th+th{{text-align:right;\
         white-space:nowrap;font-variant-numeric:tabular-nums;opacity:.75}}\na{{text-decoration:none}}\na:hover{{\
         text-decoration:underline}}\n</style>\n<h1>{title}</h1>\n<table>\n<tr><th>Name<th>Size<th>Modified (UTC)\n"
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
