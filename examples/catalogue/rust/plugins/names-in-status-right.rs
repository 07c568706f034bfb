//! The right twin of case 16.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::names_in_status::NamesInStatus>);
