//! The right twin of case 12.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::phase_after_scaling::PhaseAfterScaling>);
