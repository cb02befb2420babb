//! What is kept of a response until it is whole, for the checks that look at its head or its body.

use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};

/// The most of a body that is kept for checks, in bytes: 1 MiB of each response that is under way.
pub const BODY_KEPT_MAX: usize = 1 << 20;
/// The most of a head, in bytes; it is bounded where it is read, too.
const HEAD_KEPT_MAX: usize = 256 << 10;
/// What stays allocated between two responses, in bytes.
const SPARE_BYTES: usize = 64 << 10;

/// What the checks of a run need of responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Keeps {
    pub(crate) head: bool,
    pub(crate) body: bool,
    pub(crate) digest: bool,
}

impl Keeps {
    /// Whether anything is needed that is not known anyway.
    pub(crate) fn any(self) -> bool {
        self.head || self.body || self.digest
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self { head: self.head || other.head, body: self.body || other.body, digest: self.digest || other.digest }
    }
}

/// What has come of a response.
#[derive(Clone)]
pub(crate) struct Seen {
    keeps: Keeps,
    /// Lines of `Name: value`.
    head: Vec<u8>,
    body: Vec<u8>,
    body_bytes: u64,
    digest: Context,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Seen").field("body_bytes", &self.body_bytes).finish_non_exhaustive()
    }
}

impl Seen {
    pub(crate) fn new(keeps: Keeps) -> Self {
        Self { keeps, head: Vec::new(), body: Vec::new(), body_bytes: 0, digest: Context::new(&SHA256) }
    }

    /// The next response begins.
    pub(crate) fn reset(&mut self) {
        self.head.clear();
        self.body.clear();
        self.body.shrink_to(SPARE_BYTES);
        self.body_bytes = 0;
        if self.keeps.digest {
            self.digest = Context::new(&SHA256);
        }
    }

    /// The lines of its head; those of an interim response before it are forgotten.
    pub(crate) fn head(&mut self, lines: &[u8]) {
        if self.keeps.head {
            self.head.clear();
            self.head.extend_from_slice(&lines[..lines.len().min(HEAD_KEPT_MAX)]);
        }
    }

    /// A piece of its body, without the framing of chunks.
    pub(crate) fn content(&mut self, piece: &[u8]) {
        self.body_bytes += piece.len() as u64;
        if self.keeps.body {
            let room = BODY_KEPT_MAX - self.body.len();
            self.body.extend_from_slice(&piece[..piece.len().min(room)]);
        }
        if self.keeps.digest {
            self.digest.update(piece);
        }
    }

    /// The values of a header; the case of its name does not matter.
    pub(crate) fn values<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s [u8]> {
        self.head.split(|byte| *byte == b'\n').filter_map(move |line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            line[..colon].eq_ignore_ascii_case(name.as_bytes()).then(|| line[colon + 1..].trim_ascii())
        })
    }

    /// What is kept of the body, and whether that is all of it.
    pub(crate) fn body(&self) -> (&[u8], bool) {
        (&self.body, self.body.len() as u64 == self.body_bytes)
    }

    /// SHA-256 of the whole body.
    pub(crate) fn digest(&self) -> [u8; SHA256_OUTPUT_LEN] {
        let mut bytes = [0; SHA256_OUTPUT_LEN];
        let digest = self.digest.clone().finish();
        // A digest of this algorithm has as many bytes.
        bytes.copy_from_slice(digest.as_ref());
        bytes
    }
}
