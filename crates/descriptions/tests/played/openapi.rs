//! Descriptions of OpenAPI.

use crate::server::Server;
use crate::{drafted, lines, once, played};
use std::path::Path;
use weir_descriptions::{DescriptionError, Draft, Kind, NoFiles, Selection, Wanted, draft};

/// A shop for animals, in the shape of the example that every tool has.
const SHOP: &str = r##"openapi: 3.1.0
info: { title: Animals, version: "1" }
servers:
  - url: http://{host}/v1
    variables:
      host: { default: unset.example }
security:
  - key: []
paths:
  /animals:
    parameters:
      - { name: locale, in: header, example: en, schema: { type: string } }
    get:
      operationId: list
      tags: [animals]
      parameters:
        - { name: limit, in: query, schema: { type: integer, default: 20, maximum: 100 } }
        - { name: kinds, in: query, required: true, schema: { type: array, items: { enum: [cat, "dog & hen"] } } }
        - { name: page, in: query, schema: { type: integer } }
        - { name: filter, in: query, style: deepObject, example: { age: 3 }, schema: { type: object } }
      responses:
        "200": { description: all, content: { application/json: { schema: { type: array } } } }
        default: { description: wrong }
    post:
      operationId: add
      tags: [animals]
      requestBody:
        content:
          application/json: { schema: { $ref: "#/components/schemas/Animal" } }
      responses: { "2XX": { description: added } }
  /animals/{id}:
    get:
      operationId: one
      tags: [animals]
      security: [{}]
      parameters:
        - { $ref: "#/components/parameters/Id" }
      responses: { "200": { description: one } }
    delete:
      operationId: remove
      parameters:
        - { $ref: "#/components/parameters/Id" }
      responses: { "200": { description: gone } }
components:
  parameters:
    Id: { name: id, in: path, required: true, schema: { type: string, pattern: "^[A-Z]{2}-\\d+$" } }
  schemas:
    Animal:
      allOf:
        - type: object
          required: [name]
          properties:
            id: { type: integer, readOnly: true }
            name: { type: string, minLength: 6 }
            born: { type: string, format: date }
        - type: object
          properties:
            weight_kg: { type: number, exclusiveMinimum: 0, maximum: 0.5 }
            parent: { $ref: "#/components/schemas/Animal" }
            kind: { oneOf: [{ enum: [cat] }, { type: integer }] }
  securitySchemes:
    key: { type: apiKey, in: header, name: X-Key }
"##;

fn wanted(server: &Server, selection: Selection) -> Wanted {
    let set = [("host", server.address.to_string()), ("key", "secret of a test".to_owned())];
    let set = set.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Wanted { selection, set, ..once() }
}

fn shop(server: &Server, selection: Selection) -> Draft {
    drafted(Kind::OpenApi, SHOP, &wanted(server, selection), Path::new("/nonexistent"))
}

#[test]
fn safe_operations_are_asked_with_their_examples_and_defaults() {
    let server = Server::start();
    let draft = shop(&server, Selection::Safe);
    let (asked, _) = played(&server, &draft, Path::new("/"));
    assert_eq!(
        lines(&asked),
        ["GET /v1/animals?limit=20&kinds=cat&filter[age]=3", "GET /v1/animals/AA-1"],
        "{}",
        draft.text
    );
    assert_eq!(asked[0].header("x-key"), Some("secret of a test"));
    assert_eq!((asked[0].header("locale"), asked[0].header("accept")), (Some("en"), Some("application/json")));
    assert_eq!(asked[1].header("x-key"), None, "an operation without security");
    assert!(draft.losses.is_empty(), "{:?}", draft.losses);
    let left_out: Vec<usize> = draft.left_out.iter().map(|told| told.line).collect();
    let line = |text: &str| SHOP.lines().position(|line| line.trim() == text).map_or(0, |at| at + 1);
    assert_eq!(left_out, [line("post:"), line("delete:")], "{:?}", draft.left_out);
    assert!(draft.text.contains("group = \"animals\"") && draft.text.contains("check = [\"status=200\"]"));
}

#[test]
fn all_operations_are_asked_only_if_that_is_said() {
    let server = Server::start();
    let draft = shop(&server, Selection::All);
    let (asked, _) = played(&server, &draft, Path::new("/"));
    assert_eq!(asked.len(), 4, "{}", draft.text);
    assert_eq!(asked[1].header("content-type"), Some("application/json"));
    let body: serde_json::Value = serde_json::from_str(&asked[1].body).expect("JSON");
    let wanted = serde_json::json!({
        "name": "textxx", "born": "2026-01-31", "weight_kg": 0.5, "kind": "cat"
    });
    assert_eq!(body, wanted, "what is read only, and the parent without end, are left out");
    let draft = shop(&server, Selection::Only(vec!["remove".to_owned()]));
    assert_eq!(lines(&played(&server, &draft, Path::new("/")).0), ["DELETE /v1/animals/AA-1"]);
    let draft = shop(&server, Selection::Only(vec!["animals".to_owned()]));
    assert_eq!(lines(&played(&server, &draft, Path::new("/")).0).len(), 2, "a tag has what is safe of it");
}

#[test]
fn values_of_secrets_come_from_the_environment() {
    let server = Server::start();
    let mut wanted = wanted(&server, Selection::Safe);
    wanted.set.remove("key");
    let draft = drafted(Kind::OpenApi, SHOP, &wanted, Path::new("/"));
    assert!(draft.text.contains("[env]\nkey = \"KEY\"\n"), "{}", draft.text);
}

#[test]
fn swagger_2_is_read_too() {
    let server = Server::start();
    let text = format!(
        r##"{{"swagger": "2.0", "info": {{"title": "old", "version": "1"}}, "host": "{}", "basePath": "/api",
  "schemes": ["http"], "securityDefinitions": {{"login": {{"type": "basic"}}}}, "security": [{{"login": []}}],
  "paths": {{
    "/a/{{id}}": {{"get": {{
      "parameters": [{{"name": "id", "in": "path", "required": true, "type": "integer", "minimum": 7}},
        {{"name": "q", "in": "query", "required": true, "type": "array", "items": {{"type": "string", "enum": ["x y"]}}}}],
      "produces": ["application/json"], "responses": {{"200": {{"description": "fine"}}}}}}}},
    "/b": {{"post": {{
      "consumes": ["application/x-www-form-urlencoded"],
      "parameters": [{{"name": "f", "in": "formData", "required": true, "type": "string", "default": "a&b"}}],
      "responses": {{"201": {{"description": "made"}}}}}}}}
  }}}}"##,
        server.address
    );
    let mut wanted = wanted(&server, Selection::Only(vec!["GET /a/{id}".to_owned()]));
    wanted.set.insert("login".to_owned(), "ann:word".to_owned());
    let draft = drafted(Kind::OpenApi, &text, &wanted, Path::new("/"));
    let (asked, _) = played(&server, &draft, Path::new("/"));
    assert_eq!(lines(&asked), ["GET /api/a/7?q=x%20y"]);
    assert_eq!(asked[0].header("authorization"), Some("Basic YW5uOndvcmQ="));
    wanted.selection = Selection::All;
    let draft = drafted(Kind::OpenApi, &text.replace("201", "200"), &wanted, Path::new("/"));
    assert_eq!(played(&server, &draft, Path::new("/")).0[1].body, "f=a%26b");
}

/// The lines of the mistakes of a description.
fn mistakes(text: &str) -> Vec<(usize, String)> {
    match draft(Kind::OpenApi, "f", text, &Wanted::default(), &NoFiles) {
        Err(DescriptionError::Mistaken { mistakes, .. }) => {
            mistakes.into_iter().map(|mistake| (mistake.line, mistake.what)).collect()
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn mistakes_are_told_with_their_lines() {
    for (text, line) in [
        ("openapi: 3.0.0\npaths: [\n", 3),
        ("openapi: 4.0.0\npaths: {}\n", 1),
        ("openapi: 3.0.0\n", 1),
        ("openapi: 3.0.0\npaths:\n  a:\n    get: {}\n", 3),
        ("openapi: 3.0.0\npaths:\n  /a:\n    get:\n      parameters:\n        - { in: query }\n", 6),
        ("openapi: 3.0.0\npaths:\n  /a:\n    $ref: '#/x'\n", 4),
        ("openapi: 3.0.0\npaths:\n  /a: &a\n    $ref: '#/paths/~1a'\n", 4),
        ("{\"openapi\": \"3.0.0\",\n \"paths\": {\n  \"/a\" 1}}", 3),
    ] {
        let told = mistakes(text);
        assert_eq!(told.first().map(|(line, _)| *line), Some(line), "{text}: {told:?}");
    }
}

#[test]
fn an_operation_that_cannot_be_asked_is_left_out_in_words() {
    let text = "openapi: 3.0.0\nservers: [{ url: /v2 }]\npaths:\n  /a/{id}:\n    get: {}\n  /b:\n    get:\n      parameters:\n\
                \x20       - { name: q, in: query, required: true, schema: { type: string, pattern: '(?=x)y' } }\n  /c:\n    get: {}\n";
    let draft = drafted(Kind::OpenApi, text, &Wanted::default(), Path::new("/"));
    let told: Vec<String> = draft.losses.iter().map(ToString::to_string).collect();
    assert_eq!(draft.requests, 1, "{told:?}");
    assert!(draft.needs_base && draft.text.contains("get = \"/v2/c\""), "{}", draft.text);
    assert!(told[0].starts_with("5: GET /a/{id} is left out: no parameter defines {id}"), "{told:?}");
    assert!(told[1].starts_with("9: GET /b is left out: the parameter q has no value"), "{told:?}");
}
