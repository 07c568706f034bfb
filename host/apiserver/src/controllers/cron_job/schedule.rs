//! Schedules of CronJobs.

use jiff::Timestamp;

/// The maximum number of missed times that are looked at, as in Kubernetes.
pub(super) const MAX_MISSED: usize = 100;

/// When a CronJob runs.
#[derive(Clone, Debug)]
pub(super) enum Schedule {
    /// At the times of five fields.
    Fields(Box<cronexpr::Crontab>),
    /// In an interval of seconds.
    Every(i64),
}

impl Schedule {
    /// Parses `spec.schedule` and `spec.timeZone`. Without a time zone, the schedule is in UTC.
    ///
    /// # Errors
    /// Returns what is wrong with the schedule.
    pub(super) fn parse(schedule: &str, time_zone: Option<&str>) -> Result<Self, String> {
        let mut text = schedule.trim();
        let mut zone = time_zone.unwrap_or("UTC");
        for prefix in ["TZ=", "CRON_TZ="] {
            if let Some((name, rest)) = text.strip_prefix(prefix).and_then(|rest| rest.split_once(' ')) {
                (zone, text) = (name, rest.trim());
            }
        }
        if let Some(duration) = text.strip_prefix("@every ") {
            return every(duration.trim())
                .map(Self::Every)
                .ok_or_else(|| format!("{duration:?} is not a duration"));
        }
        let fields = match text {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        // A question mark is another way to write an asterisk.
        let fields: Vec<String> = fields.split_whitespace().map(|field| field.replace('?', "*")).collect();
        if fields.len() != 5 {
            return Err(format!("expected exactly 5 fields, found {}: {schedule}", fields.len()));
        }
        let parsed = cronexpr::parse_crontab(&format!("{} {zone}", fields.join(" ")));
        parsed.map(|crontab| Self::Fields(Box::new(crontab))).map_err(|error| error.to_string())
    }

    /// Returns the first time after `time`, or `None` if there is none in the next years.
    pub(super) fn next_after(&self, time: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Fields(crontab) => Some(crontab.find_next(time).ok()?.timestamp()),
            Self::Every(seconds) => time.checked_add(jiff::SignedDuration::from_secs(*seconds)).ok(),
        }
    }

    /// Returns the last time after `earliest` and up to `now`, and whether there were more than [`MAX_MISSED`], in
    /// which case it is not the last one.
    pub(super) fn last_missed(&self, earliest: Timestamp, now: Timestamp) -> (Option<Timestamp>, bool) {
        if let Self::Every(seconds) = self {
            let intervals = now.duration_since(earliest).as_secs() / seconds;
            let last = earliest.checked_add(jiff::SignedDuration::from_secs(intervals * seconds)).ok();
            return (last.filter(|_| intervals > 0), false);
        }
        let mut last = None;
        let mut time = earliest;
        for _ in 0..MAX_MISSED {
            match self.next_after(time).filter(|next| *next <= now) {
                Some(next) => (last, time) = (Some(next), next),
                None => return (last, false),
            }
        }
        (last, true)
    }
}

/// Parses the durations of `@every`: numbers with the units `h`, `m` and `s`, at least one second in total.
fn every(text: &str) -> Option<i64> {
    let mut total = 0_i64;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: i64 = rest[..end].parse().ok()?;
        let unit = match rest.as_bytes()[end] {
            b'h' => 3600,
            b'm' => 60,
            b's' => 1,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[end + 1..];
    }
    (total > 0).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn next(schedule: &str, zone: Option<&str>, after: &str) -> String {
        let schedule = Schedule::parse(schedule, zone).expect("a schedule");
        schedule.next_after(time(after)).expect("a next time").to_string()
    }

    #[test]
    fn schedules_have_five_fields_or_a_name() {
        assert_eq!(next("*/15 * * * *", None, "2026-01-01T00:07:00Z"), "2026-01-01T00:15:00Z");
        assert_eq!(next("30  2 ? * MON-FRI", None, "2026-01-02T03:00:00Z"), "2026-01-05T02:30:00Z");
        assert_eq!(next("@daily", None, "2026-01-01T00:07:00Z"), "2026-01-02T00:00:00Z");
        assert_eq!(next("@every 1h30m", None, "2026-01-01T00:00:00Z"), "2026-01-01T01:30:00Z");
    }

    #[test]
    fn schedule_is_in_its_time_zone() {
        assert_eq!(next("0 6 * * *", Some("Etc/GMT-2"), "2026-01-01T00:00:00Z"), "2026-01-01T04:00:00Z");
        assert_eq!(next("TZ=Etc/GMT-2 0 6 * * *", None, "2026-01-01T00:00:00Z"), "2026-01-01T04:00:00Z");
    }

    #[test]
    fn malformed_schedules_are_refused() {
        for schedule in
            ["", "* * * *", "61 * * * *", "@every x", "@every 0s", "@never", "* * * * * *", "@every 1é"]
        {
            assert!(Schedule::parse(schedule, None).is_err(), "{schedule}");
        }
        assert!(Schedule::parse("* * * * *", Some("No/Where")).is_err());
        let impossible = Schedule::parse("0 0 31 2 *", None).expect("well-formed");
        assert_eq!(impossible.next_after(time("2026-01-01T00:00:00Z")), None);
    }

    #[test]
    fn missed_times_are_counted_up_to_a_limit() {
        let minutely = Schedule::parse("* * * * *", None).expect("a schedule");
        let start = time("2026-01-01T00:00:30Z");
        assert_eq!(minutely.last_missed(start, time("2026-01-01T00:00:59Z")), (None, false));
        assert_eq!(
            minutely.last_missed(start, time("2026-01-01T00:03:10Z")),
            (Some(time("2026-01-01T00:03:00Z")), false)
        );
        assert!(minutely.last_missed(start, time("2026-01-02T00:00:00Z")).1);
        let frequent = Schedule::parse("@every 10s", None).expect("a schedule");
        assert_eq!(frequent.last_missed(start, time("2026-01-01T00:00:39Z")), (None, false));
        let last = frequent.last_missed(start, time("2026-01-02T00:00:05Z"));
        assert_eq!(last, (Some(time("2026-01-02T00:00:00Z")), false));
    }
}
