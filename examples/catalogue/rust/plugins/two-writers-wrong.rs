//! The wrong twin of case 28.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::two_writers::TwoWriters>);
