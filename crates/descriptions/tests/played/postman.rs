//! Collections of Postman.

use crate::server::Server;
use crate::{drafted, lines, once, played};
use std::path::Path;
use weir_descriptions::{DescriptionError, Kind, NoFiles, Selection, Wanted, draft};

const SHOP: &str = r##"{
  "info": { "_postman_id": "1", "name": "Shop",
    "schema": "https://schema.getpostman.com/json/collection/v2.1.0/collection.json" },
  "auth": { "type": "bearer", "bearer": [{ "key": "token", "value": "{{token}}", "type": "string" }] },
  "variable": [{ "key": "base", "value": "http://{{host}}/api" }, { "key": "kind", "value": "green tea" }],
  "item": [
    { "name": "account", "item": [
      { "name": "log in",
        "event": [{ "listen": "test", "script": { "exec": ["pm.test('fine', () => {});", ""] } }],
        "request": { "method": "POST", "auth": { "type": "basic", "basic": [
              { "key": "username", "value": "ann" }, { "key": "password", "value": "{{token}}" }] },
          "header": [{ "key": "X-A", "value": "{{kind}}" }, { "key": "X-Off", "value": "1", "disabled": true }],
          "body": { "mode": "raw", "raw": "{\"kind\": \"{{kind}}\", \"cost\": \"$5\"}",
            "options": { "raw": { "language": "json" } } },
          "url": { "raw": "{{base}}/login/:who?next=/", "host": ["{{base}}"], "path": ["login", ":who"],
            "variable": [{ "key": "who", "value": "{{kind}}" }] } } }
    ] },
    { "name": "form", "request": { "method": "POST", "header": [], "auth": { "type": "noauth" },
        "body": { "mode": "urlencoded", "urlencoded": [{ "key": "a b", "value": "c&d" },
          { "key": "off", "value": "x", "disabled": true }] }, "url": "{{base}}/form" } },
    { "name": "upload", "request": { "method": "POST", "body": { "mode": "formdata", "formdata": [
        { "key": "note", "value": "{{kind}}", "type": "text" }, { "key": "file", "type": "file", "src": "data.txt" }] },
        "auth": { "type": "apikey", "apikey": [{ "key": "key", "value": "k" }, { "key": "value", "value": "{{kind}}" },
          { "key": "in", "value": "query" }] }, "url": "{{base}}/upload" } },
    { "name": "graph", "request": { "method": "POST", "body": { "mode": "graphql",
        "graphql": { "query": "query A($k: String) { a(k: $k) }", "variables": "{\"k\": \"{{kind}}\"}" } },
        "url": "{{base}}/graphql" } },
    { "name": "lost", "request": { "method": "GET", "url": "{{base}}/{{unset}}" } },
    { "name": "signed", "request": { "method": "GET", "auth": { "type": "awsv4", "awsv4": [] }, "url": "{{base}}/x" } }
  ]
}"##;

const ENVIRONMENT: &str = r#"{ "name": "test", "values": [
  { "key": "token", "value": "word", "enabled": true }, { "key": "kind", "value": "off", "enabled": false } ] }"#;

fn wanted(server: &Server) -> Wanted {
    let set = [("host".to_owned(), server.address.to_string())].into();
    Wanted { set, variables: Some(("env.json".to_owned(), ENVIRONMENT.to_owned())), ..once() }
}

#[test]
fn requests_have_their_variables_bodies_and_authentication() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("data.txt"), "of a file").expect("a file");
    let draft = drafted(Kind::Postman, SHOP, &wanted(&server), folder.path());
    let (asked, _) = played(&server, &draft, folder.path());
    assert_eq!(
        lines(&asked),
        ["POST /api/login/green%20tea?next=/", "POST /api/form", "POST /api/upload?k=green%20tea", "POST /api/graphql"],
        "{}",
        draft.text
    );
    let said = |place: usize, name| asked[place].header(name).map(str::to_owned);
    assert_eq!(said(0, "authorization"), Some("Basic YW5uOndvcmQ=".to_owned()));
    assert_eq!((said(0, "x-a"), said(0, "x-off")), (Some("green tea".to_owned()), None));
    assert_eq!(asked[0].body, "{\"kind\": \"green tea\", \"cost\": \"$5\"}");
    assert_eq!((said(1, "authorization"), asked[1].body.as_str()), (None, "a%20b=c%26d"));
    assert!(asked[2].body.contains("name=\"note\"\r\n\r\ngreen tea\r\n"), "{}", asked[2].body);
    assert!(asked[2].body.contains("filename=\"data.txt\"\r\nContent-Type: text/plain\r\n\r\nof a file\r\n"));
    assert_eq!(said(3, "authorization"), Some("Bearer word".to_owned()));
    let asked: serde_json::Value = serde_json::from_str(&asked[3].body).expect("JSON");
    assert_eq!(asked["variables"]["k"], "green tea");
    assert!(draft.text.contains("group = \"account\"") && draft.text.contains("base = \"http://"), "{}", draft.text);
}

#[test]
fn what_is_not_carried_over_is_told_with_its_line() {
    let server = Server::start();
    let draft = drafted(Kind::Postman, SHOP, &wanted(&server), Path::new("/nonexistent"));
    let told: Vec<String> = draft.losses.iter().map(ToString::to_string).collect();
    for (line, words) in [
        (9, "the test script of log in (2 lines) is not run"),
        (21, "the request \"upload\" is left out: its body is the file \"data.txt\""),
        (28, "the request \"lost\" is left out: it needs {{unset}}"),
        (29, "the request \"signed\" is left out: its authentication (awsv4)"),
    ] {
        assert!(told.iter().any(|told| told.starts_with(&format!("{line}: {words}"))), "{words}: {told:#?}");
    }
    assert_eq!(told.len(), 4, "{told:#?}");
}

#[test]
fn folders_and_requests_are_taken_by_their_names() {
    let server = Server::start();
    let only = |name: &str| Wanted { selection: Selection::Only(vec![name.to_owned()]), ..wanted(&server) };
    let draft = drafted(Kind::Postman, SHOP, &only("account"), Path::new("/"));
    assert_eq!(lines(&played(&server, &draft, Path::new("/")).0), ["POST /api/login/green%20tea?next=/"]);
    let unknown = weir_descriptions::draft(Kind::Postman, "f", SHOP, &only("acount"), &NoFiles);
    assert!(matches!(unknown, Err(DescriptionError::Mistaken { .. })), "{unknown:?}");
}

#[test]
fn what_is_no_collection_is_refused_with_its_line() {
    for (text, line) in [
        ("{\"info\": {},\n \"item\": [{\"name\": \"a\"}]}", 2),
        ("{\"info\": {},\n\"item\": 3}", 1),
        ("{\"info\": {}, \"item\": [\n", 2),
        ("{\"requests\": []}", 1),
    ] {
        match draft(Kind::Postman, "f", text, &Wanted::default(), &NoFiles) {
            Err(DescriptionError::Mistaken { mistakes, .. }) => {
                assert_eq!(mistakes[0].line, line, "{text}: {mistakes:?}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}
