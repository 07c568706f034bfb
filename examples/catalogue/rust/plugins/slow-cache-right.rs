//! The right twin of case 7.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::slow_cache::SlowCache>);
