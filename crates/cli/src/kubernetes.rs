//! Names of pods, asked of Kubernetes' API: once, before a recording begins, within bounds of time and size.
//!
//! What is recorded without them has the ids of containers, as control groups tell them.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use url::Url;
use weir_capture::containers::{self, of_kubernetes};
use weir_session::client::{Client, Trust};
use weir_session::cookies::Jar;
use weir_session::suite::{Aim, Ask};

/// What a pod is given to ask the API with: a token, and the certificate of its authority.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// How long the API may take for all that is asked of it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Pods of a page, and pages that are asked for.
const OF_A_PAGE: u32 = 500;
const MOST_PAGES: u32 = 40;

/// Where names of pods come from.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct KubernetesArgs {
    /// Ask Kubernetes' API at this address for the names of pods (as `kubectl proxy` gives one, http://127.0.0.1:8001);
    /// within a pod whose account may list pods it is asked without this
    #[arg(long, value_name = "URL", value_parser = address)]
    kubernetes: Option<Url>,
}

fn address(text: &str) -> anyhow::Result<Url> {
    let url = Url::parse(text).context("a URL, such as http://127.0.0.1:8001")?;
    anyhow::ensure!(["http", "https"].contains(&url.scheme()), "the API speaks http:// or https://");
    Ok(url)
}

/// The API and how it is asked.
struct Api {
    address: Url,
    token: Option<String>,
    trust: Trust,
}

impl KubernetesArgs {
    /// Asks for the names where an address is given or this process is in a pod. In a pod an API that refuses is told
    /// of and goes without; one whose address was given is an error.
    ///
    /// # Errors
    /// The API whose address was given does not list pods.
    pub(crate) fn tell(&self, who: &str) -> anyhow::Result<()> {
        let asked = match (&self.kubernetes, of_pod()) {
            (Some(address), _) => told(&Api::at(address.clone(), Path::new(ACCOUNT)))
                .with_context(|| format!("Kubernetes' API at {address} does not tell the names of pods"))?,
            (None, Some(address)) => match told(&Api::at(address, Path::new(ACCOUNT))) {
                Ok(asked) => asked,
                Err(error) => {
                    eprintln!("{who}: containers are told by their ids: Kubernetes' API: {error:#}");
                    return Ok(());
                }
            },
            (None, None) => return Ok(()),
        };
        if asked.left_out > 0 {
            eprintln!("{who}: {} pods were too many; their containers are told by their ids", asked.left_out);
        }
        if asked.more {
            eprintln!("{who}: there are more pods than {}; the others are told by ids", OF_A_PAGE * MOST_PAGES);
        }
        Ok(())
    }
}

/// The API's address as it is told to every process in a pod.
fn of_pod() -> Option<Url> {
    let host = std::env::var("KUBERNETES_SERVICE_HOST").ok().filter(|host| !host.is_empty())?;
    let port = std::env::var("KUBERNETES_SERVICE_PORT").unwrap_or_else(|_| "443".to_owned());
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    Url::parse(&format!("https://{host}:{port}")).ok()
}

impl Api {
    /// The token goes over TLS alone.
    fn at(address: Url, account: &Path) -> Self {
        let is_tls = address.scheme() == "https";
        let token = std::fs::read_to_string(account.join("token")).ok().filter(|_| is_tls);
        let authority: PathBuf = account.join("ca.crt");
        let trust = if authority.exists() { Trust::File(authority) } else { Trust::System };
        Self { address, token: token.map(|token| token.trim().to_owned()), trust }
    }

    /// The address of a page of the list of pods: of this node's, where the pod says which one it is on.
    fn page(&self, node: Option<&str>, next: Option<&str>) -> Url {
        let mut page = self.address.clone();
        page.set_path(&format!("{}/api/v1/pods", self.address.path().trim_end_matches('/')));
        let mut query = page.query_pairs_mut();
        query.append_pair("limit", &OF_A_PAGE.to_string());
        if let Some(node) = node {
            query.append_pair("fieldSelector", &format!("spec.nodeName={node}"));
        }
        if let Some(next) = next {
            query.append_pair("continue", next);
        }
        drop(query);
        page
    }
}

/// What was told.
struct Asked {
    /// Containers that found no room.
    left_out: u64,
    /// There were more pages.
    more: bool,
}

/// Asks for all pages and keeps the names.
fn told(api: &Api) -> anyhow::Result<Asked> {
    let client = Client::new(&api.trust)?;
    let node = std::env::var("NODE_NAME").ok().filter(|node| !node.is_empty());
    let (begin, mut next, mut left_out) = (Instant::now(), None, 0);
    for _ in 0..MOST_PAGES {
        let left = PATIENCE.saturating_sub(begin.elapsed());
        let page = api.page(node.as_deref(), next.as_deref());
        let mut ask = Ask::get(Aim::Address(page.to_string()));
        (ask.timeout, ask.follow) = (left, false);
        ask.headers.push(("accept".to_owned(), "application/json".to_owned()));
        if let Some(token) = &api.token {
            ask.headers.push(("authorization".to_owned(), format!("Bearer {token}")));
        }
        let answer = client.ask(&ask, &page, &mut Jar::default())?.last;
        let text = String::from_utf8_lossy(&answer.content);
        let Some(pods) = of_kubernetes(&text).filter(|_| answer.status == 200) else {
            bail!("it answers {}, and no list of pods; the account needs the right to list pods", answer.status_line());
        };
        left_out += containers::tell(pods.containers);
        next = pods.next;
        if next.is_none() {
            break;
        }
    }
    Ok(Asked { left_out, more: next.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_goes_over_tls_alone() {
        let account = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(account.path().join("token"), "secret\n").expect("written");
        let api = |url: &str| Api::at(address(url).expect("an address"), account.path());
        assert_eq!(api("https://h:6443").token.as_deref(), Some("secret"));
        assert_eq!(api("http://127.0.0.1:8001").token, None);
        assert!(address("unix:/x").is_err() && address("8001").is_err());
    }

    #[test]
    fn a_page_is_asked_for_as_the_api_describes() {
        let api = Api::at(address("http://h:8001/k8s/").expect("an address"), Path::new("/nowhere"));
        assert_eq!(api.page(None, None).as_str(), "http://h:8001/k8s/api/v1/pods?limit=500");
        let page = api.page(Some("n1"), Some("a+b="));
        assert_eq!(page.query(), Some("limit=500&fieldSelector=spec.nodeName%3Dn1&continue=a%2Bb%3D"));
    }
}
