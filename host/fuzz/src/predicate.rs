//! A predicate in the first line, and the object that it is evaluated for: as added, and as updated from itself.

use pilothouse_controller::predicate::Predicate;
use pilothouse_model::{Notification, Object};

use crate::{OBJECT, is_one_line};

/// Text of the object that no error may have in it.
const VALUE: &str = "a-value-of-the-object";

pub(crate) fn run(text: &str) {
    let (predicate, object) = text.split_once('\n').unwrap_or((text, OBJECT));
    let object = Object::from_json(object).unwrap_or_else(|_| Object::from_json(OBJECT).expect("an object"));
    let compiled = match Predicate::compile(predicate) {
        Ok(compiled) => compiled,
        Err(error) => return is_one_line(error),
    };
    let added = Notification::Added { object: object.clone(), initial: false };
    let updated = Notification::Updated { old: object.clone(), new: object };
    for notification in [added, updated] {
        if let Err(error) = compiled.admits(&notification) {
            let text = error.to_string();
            assert!(predicate.contains(VALUE) || !text.contains(VALUE), "an error with a value: {text}");
            is_one_line(text);
        }
    }
}
