//! What an upstream leaves to the server: a path (`X-Accel-Redirect`, or a local redirect of RFC 3875 section 6.2.2) or a
//! file (`X-Sendfile`), which the server sends in place of the upstream's own body.

use super::common::Common;
use super::gateway::settings::{Gateway, Split};
use super::message::{HandOver, Instead, ResponseHead, Said};
use super::owned_head::OwnedHead;
use crate::exchange::application::Wake;
use crate::exchange::reply::Reply;
use crate::files::conditional::{self, Verdict};
use crate::files::resource::{Content, Description, Resource};
use crate::files::root::Root;
use crate::files::shared_content::SharedContent;
use crate::http::media_type;
use crate::http::range::{self, Ranges};
use crate::http::request::{Method, Request};
use crate::http::response::Variant;
use crate::http::target;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often one request is handed over, as nginx has it.
const HANDOVERS_MAX: u8 = 10;
/// Bytes that are read from a file at once.
const READ_BYTES_MAX: usize = 64 << 10;
/// Fields of the upstream that stay with what is sent in its place, in lower case.
const KEPT: [&str; 6] = ["content-type", "content-disposition", "set-cookie", "cache-control", "expires", "vary"];
/// Fields by which an upstream tells a server what to do, and which clients do not get.
const TOLD: &[u8] = b"x-accel-";

/// What a path of a host leads to, for a request that an upstream hands over.
pub(crate) trait Inside: std::fmt::Debug {
    /// Looks for what answers for a decoded path.
    fn find(&self, path: &[u8]) -> Found;
}

/// What was found.
#[derive(Debug)]
pub(crate) enum Found {
    /// A file, with the media type of its name.
    File { file: File, content_type: String },
    /// An upstream answers for this path.
    Upstream { common: Arc<Common>, path: Vec<u8> },
    /// The server has this status for it.
    Status(u16),
}

/// A request that an upstream may hand over.
#[derive(Debug)]
pub(super) struct Handing {
    pub(super) inside: Rc<dyn Inside>,
    pub(super) head: OwnedHead,
    pub(super) wake: Wake,
    pub(super) count: u8,
}

/// What answers a request that was handed over.
#[derive(Debug)]
pub(super) enum Given {
    File(Box<FileBody>),
    /// A script of the same upstream, by its target.
    Script(String),
    /// The client is sent there.
    Redirect(Vec<u8>),
    /// The server refuses it.
    Refused(u16),
}

/// A file that is being sent.
#[derive(Debug)]
pub(super) struct FileBody {
    file: Rc<File>,
    at: u64,
    end: u64,
}

/// What an upstream says, as it is taken: with `accel` a head may hand the request over; without it a path of a script is
/// a redirect of the client.
pub(super) fn seen(said: Said<'_>, accel: bool) -> Said<'_> {
    match said {
        Said::Instead(Instead::Path(path)) if !accel => {
            let fields = [b"Location: ", path.as_slice(), b"\r\n"].concat();
            Said::Head(ResponseHead { status: 302, fields, length: Some(0) })
        }
        Said::Head(head) if accel && has_told(&head.fields) => told(head),
        said => said,
    }
}

fn has_told(fields: &[u8]) -> bool {
    lines(fields).any(|(name, _)| name.len() > TOLD.len() && name[..TOLD.len()].eq_ignore_ascii_case(TOLD))
}

/// Takes what a head tells this server out of it.
fn told(mut head: ResponseHead) -> Said<'static> {
    let (mut kept, mut path, mut life) = (Vec::with_capacity(head.fields.len()), None, None);
    for (name, value) in lines(&head.fields) {
        if name.eq_ignore_ascii_case(b"x-accel-redirect") {
            path = Some(value.to_vec());
        } else if name.eq_ignore_ascii_case(b"x-accel-expires") {
            life = seconds(value);
        } else if name.len() <= TOLD.len() || !name[..TOLD.len()].eq_ignore_ascii_case(TOLD) {
            put(&mut kept, name, value);
        }
    }
    // The caches of this server obey it before Cache-Control (RFC 9213), as nginx obeys X-Accel-Expires.
    match life {
        Some(0) => put(&mut kept, b"CDN-Cache-Control", b"no-store"),
        Some(life) => put(&mut kept, b"CDN-Cache-Control", format!("max-age={life}").as_bytes()),
        None => {}
    }
    head.fields = kept;
    match path.filter(|path| path.starts_with(b"/") && !path.starts_with(b"//")) {
        Some(path) => Said::Instead(Instead::HandOver { to: HandOver::Path(path), head }),
        None => Said::Head(head),
    }
}

/// How long a response may be kept, in seconds: a number of them, or `@` and a time.
fn seconds(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    match text.strip_prefix('@') {
        Some(time) => Some(time.parse::<u64>().ok()?.saturating_sub(now_s())),
        None => text.parse().ok(),
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Names and values of lines of fields.
fn lines(fields: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    fields.split(|byte| *byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = memchr::memchr(b':', line)?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

fn put(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for piece in [name, b": ", value, b"\r\n"] {
        out.extend_from_slice(piece);
    }
}

impl Handing {
    /// Finds what answers in place of an upstream, and begins the response if it is a file.
    pub(super) fn answer(&mut self, instead: Instead, of: &Common, reply: &mut Reply) -> Given {
        self.count += 1;
        if self.count > HANDOVERS_MAX {
            return Given::Refused(508);
        }
        let (text, fields, is_local) = match instead {
            Instead::HandOver { to: HandOver::File(name), head } => {
                let Some((file, content_type)) = file_named(&name, of) else { return Given::Refused(404) };
                return self.begin_file((file, content_type), &head.fields, reply);
            }
            Instead::HandOver { to: HandOver::Path(path), head } => (path, head.fields, false),
            Instead::Path(path) => (path, Vec::new(), true),
        };
        let refused = |status| if is_local { Given::Redirect(text.clone()) } else { Given::Refused(status) };
        let Ok(written) = std::str::from_utf8(&text) else { return refused(404) };
        let mut decoded = Vec::new();
        let Ok(asked) = target::resolve(written, false, &mut decoded) else { return refused(404) };
        match self.inside.find(asked.path) {
            Found::File { file, content_type } => self.begin_file((file, content_type), &fields, reply),
            Found::Upstream { common, path } if common.rules == of.rules => {
                let mut script = Vec::new();
                target::encode(&path, &mut script);
                script.extend_from_slice(asked.query);
                // The encoding is of ASCII, and a query comes out of a text.
                String::from_utf8(script).map_or_else(|_| refused(404), Given::Script)
            }
            Found::Upstream { .. } => refused(404),
            Found::Status(status) => refused(status),
        }
    }

    /// Begins a response with a file, as the conditions of the request have it.
    fn begin_file(&self, (file, content_type): (File, String), told: &[u8], reply: &mut Reply) -> Given {
        let path = Box::default();
        let of = Description {
            path,
            content_type,
            own_coding: None,
            variant: Variant::Identity,
            varies: false,
            is_governed: false,
            asks_hints: false,
            now_s: now_s(),
        };
        let Ok(resource) = Resource::load(file, &SharedContent::new(), 0, &of) else { return Given::Refused(404) };
        let began = self.head.with(|outgoing| begin(outgoing.head.request, &resource, told, reply));
        let (Some(Ok((at, end))), Content::File(file)) = (began, &resource.content) else {
            return Given::Refused(if matches!(began, Some(Err(()))) { 412 } else { 404 });
        };
        Given::File(Box::new(FileBody { file: Rc::clone(file), at, end }))
    }
}

/// Writes the head for a file; which of its bytes are sent, or that a condition of the client does not hold.
fn begin(request: &Request<'_>, resource: &Resource, told: &[u8], reply: &mut Reply) -> Result<(u64, u64), ()> {
    let size = resource.size();
    let is_get = matches!(request.method, Method::Get | Method::Head);
    let verdict = if is_get { conditional::judge(request, resource.compared(), now_s()) } else { Verdict::Whole };
    let ranges = match (verdict, request.range) {
        (Verdict::Failed, _) => return Err(()),
        (Verdict::Ranges, Some(asked)) => range::parse(asked, size, 1),
        _ => Ranges::Whole,
    };
    let mut fields = Vec::with_capacity(512);
    let mut has_type = false;
    for (name, value) in lines(told) {
        let is = |kept: &&str| name.eq_ignore_ascii_case(kept.as_bytes());
        let is_type = name.eq_ignore_ascii_case(b"content-type");
        has_type |= is_type;
        if KEPT.iter().any(is) && !(is_type && verdict == Verdict::NotModified) {
            put(&mut fields, name, value);
        }
    }
    if !has_type && verdict != Verdict::NotModified {
        put(&mut fields, b"Content-Type", resource.content_type.as_bytes());
    }
    put(&mut fields, b"ETag", resource.etag.as_bytes());
    if let Some(modified_s) = resource.modified_s {
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(modified_s));
        put(&mut fields, b"Last-Modified", date.as_bytes());
    }
    put(&mut fields, b"Accept-Ranges", b"bytes");
    // Writing to memory does not fail.
    let (status, at, end) = match ranges {
        _ if verdict == Verdict::NotModified => (304, 0, 0),
        Ranges::Whole => (200, 0, size),
        Ranges::Unsatisfiable => {
            let _ = write!(fields, "Content-Range: bytes */{size}\r\n");
            (416, 0, 0)
        }
        Ranges::Some(ranges) => {
            let (at, end) = ranges.first().copied().unwrap_or((0, size));
            let _ = write!(fields, "Content-Range: bytes {at}-{}/{size}\r\n", end.saturating_sub(1));
            (206, at, end)
        }
    };
    let length = (status != 304).then_some(end - at);
    reply.relay(status, fields, length);
    Ok(if request.method == Method::Head { (0, 0) } else { (at, end) })
}

/// The file of an absolute name below the root of scripts or one of the directories that files may be sent from.
fn file_named(name: &[u8], of: &Common) -> Option<(File, String)> {
    let name = PathBuf::from(std::ffi::OsString::from_vec(name.to_vec()));
    let is_plain = name.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let gateway = of.gateway.as_ref();
    let text = name.as_os_str().as_bytes();
    // The source of a script is not for clients.
    let is_script = of.rules.gateway.iter().flat_map(|said| &said.endings).any(|own| text.ends_with(own.as_bytes()));
    if !name.is_absolute() || !is_plain || is_script {
        return None;
    }
    if gateway.is_some_and(|gateway| is_among_scripts(&name, gateway)) {
        return None;
    }
    let roots = gateway.iter().map(|gateway| &gateway.root).chain(&of.rules.send_from);
    let file = roots.filter(|root| !root.as_os_str().is_empty()).find_map(|root| open_below(root, &name))?;
    file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file, media_type::of(text, &media_type::Overrides::new())))
}

/// Whether a file lies where each one is a script.
fn is_among_scripts(name: &Path, gateway: &Gateway) -> bool {
    let Split::Any { mount } = &gateway.split else { return false };
    let below = mount.get(gateway.alias_bytes..).unwrap_or_default();
    let directory = gateway.root.join(below.trim_matches('/'));
    let is_below = |name: &Path, directory: Option<PathBuf>| directory.is_some_and(|own| name.starts_with(own));
    is_below(name, std::path::absolute(&directory).ok())
        || name.canonicalize().is_ok_and(|name| is_below(&name, directory.canonicalize().ok()))
}

/// Opens a file by its absolute name, if it lies below a directory; no symbolic link leads out of that.
fn open_below(root: &Path, name: &Path) -> Option<File> {
    let real = root.canonicalize().ok();
    let absolute = std::path::absolute(root).ok();
    let below = [absolute, real.clone()].into_iter().flatten().find_map(|root| name.strip_prefix(root).ok());
    let path = [b"/", below?.as_os_str().as_bytes()].concat();
    Root::of(File::open(real?).ok()?).open(&path).ok()
}

impl FileBody {
    /// Gives as much as the client takes; whether that was all.
    ///
    /// # Errors
    ///
    /// The file is shorter than it was, or cannot be read: the response is broken off.
    pub(super) fn give(&mut self, reply: &mut Reply) -> std::io::Result<bool> {
        while self.at < self.end && reply.room() > 0 {
            let room = reply.room().min(READ_BYTES_MAX);
            let mut bytes = vec![0; usize::try_from(self.end - self.at).unwrap_or(room).min(room)];
            self.file.read_exact_at(&mut bytes, self.at)?;
            self.at += reply.write(&bytes) as u64;
        }
        Ok(self.at == self.end && reply.end_relayed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(fields: &str) -> Said<'static> {
        Said::Head(ResponseHead { status: 200, fields: fields.as_bytes().to_vec(), length: Some(3) })
    }

    #[test]
    fn a_proxied_response_can_hand_over() {
        let plain = "Content-Type: a/b\r\nX-Other: 1\r\n";
        assert_eq!(seen(head(plain), true), head(plain));
        let accel = format!("X-Accel-Redirect: /hidden/a%20b\r\n{plain}X-ACCEL-Buffering: no\r\n");
        assert_eq!(seen(head(&accel), false), head(&accel));
        let Said::Instead(Instead::HandOver { to, head: kept }) = seen(head(&accel), true) else {
            panic!("it hands over")
        };
        assert_eq!((to, kept.fields), (HandOver::Path(b"/hidden/a%20b".to_vec()), plain.as_bytes().to_vec()));
        let elsewhere = "X-Accel-Redirect: //evil/x\r\nA: b\r\n";
        assert_eq!(seen(head(elsewhere), true), head("A: b\r\n"));
    }

    #[test]
    fn the_life_of_a_response_is_for_the_caches_of_this_server() {
        for (value, expected) in [("0", "no-store"), ("60", "max-age=60"), ("@1", "no-store")] {
            let told = seen(head(&format!("X-Accel-Expires: {value}\r\n")), true);
            assert_eq!(told, head(&format!("CDN-Cache-Control: {expected}\r\n")), "{value}");
        }
        assert_eq!(seen(head("X-Accel-Expires: soon\r\n"), true), head(""));
    }

    #[test]
    fn without_it_a_local_redirect_goes_to_the_client() {
        let path = || Said::Instead(Instead::Path(b"/x".to_vec()));
        let to_client = ResponseHead { status: 302, fields: b"Location: /x\r\n".to_vec(), length: Some(0) };
        assert_eq!((seen(path(), false), seen(path(), true)), (Said::Head(to_client), path()));
    }

    #[test]
    fn files_lie_below_a_directory() {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("www")).expect("creates");
        std::fs::write(at("www/a"), "a").expect("writes");
        std::fs::write(at("secret"), "s").expect("writes");
        std::os::unix::fs::symlink("../secret", at("www/link")).expect("links");
        assert!(open_below(&at("www"), &at("www/a")).is_some());
        assert!(open_below(&at("www"), &at("secret")).is_none());
        assert!(open_below(&at("www"), &at("www/link")).is_none());
        assert!(open_below(&at("none"), &at("none/a")).is_none());
    }

    proptest! {
        #[test]
        fn any_fields_are_taken(fields in proptest::collection::vec(any::<u8>(), 0..200)) {
            let head = ResponseHead { status: 200, fields, length: None };
            let _ = seen(Said::Head(head), true);
        }
    }
}
