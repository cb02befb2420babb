//! `[directory]` of members.toml: in which engine a cluster keeps what its nodes agree on.

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_directory::{Directory, EtcdSettings, TlsFiles, open_etcd, open_sqlite};

/// What the content may take, unless members.toml says otherwise: bytes.
const CONTENT_BYTES_MAX: u64 = 64 << 30;
/// Copies of each content, unless members.toml says otherwise.
const COPIES: u32 = 2;
/// How long an operation of the directory may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// What stands before all keys in etcd.
const PREFIX: &str = "weir/";

/// `[directory]` of members.toml.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DirectoryPlace {
    sqlite: Option<PathBuf>,
    etcd: Option<Vec<String>>,
    prefix: Option<String>,
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    content_bytes_max: Option<u64>,
    keeps_bytes: Option<u64>,
    copies: Option<u32>,
}

impl DirectoryPlace {
    /// Refuses what contradicts itself.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let of_etcd = [&self.ca, &self.certificate, &self.key].iter().any(|file| file.is_some());
        match (&self.sqlite, &self.etcd) {
            (Some(_), Some(_)) => bail!("[directory] has sqlite and etcd; keep one of them"),
            (None, None) => bail!("[directory] has neither sqlite nor etcd; name a file or the servers of etcd"),
            (Some(_), None) if of_etcd || self.prefix.is_some() => {
                bail!("[directory] has prefix, ca, certificate or key beside sqlite; they are for etcd, remove them")
            }
            _ => {}
        }
        ensure!(self.content_bytes_max != Some(0), "content_bytes_max is 0; leave it away, or name bytes");
        ensure!(self.copies != Some(0), "copies is 0; leave it away, or name a number of nodes");
        Ok(())
    }

    /// Bytes that the content of a node may take.
    pub(super) fn content_bytes_max(&self) -> u64 {
        self.content_bytes_max.unwrap_or(CONTENT_BYTES_MAX)
    }

    /// Bytes of content that each node keeps that has no budget of its own; none = all there is.
    pub(super) fn keeps_bytes(&self) -> Option<u64> {
        self.keeps_bytes
    }

    /// Copies that each content has in any case.
    pub(crate) fn copies(&self) -> u32 {
        self.copies.unwrap_or(COPIES)
    }

    /// Which engine, with its place.
    pub(super) fn words(&self, folder: &Path) -> String {
        match (&self.sqlite, &self.etcd) {
            (Some(file), _) => folder.join(file).display().to_string(),
            (None, servers) => format!("etcd at {}", servers.as_deref().unwrap_or_default().join(", ")),
        }
    }

    /// Opens it; relative paths are below the cluster's folder.
    pub(super) fn open(&self, folder: &Path) -> anyhow::Result<Box<dyn Directory>> {
        self.open_within(folder, PATIENCE)
    }

    /// The same, with operations that take so long at most.
    pub(super) fn open_within(&self, folder: &Path, patience: Duration) -> anyhow::Result<Box<dyn Directory>> {
        if let Some(file) = &self.sqlite {
            return Ok(open_sqlite(&folder.join(file), patience)?);
        }
        let settings = self.etcd_settings(folder, patience).context("[directory] names no engine")?;
        Ok(open_etcd(&settings)?)
    }

    /// How etcd is reached; None where the directory is a file.
    pub(super) fn etcd_settings(&self, folder: &Path, patience: Duration) -> Option<EtcdSettings> {
        let endpoints = self.etcd.clone()?;
        let file = |given: &Option<PathBuf>, own: &str| folder.join(given.as_deref().unwrap_or(Path::new(own)));
        let is_secure = endpoints.iter().any(|url| url.starts_with("https://"));
        let mut settings = EtcdSettings::new(endpoints, self.prefix.as_deref().unwrap_or(PREFIX));
        settings.patience = patience;
        // The keys of `weir cluster init` and `join`, where etcd takes the cluster's authority.
        settings.tls = is_secure.then(|| TlsFiles {
            ca: file(&self.ca, "authority.crt"),
            certificate: file(&self.certificate, "member.crt"),
            key: file(&self.key, "member.key"),
        });
        Some(settings)
    }
}

/// The lines of `[directory]` for these servers of etcd, or else for a file.
pub(super) fn directory_lines(urls: &[String]) -> String {
    if urls.is_empty() {
        return "# A file, for members on this machine only: those on other machines would each\n\
                # have a directory of their own.\n[directory]\nsqlite = \"directory.sqlite\"\n"
            .to_owned();
    }
    let urls: Vec<String> = urls.iter().map(|url| format!("{url:?}")).collect();
    format!("[directory]\netcd = [{}]\n", urls.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_lines_that_init_writes_can_be_read() {
        for urls in [vec![], vec!["https://10.0.0.1:2379".to_owned(), "https://[fd00::1]:2379".to_owned()]] {
            let written: BTreeMap<String, DirectoryPlace> = toml::from_str(&directory_lines(&urls)).expect("is TOML");
            let place = &written["directory"];
            place.check().expect("is right");
            assert_eq!(place.etcd.clone().unwrap_or_default(), urls);
            assert_eq!(place.sqlite.is_some(), urls.is_empty());
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_in_words() {
        let refused = |text: &str| {
            let place: DirectoryPlace = toml::from_str(text).expect("is TOML");
            place.check().expect_err("is refused").to_string()
        };
        assert!(refused("").contains("neither sqlite nor etcd"));
        assert!(refused("sqlite = \"a\"\netcd = [\"https://10.0.0.1:2379\"]").contains("keep one of them"));
        assert!(refused("sqlite = \"a\"\nkey = \"b\"").contains("they are for etcd"));
        assert!(refused("sqlite = \"a\"\ncontent_bytes_max = 0").contains("name bytes"));
    }
}
