//! What a file is, by its first bytes, where it is no text: formats that are known and not read, with what reads them.

/// Something that is no log as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Container {
    /// What it is.
    pub name: &'static str,
    /// What makes a log of it, as a command that reads `FILE` and writes to standard output; empty where there is none.
    pub reads: &'static str,
}

/// The first bytes that are looked at.
pub(crate) const HEAD_BYTES: usize = 4096;
/// More than one of so many bytes that no text has makes no text.
const TEXT_BYTES_OF_ONE: usize = 10;

/// Place, bytes, name, and what reads it.
const KNOWN: [(usize, &[u8], &str, &str); 28] = [
    (0, b"\xfd7zXZ\0", "compressed by xz", "xzcat FILE"),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd", "zstdcat FILE"),
    (0, b"\x50\x2a\x4d\x18", "compressed by zstd", "zstdcat FILE"),
    (0, b"BZh", "compressed by bzip2", "bzcat FILE"),
    (0, b"\x04\x22\x4d\x18", "compressed by lz4", "lz4cat FILE"),
    (0, b"\x02\x21\x4c\x18", "compressed by lz4", "lz4cat FILE"),
    (0, b"LZIP", "compressed by lzip", "lzip -dc FILE"),
    (0, b"\x5d\0\0", "compressed by lzma", "xzcat --format=lzma FILE"),
    (0, b"\x89LZO\0", "compressed by lzop", "lzop -dc FILE"),
    (0, b"\x1f\x9d", "compressed by compress", "zcat FILE"),
    (0, b"\x1f\xa0", "compressed by compress", "zcat FILE"),
    (0, b"\x1f\x1e", "compressed by pack", "zcat FILE"),
    (0, b"\xff\x06\0\0sNaPpY", "compressed by snappy", "snzip -dc FILE"),
    (0, b"\x78\x9c", "compressed by zlib", "zlib-flate -uncompress < FILE"),
    (0, b"PK\x03\x04", "an archive of zip", "unzip -p FILE"),
    (0, b"PK\x05\x06", "an archive of zip", "unzip -p FILE"),
    (0, b"7z\xbc\xaf\x27\x1c", "an archive of 7z", "7z x -so FILE"),
    (0, b"Rar!\x1a\x07", "an archive of rar", "unrar p -inul FILE"),
    (257, b"ustar", "an archive of tar", "tar -xOf FILE"),
    (0, b"LPKSHHRH", "a journal of systemd", "journalctl --file FILE -o cat"),
    (0, b"PAR1", "a file of Parquet", ""),
    (0, b"Obj\x01", "a file of Avro", ""),
    (0, b"SQLite format 3\0", "a database of SQLite", ""),
    (0, b"\xd4\xc3\xb2\xa1", "a packet capture", ""),
    (0, b"\xa1\xb2\xc3\xd4", "a packet capture", ""),
    (0, b"\x0a\x0d\x0d\x0a", "a packet capture", ""),
    (0, b"\x7fELF", "a program", ""),
    (0, b"%PDF-", "a document of PDF", ""),
];

/// What a file is that begins with `head`; `None` where it is text.
pub(crate) fn of(head: &[u8]) -> Option<Container> {
    let known = KNOWN.iter().find(|(at, magic, ..)| head.get(*at..).is_some_and(|rest| rest.starts_with(magic)));
    if let Some((_, _, name, reads)) = known.filter(|(_, magic, ..)| !is_text_after_all(magic, head)) {
        return Some(Container { name, reads });
    }
    if let Some(coding) = wide(head) {
        return Some(coding);
    }
    let is_odd = |byte: u8| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x1b);
    // Zeros in front of a line were passed over, or will be.
    let odd = head.iter().filter(|byte| is_odd(**byte) && **byte != 0).count();
    let zeros = head.split(|byte| *byte != 0).filter(|run| !run.is_empty()).count();
    (odd + zeros > head.len() / TEXT_BYTES_OF_ONE).then_some(Container { name: "no text", reads: "" })
}

/// Whether a text begins with letters that begin another format, too.
fn is_text_after_all(magic: &[u8], head: &[u8]) -> bool {
    magic.iter().all(u8::is_ascii_graphic)
        && magic != b"ustar"
        && head.iter().take(64).all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
}

/// Text of two or four bytes a letter.
fn wide(head: &[u8]) -> Option<Container> {
    const UTF_16LE: Container = Container { name: "text of UTF-16", reads: "iconv -f UTF-16LE -t UTF-8 FILE" };
    const UTF_16BE: Container = Container { name: "text of UTF-16", reads: "iconv -f UTF-16BE -t UTF-8 FILE" };
    const UTF_32: Container = Container { name: "text of UTF-32", reads: "iconv -f UTF-32 -t UTF-8 FILE" };
    match head {
        [0xff, 0xfe, 0, 0, ..] | [0, 0, 0xfe, 0xff, ..] => return Some(UTF_32),
        [0xff, 0xfe, ..] => return Some(UTF_16LE),
        [0xfe, 0xff, ..] => return Some(UTF_16BE),
        _ => {}
    }
    // Without a mark: half of the bytes are 0, at every second place.
    let (pairs, _) = head.as_chunks::<2>();
    let share = |is: fn(&[u8; 2]) -> bool| pairs.iter().filter(|pair| is(pair)).count() * 10 >= pairs.len() * 8;
    match pairs.len() {
        0..8 => None,
        _ if share(|pair| pair[0] == 0 && pair[1] != 0) => Some(UTF_16BE),
        _ if share(|pair| pair[1] == 0 && pair[0] != 0) => Some(UTF_16LE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_are_no_text_have_names() {
        for (at, magic, name, _) in KNOWN {
            let mut head = [b'a'; 300];
            head[at..at + magic.len()].copy_from_slice(magic);
            head[299] = 0;
            head[60] = 0;
            assert_eq!(of(&head).map(|found| found.name), Some(name), "{magic:?}");
        }
        let line = b"192.0.2.1 - - [12/Mar/2026:12:00:00 +0000] \"GET / HTTP/1.1\" 200 5 \"-\" \"x\"\n";
        let wide = |place: usize| line.iter().flat_map(move |byte| if place == 0 { [0, *byte] } else { [*byte, 0] });
        let wide = |place| wide(place).collect::<Vec<u8>>();
        let little = [&[0xff, 0xfe][..], &wide(1)].concat();
        for head in [&little[..], &wide(0), &wide(1)] {
            assert_eq!(of(head).map(|found| found.name), Some("text of UTF-16"));
        }
        let noise: Vec<u8> = (0u32..4096).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        assert_eq!(of(&noise).map(|found| found.name), Some("no text"));
        let zeros = [&line[..], &[0; 500], line].concat();
        for text in [&line[..], b"", b"LZIP.example - - [12/Mar/2026:12:00:00 +0000]", b"BZhost 1.2.3.4", &zeros] {
            assert_eq!(of(text), None, "{:?}", text.escape_ascii().to_string());
        }
    }
}
