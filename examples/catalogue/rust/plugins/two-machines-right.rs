//! The right twin of case 17.

pilothouse_sdk::export!(catalogue::Right<catalogue::cases::two_machines::TwoMachines>);
