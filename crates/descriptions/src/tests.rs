//! What is the same of all forms.

use super::*;
use proptest::prelude::*;
use std::path::Path;

#[test]
fn forms_are_told_by_their_content() {
    for (text, kind) in [
        ("openapi: 3.1.0\n", Some(Kind::OpenApi)),
        ("# a comment\nswagger: '2.0'\n", Some(Kind::OpenApi)),
        ("{\"openapi\": \"3.0.0\"}", Some(Kind::OpenApi)),
        ("\u{feff}<?xml version=\"1.0\"?>\n<jmeterTestPlan>", Some(Kind::Jmeter)),
        ("{\"info\": {}, \"item\": []}", Some(Kind::Postman)),
        ("{\"log\": {\"entries\": []}}", Some(Kind::Har)),
        ("# requests\n$ curl http://h/", Some(Kind::Curl)),
        ("<html>", None),
        ("{}", None),
        ("hello", None),
        ("", None),
    ] {
        assert_eq!(Kind::recognise(text), kind, "{text}");
    }
}

/// Pieces of which files of all forms are made.
const PIECES: [&str; 40] = [
    "openapi: 3.0.0\n",
    "paths:\n",
    "  /a/{b}:\n",
    "    get:\n",
    "      parameters: [{ name: b, in: path, required: true, schema: { type: array, items: { type: integer } } }]\n",
    "      responses: { 200: {} }\n",
    "      security: [{ k: [] }]\n",
    "components: { securitySchemes: { k: { type: http, scheme: basic } } }\n",
    "{",
    "}",
    "[",
    "]",
    "\"info\": {}, \"item\":",
    "{\"name\": \"n\", \"request\": \"http://h/{{v}}/$\"}",
    "{\"name\": \"g\", \"item\": [",
    "\"variable\": [{\"key\": \"v\", \"value\": \"{{v}}${\"}]",
    ",",
    "\"log\": {\"entries\": [{\"request\": {\"method\": \"GET\", \"url\": \"http://h/${x}\", \"headers\": []}}]}",
    "curl ",
    "http://h/a ",
    "-d 'a=${b}$' ",
    "-H 'A: b' ",
    "-H \"B: $C\" ",
    "-F 'a=@b;type=c' ",
    "-F a=b ",
    "| jq\n",
    "--next ",
    "--json '{}' ",
    "\n",
    "\\\n",
    "<jmeterTestPlan><hashTree><TestPlan/><hashTree>",
    "<ThreadGroup testname=\"a&quot;\"/><hashTree>",
    "<HTTPSamplerProxy testname=\"s\"><stringProp name=\"HTTPSampler.domain\">h</stringProp></HTTPSamplerProxy><hashTree/>",
    "<IfController><stringProp name=\"IfController.condition\">\"${v}\" == \"1\"</stringProp></IfController><hashTree>",
    "<ThroughputController><stringProp name=\"ThroughputController.percentThroughput\">30</stringProp><intProp name=\"ThroughputController.style\">1</intProp></ThroughputController><hashTree>",
    "<RegexExtractor><stringProp name=\"RegexExtractor.refname\">v</stringProp><stringProp name=\"RegexExtractor.regex\">(</stringProp></RegexExtractor><hashTree/>",
    "<ConstantTimer><stringProp name=\"ConstantTimer.delay\">5</stringProp></ConstantTimer><hashTree/>",
    "</hashTree>",
    "</hashTree></hashTree></jmeterTestPlan>",
    "é",
];

proptest! {
    /// What is written is a scenario; what is wrong has a place and a remedy.
    #[test]
    fn what_is_read_makes_a_scenario_or_is_refused(places in prop::collection::vec(0usize..PIECES.len(), 0..14)) {
        let text: String = places.iter().map(|place| PIECES[*place]).collect();
        let wanted = Wanted { selection: Selection::All, ..Wanted::default() };
        for kind in Kind::ALL {
            match draft(kind, "f", &text, &wanted, &NoFiles) {
                Ok(draft) => {
                    let mistakes = weir_scenario::form::parse(&draft.text, Path::new("/"), None).err().unwrap_or_default();
                    let inside = mistakes.iter().filter(|mistake| !mistake.what.starts_with("the environment variable"));
                    prop_assert_eq!(inside.collect::<Vec<_>>(), Vec::<&weir_diagnostic::Mistake>::new(), "{}\n{}", text, draft.text);
                }
                Err(DescriptionError::Mistaken { mistakes, .. }) => {
                    prop_assert!(mistakes.iter().all(|mistake| mistake.line > 0 && !mistake.remedy.is_empty()));
                }
                Err(DescriptionError::Nothing { .. } | DescriptionError::TooLarge { .. }) => {}
            }
        }
    }
}
