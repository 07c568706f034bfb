//! The wrong twin of case 7.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::slow_cache::SlowCache>);
