//! What a chunk says of its own classes.

use super::values::{Bytes, Class, ClassField, Classes, Sort};
use crate::ReadError;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Texts, elements and attributes of the description.
const TEXTS_MAX: u64 = 1 << 20;
const ELEMENTS_MAX: usize = 1 << 20;
const DEPTH_MAX: usize = 64;

/// An element of the description, which is a tree.
struct Element {
    name: Rc<str>,
    attributes: FxHashMap<Rc<str>, Rc<str>>,
    children: Vec<Element>,
}

/// Reads the description's event, which begins here.
pub(crate) fn classes(bytes: &mut Bytes<'_>) -> Result<Classes, ReadError> {
    // Size, type, time, duration, number.
    for _ in 0..2 {
        bytes.int()?;
    }
    for _ in 0..3 {
        bytes.long()?;
    }
    let count = bytes.int()?;
    if count > TEXTS_MAX {
        return Err(bytes.wrong(format!("its description has {count} texts; at most {TEXTS_MAX} are read")));
    }
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(Rc::from(bytes.text()?.unwrap_or_default()));
    }
    let mut left = ELEMENTS_MAX;
    let root = element(bytes, &texts, &mut left, 0)?;
    let mut classes = Classes::default();
    find(&root, &mut classes);
    let sorts: FxHashMap<u64, Sort> = classes.iter().map(|(number, class)| (*number, class.sort)).collect();
    for field in classes.values_mut().flat_map(|class| &mut class.fields) {
        field.sort = sorts.get(&field.class).copied().unwrap_or(Sort::Fields);
    }
    Ok(classes)
}

fn element(bytes: &mut Bytes<'_>, texts: &[Rc<str>], left: &mut usize, depth: usize) -> Result<Element, ReadError> {
    if *left == 0 || depth > DEPTH_MAX {
        return Err(bytes.wrong("its description has too many elements, or they are too deep"));
    }
    *left -= 1;
    let text = |bytes: &mut Bytes<'_>| -> Result<Rc<str>, ReadError> {
        let number = bytes.int()?;
        let known = usize::try_from(number).ok().and_then(|number| texts.get(number)).cloned();
        known.ok_or_else(|| bytes.wrong("its description has a text that it does not tell"))
    };
    let name = text(bytes)?;
    let mut attributes = FxHashMap::default();
    for _ in 0..bytes.int()? {
        let key = text(bytes)?;
        attributes.insert(key, text(bytes)?);
    }
    let mut children = Vec::new();
    for _ in 0..bytes.int()? {
        children.push(element(bytes, texts, left, depth + 1)?);
    }
    Ok(Element { name, attributes, children })
}

fn find(element: &Element, classes: &mut Classes) {
    let of = |element: &Element, key: &str| element.attributes.get(key).cloned().unwrap_or_else(|| Rc::from(""));
    if &*element.name == "class" {
        let fields = element.children.iter().filter(|child| &*child.name == "field").map(|child| ClassField {
            name: of(child, "name"),
            class: of(child, "class").parse().unwrap_or(0),
            sort: Sort::Fields,
            is_array: of(child, "dimension").parse::<u32>().is_ok_and(|dimension| dimension > 0),
            is_constant: &*of(child, "constantPool") == "true",
        });
        let name = of(element, "name");
        let class = Class { sort: Sort::of(&name), name, fields: fields.collect() };
        if let Ok(number) = of(element, "id").parse() {
            classes.insert(number, class);
        }
    }
    element.children.iter().for_each(|child| find(child, classes));
}
