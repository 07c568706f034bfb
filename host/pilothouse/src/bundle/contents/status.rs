//! Reads the plugins of a status one by one, without a tree of the whole document.

use std::fmt;

use pilothouse_controller::PluginStatus;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// The maximum number of plugins that are shown.
pub(super) const MAX_PLUGINS: usize = 10_000;
/// The maximum size of one plugin's status, in bytes.
pub(super) const MAX_PLUGIN: usize = 1 << 20;

/// Returns the plugins in the text of `/api/plugins` that can be read. Reports the others. A redacted number is no number any more.
pub(super) fn plugins(text: &str, report: &mut dyn FnMut(&str)) -> Vec<PluginStatus> {
    let mut plugins = Plugins { read: Vec::new(), number: 0, report };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Document(&mut plugins).deserialize(&mut deserializer).and_then(|()| deserializer.end());
    if let Err(error) = read {
        (plugins.report)(&error.to_string());
    }
    if plugins.number > MAX_PLUGINS {
        (plugins.report)(&format!(
            "it has more than {MAX_PLUGINS} plugins, of which the others are left out"
        ));
    }
    plugins.read
}

struct Plugins<'a> {
    read: Vec<PluginStatus>,
    /// The number of those that can be read and those that cannot.
    number: usize,
    report: &'a mut dyn FnMut(&str),
}

/// The name in a plugin's status.
#[derive(Deserialize)]
struct Name {
    #[serde(default)]
    name: String,
}

impl Plugins<'_> {
    fn add(&mut self, text: &str) {
        self.number += 1;
        if self.number > MAX_PLUGINS {
            return;
        }
        if text.len() > MAX_PLUGIN {
            (self.report)(&format!("plugin {}: it is larger than {MAX_PLUGIN} bytes", self.number));
            return;
        }
        match serde_json::from_str(text) {
            Ok(plugin) => self.read.push(plugin),
            Err(error) => {
                let name = serde_json::from_str::<Name>(text).map(|name| name.name).unwrap_or_default();
                (self.report)(&format!("plugin {name:?}: {error}"));
            }
        }
    }
}

/// The whole document.
struct Document<'a, 'b>(&'a mut Plugins<'b>);

impl<'de> DeserializeSeed<'de> for Document<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Document<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with plugins")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            if name == "plugins" {
                members.next_value_seed(List(self.0))?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The list of plugins.
struct List<'a, 'b>(&'a mut Plugins<'b>);

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of plugins")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut plugins: A) -> Result<(), A::Error> {
        while let Some(plugin) = plugins.next_element::<&RawValue>()? {
            self.0.add(plugin.get());
        }
        Ok(())
    }
}
