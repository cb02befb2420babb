//! The form of an activity file: a head, then three rings of records of one size, little-endian.
//!
//! | from byte | what |
//! |---|---|
//! | 0 | the head: `WEIRACTV`, version, slots of each ring, CRC-32 of all that |
//! | 4096 | a ring of minutes: minute n since 1970 is in slot n modulo the slots |
//! | behind it | a ring of hours, likewise |
//! | behind it | a ring of marks: mark n is in slot n modulo the slots |
//!
//! A record is 128 bytes, so that it crosses no sector or page: CRC-32 of the rest, its kind, its content. A slot of zeros
//! is empty; one whose checksum is wrong was torn and is counted, not shown.

use thiserror::Error;

/// Bytes of a record.
pub(crate) const RECORD_BYTES: usize = 128;
/// Bytes of the head, of which the kernel's page is a part.
pub(crate) const HEAD_BYTES: usize = 4096;
/// The version that this program reads and writes.
pub(crate) const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"WEIRACTV";
/// Bytes of the head that its checksum covers.
const HEAD_USED: usize = 24;
/// Slots of a ring at most: a file that asks for more is none.
const SLOTS_MAX: u32 = 1 << 20;
/// Bytes of a mark's words.
pub(crate) const MARK_BYTES_MAX: usize = 96;

const FIGURES: u8 = 1;
const MARK: u8 = 2;

/// Seconds of a minute and an hour.
pub(crate) const MINUTE_S: u64 = 60;
pub(crate) const HOUR_S: u64 = 3600;

/// How many slots each ring has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) minutes: u32,
    pub(crate) hours: u32,
    pub(crate) marks: u32,
}

impl Geometry {
    /// 100 days of minutes, three years of hours, 1,024 marks: 22 MB.
    pub(crate) const USUAL: Self = Self { minutes: 100 * 24 * 60, hours: 3 * 365 * 24, marks: 1024 };

    /// Bytes of a file.
    pub(crate) fn file_bytes(self) -> u64 {
        let slots = u64::from(self.minutes) + u64::from(self.hours) + u64::from(self.marks);
        HEAD_BYTES as u64 + slots * RECORD_BYTES as u64
    }

    /// Where the record of a minute or an hour is.
    pub(crate) fn place_of(self, span: Span, begin_unix_s: u64) -> u64 {
        let (before, slots) = match span {
            Span::Minute => (0, self.minutes),
            Span::Hour => (self.minutes, self.hours),
        };
        let slot = begin_unix_s / span.seconds() % u64::from(slots);
        HEAD_BYTES as u64 + (u64::from(before) + slot) * RECORD_BYTES as u64
    }

    /// Where a mark is.
    pub(crate) fn place_of_mark(self, number: u64) -> u64 {
        let before = u64::from(self.minutes) + u64::from(self.hours);
        HEAD_BYTES as u64 + (before + number % u64::from(self.marks)) * RECORD_BYTES as u64
    }

    /// The head of a file.
    pub(crate) fn head(self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..8].copy_from_slice(MAGIC);
        for (number, value) in [VERSION, self.minutes, self.hours, self.marks].into_iter().enumerate() {
            head[8 + 4 * number..][..4].copy_from_slice(&value.to_le_bytes());
        }
        let sum = crc32fast::hash(&head[..HEAD_USED]);
        head[HEAD_USED..][..4].copy_from_slice(&sum.to_le_bytes());
        head
    }

    /// What a head says.
    ///
    /// # Errors
    ///
    /// [`ActivityError`]: it is no head, or one of another version.
    pub(crate) fn read(head: &[u8]) -> Result<Self, ActivityError> {
        if head.len() < HEAD_BYTES || &head[..8] != MAGIC {
            return Err(ActivityError::NotActivity);
        }
        let number = |at: usize| u32::from_le_bytes(head[at..].first_chunk().copied().unwrap_or_default());
        if number(8) != VERSION {
            return Err(ActivityError::Version { found: number(8) });
        }
        if number(HEAD_USED) != crc32fast::hash(&head[..HEAD_USED]) {
            return Err(ActivityError::Damaged);
        }
        let geometry = Self { minutes: number(12), hours: number(16), marks: number(20) };
        let all = [geometry.minutes, geometry.hours, geometry.marks];
        if all.iter().all(|slots| (1..=SLOTS_MAX).contains(slots)) { Ok(geometry) } else { Err(ActivityError::Damaged) }
    }
}

/// Why a file is none of activity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ActivityError {
    /// It begins otherwise.
    #[error("it is no activity file; name one that weir serve --activity FILE has made")]
    NotActivity,
    /// Another version of weir has made it.
    #[error("it is of version {found}, and this weir reads version {VERSION}; read it by the weir that made it")]
    Version {
        /// The version that it says.
        found: u32,
    },
    /// Its head was damaged.
    #[error("its head is damaged; move it away, and the server makes another one")]
    Damaged,
    /// It was cut.
    #[error("it has {found} bytes of {expected}; it was cut: move it away, and the server makes another one")]
    Short {
        /// Bytes that there are.
        found: u64,
        /// Bytes that its head says.
        expected: u64,
    },
}

/// How long figures are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Span {
    Minute,
    Hour,
}

impl Span {
    pub(crate) const fn seconds(self) -> u64 {
        match self {
            Self::Minute => MINUTE_S,
            Self::Hour => HOUR_S,
        }
    }

    /// When the span began that a moment lies in, seconds since 1970.
    pub(crate) const fn begin(self, unix_s: u64) -> u64 {
        unix_s / self.seconds() * self.seconds()
    }
}

/// What the server did in a minute or an hour. Times are those from the end of a request's head to the last byte of its
/// response that the system took, microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Figures {
    /// When it began, seconds since 1970.
    pub begin_unix_s: u64,
    /// Seconds of it for which a server ran; of several servers at a time the sum.
    pub up_s: u32,
    /// Connections that were open at a time, the most of looks each second; at least one where one was accepted.
    pub open_peak: u32,
    /// Requests answered.
    pub requests: u64,
    /// Those with 3xx.
    pub redirections: u64,
    /// Those with 4xx.
    pub client_errors: u64,
    /// Those with 5xx.
    pub server_errors: u64,
    /// Those of the 5xx that rules or bounds wanted.
    pub refused_by_choice: u64,
    /// Bytes given to sockets, heads included.
    pub sent_bytes: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections lost to an error.
    pub broken: u64,
    /// Requests whose time was taken; 0 where the server keeps no history of requests.
    pub timed: u64,
    /// The median of these times; of several minutes the largest.
    pub p50_us: u32,
    /// The time that 99 % of them were within; of several minutes the largest.
    pub p99_us: u32,
    /// The largest.
    pub max_us: u32,
}

impl Figures {
    /// Adds what the same span saw otherwise, or another span of a longer one.
    pub fn add(&mut self, other: &Self) {
        self.up_s = self.up_s.saturating_add(other.up_s);
        self.open_peak = self.open_peak.max(other.open_peak);
        for (to, from) in [
            (&mut self.requests, other.requests),
            (&mut self.redirections, other.redirections),
            (&mut self.client_errors, other.client_errors),
            (&mut self.server_errors, other.server_errors),
            (&mut self.refused_by_choice, other.refused_by_choice),
            (&mut self.sent_bytes, other.sent_bytes),
            (&mut self.connections, other.connections),
            (&mut self.broken, other.broken),
            (&mut self.timed, other.timed),
        ] {
            *to = to.saturating_add(from);
        }
        self.p50_us = self.p50_us.max(other.p50_us);
        self.p99_us = self.p99_us.max(other.p99_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// Whether there is nothing to add.
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self { begin_unix_s: self.begin_unix_s, ..Self::default() }
    }

    fn longs(&self) -> [u64; 10] {
        [
            self.begin_unix_s,
            self.requests,
            self.redirections,
            self.client_errors,
            self.server_errors,
            self.refused_by_choice,
            self.sent_bytes,
            self.connections,
            self.broken,
            self.timed,
        ]
    }

    /// As a record.
    pub(crate) fn record(&self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[4] = FIGURES;
        for (number, value) in self.longs().into_iter().enumerate() {
            record[8 + 8 * number..][..8].copy_from_slice(&value.to_le_bytes());
        }
        let shorts = [self.up_s, self.open_peak, self.p50_us, self.p99_us, self.max_us];
        for (number, value) in shorts.into_iter().enumerate() {
            record[88 + 4 * number..][..4].copy_from_slice(&value.to_le_bytes());
        }
        sealed(record)
    }

    fn of(record: &[u8; RECORD_BYTES]) -> Self {
        let long = |number: usize| number_at::<8>(record, 8 + 8 * number).map_or(0, u64::from_le_bytes);
        let short = |number: usize| number_at::<4>(record, 88 + 4 * number).map_or(0, u32::from_le_bytes);
        Self {
            begin_unix_s: long(0),
            requests: long(1),
            redirections: long(2),
            client_errors: long(3),
            server_errors: long(4),
            refused_by_choice: long(5),
            sent_bytes: long(6),
            connections: long(7),
            broken: long(8),
            timed: long(9),
            up_s: short(0),
            open_peak: short(1),
            p50_us: short(2),
            p99_us: short(3),
            max_us: short(4),
        }
    }
}

/// What a mark is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// A server began.
    Start,
    /// A server was asked to stop and did.
    Stop,
    /// A server ended without a stop: it was killed, or the machine went down. Its successor makes the mark.
    Lost,
    /// Another server took the sockets over.
    Followed,
    /// A configuration was taken up.
    Reload,
    /// A configuration was refused.
    ReloadRefused,
    /// A root leads to another release, or the operator says so.
    Deploy,
}

impl MarkKind {
    const ALL: [Self; 7] =
        [Self::Start, Self::Stop, Self::Lost, Self::Followed, Self::Reload, Self::ReloadRefused, Self::Deploy];

    /// A letter for pictures, and a word.
    pub fn letter_and_word(self) -> (char, &'static str) {
        match self {
            Self::Start => ('S', "start"),
            Self::Stop => ('E', "end"),
            Self::Lost => ('!', "killed"),
            Self::Followed => ('F', "followed"),
            Self::Reload => ('R', "reload"),
            Self::ReloadRefused => ('X', "reload refused"),
            Self::Deploy => ('D', "deploy"),
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Start => 1,
            Self::Stop => 2,
            Self::Lost => 3,
            Self::Followed => 4,
            Self::Reload => 5,
            Self::ReloadRefused => 6,
            Self::Deploy => 7,
        }
    }
}

/// Something that was done to a server.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Mark {
    /// One more than that of the mark before.
    pub number: u64,
    /// When, milliseconds since 1970.
    pub unix_ms: u64,
    /// What.
    pub kind: MarkKind,
    /// In words, up to 96 bytes.
    pub words: String,
}

impl Mark {
    /// As a record; words that are too long are cut at a character.
    pub(crate) fn record(&self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[4] = MARK;
        record[5] = self.kind.number();
        record[8..16].copy_from_slice(&self.number.to_le_bytes());
        record[16..24].copy_from_slice(&self.unix_ms.to_le_bytes());
        let words = cut(&self.words);
        // At most as many as the bound, which fits.
        record[6] = words.len() as u8;
        record[24..24 + words.len()].copy_from_slice(words.as_bytes());
        sealed(record)
    }

    fn of(record: &[u8; RECORD_BYTES]) -> Option<Self> {
        let kind = MarkKind::ALL.into_iter().find(|kind| kind.number() == record[5])?;
        let words = record.get(24..24 + usize::from(record[6]))?;
        Some(Self {
            number: u64::from_le_bytes(number_at(record, 8)?),
            unix_ms: u64::from_le_bytes(number_at(record, 16)?),
            kind,
            words: str::from_utf8(words).ok()?.to_owned(),
        })
    }
}

/// What a slot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slot {
    Empty,
    /// Its checksum or content is wrong.
    Torn,
    Figures(Figures),
    Mark(Mark),
}

impl Slot {
    pub(crate) fn read(record: &[u8; RECORD_BYTES]) -> Self {
        if record.iter().all(|&byte| byte == 0) {
            return Self::Empty;
        }
        if number_at(record, 0).map(u32::from_le_bytes) != Some(crc32fast::hash(&record[4..])) {
            return Self::Torn;
        }
        match record[4] {
            FIGURES => Self::Figures(Figures::of(record)),
            MARK => Mark::of(record).map_or(Self::Torn, Self::Mark),
            _ => Self::Torn,
        }
    }
}

/// The words of a mark, as many as there is room for.
pub(crate) fn cut(words: &str) -> &str {
    let end = (0..=words.len().min(MARK_BYTES_MAX)).rev().find(|&at| words.is_char_boundary(at)).unwrap_or(0);
    &words[..end]
}

fn sealed(mut record: [u8; RECORD_BYTES]) -> [u8; RECORD_BYTES] {
    let sum = crc32fast::hash(&record[4..]);
    record[..4].copy_from_slice(&sum.to_le_bytes());
    record
}

fn number_at<const N: usize>(record: &[u8], at: usize) -> Option<[u8; N]> {
    record.get(at..)?.first_chunk().copied()
}
