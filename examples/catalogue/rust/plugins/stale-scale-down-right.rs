//! The right twin of case 2.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::stale_scale_down::StaleScaleDown>);
