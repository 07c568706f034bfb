use notify::Event;
use notify::event::{CreateKind, ModifyKind, RenameMode};

use super::*;

#[test]
fn the_look_itself_is_no_reason_to_look_again() {
    let event = |kind| Ok(Event::new(kind));
    assert!(!is_worth_a_look(&event(EventKind::Access(AccessKind::Any))));
    assert!(is_worth_a_look(&event(EventKind::Access(AccessKind::Close(AccessMode::Write)))));
    assert!(is_worth_a_look(&event(EventKind::Create(CreateKind::File))));
    assert!(is_worth_a_look(&event(EventKind::Modify(ModifyKind::Name(RenameMode::To)))));
    assert!(is_worth_a_look(&Err(notify::Error::generic("overflow"))));
}
