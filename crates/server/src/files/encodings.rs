//! The compressed forms of one content: files beside it that were compressed beforehand, and those made by the server.

use crate::files::resource::{Content, Description, Encodings, Neighbours, Resource};
use crate::files::root::Root;
use crate::files::settings::Compression;
use crate::files::shared_content::{Made, SharedContent};
use crate::files::stamp::Stamp;
use crate::http::coding::{self, Accepted, CODINGS};
use crate::http::media_type;
use crate::http::response::Variant;
use std::cell::OnceCell;
use std::rc::Rc;

/// The neighbours of a file as they are now; none of one that is older than the file, as it is out of date.
pub(crate) fn neighbours(root: &Root, path: &[u8], file: Stamp, compression: &Compression) -> Neighbours {
    if !compression.neighbours {
        return Neighbours::default();
    }
    CODINGS.map(|coding| {
        let metadata = root.open_for_stat(&[path, coding.suffix()].concat()).ok()?.metadata().ok()?;
        let stamp = Stamp::of(&metadata);
        (metadata.is_file() && stamp.mtime_ns() >= file.mtime_ns()).then_some(stamp)
    })
}

/// Whether forms of such content may be made here.
pub(crate) fn makes(content_type: &str, bytes: u64, compression: &Compression) -> bool {
    compression.on_the_fly
        && (compression.bytes_min..=compression.bytes_max).contains(&bytes)
        && media_type::is_compressible(content_type)
}

impl Encodings {
    /// Takes up a file's neighbours; those that cannot be read are left out.
    pub(crate) fn load(
        root: &Root,
        path: &[u8],
        neighbours: Neighbours,
        makes: bool,
        shared_content: &SharedContent,
        memory_bytes_max: u64,
        of: &Description,
    ) -> Self {
        let encodings = Self { neighbours, makes, ..Self::default() };
        for (place, variant) in CODINGS.into_iter().enumerate().filter(|(place, _)| neighbours[*place].is_some()) {
            let path = [path, variant.suffix()].concat();
            let of = Description { path: path.as_slice().into(), variant, ..of.clone() };
            let loaded = root.open(&path).and_then(|file| Resource::load(file, shared_content, memory_bytes_max, &of));
            if let Ok(resource) = loaded {
                let _ = encodings.ready[place].set(Rc::new(resource));
            }
        }
        encodings
    }

    pub(crate) fn neighbours(&self) -> Neighbours {
        self.neighbours
    }

    /// Bytes of forms in memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let in_memory = |resource: &Rc<Resource>| {
            if let Content::Memory(bytes) = &resource.content { bytes.len() as u64 } else { 0 }
        };
        self.ready.iter().filter_map(OnceCell::get).map(in_memory).sum()
    }

    /// Files that are held open.
    pub(crate) fn files(&self) -> usize {
        let is_file = |resource: &&Rc<Resource>| matches!(resource.content, Content::File(_));
        self.ready.iter().filter_map(OnceCell::get).filter(is_file).count()
    }

    /// The form that suits the client best, if any is there; `grown` gets the bytes that a new one takes. Without a
    /// shelf none is taken up that this content has not had yet.
    pub(crate) fn choose(
        &self,
        plain: &Resource,
        accepted: Accepted,
        shared_content: Option<&SharedContent>,
        now_s: u64,
        grown: &mut u64,
    ) -> Option<Rc<Resource>> {
        let ready = |variant: Variant| self.ready[coding::place(variant)?].get().map(Rc::clone);
        let has_neighbour =
            |variant: &Variant| coding::place(*variant).is_some_and(|place| self.neighbours[place].is_some());
        // What the operator has made is sent rather than anything made here, however well the client likes that.
        if let Some(form) = accepted.iter().filter(has_neighbour).find_map(ready) {
            return Some(form);
        }
        if !self.makes {
            return None;
        }
        let Some(shared_content) = shared_content else { return accepted.iter().find_map(ready) };
        let file = if let Content::File(file) = &plain.content { Some((&**file, plain.stamp)) } else { None };
        for variant in accepted.iter() {
            if let Some(form) = ready(variant) {
                return Some(form);
            }
            match shared_content.form(&plain.shared, variant, file) {
                Made::Ready(form) => {
                    let resource = Rc::new(Resource::compressed(plain, variant, form, now_s));
                    *grown = form.bytes.len() as u64 + resource.fields.len() as u64;
                    let _ = self.ready[coding::place(variant)?].set(Rc::clone(&resource));
                    return Some(resource);
                }
                Made::Useless => {}
                // Until it is there the client gets what there is, rather than a wait.
                Made::Later => return accepted.iter().find_map(ready),
            }
        }
        None
    }
}
