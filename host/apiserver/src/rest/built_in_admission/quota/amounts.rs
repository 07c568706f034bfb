//! Amounts of resources by name, with the arithmetic of `k8s.io/apiserver/pkg/quota/v1`.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::schema::quantity;

/// The units of a whole number.
const ONE: i128 = 1_000_000_000;

/// An amount, in units of 10⁻⁹.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    nanos: i128,
    /// Whether it is written with the suffixes of powers of 1024.
    is_binary: bool,
}

impl Amount {
    /// Returns a number of objects.
    pub(super) fn count(number: usize) -> Self {
        Self { nanos: i128::try_from(number).unwrap_or(i128::MAX / ONE) * ONE, is_binary: false }
    }

    /// Reads a quantity; `None` if it is none.
    pub(super) fn read(value: &Value) -> Option<Self> {
        let nanos = quantity::nanos(value)?;
        let is_binary = quantity::canonical(value).is_some_and(|text| text.ends_with('i'));
        Some(Self { nanos, is_binary })
    }

    /// Returns the sum. Its suffix is that of the first amount that is not 0.
    pub(super) fn plus(self, other: Self) -> Self {
        let is_binary = if self.nanos == 0 { other.is_binary } else { self.is_binary };
        Self { nanos: self.nanos.saturating_add(other.nanos), is_binary }
    }

    /// Rounds up to a whole number.
    pub(super) fn rounded_up(self) -> Self {
        let rest = self.nanos.rem_euclid(ONE);
        let added = if rest == 0 { 0 } else { ONE - rest };
        Self { nanos: self.nanos.saturating_add(added), ..self }
    }

    /// Returns the larger one.
    pub(crate) fn max(self, other: Self) -> Self {
        if other.nanos > self.nanos { other } else { self }
    }

    /// Returns the amount in thousandths, rounded up.
    pub(crate) fn in_thousandths(self) -> i128 {
        let thousandth = ONE / 1000;
        self.nanos.div_euclid(thousandth) + i128::from(self.nanos.rem_euclid(thousandth) != 0)
    }

    /// Returns the amount as a whole number, rounded up.
    pub(crate) fn in_units(self) -> i128 {
        self.rounded_up().nanos / ONE
    }

    fn text(self) -> String {
        if self.is_binary && self.nanos % ONE == 0 && self.nanos >= 1024 * ONE {
            return quantity::binary(self.nanos / ONE);
        }
        let text = format!("{}n", self.nanos);
        quantity::canonical(&text.into()).unwrap_or_else(|| "0".to_owned())
    }
}

/// Amounts by the names of their resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(BTreeMap<String, Amount>);

impl Amounts {
    /// Reads a `ResourceList`. What is no quantity is left out.
    pub(crate) fn read(list: &Value) -> Self {
        let members = list.as_object().into_iter().flatten();
        Self(members.filter_map(|(name, value)| Some((name.clone(), Amount::read(value)?))).collect())
    }

    /// Returns the amounts as a `ResourceList`.
    pub(crate) fn to_value(&self) -> Value {
        let members = self.0.iter().map(|(name, amount)| (name.clone(), amount.text().into()));
        members.collect::<Map<_, _>>().into()
    }

    /// Whether both have the same amounts, whatever their suffixes.
    pub(crate) fn is_equal(&self, other: &Self) -> bool {
        let nanos = |amounts: &Self| {
            amounts.0.iter().map(|(name, amount)| (name.clone(), amount.nanos)).collect::<Vec<_>>()
        };
        nanos(self) == nanos(other)
    }

    pub(super) fn set(&mut self, name: &str, amount: Amount) {
        self.0.insert(name.to_owned(), amount);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Amount> {
        self.0.get(name).copied()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, Amount)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds other amounts.
    pub(super) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.get(name).map_or(*amount, |known| known.plus(*amount));
            self.0.insert(name.clone(), sum);
        }
    }

    /// Raises each amount to that of the other list.
    pub(super) fn raise(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let larger = self.0.get(name).map_or(*amount, |known| known.max(*amount));
            self.0.insert(name.clone(), larger);
        }
    }

    /// Returns these amounts without others, none of which becomes negative.
    pub(super) fn without(&self, other: &Self) -> Self {
        let rest = self.0.iter().map(|(name, amount)| {
            let subtracted = other.0.get(name).copied().unwrap_or_default().nanos;
            let nanos = amount.nanos.saturating_sub(subtracted).max(0);
            (name.clone(), Amount { nanos, ..*amount })
        });
        Self(rest.collect())
    }

    /// Returns these amounts with those subtracted that were added before.
    pub(super) fn taken_back(&self, added: &Self) -> Self {
        let mut rest = self.clone();
        for (name, amount) in &added.0 {
            if let Some(known) = rest.0.get_mut(name) {
                known.nanos = known.nanos.saturating_sub(amount.nanos).max(0);
            }
        }
        rest
    }

    /// Returns those that are not 0.
    pub(super) fn nonzero(mut self) -> Self {
        self.0.retain(|_, amount| amount.nanos != 0);
        self
    }

    /// Returns the amounts with these names.
    pub(super) fn masked(&self, is_kept: impl Fn(&str) -> bool) -> Self {
        let kept = self.0.iter().filter(|(name, _)| is_kept(name));
        Self(kept.map(|(name, amount)| (name.clone(), *amount)).collect())
    }

    /// Returns the names of the amounts that are larger than those of the other list.
    pub(super) fn above(&self, limits: &Self) -> Vec<String> {
        let is_above = |name: &String, amount: &Amount| {
            limits.0.get(name).is_some_and(|limit| amount.nanos > limit.nanos)
        };
        self.0.iter().filter(|(name, amount)| is_above(name, amount)).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the names of negative amounts.
    pub(super) fn negative(&self) -> Vec<&str> {
        self.0.iter().filter(|(_, amount)| amount.nanos < 0).map(|(name, _)| name.as_str()).collect()
    }
}

/// `cpu=1,memory=1Gi`, sorted by name.
impl std::fmt::Display for Amounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, amount)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{name}={}", amount.text())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_keep_their_suffixes() {
        let mut sum = Amounts::read(&json!({"cpu": "250m", "memory": "512Mi", "pods": "0"}));
        sum.add(&Amounts::read(&json!({"cpu": "750m", "memory": "1Gi", "pods": "1", "x": "1k"})));
        assert_eq!(sum.to_string(), "cpu=1,memory=1536Mi,pods=1,x=1k");
        let rest = sum.without(&Amounts::read(&json!({"cpu": "2", "memory": "512Mi"})));
        assert_eq!(rest.to_value(), json!({"cpu": "0", "memory": "1Gi", "pods": "1", "x": "1k"}));
        assert_eq!(rest.nonzero().names().collect::<Vec<_>>(), ["memory", "pods", "x"]);
        assert_eq!(sum.above(&Amounts::read(&json!({"cpu": "999m", "memory": "2Gi"}))), ["cpu"]);
    }
}
