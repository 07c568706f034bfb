//! The right twin of case 8.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::expectations::Expectations>);
