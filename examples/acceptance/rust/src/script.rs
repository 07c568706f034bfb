//! The arguments of a script.

use std::time::Duration;

use pilothouse_sdk::{Error, Object, ObjectKey, ObjectType};

/// A ConfigMap with an operation and its arguments.
pub(crate) struct Script(pub(crate) Object);

impl Script {
    /// Returns an argument; "" when it is missing.
    pub(crate) fn text(&self, name: &str) -> String {
        self.0.text(&format!("/data/{name}")).unwrap_or_default()
    }

    /// Returns a numeric argument; 0 when it is missing.
    pub(crate) fn number<T: std::str::FromStr + Default>(&self, name: &str) -> Result<T, Error> {
        match self.text(name).as_str() {
            "" => Ok(T::default()),
            text => {
                text.parse().map_err(|_| Error::terminal(format!("data.{name} is not a number: {text:?}")))
            }
        }
    }

    pub(crate) fn milliseconds(&self, name: &str) -> Result<Duration, Error> {
        Ok(Duration::from_millis(self.number(name)?))
    }

    pub(crate) fn key(&self, namespace: &str, name: &str) -> ObjectKey {
        ObjectKey::new(self.text(namespace), self.text(name))
    }

    /// Returns the type in the arguments `a` and `b`.
    pub(crate) fn object_type(&self) -> ObjectType {
        ObjectType::new(self.text("a"), self.text("b"))
    }
}
