//! The files that a server opens while it runs.

use crate::certificates::settings::CertificateFiles;
use crate::config::ScriptServerOptions;
use crate::config::options::Options;
use crate::process::confine::releases::{self, OF_ALL};
use crate::telemetry::access_log::settings::LogTarget;
use crate::upstream::common::Common;
use crate::upstream::settings::Place;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What finding an address by its name reads, when a configuration is read again.
pub(super) const RESOLVER: [&str; 5] =
    ["/etc/hosts", "/etc/host.conf", "/etc/resolv.conf", "/etc/nsswitch.conf", "/etc/gai.conf"];

/// Where systems have their users and groups (nsswitch.conf(5)).
const USERS: [&str; 3] = ["/etc/nsswitch.conf", "/etc/passwd", "/etc/group"];

/// Where systems have the authorities that are trusted: a reload may ask for them first.
const AUTHORITIES: [&str; 4] =
    ["/etc/ssl/certs", "/etc/pki/tls/certs", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates"];

/// Where ARM announces itself; the first is in the environment.
const ARM: [&str; 2] = ["/run/weir/arm", "/dev/shm/weir-arm"];

/// With which upstreams a server connects.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) enum Connects {
    /// With none.
    #[default]
    Nowhere,
    /// With Unix sockets alone.
    Unix,
    /// With these TCP ports, and perhaps with Unix sockets.
    Ports(Vec<u16>),
}

/// The files that a server opens while it runs, and what it connects with.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Paths {
    /// Directories that are served: everything below them is read.
    pub(super) serve: Vec<PathBuf>,
    /// Directories in which roots are looked for when their paths lead elsewhere: the same.
    pub(super) releases: Vec<PathBuf>,
    /// Files, or directories of files, that are read again.
    pub(super) read: Vec<PathBuf>,
    /// Directories in which the process sees itself: their files are read and listed.
    pub(super) own: Vec<PathBuf>,
    /// Directories in which files are made, written and removed, or files that are written.
    pub(super) write: Vec<PathBuf>,
    /// Directories in whose folders caches make, read and remove files.
    pub(super) store: Vec<PathBuf>,
    pub(super) connects: Connects,
}

impl Paths {
    pub(crate) fn of(options: &Options) -> Self {
        let mut paths = Self::default();
        match &options.hosts {
            Some(rules) => {
                paths.serve.extend(rules.0.sites.iter().map(|site| site.how.root.clone()));
                paths.connect(&rules.0.upstreams);
                let disks = rules.0.caches.iter().filter_map(|cache| cache.rules.disk.as_ref());
                paths.store.extend(disks.map(|disk| disk.directory.clone()));
            }
            None => paths.serve.push(options.root.clone()),
        }
        paths.releases = paths.serve.iter().flat_map(|root| releases::around(root)).collect();
        paths.releases.extend(options.releases.iter().cloned());
        if let Some(obtain) = &options.obtain {
            // Hosts of a later configuration have theirs there, too; the account's key lies above it.
            paths.read.push(obtain.storage.join("hosts"));
        }
        let named = options.certificates.iter().filter(|files| files.obtained_for.is_none());
        let certificates = named.flat_map(CertificateFiles::paths);
        certificates.chain(&options.read_again).for_each(|file| paths.read_around(file));
        if !options.read_again.is_empty() {
            paths.read.extend(RESOLVER.map(PathBuf::from));
            paths.read.extend(AUTHORITIES.map(PathBuf::from));
        }
        if let Some(LogTarget::File(file)) = options.access_log.as_ref().map(|log| &log.target) {
            paths.write_around(file);
        }
        if options.counts_waits() {
            // How long the loops wait for a CPU is among what rules go by.
            paths.own.push("/proc/self/task".into());
        }
        if options.arm.is_some() {
            let chosen = std::env::var_os("WEIR_ARM_DIR").map(PathBuf::from);
            paths.write.extend(chosen.into_iter().chain(ARM.map(PathBuf::from)));
        }
        paths.resolve();
        paths
    }

    /// Those of a script server: what is looked at when its configuration is read again. Its requests open no file.
    pub(super) fn of_script_server(file: &Path, options: &ScriptServerOptions) -> Self {
        let mut paths = Self { connects: Connects::Unix, ..Self::default() };
        paths.serve.extend(options.mounts.iter().map(|mount| mount.pool.root.clone()));
        paths.read_around(file);
        let files = options.tls.iter().flat_map(|tls| [&tls.certificate, &tls.key, &tls.ca]);
        files.for_each(|file| paths.read_around(file));
        paths.read.extend(USERS.map(PathBuf::from));
        paths.resolve();
        paths
    }

    /// Names all of them as the kernel does, and once.
    fn resolve(&mut self) {
        let Self { serve, releases, read, own, write, store, .. } = self;
        for list in [serve, releases, read, own, write, store] {
            // What is not there cannot be named to the kernel; links are followed anyhow.
            *list = list.iter().filter_map(|path| path.canonicalize().ok()).collect();
            list.sort();
            list.dedup();
        }
    }

    /// What the upstreams need.
    fn connect(&mut self, upstreams: &[Arc<Common>]) {
        let places = || upstreams.iter().flat_map(|upstream| &upstream.rules.servers).map(|server| &server.place);
        let port = |place: &Place| match place {
            Place::Address(address) => Some(address.port()),
            Place::Name(_, port) => Some(*port),
            Place::Unix(_) => None,
        };
        let mut ports: Vec<u16> = places().filter_map(port).collect();
        ports.sort_unstable();
        ports.dedup();
        self.connects = match (ports.is_empty(), upstreams.is_empty()) {
            (false, _) => Connects::Ports(ports),
            (true, false) => Connects::Unix,
            (true, true) => Connects::Nowhere,
        };
        // Below them lies what applications have sent, and what stands behind the script of a path.
        self.read.extend(upstreams.iter().flat_map(|upstream| upstream.rules.send_from.iter().cloned()));
        if places().any(|place| matches!(place, Place::Name(..))) {
            self.read.extend(RESOLVER.map(PathBuf::from));
        }
    }

    /// The directory of a log, as rotation makes the file anew there; of a device or pipe only the path itself.
    fn write_around(&mut self, file: &Path) {
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        // What is not there yet will be a file.
        let is_regular = fs::metadata(file).map_or(true, |metadata| metadata.is_file());
        let is_system = |folder: &Path| ["/dev", "/proc"].iter().any(|of| folder.starts_with(of));
        for file in [file, &real] {
            let folder = folder(file);
            self.write.push(if is_regular && !is_system(folder) { folder.to_owned() } else { file.to_owned() });
        }
    }

    /// A file that may be replaced by another one of its name: as it is named, and where links lead to.
    fn read_around(&mut self, file: &Path) {
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        let link = folder(file).canonicalize().map(|folder| folder.join(file.file_name().unwrap_or_default()));
        for file in [real, link.unwrap_or_else(|_| file.to_owned())] {
            let folder = folder(&file);
            let is_of_all = OF_ALL.iter().any(|of_all| folder == Path::new(of_all));
            self.read.push(if is_of_all { file } else { folder.to_owned() });
        }
    }
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes the directory for ARM that the environment names, as an agent does that is first: a server that begins before
/// its agent could not name it to the kernel otherwise, and no agent would ever hear of it. Before root's rights are
/// gone.
pub(crate) fn make_arm_folder(options: &Options) {
    let named = std::env::var_os("WEIR_ARM_DIR").filter(|name| !name.is_empty()).map(PathBuf::from);
    let Some(folder) = named.filter(|folder| options.arm.is_some() && !folder.exists()) else { return };
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(&folder);
    // The umask cuts the mode of creation. With 1777 every user can announce there, and remove only own files.
    if let Err(error) = made.and_then(|()| fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777))) {
        let folder = folder.display();
        let how = "make it (mode 1777), or name another by WEIR_ARM_DIR";
        (options.notice)(&format!("no agent for ARM hears of this server: {folder}: cannot be made: {error}; {how}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::access_log::settings::AccessLog;

    #[test]
    fn a_server_needs_its_root_its_certificates_and_the_directory_of_its_log() {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().canonicalize().expect("it is there").join(name);
        for name in ["www", "live", "archive", "log"] {
            fs::create_dir(at(name)).expect("creates");
        }
        fs::write(at("archive/a.pem"), "").expect("writes");
        std::os::unix::fs::symlink("../archive/a.pem", at("live/a.pem")).expect("links");
        let mut options = Options::new(at("www"));
        options.certificates = vec![CertificateFiles::new(at("live/a.pem"), at("live/a.pem"))];
        options.access_log = Some(AccessLog::new(LogTarget::File(at("log/access.log"))));
        let paths = Paths::of(&options);
        let (read, own) = (vec![at("archive"), at("live")], Vec::new());
        let releases = vec![folder.path().canonicalize().expect("it is there")];
        let serve = vec![at("www")];
        let expected = Paths {
            serve,
            releases,
            read,
            own,
            write: vec![at("log")],
            store: Vec::new(),
            connects: Connects::Nowhere,
        };
        assert_eq!(paths, expected);
        options.access_log = Some(AccessLog::new(LogTarget::File("/dev/null".into())));
        options.certificates.clear();
        options.read_again = vec!["/etc/hosts".into()];
        let paths = Paths::of(&options);
        assert_eq!(paths.write, [PathBuf::from("/dev/null")]);
        assert!(paths.read.contains(&"/etc/hosts".into()) && !paths.read.contains(&"/etc".into()), "{paths:?}");
    }
}
