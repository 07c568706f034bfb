//! The right twin of case 19.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::error_as_empty::ErrorAsEmpty>);
