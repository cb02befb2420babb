//! Methods and messages: what is read, and how mistakes are told.

use crate::grpc::{CallKind, Method, Schema, reflection};
use proptest::prelude::*;
use prost::Message;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use std::fs;

const SHOP: &str = r#"syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
enum Colour { RED = 0; BLUE = 1; }
message Item { string name = 1; int64 count = 2; bytes data = 3; Colour colour = 4;
  google.protobuf.Timestamp at = 5; repeated double prices = 6; map<string, int32> stock = 7; }
message Done { }
service Shop {
  rpc Put(Item) returns (Done);
  rpc Watch(Item) returns (stream Done);
  rpc Upload(stream Item) returns (Done);
  rpc Chat(stream Item) returns (stream Done);
}
"#;

fn shop() -> Schema {
    Schema::of_text("shop.proto", SHOP).expect("a schema")
}

fn method(name: &str) -> Method {
    shop().method(&format!("/shop.Shop/{name}")).expect("the method")
}

fn read(name: &str, text: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut messages = Vec::new();
    method(name).read("--message", text, &mut messages).map_err(|error| error.to_string())?;
    Ok(messages)
}

/// Files of protobuf's editions name themselves so.
#[test]
fn another_syntax_is_refused_by_name() {
    let file = |syntax: &str| FileDescriptorProto {
        name: Some("shop.proto".to_owned()),
        syntax: Some(syntax.to_owned()),
        ..FileDescriptorProto::default()
    };
    let told =
        |syntax: &str| Schema::of_bytes(&FileDescriptorSet { file: vec![file(syntax)] }.encode_to_vec()).map(|_| ());
    let words = told("editions").expect_err("another syntax").to_string();
    assert!(words.contains("shop.proto") && words.contains("editions"), "{words}");
    assert!(told("").is_err() && told("proto2").is_ok() && told("proto3").is_ok());
    let words = Schema::of_files(vec![file("editions")]).expect_err("another syntax").to_string();
    assert!(words.contains("reflection") && words.contains("editions"), "{words}");
}

#[test]
fn a_maps_entry_without_a_key_is_refused_by_name() {
    let mut file = shop().files().into_iter().find(|file| file.name().contains("shop")).expect("its file");
    let entries = file.message_type.iter_mut().flat_map(|message| &mut message.nested_type);
    let entry = entries.into_iter().find(|entry| entry.name() == "StockEntry").expect("the map of the stock");
    entry.field[0].number = Some(250);
    let set = FileDescriptorSet { file: vec![file] }.encode_to_vec();
    let words = Schema::of_bytes(&set).expect_err("no key").to_string();
    assert!(words.contains("StockEntry") && words.contains("no key"), "{words}");
}

#[test]
fn methods_say_who_streams() {
    let kinds = ["Put", "Watch", "Upload", "Chat"].map(|name| method(name).kind());
    let all = [CallKind::Unary, CallKind::ServerStreaming, CallKind::ClientStreaming, CallKind::Bidirectional];
    assert_eq!(kinds, all);
    assert_eq!(method("Put").path(), "/shop.Shop/Put");
    for (path, words) in [
        ("/", "its methods: /shop.Shop/Chat, /shop.Shop/Put"),
        ("/shop.Shop.Put", "/package.Service/Method"),
        ("/shop.Shop/Put/x", "/package.Service/Method"),
        ("/shop.Store/Put", "its services: shop.Shop"),
        ("/shop.Shop/Get", "its methods: Chat, Put, Upload, Watch"),
    ] {
        let told = shop().method(path).expect_err(path).to_string();
        assert!(told.contains(words), "{path}: {told}");
    }
}

#[test]
fn messages_of_json_become_bytes() {
    // The bytes that protoc's own encoding has (protobuf.dev, Encoding).
    assert_eq!(read("Put", r#"{"name": "tea", "count": "150"}"#), Ok(vec![b"\x0a\x03tea\x10\x96\x01".to_vec()]));
    assert_eq!(read("Put", r#"{"colour": "BLUE", "data": "AQI="}"#), Ok(vec![b"\x1a\x02\x01\x02\x20\x01".to_vec()]));
    assert_eq!(read("Put", "{}"), Ok(vec![Vec::new()]));
    let three = Ok(vec![b"\x10\x01".to_vec(), Vec::new(), b"\x10\x02".to_vec()]);
    assert_eq!(read("Upload", r#"[{"count": 1}, {}, {"count": 2}]"#), three);
    assert_eq!(read("Upload", "{\"count\": 1}\n{}\n\n{\"count\": 2}\n"), three);
    assert_eq!(read("Upload", "[]"), Ok(Vec::new()));
    assert!(method("Put").check_count(1).is_ok() && method("Upload").check_count(0).is_ok());
    let told = method("Put").check_count(2).expect_err("two").to_string();
    assert!(told.contains("a unary method sends one"), "{told}");
}

#[test]
fn mistakes_in_messages_are_told_with_their_place() {
    for (text, words) in [
        ("{\n\"nam\": 1}", "--message, line 2, column 5: no shop.Item in JSON"),
        (
            "{\n\"nam\": 1}",
            "its fields: name string, count int64, data bytes, colour Colour, at Timestamp, prices [double]",
        ),
        ("{\"count\": \"x\"}", "line 1"),
        ("{\"colour\": \"GREEN\"}", "line 1"),
        ("{\"at\": \"yesterday\"}", "line 1"),
        ("[{}, 7]", "line 1, column"),
        ("", "line 1, column 0"),
        ("{} {", "line 1"),
        ("[{}] {}", "line 1, column"),
    ] {
        let told = read("Upload", text).expect_err(text);
        assert!(told.contains(words), "{text}: {told}");
    }
}

#[test]
fn mistakes_in_protos_are_told_with_file_line_and_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let file = folder.path().join(name);
        fs::write(&file, text).expect("written");
        file
    };
    let parts = file("parts.proto", "syntax = \"proto3\";\nmessage Part { int32 number = 1; }\n");
    let main = "syntax = \"proto3\";\nimport \"parts.proto\";\nservice S { rpc M(Part) returns (Part); }\n";
    let main = file("main.proto", main);
    let other = tempfile::tempdir().expect("a folder");
    let away = other.path().join("away.proto");
    fs::write(&away, fs::read(&main).expect("there")).expect("written");
    let known = Schema::of_protos(&[main], &[]).expect("imports lie beside");
    assert_eq!(known.method("/S/M").expect("the method").kind(), CallKind::Unary);
    let folders = [other.path().to_owned(), folder.path().to_owned()];
    assert!(Schema::of_protos(std::slice::from_ref(&away), &folders).is_ok());
    for (file, words) in [
        (file("a.proto", "syntax = \"proto3\";\n\nmessage X {\n  strin name = 1;\n}\n"), "a.proto:4:3: name 'strin'"),
        (file("b.proto", "syntax = \"proto3\";\nmessage X {\n  string name 1;\n}\n"), "b.proto:3:15: expected"),
        (file("c.proto", "syntax = \"proto3\";\nmessage X { int32 a = 1;\n  int32 b = 1; }\n"), "c.proto:"),
        (away, "--proto-path DIR"),
        (folder.path().join("none.proto"), "none.proto: cannot be read"),
    ] {
        let told = Schema::of_protos(&[file], &[]).expect_err(words).to_string();
        assert!(told.contains(words), "{words}: {told}");
    }
    drop(parts);
}

#[test]
fn descriptor_sets_are_read_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("set.pb");
    let set = FileDescriptorSet { file: shop().files() };
    fs::write(&file, set.encode_to_vec()).expect("written");
    assert!(Schema::of_set(&file).expect("a set").method("/shop.Shop/Put").is_ok());
    let imported: Vec<FileDescriptorProto> = set.file.into_iter().filter(|file| file.name() == "shop.proto").collect();
    fs::write(&file, FileDescriptorSet { file: imported }.encode_to_vec()).expect("written");
    let told = Schema::of_set(&file).expect_err("without imports").to_string();
    assert!(told.contains("set.pb") && told.contains("--include_imports"), "{told}");
    fs::write(&file, b"nothing").expect("written");
    assert!(Schema::of_set(&file).is_err() && Schema::of_set(&folder.path().join("none")).is_err());
}

proptest! {
    #[test]
    fn any_text_is_a_message_or_refused(
        text in "[\\[\\]{}\",:a-z0-9 .\\n]{0,30}|\\{\"(name|count|at|stock)\": ?[\\[{\"0-9.a-z-]{0,10}\\}?",
    ) {
        if let Ok(messages) = read("Upload", &text) {
            prop_assert!(messages.iter().map(Vec::len).sum::<usize>() <= 16 * text.len());
        }
    }

    #[test]
    fn any_text_is_a_schema_or_refused(
        text in "(syntax = \"proto3\";\n)?(message|enum|service|rpc|import|[{};=.a-zA-Z0-9\" \n]){0,12}",
    ) {
        if let Err(error) = Schema::of_text("t.proto", &text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn any_bytes_are_descriptors_or_refused(
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        cut in any::<usize>(),
    ) {
        let mut bytes = FileDescriptorSet { file: shop().files() }.encode_to_vec();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes.truncate(if cut % 3 == 0 { cut % (bytes.len() + 1) } else { bytes.len() });
        if let Ok(schema) = Schema::of_bytes(&bytes)
            && let Ok(method) = schema.method("/shop.Shop/Put")
        {
            let _ = method.read("--message", "{\"name\": \"x\", \"stock\": {\"a\": 1}}", &mut Vec::new());
        }
        // What a server tells is such a set one level deeper.
        let told = [&[0x22, 0x0a][..], &bytes].concat();
        let _ = reflection::read_answer(&told);
        let _ = reflection::read_answer(&bytes);
    }
}
