//! A temporary folder for the configurations of servers, their certificate and the sample site, gone when the experiment
//! ends.
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::certificate::Certificate;
use crate::error::ServerError;
use crate::plan::{Plan, ServerSpec};
use crate::sample_site;

/// Where files of an experiment are. When dropped, it is removed.
#[derive(Debug)]
pub(crate) struct Workplace {
    /// `None` where no command asks for it, no server has files and none serves the sample site.
    folder: Option<CString>,
    site: PathBuf,
    /// Empty where no server speaks TLS.
    certificate: Certificate,
    /// Of each server, how often it was started.
    starts: Vec<Cell<usize>>,
}

impl Workplace {
    /// Makes what the plan's servers need. Only our user can write into it; all users can read it, since servers that
    /// root starts drop their privileges.
    pub(crate) fn create(plan: &Plan) -> Result<Self, ServerError> {
        let needed = |name| {
            let mut beside = plan.subjects.iter().filter_map(|subject| subject.beside.as_ref());
            plan.servers.iter().any(|server| mentions(server, name)) || beside.any(|command| command.mentions(name))
        };
        let needs_sample = plan.site.is_none() && needed("site");
        let folder = if needs_sample || needed("own") {
            Some(temporary().map_err(|source| ServerError::Workplace { place: std::env::temp_dir(), source })?)
        } else {
            None
        };
        let starts = plan.servers.iter().map(|_| Cell::new(0)).collect();
        // From here on the folder is removed on every error.
        let mut workplace = Self { folder, site: PathBuf::new(), certificate: Certificate::default(), starts };
        if let (true, Some(folder)) = (plan.servers.iter().any(|server| mentions(server, "tls_key")), workplace.path())
        {
            workplace.certificate = Certificate::make(folder).map_err(ServerError::Certificate)?;
        }
        if let Some(site) = &plan.site {
            // Servers take a relative path from folders of their own, and refuse one with `..` in it.
            workplace.site = site.canonicalize().map_err(|source| ServerError::Site { place: site.clone(), source })?;
        }
        if let (true, Some(folder)) = (needs_sample, workplace.path()) {
            let site = folder.join("site");
            sample_site::write(&site).map_err(|source| ServerError::Workplace { place: site.clone(), source })?;
            workplace.site = site;
        }
        if let Some(server) =
            plan.servers.iter().find(|server| server.files.values().any(|text| text.contains("{site}")))
        {
            let (site, name) = (&workplace.site, server.name.clone());
            if !is_plain(site) {
                return Err(ServerError::OddSite { name, site: site.clone() });
            }
            // SAFETY: has no preconditions.
            let is_root = unsafe { libc::geteuid() } == 0;
            if let Some(path) = is_root.then(|| closed_to_others(site)).flatten() {
                return Err(ServerError::ClosedSite { name, path });
            }
        }
        Ok(workplace)
    }

    /// The folder, as the guardian wants it.
    pub(crate) fn folder(&self) -> Option<&CStr> {
        self.folder.as_deref()
    }

    /// The server with the places of its files and of the site filled in, and its files written anew.
    pub(crate) fn furnish(&self, index: usize, server: &ServerSpec) -> Result<ServerSpec, ServerError> {
        // A folder for each start: what is just ending may still remove its socket.
        let start = self.starts.get(index).map_or(0, |starts| {
            starts.set(starts.get() + 1);
            starts.get()
        });
        let own = self.own(index, start).unwrap_or_default();
        let wrong = |source| ServerError::Workplace { place: own.clone(), source };
        let values = self.places(index);
        let secrets =
            [("tls_certificate", self.certificate.certificate.clone()), ("tls_key", self.certificate.key.clone())];
        let fill = |text: &String| {
            values
                .iter()
                .chain(&secrets)
                .fold(text.clone(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
        };
        if !own.as_os_str().is_empty() {
            // What cannot be removed now goes with everything.
            let _left = start.checked_sub(1).and_then(|start| self.own(index, start)).map(fs::remove_dir_all);
            fs::create_dir(&own).and_then(|()| open_to_all(&own)).map_err(wrong)?;
        }
        let files: BTreeMap<String, String> =
            server.files.iter().map(|(name, text)| (name.clone(), fill(text))).collect();
        for (name, text) in &files {
            let file = own.join(name);
            let folder = file.parent().unwrap_or(&own);
            fs::create_dir_all(folder).and_then(|()| fs::write(&file, text)).map_err(wrong)?;
        }
        let command = |command: &crate::command_line::CommandLine| command.filled(&values);
        Ok(ServerSpec {
            command: command(&server.command),
            stop: server.stop.as_ref().map(command),
            environment: server.environment.iter().map(|(name, value)| (name.clone(), fill(value))).collect(),
            files,
            ..server.clone()
        })
    }

    /// What stands for `{own}` and `{site}` in the commands of the server that was started last.
    pub(crate) fn places(&self, index: usize) -> [(&'static str, String); 2] {
        let own = self.own(index, self.starts.get(index).map_or(0, Cell::get)).unwrap_or_default();
        [("own", own.display().to_string()), ("site", self.site.display().to_string())]
    }

    /// The folder of a server's start, counted from 1; `None` where nothing needs one.
    fn own(&self, index: usize, start: usize) -> Option<PathBuf> {
        self.path().map(|folder| folder.join(format!("{index}-{start}")))
    }

    fn path(&self) -> Option<&Path> {
        self.folder().map(|folder| Path::new(std::ffi::OsStr::from_bytes(folder.to_bytes())))
    }
}

impl Drop for Workplace {
    fn drop(&mut self) {
        if let Some(path) = self.path() {
            // What cannot be removed now, the guardian removes.
            let _left = fs::remove_dir_all(path);
        }
    }
}

fn mentions(server: &ServerSpec, name: &str) -> bool {
    let placeholder = format!("{{{name}}}");
    let texts = server.files.values().chain(server.environment.values());
    server.command.mentions(name)
        || server.stop.as_ref().is_some_and(|stop| stop.mentions(name))
        || name == "own" && !server.files.is_empty()
        || texts.into_iter().any(|text| text.contains(&placeholder))
}

fn temporary() -> io::Result<CString> {
    let template = std::env::temp_dir().join("weir-compare-XXXXXX");
    if !is_plain(&template) {
        return Err(io::Error::other("its name has characters that configurations would misread; set TMPDIR"));
    }
    let mut template = CString::new(template.into_os_string().into_vec())?.into_bytes_with_nul();
    // SAFETY: a string of ours that ends with a zero; the call changes six of its bytes.
    if unsafe { libc::mkdtemp(template.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    let folder = CString::from_vec_with_nul(template).map_err(io::Error::other)?;
    open_to_all(Path::new(std::ffi::OsStr::from_bytes(folder.to_bytes())))?;
    Ok(folder)
}

fn open_to_all(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// Whether a path means itself in every configuration, within double quotes.
fn is_plain(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.chars().all(|c| c.is_alphanumeric() || "/-_.,+=@~".contains(c)))
}

/// The part of a path that others may not read or pass through.
fn closed_to_others(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let closed = |path: &Path, needed: u32| {
        fs::metadata(path).map_or(true, |metadata| metadata.permissions().mode() & needed != needed)
    };
    if closed(&path, 0o005) {
        return Some(path);
    }
    path.ancestors().skip(1).find(|path| closed(path, 0o001)).map(Path::to_owned)
}
