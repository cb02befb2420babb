//! Where tools may reach: one folder, and few hosts.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use url::{Host, Url};

/// What bounds the tools.
#[derive(Debug)]
pub struct Place {
    /// The folder in which runs are read, without symbolic links.
    pub root: PathBuf,
    /// The folder in which new runs are made.
    pub new_runs: PathBuf,
    /// The number of the new run that was named last, 0 at first: one that waits for its turn is not there yet.
    pub named: AtomicU32,
    /// Hosts that may be loaded beside those of this machine's loopback.
    pub hosts: Vec<String>,
    /// The longest time of a load or recording, seconds.
    pub duration_s_max: f64,
    /// The most requests of a load.
    pub requests_max: u64,
    /// Methods that a load may use beside GET, HEAD and OPTIONS.
    pub methods: Vec<String>,
}

/// Methods that change nothing at a server (RFC 9110 section 9.2.1).
const SAFE_METHODS: [&str; 3] = ["GET", "HEAD", "OPTIONS"];

/// Why something is out of reach.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// There is no such run.
    #[error("{0} is no run here; resources/list names the runs")]
    NoRun(String),
    /// It lies elsewhere.
    #[error("{0} lies outside the folder of this server; start weir mcp with --runs DIR for another folder")]
    Outside(String),
    /// It is no URL.
    #[error("{url} is no URL of http or https ({cause}); give one such as http://127.0.0.1:8080/")]
    NoUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The method may change something at the server.
    #[error("{0} may not be sent: only GET, HEAD and OPTIONS may, and what weir mcp --allow-method METHOD names")]
    Method(String),
    /// The host is not this machine.
    #[error("{0} may not be loaded: only this machine's loopback may, and what weir mcp --allow HOST names")]
    Host(String),
}

impl Place {
    /// The directory of a run, by its path below the folder of this server.
    ///
    /// # Errors
    /// It is not there, is no run, or lies outside the folder, also by way of a symbolic link.
    pub fn run(&self, name: &str) -> Result<PathBuf, PlaceError> {
        let found = self.root.join(name).canonicalize().map_err(|_| PlaceError::NoRun(name.to_owned()))?;
        if !found.starts_with(&self.root) {
            return Err(PlaceError::Outside(name.to_owned()));
        }
        if !is_run(&found) {
            return Err(PlaceError::NoRun(name.to_owned()));
        }
        Ok(found)
    }

    /// The directory of the next new run; the recording makes it. None is named twice.
    #[must_use]
    pub fn new_run(&self) -> PathBuf {
        loop {
            let number = self.named.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            let path = self.new_runs.join(format!("mcp-{number:04}"));
            if !path.exists() {
                return path;
            }
        }
    }

    /// A method that may be sent. Case counts, as in HTTP.
    ///
    /// # Errors
    /// It may change something, and is not allowed.
    pub fn method<'m>(&self, method: &'m str) -> Result<&'m str, PlaceError> {
        if SAFE_METHODS.contains(&method) || self.methods.iter().any(|allowed| allowed == method) {
            return Ok(method);
        }
        Err(PlaceError::Method(method.chars().take(40).collect()))
    }

    /// Whether a load may change something at a server.
    #[must_use]
    pub fn may_change(&self) -> bool {
        !self.methods.is_empty()
    }

    /// A URL that may be loaded, as it is to be asked for.
    ///
    /// # Errors
    /// It is no URL of http or https, has credentials, or its host is neither loopback nor allowed.
    pub fn url(&self, text: &str) -> Result<String, PlaceError> {
        let refused = |cause: &str| PlaceError::NoUrl { url: text.to_owned(), cause: cause.to_owned() };
        let url = Url::parse(text).map_err(|error| refused(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("another scheme"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("it has a user or a password"));
        }
        let host = url.host().ok_or_else(|| refused("no host"))?;
        let is_own = match &host {
            Host::Domain(name) => *name == "localhost",
            Host::Ipv4(address) => IpAddr::from(*address).is_loopback(),
            Host::Ipv6(address) => IpAddr::from(*address).is_loopback(),
        };
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if is_own || self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(bare)) {
            return Ok(url.into());
        }
        Err(PlaceError::Host(host.to_owned()))
    }
}

/// Whether a directory is a run: it has the list of what was recorded.
fn is_run(directory: &Path) -> bool {
    directory.join("manifest.jsonl").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: &Path) -> Place {
        let root = root.canonicalize().expect("a folder");
        Place {
            new_runs: root.clone(),
            root,
            named: AtomicU32::new(0),
            hosts: vec!["shop.example".to_owned(), "2001:db8::1".to_owned()],
            duration_s_max: 60.0,
            requests_max: 1000,
            methods: vec!["POST".to_owned()],
        }
    }

    #[test]
    fn only_this_machine_and_named_hosts_are_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        for url in [
            "http://127.0.0.1:80/",
            "http://localhost/",
            "https://[::1]:8443/a?b",
            "http://SHOP.example/",
            "http://[2001:db8::1]/",
        ] {
            assert!(place.url(url).is_ok(), "{url}");
        }
        for url in [
            "http://shop.example.org/",
            "http://10.0.0.1/",
            "http://127.0.0.1@10.0.0.1/",
            "file:///etc/passwd",
            "-d",
            "http://localhost.example/",
            "http://0.0.0.0/",
        ] {
            assert!(place.url(url).is_err(), "{url}");
        }
        // Forms of the address that a resolver would read as loopback are told as such, others are refused.
        assert_eq!(place.url("http://127.1/"), Ok("http://127.0.0.1/".to_owned()));
    }

    #[test]
    fn only_methods_that_change_nothing_and_named_ones_are_sent() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = place(folder.path());
        assert!(["GET", "HEAD", "OPTIONS", "POST"].iter().all(|method| place.method(method).is_ok()));
        for method in ["DELETE", "post", "", "GET ", "--method=POST"] {
            assert_eq!(place.method(method), Err(PlaceError::Method(method.to_owned())));
        }
    }

    #[test]
    fn only_runs_below_the_folder_are_read() {
        let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let place = place(folder.path());
        for at in [folder.path().join("runs/a"), other.path().join("b")] {
            std::fs::create_dir_all(&at).expect("a folder");
            std::fs::write(at.join("manifest.jsonl"), "").expect("a file");
        }
        std::os::unix::fs::symlink(other.path().join("b"), folder.path().join("b")).expect("a link");
        assert!(place.run("runs/a").is_ok() && place.run("runs/../runs/a").is_ok());
        assert!(matches!(place.run("runs"), Err(PlaceError::NoRun(_))));
        assert!(matches!(place.run("b"), Err(PlaceError::Outside(_))));
        let outside = other.path().join("b");
        assert!(matches!(place.run(outside.to_str().expect("text")), Err(PlaceError::Outside(_))));
        assert!(matches!(place.run("../../../etc"), Err(PlaceError::Outside(_) | PlaceError::NoRun(_))));
        assert!(place.new_run().ends_with("mcp-0001") && place.new_run().ends_with("mcp-0002"));
    }
}
