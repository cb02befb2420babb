//! Ranges of files in memory and on disk against slices of the same bytes.

use crate::harness;

use harness::{Reply, Site, read_reply};
use proptest::prelude::*;
use std::io::Write;

const SIZE: usize = 5000;

fn content() -> Vec<u8> {
    (0..SIZE).map(|i| (i * 7 + i / 256) as u8).collect()
}

/// What a client makes of the answer: the ranges with their bytes.
fn parts(reply: &Reply) -> Vec<(usize, usize, Vec<u8>)> {
    let bounds = |value: &str| {
        let (range, size) = value.strip_prefix("bytes ").expect("a unit").split_once('/').expect("a size");
        assert_eq!(size, SIZE.to_string());
        let (first, last) = range.split_once('-').expect("a range");
        (first.parse().expect("a number"), last.parse::<usize>().expect("a number") + 1)
    };
    if let Some(range) = reply.field("content-range") {
        let (start, end) = bounds(range);
        return vec![(start, end, reply.body.clone())];
    }
    let content_type = reply.field("content-type").expect("a type");
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect("a multipart type");
    let delimiter = format!("\r\n--{boundary}");
    let mut rest = reply.body.as_slice();
    let mut parts = Vec::new();
    loop {
        rest = rest.strip_prefix(delimiter.as_bytes()).expect("a delimiter");
        if rest == b"--\r\n" {
            return parts;
        }
        let head_end = rest.windows(4).position(|window| window == b"\r\n\r\n").expect("a part head");
        let head = std::str::from_utf8(&rest[2..head_end]).expect("ASCII");
        assert!(head.contains("Content-Type: text/plain; charset=utf-8"));
        let range = head.split("\r\n").find_map(|line| line.strip_prefix("Content-Range: ")).expect("a range");
        let (start, end) = bounds(range);
        let body = &rest[head_end + 4..][..end - start];
        parts.push((start, end, body.to_vec()));
        rest = &rest[head_end + 4 + end - start..];
    }
}

/// The ranges that a reader of RFC 9110 section 14.1.2 would expect.
fn expected(specs: &[(Option<usize>, Option<usize>)]) -> Vec<(usize, usize)> {
    let resolve = |spec: &(Option<usize>, Option<usize>)| match *spec {
        (Some(first), Some(last)) => (first < SIZE).then(|| (first, (last + 1).min(SIZE))),
        (Some(first), None) => (first < SIZE).then_some((first, SIZE)),
        (None, Some(suffix)) => (suffix > 0).then(|| (SIZE - suffix.min(SIZE), SIZE)),
        (None, None) => None,
    };
    specs.iter().filter_map(resolve).collect()
}

fn spec() -> impl Strategy<Value = (Option<usize>, Option<usize>)> {
    prop_oneof![
        (0..SIZE + 200, 0..2000_usize).prop_map(|(first, len)| (Some(first), Some(first + len))),
        (0..SIZE + 200).prop_map(|first| (Some(first), None)),
        (0..SIZE + 200).prop_map(|suffix| (None, Some(suffix))),
    ]
}

#[test]
fn any_ranges_are_slices_of_the_content() {
    let content = content();
    // The second site keeps nothing in memory, so that its ranges come by sendfile.
    let in_memory = Site::start(&[("f.txt", &content)], |_| {});
    let on_disk = Site::start(&[("f.txt", &content)], |options| options.cached_file_bytes_max = 0);
    let config = ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(specs in proptest::collection::vec(spec(), 1..8))| {
        let number = |n: Option<usize>| n.map_or(String::new(), |n| n.to_string());
        let list: Vec<String> = specs.iter().map(|(first, last)| format!("{}-{}", number(*first), number(*last))).collect();
        let field = format!("Range: bytes={}\r\n", list.join(","));
        let expected = expected(&specs);
        let total: usize = expected.iter().map(|(start, end)| end - start).sum();
        for site in [&in_memory, &on_disk] {
            let reply = site.ask("GET", "/f.txt", &field);
            let body_bytes = reply.body.len().to_string();
            prop_assert_eq!(reply.field("content-length"), Some(body_bytes.as_str()));
            if expected.is_empty() {
                prop_assert_eq!(reply.status, 416);
                prop_assert_eq!(reply.field("content-range"), Some("bytes */5000"));
            } else if expected.len() > 1 && total > SIZE {
                prop_assert_eq!(reply.status, 200);
                prop_assert!(reply.body == content);
            } else {
                prop_assert_eq!(reply.status, 206);
                let parts = parts(&reply);
                prop_assert_eq!(parts.len(), expected.len());
                for ((start, end, bytes), expected) in parts.iter().zip(&expected) {
                    prop_assert_eq!((*start, *end), *expected);
                    prop_assert!(bytes == &content[*start..*end]);
                }
            }
        }
    });
}

#[test]
fn too_many_ranges_are_ignored() {
    let content = content();
    let site = Site::start(&[("f.txt", &content)], |options| options.limits.ranges_max = 3);
    assert_eq!(site.ask("GET", "/f.txt", "Range: bytes=0-0,2-2,4-4\r\n").status, 206);
    assert_eq!(site.ask("GET", "/f.txt", "Range: bytes=0-0,2-2,4-4,6-6\r\n").body, content);
    let twice = site.ask("GET", "/f.txt", "Range: bytes=0-0\r\nRange: bytes=1-1\r\n");
    assert_eq!(twice.body, content, "two lines are no list");
}

#[test]
fn a_connection_goes_on_after_ranges() {
    let content = content();
    for memory in [0, 1 << 20] {
        let site = Site::start(&[("f.txt", &content)], |options| options.cached_file_bytes_max = memory);
        let mut stream = site.connect();
        for i in 0..20 {
            write!(stream, "GET /f.txt HTTP/1.1\r\nHost: a\r\nRange: bytes={i}-{i},4000-{}\r\n\r\n", 4100 + i)
                .expect("sends");
            let reply = read_reply(&mut stream, false);
            let parts = parts(&reply);
            assert_eq!(parts[0].2, &content[i..=i]);
            assert_eq!(parts[1].2, &content[4000..=4100 + i]);
        }
    }
}
