//! The wrong twin of case 12.

pilothouse_sdk::export!(catalogue::Wrong<catalogue::cases::phase_after_scaling::PhaseAfterScaling>);
