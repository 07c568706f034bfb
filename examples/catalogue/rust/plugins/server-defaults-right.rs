//! The right twin of case 26.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::server_defaults::ServerDefaults>);
