//! The types of lists and maps.

use kube_cel::cel::common::ast::{EntryExpr, IdedExpr, ListExpr, MapExpr};

use super::types::Type;
use super::{Checked, Checker};

impl<'e> Checker<'e, '_> {
    pub(super) fn list(&mut self, list: &'e ListExpr) -> Checked {
        let (mut joined, mut types) = (None, Vec::new());
        for (position, element) in list.elements.iter().enumerate() {
            let mut ty = self.expression(element)?;
            if list.optional_indices.binary_search(&position).is_ok() {
                ty = self.value_of_optional(element, &ty)?;
            }
            types.push((self.positions.offset(element).unwrap_or_default(), ty.clone()));
            joined = Some(self.join(joined, ty)?);
        }
        if self.formats == 0 {
            self.literals.add(types, true);
        }
        Ok(Type::list(joined.unwrap_or_else(|| Type::Parameter(self.bindings.parameters(1)))))
    }

    pub(super) fn map(&mut self, map: &'e MapExpr) -> Checked {
        let (mut keys, mut values) = (None, None);
        let (mut key_types, mut value_types) = (Vec::new(), Vec::new());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { return Ok(Type::Dyn) };
            let key = self.expression(&entry.key)?;
            key_types.push((self.positions.offset(&entry.key).unwrap_or_default(), key.clone()));
            keys = Some(self.join(keys, key)?);
            let mut value = self.expression(&entry.value)?;
            if entry.optional {
                value = self.value_of_optional(&entry.value, &value)?;
            }
            value_types.push((self.positions.offset(&entry.value).unwrap_or_default(), value.clone()));
            values = Some(self.join(values, value)?);
        }
        if self.formats == 0 {
            self.literals.add(key_types, false);
            self.literals.add(value_types, false);
        }
        match (keys, values) {
            (Some(key), Some(value)) => Ok(Type::map(key, value)),
            _ => {
                let first = self.bindings.parameters(2);
                Ok(Type::map(Type::Parameter(first), Type::Parameter(first + 1)))
            }
        }
    }

    /// Returns the type of the value of an optional element.
    pub(super) fn value_of_optional(&mut self, element: &IdedExpr, ty: &Type) -> Checked {
        Ok(match self.bindings.substitute(ty)? {
            Type::Optional(inner) => (*inner).clone(),
            other if other.is_dyn_or_error() => Type::Dyn,
            other => {
                let problem = self.mismatch(&Type::optional(other.clone()), &other)?;
                self.error(element, problem)
            }
        })
    }

    /// Returns the type of elements of the type `earlier` and this one.
    fn join(&mut self, earlier: Option<Type>, ty: Type) -> Checked {
        let Some(earlier) = earlier else { return Ok(ty) };
        if self.bindings.assign(std::slice::from_ref(&earlier), std::slice::from_ref(&ty))? {
            return self.bindings.most_general(&earlier, &ty);
        }
        Ok(Type::Dyn)
    }
}
