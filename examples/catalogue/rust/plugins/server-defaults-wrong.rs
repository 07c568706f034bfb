//! The wrong twin of case 26.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::server_defaults::ServerDefaults>);
