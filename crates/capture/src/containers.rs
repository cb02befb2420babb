//! Names of containers, as their runtimes have written them down: Docker's `config.v2.json` of each, and the list of
//! containers/storage, which Podman and CRI-O keep.
//!
//! No runtime is asked: its files are read, which takes no socket and no program of its own. Of pods, whose names no
//! runtime writes, a list of Kubernetes' API tells ([`of_kubernetes`], [`tell`]); a caller has asked for it.

use serde::Deserialize;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Bytes of a file that are read: a host with thousands of containers has some MiB.
const MOST_BYTES: u64 = 32 << 20;
/// Names that are remembered.
const MOST_NAMES: usize = 4096;

/// A container, by its id and the names that it was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// 64 hexadecimal digits.
    pub id: String,
    /// Its names, the first one first; none if it was given none.
    pub names: Vec<String>,
}

/// Reads Docker's `config.v2.json`; `None` if it is none.
#[must_use]
pub fn of_docker(text: &str) -> Option<Container> {
    #[derive(Deserialize)]
    struct File {
        #[serde(rename = "ID")]
        id: String,
        #[serde(rename = "Name", default)]
        name: String,
    }
    let File { id, name } = serde_json::from_str(text).ok()?;
    // Docker writes the name with a slash before it, from when containers had paths.
    let name = name.trim_start_matches('/').to_owned();
    container(id, vec![name])
}

/// Reads the list of containers/storage (`containers.json`); nothing if it is none.
#[must_use]
pub fn of_storage(text: &str) -> Vec<Container> {
    #[derive(Deserialize)]
    struct Entry {
        id: String,
        #[serde(default)]
        names: Option<Vec<String>>,
    }
    // One entry that is not understood does not hide the others.
    let entries: Vec<serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
    let entries = entries.into_iter().filter_map(|entry| serde_json::from_value::<Entry>(entry).ok());
    entries.filter_map(|Entry { id, names }| container(id, names.unwrap_or_default())).collect()
}

/// Containers of pods, by a page of the list of pods of Kubernetes' API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pods {
    /// The containers; their names are `NAMESPACE/POD/CONTAINER`, `NAMESPACE/POD` and `POD`.
    pub containers: Vec<Container>,
    /// What the next page is asked with; `None` after the last one.
    pub next: Option<String>,
}

/// Reads a `PodList` of the API's version v1 (`GET /api/v1/pods`, as the reference of Kubernetes' API describes it);
/// `None` if it is none.
#[must_use]
pub fn of_kubernetes(text: &str) -> Option<Pods> {
    #[derive(Deserialize)]
    struct List {
        kind: String,
        #[serde(default)]
        metadata: Page,
        #[serde(default)]
        items: Option<Vec<serde_json::Value>>,
    }
    #[derive(Deserialize, Default)]
    struct Page {
        #[serde(default, rename = "continue")]
        next: String,
    }
    let List { kind, metadata, items } = serde_json::from_str(text).ok()?;
    if kind != "PodList" {
        return None;
    }
    // A pod that is not understood does not hide the others.
    let containers = items.unwrap_or_default().into_iter().filter_map(of_pod).flatten().collect();
    Some(Pods { containers, next: Some(metadata.next).filter(|next| !next.is_empty()) })
}

/// The containers of one pod, those that begin it and those that look into it included.
fn of_pod(pod: serde_json::Value) -> Option<Vec<Container>> {
    #[derive(Deserialize)]
    struct Pod {
        metadata: Named,
        #[serde(default)]
        status: Status,
    }
    #[derive(Deserialize)]
    struct Named {
        name: String,
        namespace: String,
    }
    #[derive(Deserialize, Default)]
    #[serde(rename_all = "camelCase", default)]
    struct Status {
        container_statuses: Option<Vec<One>>,
        init_container_statuses: Option<Vec<One>>,
        ephemeral_container_statuses: Option<Vec<One>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct One {
        name: String,
        /// `RUNTIME://ID`; it is missing until the container is made.
        #[serde(default, rename = "containerID")]
        container_id: Option<String>,
    }
    let Pod { metadata: Named { name: pod, namespace }, status } = serde_json::from_value(pod).ok()?;
    let all = [status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses];
    let one = |One { name, container_id }: One| {
        let (_, id) = container_id.as_deref()?.split_once("://")?;
        container(id.to_owned(), vec![format!("{namespace}/{pod}/{name}"), format!("{namespace}/{pod}"), pod.clone()])
    };
    Some(all.into_iter().flatten().flatten().filter_map(one).collect())
}

/// A container with a whole id; names that would not be one word are left out.
fn container(id: String, mut names: Vec<String>) -> Option<Container> {
    let is_name = |name: &String| !name.is_empty() && name.chars().all(|c| !c.is_whitespace() && !c.is_control());
    names.retain(is_name);
    is_id(&id).then_some(Container { id, names })
}

/// Whether a text is a container's whole id: 64 hexadecimal digits.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What was found out about a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    /// Ids of the containers that bear it.
    pub ids: Vec<String>,
    /// What could not be read, with the reason.
    pub closed: Vec<String>,
    /// The files and folders of runtimes that list containers and could be read.
    pub looked: Vec<PathBuf>,
}

/// Where the runtimes write.
#[derive(Debug, Clone)]
pub struct Runtimes {
    /// Docker's folder of containers, one folder for each.
    docker: PathBuf,
    /// Lists of containers/storage.
    storage: Vec<PathBuf>,
}

impl Runtimes {
    /// The usual places, below a root, which is `/` but in tests: Docker's, Podman's and CRI-O's of the whole system,
    /// and Podman's of each user with a home in `/home` or `/root`.
    #[must_use]
    pub fn below(root: &Path) -> Self {
        const LIST: &str = "overlay-containers/containers.json";
        const PASSING: &str = "overlay-containers/volatile-containers.json";
        let mut storage =
            vec![root.join("var/lib/containers/storage").join(LIST), root.join("run/containers/storage").join(PASSING)];
        let homes = fs::read_dir(root.join("home")).into_iter().flatten().flatten().map(|entry| entry.path());
        let own = homes.chain(std::iter::once(root.join("root")));
        storage.extend(own.map(|home| home.join(".local/share/containers/storage").join(LIST)));
        Self { docker: root.join("var/lib/docker/containers"), storage }
    }

    /// The first name of a container.
    #[must_use]
    pub fn name_of(&self, id: &str) -> Option<String> {
        let docker = read(&self.docker.join(id).join("config.v2.json")).ok();
        let of_docker = docker.and_then(|text| of_docker(&text)).filter(|known| known.id == id);
        let in_lists = || self.storage.iter().filter_map(|list| read(list).ok()).flat_map(|text| of_storage(&text));
        let known = of_docker.or_else(|| in_lists().find(|known| known.id == id))?;
        known.names.into_iter().next()
    }

    /// The containers of a name.
    #[must_use]
    pub fn search(&self, name: &str) -> Search {
        let mut search = Search { ids: told_ids(name), ..Search::default() };
        let mut take = |known: Container| {
            if known.names.iter().any(|one| one == name) && !search.ids.contains(&known.id) {
                search.ids.push(known.id);
            }
        };
        let (mut closed, mut looked) = (Vec::new(), Vec::new());
        let mut refused = |path: &Path, error: &std::io::Error| {
            if error.kind() != ErrorKind::NotFound {
                closed.push(format!("{}: {error}", path.display()));
            }
        };
        match fs::read_dir(&self.docker) {
            Err(error) => refused(&self.docker, &error),
            Ok(folders) => {
                looked.push(self.docker.clone());
                for folder in folders.flatten() {
                    let path = folder.path().join("config.v2.json");
                    match read(&path) {
                        Ok(text) => of_docker(&text).into_iter().for_each(&mut take),
                        Err(error) => refused(&path, &error),
                    }
                }
            }
        }
        for list in &self.storage {
            match read(list) {
                Ok(text) => {
                    looked.push(list.clone());
                    of_storage(&text).into_iter().for_each(&mut take);
                }
                Err(error) => refused(list, &error),
            }
        }
        (search.closed, search.looked) = (closed, looked);
        search
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

/// Containers of pods that this process was told of.
static TOLD: Mutex<Vec<Container>> = Mutex::new(Vec::new());
/// Containers of pods that are kept; a node has some hundreds.
const MOST_TOLD: usize = 1 << 16;

/// Takes in containers of pods, whose names are then known as those that runtimes write; how many found no room.
pub fn tell(containers: Vec<Container>) -> u64 {
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let room = MOST_TOLD - told.len().min(MOST_TOLD);
    let dropped = containers.len().saturating_sub(room) as u64;
    told.extend(containers.into_iter().take(room));
    dropped
}

/// Whether names of pods were told: then each process is told with its container's.
pub(crate) fn are_told() -> bool {
    !TOLD.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
}

/// Ids of the containers of a name that were told.
fn told_ids(name: &str) -> Vec<String> {
    let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    told.iter().filter(|one| one.names.iter().any(|own| own == name)).map(|one| one.id.clone()).collect()
}

/// A container as people call it, if its name was told or can be read; each is looked up once.
pub(crate) fn name_of(id: &str) -> Option<String> {
    let told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(name) = told.iter().find(|one| one.id == id).and_then(|one| one.names.first()) {
        return Some(format!("pod {name}"));
    }
    drop(told);
    written(id).map(|name| format!("container {name}"))
}

/// The name of a container of this host that its runtime has written; each is looked up once.
fn written(id: &str) -> Option<String> {
    static KNOWN: Mutex<Option<HashMap<String, Option<String>>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(name) = known.get(id) {
        return name.clone();
    }
    if known.len() >= MOST_NAMES {
        known.clear();
    }
    let name = Runtimes::below(Path::new("/")).name_of(id);
    known.insert(id.to_owned(), name.clone());
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "f3a9c0d1e2b34455667788990011223344556677889900aabbccddeeff001122";
    const OTHER: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    /// As Docker 20 to 28 write it, with a few of its many fields.
    fn docker(id: &str, name: &str) -> String {
        format!(
            r#"{{"StreamConfig":{{}},"State":{{"Running":true,"Pid":4711}},"ID":"{id}","Created":"2026-11-21T10:00:00Z","Managed":false,"Path":"apache2","Args":["-D"],"Config":{{"Hostname":"f3a9","Image":"httpd:2.4"}},"Name":"/{name}","Driver":"overlay2","MountPoints":{{}}}}"#
        )
    }

    /// As containers/storage writes it for Podman and CRI-O.
    fn storage(entries: &[(&str, &str)]) -> String {
        let entry = |(id, names): &(&str, &str)| {
            format!(
                r#"{{"id":"{id}","names":{names},"image":"9d1c","layer":"77aa","metadata":"{{\"image-name\":\"docker.io/library/httpd\"}}","created":"2026-11-21T10:00:00.1Z","flags":{{"MountLabel":""}}}}"#
            )
        };
        format!("[{}]", entries.iter().map(entry).collect::<Vec<_>>().join(","))
    }

    #[test]
    fn dockers_own_file() {
        let known = of_docker(&docker(ID, "shop")).expect("a container");
        assert_eq!((known.id.as_str(), known.names), (ID, vec!["shop".to_owned()]));
        assert_eq!(of_docker(&docker("short", "shop")), None);
        assert_eq!(of_docker(r#"{"Name":"/shop"}"#), None);
    }

    #[test]
    fn the_list_of_podman() {
        let known = of_storage(&storage(&[(ID, r#"["web","web-alias"]"#), (OTHER, "null"), ("x", r#"["bad"]"#)]));
        let names: Vec<(&str, usize)> = known.iter().map(|one| (one.id.as_str(), one.names.len())).collect();
        assert_eq!(names, [(ID, 2), (OTHER, 0)]);
        let odd = format!(r#"[{{"id":7}},{{"id":"{ID}"}},null,{{"id":"{OTHER}","names":["a b","c"]}}]"#);
        let known = of_storage(&odd);
        assert_eq!((known.len(), known[1].names.as_slice()), (2, &["c".to_owned()][..]));
    }

    #[test]
    fn names_are_found_where_the_runtimes_write_them() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        };
        write(&format!("var/lib/docker/containers/{ID}/config.v2.json"), &docker(ID, "shop"));
        write(
            "home/anna/.local/share/containers/storage/overlay-containers/containers.json",
            &storage(&[(OTHER, r#"["mail"]"#)]),
        );
        let runtimes = Runtimes::below(root.path());
        assert_eq!(runtimes.name_of(ID).as_deref(), Some("shop"));
        assert_eq!(runtimes.name_of(OTHER).as_deref(), Some("mail"));
        assert_eq!(runtimes.name_of(&ID.replace('f', "e")), None);
        assert_eq!(
            (runtimes.search("mail").ids, runtimes.search("shop").ids),
            (vec![OTHER.to_owned()], vec![ID.to_owned()])
        );
        let none = runtimes.search("shop-2");
        assert_eq!((none.ids.len(), none.closed.len(), none.looked.len()), (0, 0, 2));
        // A file that is no text, in the place of one that is not allowed, which root would be.
        write(&format!("var/lib/docker/containers/{OTHER}/config.v2.json/x"), "");
        let closed = runtimes.search("shop");
        assert_eq!((closed.ids.len(), closed.closed.len()), (1, 1), "{closed:?}");
        assert!(closed.closed[0].contains("config.v2.json: "), "{closed:?}");
    }

    /// As the API writes it (reference of Kubernetes' API v1.31, PodList v1 core), with a few of its many fields.
    fn pods(pods: &[(&str, &str, &str)], next: &str) -> String {
        let pod = |(namespace, name, id): &(&str, &str, &str)| {
            format!(
                r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"8f1c"}},"spec":{{"nodeName":"n1"}},"status":{{"phase":"Running","containerStatuses":[{{"name":"nginx","state":{{}},"ready":true,"containerID":"containerd://{id}"}},{{"name":"waits","containerID":""}}],"initContainerStatuses":null}}}}"#
            )
        };
        let items = pods.iter().map(pod).collect::<Vec<_>>().join(",");
        format!(
            r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"77","continue":"{next}"}},"items":[{items}]}}"#
        )
    }

    #[test]
    fn the_list_of_kubernetes() {
        let read = of_kubernetes(&pods(&[("shop", "web-0", ID), ("mail", "mx", OTHER)], "abc")).expect("a list");
        assert_eq!(read.next.as_deref(), Some("abc"));
        assert_eq!(read.containers.len(), 2);
        assert_eq!(read.containers[0].id, ID);
        assert_eq!(read.containers[0].names, ["shop/web-0/nginx", "shop/web-0", "web-0"]);
        assert_eq!(of_kubernetes(&pods(&[], "")), Some(Pods::default()));
        let refusal = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","code":403,"message":"forbidden"}"#;
        assert_eq!(of_kubernetes(refusal), None);
        let odd = r#"{"kind":"PodList","metadata":{},"items":[7,{"metadata":{"name":"x","namespace":"y"}},null]}"#;
        assert_eq!(of_kubernetes(odd), Some(Pods::default()));
    }

    /// What was told holds for the whole process: ids of this test alone.
    #[test]
    fn what_is_told_is_known_by_id_and_by_name() {
        let id = "ab".repeat(32);
        assert_eq!(name_of(&id), None);
        let names = vec!["told/web-1/nginx".to_owned(), "told/web-1".to_owned()];
        assert_eq!(tell(vec![Container { id: id.clone(), names }]), 0);
        assert_eq!(name_of(&id).as_deref(), Some("pod told/web-1/nginx"));
        assert!(are_told());
        let nowhere = Runtimes::below(Path::new("/nowhere"));
        assert_eq!(nowhere.search("told/web-1").ids, [id]);
        assert!(nowhere.search("told/web").ids.is_empty());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_nothing(text: String) {
            let _ = (of_docker(&text), of_storage(&text), of_kubernetes(&text));
        }

        /// Whether or not a file says more, the id and the names come out as they went in.
        #[test]
        fn what_is_written_is_read(
            ids in proptest::collection::vec("[0-9a-f]{64}", 1..20),
            name in "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,30}",
            field in "[a-z]{1,8}",
            more in any::<u64>(),
        ) {
            let docker = format!(r#"{{"X{field}":[{more}],"Name":"/{name}","ID":"{}"}}"#, ids[0]);
            prop_assert_eq!(of_docker(&docker), Some(Container { id: ids[0].clone(), names: vec![name.clone()] }));
            let entries: Vec<String> =
                ids.iter().map(|id| format!(r#"{{"x{field}":{{"a":{more}}},"names":["{name}"],"id":"{id}"}}"#)).collect();
            let read = of_storage(&format!("[{}]", entries.join(",")));
            prop_assert_eq!(read.len(), ids.len());
            prop_assert!(read.iter().zip(&ids).all(|(one, id)| one.id == *id && one.names == [name.clone()]));
        }
    }
}
