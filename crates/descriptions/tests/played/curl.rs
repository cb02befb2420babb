//! Command lines of curl: curl itself is asked the same, and the server must see no difference.

use crate::server::{Request, Server, answer};
use crate::{drafted, lines, once, played};
use std::path::Path;
use std::process::Command;
use weir_descriptions::{DescriptionError, Kind, NoFiles, Wanted, draft};

/// What each client says of itself, and what says the length.
const OWN: [&str; 6] = ["user-agent", "accept", "host", "content-length", "connection", "expect"];

/// What was asked, but for what a client says of itself, and the boundary of a form, which each chooses.
fn comparable(request: &Request) -> Request {
    let mut request = request.clone();
    let boundary =
        request.header("content-type").and_then(|kind| kind.split_once("boundary=")).map(|(_, own)| own.to_owned());
    if let Some(boundary) = boundary {
        request.body = request.body.replace(&boundary, "BOUNDARY");
        for (_, value) in &mut request.headers {
            *value = value.replace(&boundary, "BOUNDARY");
        }
    }
    request.headers.retain(|(name, _)| !OWN.contains(&name.to_ascii_lowercase().as_str()));
    request.headers.iter_mut().for_each(|(name, _)| name.make_ascii_lowercase());
    request.headers.sort();
    request
}

/// Asks by curl and by the scenario; both must be the same.
fn same(server: &Server, lines: &[&str], folder: &Path) {
    let base = format!("http://{}", server.address);
    for line in lines {
        let line = line.replace("BASE", &base);
        let mut bash = Command::new("bash");
        let output = bash.args(["-c", &format!("{line} -s")]).current_dir(folder).output().expect("bash runs");
        assert!(output.status.success(), "{line}: {output:?}");
        let by_curl: Vec<Request> = server.asked().iter().map(comparable).collect();
        let draft = drafted(Kind::Curl, &line, &once(), folder);
        let (asked, _) = played(server, &draft, folder);
        let by_scenario: Vec<Request> = asked.iter().map(comparable).collect();
        assert_eq!(by_scenario, by_curl, "{line}\n{}", draft.text);
        assert!(draft.losses.is_empty(), "{line}: {:?}", draft.losses);
    }
}

#[test]
fn a_scenario_asks_what_curl_asks() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("body.txt"), "line 1\r\nline 2 & ${x}\n").expect("a file");
    same(
        &server,
        &[
            "curl BASE/a?b=c#d",
            "curl BASE",
            "curl 'BASE?next=http://other/'",
            "curl BASE//two//slashes",
            "curl -d 'a=1&b=${x}' -d c=d BASE/form",
            "curl --data-raw $'{\"a\": \"\\u0021 \\'x\\' \\n\\t\"}' -H 'content-type: application/json' BASE/json",
            "curl --json '{\"a\": 1}' BASE/json",
            "curl -d @body.txt BASE/file",
            "curl --data-binary @body.txt BASE/file",
            "curl --data-urlencode 'a=b c&d/ü' --data-urlencode '=x y' --data-urlencode 'e f' --data-urlencode n@body.txt BASE/",
            "curl -G -d q=1 --data-urlencode 'w=a b' BASE/search?x=y",
            "curl -X PUT -T body.txt BASE/put",
            "curl -T body.txt BASE/put",
            "curl -X DELETE BASE/thing",
            "curl -I BASE/head",
            "curl -F 'a=1 2' -F 'f=@body.txt;type=text/csv' -F 'g=<body.txt' BASE/upload",
            "curl -u 'ann:wo rd' -b 'a=1; b=2' -b c=3 -e http://from/ BASE/",
            "curl -H 'X-A: 1' -H 'X-Empty;' -H 'Accept-Encoding: br' -XPOST -d '' BASE/x",
            "curl --compressed -r 0-99 --oauth2-bearer abc BASE/",
            "curl \"BASE/a\\$b\" 'BASE/c%20d'",
            "curl BASE/1 --next -d x BASE/2",
        ],
        folder.path(),
    );
}

#[test]
fn what_the_caller_says_of_the_client_is_sent() {
    let server = Server::start();
    let line = format!("curl -A 'my agent' -H 'Accept: text/x' -H 'Host: other.example' http://{}/", server.address);
    let draft = drafted(Kind::Curl, &line, &once(), Path::new("/"));
    let asked = played(&server, &draft, Path::new("/")).0;
    let said = |name| asked[0].header(name).map(str::to_owned);
    assert_eq!(
        [said("user-agent"), said("accept"), said("host")],
        ["my agent", "text/x", "other.example"].map(|text| Some(text.to_owned()))
    );
}

#[test]
fn redirects_are_followed_only_with_the_option() {
    let server = Server::answering(|request| match request.target.as_str() {
        "/from" => answer("302 Found", &["Location: /to"], ""),
        _ => answer("200 OK", &[], ""),
    });
    let line = format!("curl http://{0}/from\ncurl -L http://{0}/from\n", server.address);
    let draft = drafted(Kind::Curl, &line, &once(), Path::new("/"));
    assert_eq!(lines(&played(&server, &draft, Path::new("/")).0), ["GET /from", "GET /from", "GET /to"]);
}

#[test]
fn a_file_of_commands_as_browsers_copy_them_is_read() {
    let server = Server::start();
    let text = format!(
        "# the first page\n$ curl 'http://{0}/' \\\n  -H 'accept: text/html' \\\n  --compressed ;\ncurl 'http://{0}/api' \\\n  \
         -X 'POST' \\\n  -H \"authorization: Bearer $PATH\" \\\n  --data-raw 'x' | jq .a > out.json\n",
        server.address
    );
    let draft = drafted(Kind::Curl, &text, &once(), Path::new("/"));
    let asked = played(&server, &draft, Path::new("/")).0;
    assert_eq!(lines(&asked), ["GET /", "POST /api"]);
    let path = std::env::var("PATH").expect("a path");
    assert_eq!(asked[1].header("authorization"), Some(format!("Bearer {path}").as_str()));
    assert_eq!(draft.losses.len(), 1, "{:?}", draft.losses);
    assert_eq!((draft.losses[0].line, draft.losses[0].what.contains("jq")), (8, true), "{:?}", draft.losses);
}

#[test]
fn what_is_not_carried_over_is_told_and_what_is_wrong_refused() {
    let text = "curl --http2 -x http://proxy:1 http://h/\ncurl --digest -u a:b http://h/d\ncurl http://h/[1-3]\n\
                curl -d \"$(date)\" http://h/\ncurl ftp://h/\ncurl http://h/ok\n";
    let draft = drafted(Kind::Curl, text, &Wanted::default(), Path::new("/"));
    let told: Vec<usize> = draft.losses.iter().map(|told| told.line).collect();
    assert_eq!((draft.requests, told), (2, vec![1, 1, 2, 3, 4, 5]), "{:?}", draft.losses);
    for (text, line) in
        [("curl --no-such http://h/", 1), ("\ncurl 'http://h/", 2), ("curl -H", 1), ("curl http://h/ ^\n -d x", 1)]
    {
        match draft_of(text) {
            Err(DescriptionError::Mistaken { mistakes, .. }) => {
                assert_eq!(mistakes[0].line, line, "{text}: {mistakes:?}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

fn draft_of(text: &str) -> Result<weir_descriptions::Draft, DescriptionError> {
    draft(Kind::Curl, "f", text, &Wanted::default(), &NoFiles)
}
