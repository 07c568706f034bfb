//! The wrong twin of case 2.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::stale_scale_down::StaleScaleDown>);
