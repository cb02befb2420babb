//! What is told is the same by weir's own calls for requests and by the standard's, which a library of others has alone.

use crate::{BUILT, armed, ask, required, site};
use std::fs;
use tempfile::TempDir;
use weir_agent::transaction::Status;
use weir_testkit::{Apache, Cgi};
use weir_web_modules::{Told, arm_directory, context, metric};

const PARENT: &str = "0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";

/// The library without its functions beyond the standard: they get other names, so the module does not find them.
fn of_others() -> TempDir {
    let folder = site(&[]);
    let mut library = fs::read(BUILT.path().join("libarm4.so.4")).expect("it was built");
    let (name, other) = (b"weir_arm_start_request\0", b"xxxx_xxx_start_request\0");
    let at: Vec<usize> = (0..library.len() - name.len()).filter(|at| library[*at..].starts_with(name)).collect();
    assert!(!at.is_empty(), "the library has it");
    for at in at {
        library[at..at + other.len()].copy_from_slice(other);
    }
    fs::write(folder.path().join("libarm4.so.4"), library).expect("there is room");
    folder
}

/// What is told of a request but its times, and whether those fit together.
#[derive(Debug, Clone, PartialEq)]
struct Page {
    name: String,
    status: Status,
    parent: Option<String>,
    user: Option<String>,
    uri: Option<String>,
    context: [Option<String>; 2],
    /// Status and bytes.
    metrics: [Option<i64>; 2],
    address: Option<String>,
    diagnosis: Option<String>,
    times_fit: bool,
}

fn pages(library: Option<&TempDir>) -> Vec<Page> {
    let fails = "#!/bin/sh\nexit 1\n";
    let prints = "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nenv\n";
    let site = site(&[("a.txt", "a"), ("fail.cgi", fails), ("env.cgi", prints)]);
    let arm = arm_directory();
    let told = Told::over(arm.path());
    let apache = Apache::event().workers(4).processes(1).root(site.path()).cgi(Cgi::Daemon);
    let mut apache = armed(apache, arm.path()).directive("Arm On\nArmUser customer");
    if let Some(library) = library {
        apache = apache.environment("LD_LIBRARY_PATH", library.path());
    }
    let server = apache.start().expect("it starts");
    told.next(1);
    let parent = format!("traceparent: 00-{PARENT}-01");
    let mut all = Vec::new();
    for (path, field) in [("/a.txt", ""), ("/a.txt", &parent), ("/none", ""), ("/fail.cgi", ""), ("/env.cgi", &parent)]
    {
        let answer = ask(server.port, format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{field}").trim_end());
        let one = told.next(1).remove(0);
        // What a program starts is a child of the request, with and without those functions.
        let own = one.id.to_string();
        let correlator = answer.body.lines().find_map(|line| line.strip_prefix("ARM_CORRELATOR="));
        let is_handed_on = correlator.is_some_and(|found| found.ends_with(&own.replace('-', "")));
        assert_eq!(is_handed_on, path == "/env.cgi", "{}", answer.body);
        let (first, last) = (metric(&one, "first byte"), metric(&one, "last byte"));
        let took_us = i64::try_from(one.duration_ns / 1000).expect("a moment");
        all.push(Page {
            // The standard's way takes the last byte's time a moment before the end's, by another clock.
            times_fit: first.is_some_and(|first| first >= 0)
                && first <= last
                && last.is_some_and(|last| if library.is_none() { last == took_us } else { last <= took_us + 2_000 }),
            status: one.status,
            parent: one.parent.map(|parent| parent.to_string()),
            user: one.user.clone(),
            uri: one.details.uri.clone(),
            context: ["method", "host"].map(|name| context(&one, name).map(str::to_owned)),
            metrics: ["status", "bytes"].map(|name| metric(&one, name)),
            address: one
                .details
                .address
                .clone()
                .filter(|address| *address == answer.from.to_string())
                .map(|_| "its own".to_owned()),
            diagnosis: one.details.diagnosis.clone(),
            name: one.name,
        });
    }
    assert!(told.rest().is_empty());
    all
}

#[test]
fn what_is_told_does_not_depend_on_whose_library_it_is() {
    if required().is_none() {
        return;
    }
    let (own, others) = (pages(None), pages(Some(&of_others())));
    assert!(own.iter().all(|page| page.times_fit && page.address.is_some()), "{own:#?}");
    assert_eq!(own[0].metrics, [Some(200), Some(1)]);
    assert_eq!((own[1].parent.as_deref(), own[3].status), (Some(PARENT), Status::Failed));
    assert_eq!(own.len(), others.len());
    for (own, other) in own.iter().zip(&others) {
        // Bytes of an environment differ by the names of folders.
        let bytes = |page: &Page| if page.uri.as_deref() == Some("/env.cgi") { None } else { page.metrics[1] };
        assert_eq!((bytes(own), own.metrics[0]), (bytes(other), other.metrics[0]));
        let same = Page { metrics: own.metrics, ..other.clone() };
        assert_eq!(*own, same);
    }
}
