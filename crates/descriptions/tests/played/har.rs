//! Recordings.

use crate::server::Server;
use crate::{drafted, lines, once, played};
use std::path::Path;
use weir_descriptions::Kind;

#[test]
fn entries_are_asked_again() {
    let server = Server::start();
    let text = format!(
        r#"{{"log": {{"version": "1.2", "entries": [
  {{"request": {{"method": "GET", "url": "http://{0}/a?b=http://c/", "headers": [
     {{"name": "accept", "value": "text/html"}}, {{"name": ":authority", "value": "h"}},
     {{"name": "Cookie", "value": "sid=1"}}, {{"name": "Host", "value": "h"}}]}}}},
  {{"request": {{"method": "POST", "url": "http://{0}/form", "headers": [
     {{"name": "Content-Type", "value": "application/x-www-form-urlencoded"}}],
     "postData": {{"mimeType": "application/x-www-form-urlencoded", "params": [{{"name": "a", "value": "b c"}}]}}}}}},
  {{"request": {{"method": "GET", "url": "data:text/plain,x", "headers": []}}}}
]}}}}"#,
        server.address
    );
    let draft = drafted(Kind::Har, &text, &once(), Path::new("/"));
    let (asked, _) = played(&server, &draft, Path::new("/"));
    assert_eq!(lines(&asked), ["GET /a?b=http://c/", "POST /form"]);
    assert_eq!((asked[0].header("accept"), asked[0].header("cookie")), (Some("text/html"), None));
    assert_eq!(asked[1].body, "a=b%20c");
    let told: Vec<usize> = draft.losses.iter().map(|told| told.line).collect();
    assert_eq!(told, [4, 8], "{:?}", draft.losses);
}
