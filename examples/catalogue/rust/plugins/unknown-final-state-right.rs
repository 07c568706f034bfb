//! The right twin of case 22.

pilothouse_sdk::export!(catalogue::cases::unknown_final_state::Right: Observer);
