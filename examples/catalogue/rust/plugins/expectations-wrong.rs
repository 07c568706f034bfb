//! The wrong twin of case 8.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::expectations::Expectations>);
