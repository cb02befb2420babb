//! Content that can be served: a file's bytes or its handle, and the fields that never change for it.

use crate::files::conditional::Validators;
use crate::files::shared_content::{Compressed, Shared, SharedContent};
use crate::files::stamp::Stamp;
use crate::files::variants;
use crate::http::client_hints;
use crate::http::coding::CODINGS;
use crate::http::response::{Digest, ResourceId, Variant};
use crate::io::clock::http_date;
use crate::pages::template::Template;
use std::cell::{Cell, OnceCell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;

/// How often a file that changes while it is read is read again.
const ATTEMPTS_MAX: usize = 3;
/// Hexadecimal digits of a digest in an entity tag: 128 bits.
const TAG_DIGITS: usize = 32;
/// Said of what was chosen for one client.
pub(crate) const PRIVATE: &str = "Cache-Control: private\r\n";
/// Sent with a stale response: a cache that stores it must revalidate it here before it uses it again.
pub(crate) const NOT_AGAIN: &str = "Cache-Control: no-cache\r\n";
/// Both.
pub(crate) const PRIVATE_NOT_AGAIN: &str = "Cache-Control: private, no-cache\r\n";

/// Where the bytes are.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    Memory(Arc<[u8]>),
    File(Rc<File>),
}

/// Content with everything that a response says about it.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) id: ResourceId,
    pub(crate) stamp: Stamp,
    /// Which form of the file's content this is.
    pub(crate) variant: Variant,
    pub(crate) content: Content,
    /// Where the file lies, from the root.
    pub(crate) path: Box<[u8]>,
    pub(crate) content_type: String,
    /// The coding that the file itself has, as its ending says.
    pub(crate) own_coding: Option<&'static str>,
    /// The entity tag with its quotes; it is a strong one.
    pub(crate) etag: String,
    /// Seconds since 1970; none if the file claims to be from the future (RFC 9110 section 8.8.2.1).
    pub(crate) modified_s: Option<u64>,
    /// `ETag` and `Last-Modified`, and `Vary` where there are other forms, line ends included.
    pub(crate) validators: Vec<u8>,
    /// The fields of a response with the whole content, line ends included.
    pub(crate) fields: Vec<u8>,
    /// The other forms of the content, where it may have some.
    pub(crate) encodings: Option<Box<Encodings>>,
    /// Its includes, where it is a page that is assembled.
    pub(crate) template: Option<OnceCell<Template>>,
    /// What other loops have of the same content.
    pub(crate) shared: Arc<Shared>,
    /// Whether this loop has read the bytes, rather than taken those that another one read.
    pub(crate) was_read: bool,
    /// Whether the file changed so shortly before that the same stamp may stand for other content.
    pub(crate) is_ambiguous: bool,
    /// Whether an adviser is asked about requests for it.
    pub(crate) is_governed: bool,
    /// Whether what is advised may depend on what a client says of its link, so that it is asked to.
    pub(crate) asks_hints: bool,
    /// The path in questions to the adviser, if it is governed. Paths that are not UTF-8 are not governed.
    pub(crate) asked_as: Option<Box<str>>,
    /// What the adviser wants to be told with the next question about it.
    pub(crate) remembered: Cell<u64>,
    /// The generation of `Contents` (`insight.rs`) in which it was last described.
    pub(crate) described: Cell<u64>,
    /// The same where it was chosen for a client, as that variant for which it was first.
    chosen: OnceCell<(Option<Box<str>>, Rc<Self>)>,
    /// The same as it is sent when it is stale, with its age in seconds.
    aged: RefCell<Option<(u64, Rc<Self>)>>,
}

/// What is said of content beside what its file says.
#[derive(Debug, Clone)]
pub(crate) struct Description {
    pub(crate) path: Box<[u8]>,
    pub(crate) content_type: String,
    /// The coding that the file itself has, as its ending says.
    pub(crate) own_coding: Option<&'static str>,
    pub(crate) variant: Variant,
    /// Whether another Accept-Encoding may get another form.
    pub(crate) varies: bool,
    /// Whether an adviser is asked about requests for it.
    pub(crate) is_governed: bool,
    /// Whether what is advised may depend on what a client says of its link, so that it is asked to.
    pub(crate) asks_hints: bool,
    pub(crate) now_s: u64,
}

impl Resource {
    /// Takes up an open file; up to `memory_bytes_max` the content is held in memory.
    pub(crate) fn load(
        file: File,
        shared_content: &SharedContent,
        memory_bytes_max: u64,
        of: &Description,
    ) -> io::Result<Self> {
        let mut was_read = false;
        for _ in 0..ATTEMPTS_MAX {
            let stamp = Stamp::of(&file.metadata()?);
            let shared = shared_content.take(stamp);
            if stamp.id.size > memory_bytes_max {
                return Ok(Self::describe(stamp, stamp.digest(), Content::File(Rc::new(file)), shared, of));
            }
            if let Some(bytes) = shared.fill(&file, stamp, &mut was_read)? {
                let digest = shared.digest(None).unwrap_or_else(|| stamp.digest());
                let resource = Self::describe(stamp, digest, Content::Memory(bytes), shared, of);
                return Ok(Self { was_read, ..resource });
            }
        }
        // It changes all the time; what is sent is then what the file holds when it is sent.
        let stamp = Stamp::of(&file.metadata()?);
        let digest = stamp.digest();
        Ok(Self::describe(stamp, digest, Content::File(Rc::new(file)), shared_content.take(stamp), of))
    }

    /// The compressed form of content. Its entity tag is of its own bytes, as another version of this program may make
    /// others of the same file.
    pub(crate) fn compressed(plain: &Self, variant: Variant, form: &Compressed, now_s: u64) -> Self {
        let content_type = plain.content_type.clone();
        let (is_governed, asks_hints) = (plain.is_governed, plain.asks_hints);
        let path = plain.path.clone();
        let own_coding = None;
        let of = Description { path, content_type, own_coding, variant, varies: true, is_governed, asks_hints, now_s };
        let content = Content::Memory(Arc::clone(&form.bytes));
        Self::describe(plain.stamp, form.digest, content, Arc::clone(&plain.shared), &of)
    }

    /// What conditions of a request are compared with.
    #[inline]
    pub(crate) fn compared(&self) -> Validators<'_> {
        Validators { etag: &self.etag, modified_s: self.modified_s, is_backdated: self.stamp.is_backdated() }
    }

    /// Bytes of the content in this form.
    pub(crate) fn size(&self) -> u64 {
        match &self.content {
            Content::Memory(bytes) => bytes.len() as u64,
            Content::File(_) => self.id.size,
        }
    }

    /// Describes content of which the digest says which one it is.
    pub(super) fn describe(
        stamp: Stamp,
        digest: Digest,
        content: Content,
        shared: Arc<Shared>,
        of: &Description,
    ) -> Self {
        let id = stamp.id;
        // Forms of one content have tags of their own (RFC 9110 section 8.8.3.3).
        let coding = of.variant.coding().map(|coding| format!("-{coding}")).unwrap_or_default();
        let etag = format!("\"{}{coding}\"", &digest.to_string()[..TAG_DIGITS]);
        let modified_s = u64::try_from(id.mtime_ns / 1_000_000_000).ok().filter(|&modified_s| modified_s <= of.now_s);
        let mut validators = format!("ETag: {etag}\r\n");
        if let Some(modified_s) = modified_s {
            validators.push_str(&format!("Last-Modified: {}\r\n", http_date(modified_s)));
        }
        if of.varies {
            validators.push_str("Vary: Accept-Encoding\r\n");
        }
        if of.asks_hints {
            validators.push_str(&format!("Accept-CH: {}\r\n", client_hints::NAMES));
        }
        let mut resource = Self {
            id,
            stamp,
            variant: of.variant,
            content,
            path: of.path.clone(),
            content_type: of.content_type.clone(),
            own_coding: of.own_coding,
            etag,
            modified_s,
            validators: validators.into_bytes(),
            fields: Vec::new(),
            encodings: None,
            template: None,
            shared,
            was_read: false,
            is_ambiguous: false,
            is_governed: of.is_governed,
            asks_hints: of.asks_hints,
            asked_as: None,
            remembered: Cell::new(0),
            described: Cell::new(0),
            chosen: OnceCell::new(),
            aged: RefCell::default(),
        };
        resource.describe_whole();
        resource
    }

    /// Makes the fields of a response with the whole content.
    fn describe_whole(&mut self) {
        let described = self.type_and_coding();
        self.fields = format!("{described}Content-Length: {}\r\n", self.size()).into_bytes();
        self.fields.extend_from_slice(&self.validators);
        self.fields.extend_from_slice(b"Accept-Ranges: bytes\r\n");
    }

    /// The same content where it was chosen for a client, as a variant of this name or as the file itself. A file is
    /// hardly ever the variant of two names, so that the head is made once.
    pub(crate) fn chosen(&self, variant: Option<&str>) -> Rc<Self> {
        let (of, chosen) = self.chosen.get_or_init(|| (variant.map(Box::from), Rc::new(self.describe_chosen(variant))));
        if of.as_deref() == variant { Rc::clone(chosen) } else { Rc::new(self.describe_chosen(variant)) }
    }

    /// The same as the file itself, which is the choice for nearly all clients.
    #[inline]
    pub(crate) fn chosen_as_it_is(&self) -> Rc<Self> {
        match self.chosen.get() {
            Some((None, chosen)) => Rc::clone(chosen),
            _ => self.chosen(None),
        }
    }

    /// What others may get is not kept for them, and only the tag says which one it is: variants may be of one time.
    fn describe_chosen(&self, variant: Option<&str>) -> Self {
        let etag = variant.map_or_else(|| self.etag.clone(), |name| variants::tag(&self.etag, name));
        let mut resource = Self { etag, ..self.described_anew() };
        let is_coded = self.variant != Variant::Identity || self.encodings.is_some();
        let coding = if is_coded { "Vary: Accept-Encoding\r\n" } else { "" };
        let hints = resource.hint_fields();
        resource.validators = format!("ETag: {}\r\n{PRIVATE}{coding}{hints}", resource.etag).into_bytes();
        resource.describe_whole();
        resource
    }

    /// The same as it is sent when it is stale: with its age (RFC 9111 section 5.1), and with `no-cache` (section
    /// 5.2.2.4), so that caches drop it as soon as this server does. The head is made once a second.
    pub(crate) fn aged(&self, age_s: u64) -> Rc<Self> {
        let mut aged = self.aged.borrow_mut();
        if let Some((_, resource)) = aged.as_ref().filter(|(of, _)| *of == age_s) {
            return Rc::clone(resource);
        }
        let mut resource = Self { etag: self.etag.clone(), modified_s: self.modified_s, ..self.described_anew() };
        let said = String::from_utf8_lossy(&self.validators);
        // What was chosen for one client stays that client's.
        let is_private = said.contains(PRIVATE);
        let keeping = if is_private { PRIVATE_NOT_AGAIN } else { NOT_AGAIN };
        resource.validators = format!("{}Age: {age_s}\r\n{keeping}", said.replace(PRIVATE, "")).into_bytes();
        resource.describe_whole();
        let resource = Rc::new(resource);
        *aged = Some((age_s, Rc::clone(&resource)));
        resource
    }

    /// The same content, of which nothing is said yet.
    fn described_anew(&self) -> Self {
        Self {
            id: self.id,
            stamp: self.stamp,
            variant: self.variant,
            content: self.content.clone(),
            path: self.path.clone(),
            content_type: self.content_type.clone(),
            own_coding: self.own_coding,
            etag: String::new(),
            modified_s: None,
            validators: Vec::new(),
            fields: Vec::new(),
            encodings: None,
            template: None,
            shared: Arc::clone(&self.shared),
            was_read: false,
            is_ambiguous: self.is_ambiguous,
            is_governed: true,
            asks_hints: self.asks_hints,
            asked_as: None,
            remembered: Cell::new(0),
            described: Cell::new(0),
            chosen: OnceCell::new(),
            aged: RefCell::default(),
        }
    }

    /// The fields of a response that depends on the client's hints; none where no rule looks at hints.
    pub(crate) fn hint_fields(&self) -> String {
        if !self.asks_hints {
            return String::new();
        }
        format!("Vary: {names}\r\nAccept-CH: {names}\r\n", names = client_hints::NAMES)
    }

    /// `Content-Type` and, where there is one, `Content-Encoding`, line ends included.
    pub(crate) fn type_and_coding(&self) -> String {
        format!("Content-Type: {}\r\n{}", self.content_type, self.coding_field())
    }

    /// `Content-Encoding` with its line end; empty for the plain bytes.
    pub(crate) fn coding_field(&self) -> String {
        let coding = self.variant.coding().or(self.own_coding);
        coding.map(|coding| format!("Content-Encoding: {coding}\r\n")).unwrap_or_default()
    }

    /// All bytes of a file that is not in memory; none if there are more than `bytes_max`, or the file is not what it
    /// was.
    pub(crate) fn read_whole(&self, bytes_max: usize) -> Option<Vec<u8>> {
        let Content::File(file) = &self.content else { return None };
        let size = usize::try_from(self.id.size).ok().filter(|&size| size <= bytes_max)?;
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, 0).ok()?;
        self.is_unchanged().then_some(bytes)
    }

    /// Whether the file is still what the head has said of it; costs a system call for content that is not in memory.
    pub(crate) fn is_unchanged(&self) -> bool {
        match &self.content {
            Content::Memory(_) => true,
            // A change of the file's name, links or mode moves its ctime too. That alone is no reason to cut a response
            // off, so only what a write changes is compared.
            Content::File(file) => ResourceId::of(file).is_ok_and(|id| id == self.id),
        }
    }
}

/// Appends up to `len` bytes of a file to `out`, which is cleared first; at the end of the file it stays empty.
pub(crate) fn read_some(file: &File, start: u64, len: u64, out: &mut Vec<u8>) -> io::Result<()> {
    // The callers' bounds are far below this type's.
    out.resize(len as usize, 0);
    let read = file.read_at(out, start);
    out.truncate(*read.as_ref().unwrap_or(&0));
    read.map(drop)
}

impl ResourceId {
    /// The identity of what is open, by `fstat` itself: what the libraries call in its place looks for a path first,
    /// and it is asked each time that a piece is sent.
    pub(super) fn of(file: &File) -> io::Result<Self> {
        // SAFETY: all zeros is a valid value of this plain structure.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills the structure, which is its own on machines of 64 bits and lives over the call.
        if unsafe { libc::syscall(libc::SYS_fstat, file.as_raw_fd(), &raw mut stat) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let mtime_ns = stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec);
        Ok(Self { dev: stat.st_dev, ino: stat.st_ino, mtime_ns, size: stat.st_size.cast_unsigned() })
    }
}

/// The forms that some content has or may get.
#[derive(Debug, Default)]
pub(crate) struct Encodings {
    /// In the order of [`CODINGS`].
    pub(super) ready: [OnceCell<Rc<Resource>>; CODINGS.len()],
    /// What neighbours there were when the file was loaded.
    pub(super) neighbours: Neighbours,
    /// Whether forms may be made here.
    pub(super) makes: bool,
}

/// The stamps of a file's neighbours, in the order of [`CODINGS`].
pub(crate) type Neighbours = [Option<Stamp>; CODINGS.len()];
