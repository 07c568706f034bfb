//! The wrong twin of case 19.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::error_as_empty::ErrorAsEmpty>);
