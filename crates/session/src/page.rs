//! Links and forms of a page, as a browser's tokenizer sees them.

use html5gum::emitters::default::DefaultEmitter;
use html5gum::{StartTag, Token, Tokenizer};

/// A page has at most so many links and forms that are looked at.
const ITEMS_MAX: usize = 10_000;

/// A link: `<a href>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The address, as written.
    pub href: String,
    /// The text between the tags, white space made one space.
    pub text: String,
}

/// A submit button of a form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Button {
    /// Its name.
    pub name: String,
    /// Its value, or the text on it.
    pub value: String,
    /// Its picture.
    pub src: String,
}

impl Button {
    /// What a user sees of it.
    #[must_use]
    pub fn told(&self) -> &str {
        [&self.value, &self.name, &self.src].into_iter().find(|part| !part.is_empty()).map_or("", String::as_str)
    }
}

/// A form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Form {
    /// Where it is sent, as written; the page's own address if empty.
    pub action: String,
    /// The method, in capitals.
    pub method: String,
    /// Its name.
    pub name: String,
    /// Names and values of its fields as the page has them; buttons are not among them.
    pub fields: Vec<(String, String)>,
    /// The buttons that send it.
    pub buttons: Vec<Button>,
}

/// What a page offers to click on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The address of `<base href>`.
    pub base: Option<String>,
    /// Its links, in order.
    pub links: Vec<Link>,
    /// Its forms, in order.
    pub forms: Vec<Form>,
}

impl Page {
    /// Reads a page. It does not fail: of any bytes the links and forms that can be read are given.
    #[must_use]
    pub fn read(content: &[u8]) -> Self {
        let mut reader = Reader::default();
        let mut emitter = DefaultEmitter::default();
        emitter.naively_switch_states(true);
        let tokens = Tokenizer::new_with_emitter(content, emitter);
        for Ok(token) in tokens {
            match token {
                Token::StartTag(tag) => reader.start(&tag),
                Token::EndTag(tag) => reader.end(&tag.name),
                Token::String(text) => reader.text(&text),
                _ => {}
            }
        }
        reader.end(b"a");
        reader.page
    }
}

#[derive(Default)]
struct Reader {
    page: Page,
    link: Option<Link>,
    in_form: bool,
    /// The name of a selection, whether an option of it was chosen, and its first option.
    select: Option<(String, bool, Option<String>)>,
    /// An option without a value: its text is to come, and whether it is chosen.
    option: Option<(String, bool)>,
    textarea: Option<(String, String)>,
    button: Option<Button>,
}

fn attribute(tag: &StartTag<()>, name: &str) -> Option<String> {
    tag.attributes.get(name.as_bytes()).map(|value| String::from_utf8_lossy(value).into_owned())
}

fn one_space(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Reader {
    fn form(&mut self) -> Option<&mut Form> {
        if self.in_form { self.page.forms.last_mut() } else { None }
    }

    fn start(&mut self, tag: &StartTag<()>) {
        let value = |name: &str| attribute(tag, name).unwrap_or_default();
        match tag.name.as_slice() {
            b"base" if self.page.base.is_none() => self.page.base = attribute(tag, "href"),
            b"a" => {
                self.end(b"a");
                self.link = attribute(tag, "href").map(|href| Link { href, text: String::new() });
            }
            b"img" => {
                if let (Some(link), Some(alt)) = (&mut self.link, attribute(tag, "alt")) {
                    link.text.push_str(&alt);
                }
            }
            // A form within a form is not one: browsers pass it over.
            b"form" if !self.in_form && self.page.forms.len() < ITEMS_MAX => {
                let method = value("method").to_ascii_uppercase();
                let method = if method == "POST" { method } else { "GET".to_owned() };
                self.in_form = true;
                self.page.forms.push(Form { action: value("action"), method, name: value("name"), ..Form::default() });
            }
            b"input" => {
                let (name, text, kind) = (value("name"), attribute(tag, "value"), value("type").to_ascii_lowercase());
                let chosen = tag.attributes.contains_key(b"checked".as_slice());
                let src = value("src");
                let Some(form) = self.form() else { return };
                match kind.as_str() {
                    "submit" | "image" => {
                        form.buttons.push(Button { name, value: text.unwrap_or_default(), src });
                    }
                    "button" | "reset" | "file" => {}
                    "checkbox" | "radio" if !chosen => {}
                    "checkbox" | "radio" => form.fields.push((name, text.unwrap_or_else(|| "on".to_owned()))),
                    _ => form.fields.push((name, text.unwrap_or_default())),
                }
            }
            b"button" if matches!(&*value("type").to_ascii_lowercase(), "" | "submit") => {
                self.button = Some(Button { name: value("name"), value: value("value"), src: String::new() });
            }
            b"textarea" => self.textarea = Some((value("name"), String::new())),
            b"select" => self.select = Some((value("name"), false, None)),
            b"option" => {
                self.end(b"option");
                let chosen = tag.attributes.contains_key(b"selected".as_slice());
                match attribute(tag, "value") {
                    Some(value) => self.choose(value, chosen),
                    None => self.option = Some((String::new(), chosen)),
                }
            }
            _ => {}
        }
    }

    fn choose(&mut self, value: String, chosen: bool) {
        let Some((name, any, first)) = &mut self.select else { return };
        first.get_or_insert_with(|| value.clone());
        if chosen {
            *any = true;
            let field = (name.clone(), value);
            if let Some(form) = self.form() {
                form.fields.push(field);
            }
        }
    }

    fn text(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        if let Some(link) = &mut self.link {
            link.text.push_str(&text);
        }
        if let Some((_, content)) = &mut self.textarea {
            content.push_str(&text);
        }
        if let Some((content, _)) = &mut self.option {
            content.push_str(&text);
        }
        if let Some(button) = &mut self.button
            && button.value.is_empty()
        {
            button.value = one_space(&text);
        }
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"a" => {
                if let Some(link) = self.link.take()
                    && self.page.links.len() < ITEMS_MAX
                {
                    self.page.links.push(Link { text: one_space(&link.text), ..link });
                }
            }
            b"form" => self.in_form = false,
            b"button" => {
                if let Some(button) = self.button.take()
                    && let Some(form) = self.form()
                {
                    form.buttons.push(button);
                }
            }
            b"textarea" => {
                if let Some((name, content)) = self.textarea.take()
                    && let Some(form) = self.form()
                {
                    // The end of line right behind the tag is for the eyes of its author.
                    let content = content.strip_prefix('\n').unwrap_or(&content).to_owned();
                    form.fields.push((name, content));
                }
            }
            b"option" => {
                if let Some((text, chosen)) = self.option.take() {
                    self.choose(one_space(&text), chosen);
                }
            }
            b"select" => {
                self.end(b"option");
                if let Some((name, false, Some(first))) = self.select.take()
                    && let Some(form) = self.form()
                {
                    form.fields.push((name, first));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn links_and_forms_are_found_as_a_browser_finds_them() {
        let page = Page::read(
            b"<base href='/b/'><!-- <a href=no>no</a> --><script>'<a href=no>no</a>'</script>\
              <A HREF=one.html>The <b>first</b>\n one</a><a name=x>not a link</a><a href='?a=1&amp;b=2'>t&auml;</a>\
              <form action=/go method=post name=f><input type=hidden name=token value='a&quot;b'><input name=q>\
              <input type=checkbox name=c checked><input type=checkbox name=d><textarea name=t>\nx\ny</textarea>\
              <select name=s><option>one<option selected>two</select><select name=r><option value=1>a</select>\
              <input type=submit name=ok value='Go now'><button name=b2 value=v>Text</button></form>\
              <input name=outside><form><button>Send it</button></form>",
        );
        assert_eq!(page.base.as_deref(), Some("/b/"));
        let links: Vec<_> = page.links.iter().map(|link| (&*link.href, &*link.text)).collect();
        assert_eq!(links, [("one.html", "The first one"), ("?a=1&b=2", "tä")]);
        let form = &page.forms[0];
        assert_eq!((&*form.action, &*form.method, &*form.name), ("/go", "POST", "f"));
        let fields: Vec<_> = form.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let all = [("token", "a\"b"), ("q", ""), ("c", "on"), ("t", "x\ny"), ("s", "two"), ("r", "1")];
        assert_eq!(fields, all);
        let buttons: Vec<_> = form.buttons.iter().map(|button| (&*button.name, &*button.value)).collect();
        assert_eq!(buttons, [("ok", "Go now"), ("b2", "v")]);
        assert_eq!(page.forms[1].buttons[0].value, "Send it");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_page(content in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _page = Page::read(&content);
        }

        #[test]
        fn tags_in_any_order_are_a_page(tags in proptest::collection::vec(
            prop_oneof![Just("<form>"), Just("</form>"), Just("<a href=x>"), Just("</a>"), Just("<select name=a>"),
                        Just("</select>"), Just("<option>"), Just("<button>"), Just("</button>"), Just("<input>"),
                        Just("<textarea>"), Just("</textarea>"), Just("text")], 0..30)) {
            let page = Page::read(tags.concat().as_bytes());
            prop_assert!(page.links.len() <= tags.len() && page.forms.len() <= tags.len());
        }
    }
}
