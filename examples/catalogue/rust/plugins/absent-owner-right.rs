//! The right twin of case 5.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::absent_owner::AbsentOwner>);
