//! The wrong twin of case 16.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::names_in_status::NamesInStatus>);
