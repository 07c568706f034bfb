//! The right twin of case 28.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::two_writers::TwoWriters>);
