//! Which file system events cause a scan.

use notify::Event;
use notify::event::{CreateKind, ModifyKind, RenameMode};

use super::*;

#[test]
fn the_scan_itself_does_not_cause_another_scan() {
    let event = |kind| Ok(Event::new(kind));
    assert!(!requires_scan(&event(EventKind::Access(AccessKind::Any))));
    assert!(requires_scan(&event(EventKind::Access(AccessKind::Close(AccessMode::Write)))));
    assert!(requires_scan(&event(EventKind::Create(CreateKind::File))));
    assert!(requires_scan(&event(EventKind::Modify(ModifyKind::Name(RenameMode::To)))));
    assert!(requires_scan(&Err(notify::Error::generic("overflow"))));
}
