//! The target `predicate`: compiles the predicate in the first line, and evaluates it for the object after that, as added and as updated.

use pilothouse_controller::predicate::Predicate;
use pilothouse_model::{Notification, Object};

use crate::{OBJECT, assert_one_line};

/// A value of the object that must not appear in an error.
const VALUE: &str = "a-value-of-the-object";

pub(crate) fn run(text: &str) {
    let (predicate, object) = text.split_once('\n').unwrap_or((text, OBJECT));
    let object = Object::from_json(object).unwrap_or_else(|_| Object::from_json(OBJECT).expect("an object"));
    let compiled = match Predicate::compile(predicate) {
        Ok(compiled) => compiled,
        Err(error) => return assert_one_line(error),
    };
    let added = Notification::Added { object: object.clone(), initial: false };
    let updated = Notification::Updated { old: object.clone(), new: object };
    for notification in [added, updated] {
        if let Err(error) = compiled.admits(&notification) {
            let text = error.to_string();
            assert!(predicate.contains(VALUE) || !text.contains(VALUE), "an error with a value: {text}");
            assert_one_line(text);
        }
    }
}
