//! The wrong twin of case 5.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::absent_owner::AbsentOwner>);
