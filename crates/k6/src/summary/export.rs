//! The file of `--summary-export`: flat values, groups and checks by their names, and of thresholds whether they failed.

use serde_json::{Map, Value, json};

/// The data of a run in the form of that file.
pub(crate) fn export(data: &Value) -> Value {
    let mut metrics = Map::new();
    for (name, metric) in data["metrics"].as_object().into_iter().flatten() {
        let mut one = metric["values"].as_object().cloned().unwrap_or_default();
        if metric["type"] == "rate"
            && let Some(rate) = one.remove("rate")
        {
            one.insert("value".to_owned(), rate);
        }
        if let Some(thresholds) = metric["thresholds"].as_object() {
            let failed = thresholds.iter().map(|(text, judged)| (text.clone(), json!(judged["ok"] == false)));
            one.insert("thresholds".to_owned(), Value::Object(failed.collect()));
        }
        metrics.insert(name.clone(), Value::Object(one));
    }
    let mut file = json!({ "root_group": by_names(&data["root_group"]), "metrics": metrics });
    if let Some(setup) = data.get("setup_data") {
        file["setup_data"] = setup.clone();
    }
    file
}

fn by_names(group: &Value) -> Value {
    let named = |list: &Value, inner: &dyn Fn(&Value) -> Value| -> Map<String, Value> {
        let all = list.as_array().into_iter().flatten();
        all.map(|one| (one["name"].as_str().unwrap_or_default().to_owned(), inner(one))).collect()
    };
    json!({
        "name": group["name"],
        "path": group["path"],
        "id": group["id"],
        "groups": named(&group["groups"], &by_names),
        "checks": named(&group["checks"], &Value::clone),
    })
}
