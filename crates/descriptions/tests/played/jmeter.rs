//! Test plans of JMeter.

use crate::server::{Server, answer};
use crate::{drafted, lines, played};
use std::path::Path;
use weir_descriptions::{DescriptionError, Kind, NoFiles, Wanted, draft};

const PLAN: &str = include_str!("shop.jmx");

fn shop() -> Server {
    Server::answering(|request| match request.target.split('?').next().unwrap_or_default() {
        "/login" => answer("302 Found", &["Set-Cookie: sid=7; Path=/", "Location: /home"], ""),
        "/home" => answer("200 OK", &[], "<p id=\"t\">token=abc;</p>"),
        "/items" => answer("200 OK", &[], r#"{"items": [{"id": 31}]}"#),
        _ => answer("200 OK", &[], "fine"),
    })
}

fn plan(server: &Server) -> String {
    PLAN.replace("SERVER_PORT", &server.address.port().to_string())
}

#[test]
fn a_plan_is_played_as_it_says() {
    let server = shop();
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("users.csv"), "name;word\nann;a b\nbob;c\n").expect("a file");
    let draft = drafted(Kind::Jmeter, &plan(&server), &Wanted::default(), folder.path());
    let (asked, report) = played(&server, &draft, folder.path());
    assert_eq!((report.scenarios[0].finished, report.scenarios[0].users_max), (4, 2), "{}", draft.text);
    let counted = |line: &str| lines(&asked).iter().filter(|own| *own == line).count();
    assert_eq!(counted("GET /begin"), 1, "set up once: {:?}", lines(&asked));
    assert_eq!((counted("POST /login"), counted("GET /home")), (4, 4), "the redirect is followed");
    assert_eq!(counted("GET /items?q=green%20tea&t=abc"), 12, "three times in each iteration: {:?}", lines(&asked));
    assert_eq!((counted("GET /item/31"), counted("GET /never")), (4, 0), "{:?}", lines(&asked));
    assert_eq!(counted("POST /raw"), 4);
    let login = asked.iter().find(|request| request.target == "/login").expect("a login");
    let body = login.body.as_str();
    assert!(["user=ann&word=a%20b", "user=bob&word=c"].contains(&body), "{body}");
    let raw = asked.iter().find(|request| request.target == "/raw").expect("a raw body");
    assert_eq!(raw.body, "{\"kind\": \"green tea\"}");
    assert_eq!((raw.header("x-kind"), raw.header("x-own")), (Some("green tea"), Some("inner")));
    assert!(raw.header("cookie").is_some_and(|cookie| cookie == "sid=7"), "cookies are kept");
}

#[test]
fn what_is_not_carried_over_is_told_with_element_and_line() {
    let server = shop();
    let text = plan(&server);
    let draft = drafted(Kind::Jmeter, &text, &Wanted::default(), Path::new("/"));
    let line = |part: &str| text.lines().position(|line| line.contains(part)).map_or(0, |at| at + 1);
    let told: Vec<String> = draft.losses.iter().map(ToString::to_string).collect();
    for (part, words) in [
        ("testname=\"groovy\"", "JSR223Sampler \"groovy\" is not carried over"),
        ("testname=\"while\"", "WhileController \"while\" is not carried over"),
        ("testname=\"how long\"", "DurationAssertion \"how long\" is not carried over"),
        ("testname=\"odd\"", "HTTPSamplerProxy \"odd\" is left out: ${__time(,)} has no value here"),
    ] {
        let begin = format!("{}: {words}", line(part));
        assert!(told.iter().any(|told| told.starts_with(&begin)), "{begin}: {told:#?}");
    }
    assert_eq!(told.len(), 4, "{told:#?}");
    assert!(draft.text.contains("think = \"normal 1000us 500us\""), "{}", draft.text);
}

#[test]
fn wrong_plans_are_refused_with_their_lines() {
    let deep = format!("<jmeterTestPlan>\n{}", "<hashTree>".repeat(300));
    for (text, line) in [
        ("<jmeterTestPlan>\n<hashTree>\n</jmeterTestPlan>", 3),
        ("<jmeterTestPlan/>", 1),
        ("<!DOCTYPE a [<!ENTITY b \"c\">]>\n<jmeterTestPlan/>", 1),
        (deep.as_str(), 2),
    ] {
        match draft(Kind::Jmeter, "f", text, &Wanted::default(), &NoFiles) {
            Err(DescriptionError::Mistaken { mistakes, .. }) => {
                assert_eq!(mistakes[0].line, line, "{text}: {mistakes:?}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}
