//! What the processes that run scripts read: records of the server, and marks in the output of a script.

use std::sync::OnceLock;
use weir_script_server::Mount;
use weir_script_server::fuzzing::{Mounts, rewrite};
use weir_scripts::fuzzing::{Marks, Pairs, Said, Sifted, next_record, place_of_correlator, read_correlator, status_of};

/// Bytes of output that are tried: fewer than a callout may have, as one that comes whole may be longer.
const OUTPUT_BYTES_MAX: usize = 4000;

/// Reads any bytes as records, and their contents as pairs: each record lies within the bytes, and only a whole one is
/// read; the pairs of a record lie within it.
pub fn scripts_fastcgi(input: &[u8]) {
    let mut at = 0;
    while let Ok(Some(record)) = next_record(&input[at..]) {
        assert!(record.bytes >= record.content.len() + 8 && at + record.bytes <= input.len());
        assert!(matches!(next_record(&input[at..at + record.bytes - 1]), Ok(None)));
        check_pairs(record.content);
        at += record.bytes;
    }
    check_pairs(input);
}

fn check_pairs(content: &[u8]) {
    let (mut bytes, mut is_over) = (0, false);
    for pair in Pairs(content) {
        assert!(!is_over, "a pair behind one that is cut off");
        match pair {
            Some((name, value)) => bytes += name.len() + value.len() + 2,
            None => is_over = true,
        }
    }
    assert!(bytes <= content.len());
}

/// Reads any output of a script, in one piece and in many, which makes no difference. The first byte is the number of
/// lengths that follow, which are those of the pieces, again and again.
pub fn scripts_marks(input: &[u8]) {
    let (pieces, output) = pieces(input);
    assert_eq!(sift(&pieces), sift(&[output]));
}

/// Pieces of an input, and all of them together.
fn pieces(input: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let Some((&number, rest)) = input.split_first() else { return (Vec::new(), input) };
    let (lengths, output) = rest.split_at(usize::from(number % 16).min(rest.len()));
    let output = &output[..output.len().min(OUTPUT_BYTES_MAX)];
    let mut pieces = Vec::new();
    let (mut left, mut lengths) = (output, lengths.iter().cycle());
    while !left.is_empty() {
        let length = lengths.next().map_or(1, |&length| usize::from(length).max(1));
        let (piece, behind) = left.split_at(length.min(left.len()));
        pieces.push(piece);
        left = behind;
    }
    (pieces, output)
}

/// What stands before the end of the response, whether it ended, and what callouts asked for.
fn sift(pieces: &[&[u8]]) -> (Vec<u8>, bool, Said) {
    let mut marks = Marks::new("0f");
    let mut output = Vec::new();
    for piece in pieces {
        let mut out = b"before".to_vec();
        marks.restore(&mut out);
        out.extend_from_slice(piece);
        let sifted = marks.sift(6, &mut out);
        assert!(out.starts_with(b"before") && sifted != Sifted::Malformed);
        output.extend_from_slice(&out[6..]);
        if sifted == Sifted::Ended {
            return (output, true, marks.take_said());
        }
    }
    marks.restore(&mut output);
    (output, false, marks.take_said())
}

/// Reads any bytes as records of requests, in one piece and in many, which makes no difference: by a runner, and by a
/// script server. The pieces are those of [`scripts_marks`].
pub fn scripts_requests(input: &[u8]) {
    let (pieces, all) = pieces(input);
    let of_runner = weir_scripts::fuzzing::requests(&pieces);
    assert_eq!(of_runner, weir_scripts::fuzzing::requests(&[all]));
    let of_server = weir_script_server::fuzzing::requests(&pieces);
    assert_eq!(of_server, weir_script_server::fuzzing::requests(&[all]));
    // What a script server takes as a whole request is one for a runner as well.
    for (request, of_runner) in of_server.0.iter().zip(&of_runner.0).filter(|(request, _)| request.is_whole) {
        let of_runner = of_runner.begun.map(|(number, is_kept)| (number, is_kept, of_runner.variables.clone()));
        assert_eq!(request.begun, of_runner);
    }
}

/// Reads any output of a script for its status, which has three digits; what stands behind the head has none.
pub fn scripts_status(input: &[u8]) {
    let status = status_of(input);
    assert!(status <= 999);
    if let Some(at) = input.windows(2).position(|two| two == b"\n\n") {
        assert_eq!(status_of(&input[..at]), status);
    }
}

/// Reads any bytes as variables with a correlator: it lies within them, and what one of ours says is what it was made of.
pub fn scripts_correlator(input: &[u8]) {
    let digits = match place_of_correlator(input) {
        Some((at, bytes)) => {
            let name = b"ARM_CORRELATOR";
            assert!(at + bytes <= input.len() && input[..at].windows(name.len()).any(|some| some == name));
            &input[at..at + bytes]
        }
        None => input,
    };
    let Some(identity) = read_correlator(digits) else { return };
    assert!(digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit));
    let written: String = identity.correlator().iter().map(|byte| format!("{byte:02x}")).collect();
    let again = read_correlator(written.as_bytes()).expect("one of ours");
    assert_eq!((again.trace, again.span, again.flags), (identity.trace, identity.span, identity.flags));
}

/// Reads any bytes as the variables that a web server of another host sends: a script that they lead to lies below the
/// root, though they say another file, and what is passed on says each of these variables once.
pub fn scripts_remote(input: &[u8]) {
    static MOUNTS: OnceLock<Mounts> = OnceLock::new();
    let mounts = MOUNTS.get_or_init(|| {
        let mount = Mount {
            prefix: "/".to_owned(),
            root: "/etc".into(),
            endings: Vec::new(),
            socket: "/nonexistent".into(),
            requests_max: 1,
        };
        Mounts::new(&[mount])
    });
    let Ok(written) = rewrite(input, mounts, &[]) else { return };
    let pairs: Vec<_> = Pairs(&written.pairs).map(|pair| pair.expect("a whole pair")).collect();
    for name in [&b"SCRIPT_FILENAME"[..], b"SCRIPT_NAME", b"PATH_INFO", b"DOCUMENT_ROOT"] {
        assert_eq!(pairs.iter().filter(|(own, _)| *own == name).count(), 1);
    }
    let (_, file) = pairs.iter().find(|(name, _)| *name == b"SCRIPT_FILENAME").expect("a file");
    assert!(file.starts_with(b"/etc/") && !file.split(|&byte| byte == b'/').any(|part| part == b".."));
}
